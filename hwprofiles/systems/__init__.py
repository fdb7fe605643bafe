"""Profiles of servers and racks: devices, how many, and what holds only for the whole."""

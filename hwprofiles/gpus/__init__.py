"""Profiles of GPUs and other accelerators, one YAML file each."""

"""Data files that projection rests on."""

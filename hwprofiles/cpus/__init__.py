"""Profiles of CPUs, one YAML file per socket model."""

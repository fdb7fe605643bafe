"""Compile evidence: what a Triton kernel becomes on a GPU that is absent."""

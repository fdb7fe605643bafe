"""The command line: one small file per command, no arithmetic in it."""

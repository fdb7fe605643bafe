"""Set the environment that every test runs in, before anything imports triton or matplotlib."""

import os

os.environ["TRITON_INTERPRET"] = "1"
os.environ["MPLBACKEND"] = "Agg"

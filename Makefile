# Two commands set everything up on a fresh machine: `make run` (the main job) and `make test`.
#
# PYTHON       interpreter to build .venv with (3.11 or newer; the first suitable one is taken)
# TORCH_FLAGS  extra pip options for installing torch, to choose its CPU or CUDA build (see README, Installation)
# ARGS         extra arguments, such as `make run ARGS="--out my-run"` or `make test ARGS="-k decode"`

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$p; break; }; done)
TORCH_FLAGS ?=
ARGS ?=
BIN := .venv/bin
ROOMS := kernels profiler roofline hwprofiles cli
LINTED := $(ROOMS) tests benchmarks examples setup.py
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test check format constraints gpu-check clean
.DEFAULT_GOAL := run

run: .venv/installed
	$(BIN)/roofcast run $(ARGS)

test: .venv/installed
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

check: .venv/installed
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/ruff check $(LINTED)
	$(BIN)/basedpyright --warnings $(ROOMS)

format: .venv/installed
	$(BIN)/ruff format $(LINTED)
	$(BIN)/ruff check --fix $(LINTED)

# Every Triton kernel against its reference on a real GPU, then the quick suite; leaves a run folder in runs/gpu-check.
gpu-check: .venv/installed
	$(BIN)/python -m pytest -m gpu $(ARGS)
	$(BIN)/roofcast bench --suite quick --device cuda:0 --out runs/gpu-check

.venv/installed: pyproject.toml setup.py constraints.txt
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found; install one or pass PYTHON=/path/to/python3" >&2; exit 2; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv || { echo "error: '$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	$(INSTALL) -c constraints.txt $(TORCH_FLAGS) torch
	$(INSTALL) -c constraints.txt -e '.[dev,sass]'
	@touch $@

constraints: .venv/installed
	@{ head -n 1 constraints.txt; $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//; s/+cu[0-9]*$$//'; } > constraints.new
	@mv constraints.new constraints.txt

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .hypothesis

# Two commands for everyone: `make run` and `make test`. Each installs what it needs, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# In the environment, the constraints also hold for the tools that build the package.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
# Packages come without bytecode (--no-compile): what is imported is compiled once, not in each of the tests' processes.
unexport PYTHONDONTWRITEBYTECODE
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --no-compile --quiet

.PHONY: run test test-long check docs format bench gallery dist try-dist clean

run: $(VENV)/.run            ## compare the methods on an embedded dataset, print the table, draw the picture
	$(BIN)/genlabel compare iris

test: $(VENV)/.test          ## all tests, one worker a core (each on one thread: tests/conftest.py)
	$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist worksteal

test-long: $(VENV)/.test     ## also those that show at a dearer scale what a cheaper test shows, and more examples
	GENLABEL_EXAMPLES=100 $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist worksteal -m ""

check: $(VENV)/.dev          ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.dev           ## the site, in build/site: warnings are errors, and every link is followed
	OMP_NUM_THREADS=1 $(BIN)/python docs/making/build.py

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.run          ## ratios against a peer, measured side by side
	$(BIN)/python benchmarks/run.py

gallery: $(VENV)/.run        ## figure 6 of the paper, in build/gallery
	$(BIN)/genlabel reproduce figure6 --budget smoke --records build/gallery/figure6.sqlite --pictures build/gallery

dist: $(VENV)/.release       ## wheel and source archive of the version, in dist, checked
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

try-dist: dist               ## the wheel in an environment of its own, as a new user would: a comparison, README's table
	$(BIN)/python .ci/try_wheel.py dist/*.whl

# One environment; each stamp adds the extras that its command needs, and that of the developers has them all.
$(BIN)/python:
	@echo "setting up $(VENV) and installing what is needed; this takes a minute or two, once"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[parquet]'
	@touch $@

$(VENV)/.test: $(VENV)/.run
	$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $(VENV)/.run $(VENV)/.test $@

$(VENV)/.release: $(VENV)/.run
	$(PIP) --editable '.[release]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache

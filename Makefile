# Two commands for everyone: `make run` and `make test`. Each installs what it needs, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# In the environment, the constraints also hold for pip itself and for the tools that build the package.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(PIP_CONSTRAINT)
# Packages come without bytecode (--no-compile): what is imported is compiled once, not in each of the tests' processes.
unexport PYTHONDONTWRITEBYTECODE
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --no-compile --quiet

.PHONY: run test test-long test-lowest test-environments test-vision mutants audit check docs format bench gallery dist try-dist clean

run: $(VENV)/.run            ## compare the methods on an embedded dataset, print the table, draw the picture
	$(BIN)/genlabel compare iris

# One worker a core, each on one thread (tests/conftest.py); all tests of a file in the same worker, so that they share what a module makes.
PYTEST   := -m pytest -n logical --maxprocesses 8 --dist loadfile
COVERAGE := build/coverage

test: $(VENV)/.test          ## all tests
	$(BIN)/python $(PYTEST)

test-long: $(VENV)/.test     ## also tests at a larger scale and more random examples, under coverage.py; 95 % of these packages must be covered
	rm -f $(COVERAGE)*
	GENLABEL_EXAMPLES=100 $(BIN)/coverage run --data-file=$(COVERAGE) $(PYTEST) -m ""
	$(BIN)/coverage combine --quiet --data-file=$(COVERAGE)
	$(BIN)/coverage report --data-file=$(COVERAGE) --skip-covered
	for package in data densities mixing labeling training model_selection estimators persistence; do \
		$(BIN)/coverage report --data-file=$(COVERAGE) --include="src/genlabel/$$package/*" --fail-under=95 --format=total || exit 1; done

# The lowest torch brings CUDA with it where there is no build for the CPU; `make test-lowest TORCH=2.13.0` keeps the pinned one.
TORCH  ?= $(patsubst torch==%,%,$(filter torch==%,$(file < constraints-lowest.txt)))
LOWEST := build/lowest
# Tests that need no extra. New versions of what old packages need warn of what these call, and scikit-learn 1.6 reads the number of
# steps of an SVM from memory that nobody has written: no faults of ours.
PLAIN  := $(addprefix tests/,data mixing labeling persistence evaluation/records paper/theory densities/test_gaussian.py \
	densities/test_kernel.py densities/test_covariance.py densities/test_posterior.py contracts/test_mixer_contract.py \
	estimators/test_validation.py test_metrics.py reporting/test_figures.py test_standardization.py \
	cli/test_compare_tables.py)
test-lowest:                 ## the lowest versions that pyproject.toml names, in an environment of their own
	$(PYTHON) -m venv $(LOWEST)
	sed 's/^torch==.*/torch==$(TORCH)/' constraints-lowest.txt > $(LOWEST)/constraints.txt
	PIP_CONSTRAINT=$(LOWEST)/constraints.txt $(LOWEST)/bin/python -m pip install --disable-pip-version-check --quiet \
		--editable . pytest pytest-xdist hypothesis
	$(LOWEST)/bin/python -m pytest -n logical --maxprocesses 8 -W ignore::DeprecationWarning -W "ignore:Liblinear failed" $(PLAIN)

# Where tests failed that passed elsewhere: ignored interrupts, as of a script's background job; a POSIX locale; no home; a forced terminal.
ODD    := $(addprefix tests/,cli data persistence/test_model.py fuzz/test_files.py test_crash_safety.py test_progress_and_time_limit.py)
test-environments: $(VENV)/.test ## tests of files, messages and signals in unusual environments
	trap '' INT; umask 077; env -u HOME -u LANG LC_ALL=POSIX PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 TZ=Asia/Kolkata TERM=dumb \
		PYTHONHASHSEED=random $(BIN)/python $(PYTEST) $(ODD)
	mkdir -p "build/a path ü"
	FORCE_COLOR=1 COLUMNS=300 HOME=/proc TZ=Pacific/Kiritimati TMPDIR="$(CURDIR)/build/a path ü" \
		$(BIN)/python $(PYTEST) --color=no $(ODD)

test-vision: $(VENV)/.test   ## loops with torchvision and timm, whose wheels fit the pinned torch on Linux with CUDA
	$(PIP) torchvision==0.28.0 timm==1.0.31
	$(BIN)/python -m pytest tests/integrations/test_vision.py

mutants: $(VENV)/.test       ## small changes that no test notices, in labels, densities and mixing
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore .ci/mutants.py

audit: $(VENV)/.audit        ## what is dangerous in the sources, what is known of the packages
	$(BIN)/python .ci/audit.py

check: $(VENV)/.dev          ## style, types and the order of the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(VENV)/.dev           ## the site, in build/site: warnings are errors, and every link is followed
	rm -rf docs/api/generated
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -d build/site-doctrees docs build/site

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.run          ## ratios against a peer, measured side by side
	$(BIN)/python benchmarks/run.py

gallery: $(VENV)/.run        ## figure 6 of the paper, in build/gallery
	$(BIN)/genlabel reproduce figure6 --budget smoke --records build/gallery/figure6.sqlite --figures build/gallery

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
	$(PIP) --upgrade pip # that of Python 3.11 takes twice as long for the rest

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

$(VENV)/.audit: $(VENV)/.test
	$(PIP) --editable '.[audit]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache

# `make` says what there is. Only make and Python 3.11 or newer are needed; everything else goes into .venv.

VENV := .venv
BENCH := .venv-bench
SB3 := .venv-sb3
PRESET ?= lander
ARGS ?=
# A second MPI for the tests. It is kept apart from Open MPI, as both bring a bin/mpiexec.
MPICH := mpich==5.0.2

# The first interpreter that runs, is new enough and can make a venv; constraints.txt is made with 3.11.
SUITS = -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
PYTHON ?= $(shell for candidate in python3.11 python3.12 python3.13 python3 python; do \
	$$candidate $(SUITS) && echo $$candidate && break; done)

PIP_INSTALL = -m pip install --quiet --disable-pip-version-check
FREEZE = -m pip freeze --disable-pip-version-check --all --exclude-editable --exclude pip
HEADER = \# Every package and its version. Do not edit: make constraints

.DEFAULT_GOAL := help
.PHONY: help run test test-sb3 check format bench constraints clean
.DELETE_ON_ERROR:

help: ## List the targets
	@echo "usage: make TARGET [PYTHON=/path/to/python]"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.base ## Install what is needed and train the lander (PRESET=cartpole, ARGS="lr=0.01")
	$(VENV)/bin/rookery run $(PRESET) $(ARGS)

test: $(VENV)/.dev ## Run every test (ARGS="-k es -x")
	$(VENV)/bin/python -m pytest $(ARGS)

test-sb3: $(SB3)/.sb3 ## Test the learners that need torch, in a venv of their own (ARGS="-k es -x")
	$(SB3)/bin/python -m pytest tests/sb3 $(ARGS)

check: $(VENV)/.dev ## Lint, check the formatting and the types
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .
	$(VENV)/bin/python -m mypy --strict src

format: $(VENV)/.dev ## Format the code and mend what the linter can
	$(VENV)/bin/python -m ruff check --fix-only --quiet .
	$(VENV)/bin/python -m ruff format .

bench: $(BENCH)/.bench ## Measure Rookery and its peers, in a venv of their own (ARGS=...)
	$(BENCH)/bin/python -m benchmarks $(ARGS)

constraints: ## Write all files of constraints again, with the newest versions that fit
	$(call write-constraints,constraints.txt,.[dev$(comma)all])
	$(call write-constraints,benchmarks/constraints.txt,.[bench])
	$(call write-constraints,tests/sb3/constraints.txt,.[dev$(comma)sb3])

clean: ## Remove the venvs, the caches and what was built; runs are kept
	rm -rf $(VENV) $(BENCH) $(SB3) .venv-constraints .mypy_cache .ruff_cache .pytest_cache build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# What is installed, and since when: a stamp is renewed when the packages asked for have changed.
$(VENV)/.base: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing Rookery into $(VENV) ..."
	@$(VENV)/bin/python $(PIP_INSTALL) -c constraints.txt -e ".[learn]"
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing Rookery and its tools into $(VENV) ..."
	@$(VENV)/bin/python $(PIP_INSTALL) -c constraints.txt -e ".[dev,all]"
	@$(VENV)/bin/python $(PIP_INSTALL) --prefix $(VENV)/mpich --ignore-installed $(MPICH)
	@touch $@ $(VENV)/.base

$(BENCH)/.bench: pyproject.toml benchmarks/constraints.txt | $(BENCH)/bin/python
	@echo "Installing Rookery and its peers into $(BENCH) ..."
	@$(BENCH)/bin/python $(PIP_INSTALL) -c benchmarks/constraints.txt -e ".[bench]"
	@touch $@

$(SB3)/.sb3: pyproject.toml tests/sb3/constraints.txt | $(SB3)/bin/python
	@echo "Installing Rookery, Stable-Baselines3 and torch into $(SB3) ..."
	@$(SB3)/bin/python $(PIP_INSTALL) -c tests/sb3/constraints.txt -e ".[dev,sb3]"
	@touch $@

$(VENV)/bin/python $(BENCH)/bin/python $(SB3)/bin/python:
	$(call make-venv,$(patsubst %/bin/python,%,$@))

# $(call make-venv,DIRECTORY)
define make-venv
@python="$(PYTHON)"; "$${python:-none}" $(SUITS) || { \
	echo "Rookery needs Python 3.11 or newer with its venv module; found: $${python:-none}." \
	"Install one, or name it: make PYTHON=/path/to/python" >&2; exit 2; }; \
	"$$python" -m venv --clear $(1)
endef

# $(call write-constraints,FILE,WHAT): install into a fresh venv, unconstrained, and note what came.
define write-constraints
$(call make-venv,.venv-constraints)
@echo "Resolving $(2) ..."
@.venv-constraints/bin/python -m pip uninstall --quiet --yes setuptools  # what comes with Python is old
@.venv-constraints/bin/python $(PIP_INSTALL) -e "$(2)"
@{ echo "$(HEADER)"; .venv-constraints/bin/python $(FREEZE) | sed 's/+[^+]*$$//' | LC_ALL=C sort -f; } > $(1)
@rm -rf .venv-constraints
endef

comma := ,

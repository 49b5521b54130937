# The daily commands. Everything is set up on first use, in the checkout: no root, no compiler.
#
# .venv      the environment of this project      (refreshed when pyproject.toml changes)
# .oracle    the real vLLM 0.22.1, for the tests  (tests/oracle/install.py); 0.32.0 beside it

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
# Formatters and checkers see the real folders, not the links of the editable install.
SOURCES := spec reference impl kernels conformance tests benchmarks hatch_build.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help check ledger test lint format types pytest oracle fuzz pages bench bench-gpu clean

help: ## this list
	@awk -F ': .*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

check: .venv/base ## model-check the spec, prove its rules, judge the bundled trace
	@$(BIN)/python -m nullblock.conformance.headline

ledger: .venv/dev ## run every engine again; LEDGER.md and its evidence
	@$(BIN)/nullblock ledger --refresh

test: lint types pytest ## every test, the real vLLM included

lint: .venv/dev ## style
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)

format: .venv/dev ## mend style
	@$(BIN)/ruff check --fix --quiet $(SOURCES) || true
	@$(BIN)/ruff format $(SOURCES)

types: .venv/dev ## static types
	@$(BIN)/mypy

# The tool itself, not "python -m pytest": that would put the checkout on the import path, where
# "kernels" and "spec" are names of their own. T selects tests: make pytest T="tests/spec -k pool"
# Sets are walked over as in the real engine's process, where vLLM walks over one.
pytest: .venv/dev oracle ## the tests alone; T="tests/spec -k pool" selects
	@PYTHONHASHSEED=0 $(BIN)/pytest -n 2 $(T)

# Without the oracle its tests are skipped and say so; where CI is set they have to run.
oracle: .venv/dev
	@$(BIN)/python tests/oracle/install.py >/dev/null || test "$${CI:-false}" = false
	@$(BIN)/python tests/oracle/install.py --release 0.32.0 >/dev/null || test "$${CI:-false}" = false

fuzz: .venv/dev oracle ## spec, reference and the real vLLM in lockstep; ARGS="--steps 100000"
	@$(BIN)/python tests/fuzz/bulk.py $(ARGS)

pages: .venv/dev ## the pages that are made of the rules and of what is recorded of them
	@$(BIN)/python -m nullblock.spec.theorems > spec/THEOREMS.md.new
	@$(BIN)/nullblock defects --markdown > conformance/defects/README.md.new
	@$(BIN)/nullblock lines --markdown > conformance/lines/LINES.md.new
	@for page in spec/THEOREMS conformance/defects/README conformance/lines/LINES; do \
	  mv $$page.md.new $$page.md; done
	@$(BIN)/python tests/mutants/systematic.py --under-way
	@$(BIN)/python tests/mutants/systematic.py --pages

bench: .venv/dev oracle ## reference, fast engine, checker and recorder beside the real vLLM, the explorer beside SPIN
	@$(BIN)/python benchmarks/bench_reference.py $(ARGS)
	@$(BIN)/python benchmarks/bench_impl.py $(ARGS)
	@$(BIN)/python benchmarks/bench_workers.py $(ARGS)
	@$(BIN)/python benchmarks/bench_checker.py $(ARGS)
	@$(BIN)/python benchmarks/bench_recorder.py $(ARGS)
	@$(BIN)/python benchmarks/bench_explorer.py $(ARGS)

bench-gpu: .venv/dev ## the kernels on the GPU that is here: tested compiled, timed beside floors and peers
	@$(BIN)/python benchmarks/gpu/bench_gpu.py $(ARGS)

clean: ## remove all that make has made
	rm -rf .venv .src .oracle .oracle-0.32.0 .oracle.lock dist .cache
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .crosshair
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: the environment is made once, and again when what it is made from changes.
.venv/base: pyproject.toml hatch_build.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "nullblock needs Python 3.11 or later: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module; on Debian: apt install python3-venv" >&2; exit 1; }
	@echo "setting up .venv"
	@$(PYTHON) -m venv .venv
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --editable .
	@touch $@

.venv/dev: .venv/base
	@echo "installing the tools of the tests"
	@$(PIP) install --group dev
	@touch $@

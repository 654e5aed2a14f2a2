# `make help` lists what there is. Every target sets up what it needs: Python 3.11+, pip and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE_READY := $(VENV)/.base-ready
READY := $(VENV)/.ready
PAGE_TOOLS := .page-tools
DOCS_READY := $(VENV)/.docs-ready
ROUNDS ?= 20000
WORKERS ?= auto
DOCKER ?= docker
PYTHONS ?= 3.12 3.13 3.14
CRASHES ?= 200
# Tests of the service that do not depend on the kind of database, and those that start their own.
ANY_DATABASE := admission build_executor crash deployment javascript model_servers models openai_client \
  protocols recorded_conversations recorded_risu_conversations small_parts start_up studio tracing upstreams wrong_requests
AS_ROOT = $(shell test "$$(id -u)" = 0 || echo sudo)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Containers often forbid bytecode; without it, each of the hundreds of processes of the tests compiles every module again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-browser test-postgres test-crashes test-image test-matrix load scale-out check check-page vendor-page format conformance bench bench-growth bench-batch bench-cache performance fuzz docs tables lock coverage mutation dist dist-extras clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Only what TavernKit itself needs, so that a first look does not wait for developer tools.
$(BASE_READY): requirements/base.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes -r requirements/base.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

$(READY): requirements/dev.txt requirements/vocabularies.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes --no-deps -r requirements/vocabularies.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

$(DOCS_READY): $(READY) requirements/docs.txt
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/docs.txt
	@touch $@

demo: $(or $(wildcard $(READY)),$(BASE_READY)) ## Build a prompt from the shipped example and show it (no key, no network)
	@$(BIN)/python -m tavernkit demo

serve: $(READY) ## Serve the shipped example to OpenAI clients (ARGS="--port 9000")
	@$(BIN)/python -m tavernkit serve $(ARGS)

test: $(READY) ## Run all tests, including the conformance vectors
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

test-browser: $(READY) ## Click through Studio and the HTML report in headless Chromium (Debian's package, installed if necessary)
	@command -v chromedriver >/dev/null || { $(AS_ROOT) apt-get update -qq && $(AS_ROOT) apt-get install -qq -y --no-install-recommends chromium chromium-driver >/dev/null; }
	$(BIN)/python -m pytest -q tests/browser -o python_files='browser_*.py'

test-postgres: $(READY) ## Run the service's tests on PostgreSQL
	TAVERNKIT_SCHEMA_EXAMPLES=10 $(BIN)/python -m tests.server.postgres_server $(BIN)/python -m pytest -q -n $(WORKERS) tests/server $(addprefix --ignore tests/server/test_,$(addsuffix .py,$(ANY_DATABASE)))

test-crashes: $(READY) ## Kill the service again and again, on both databases (CRASHES=200)
	TAVERNKIT_CRASHES=$(CRASHES) $(BIN)/python -m tests.server.postgres_server $(BIN)/python -m pytest -q -n 2 tests/server/test_crash.py

test-image: $(READY) ## Build the image and run it (DOCKER=podman)
	TAVERNKIT_TEST_IMAGE=$(DOCKER) $(BIN)/python -m pytest -q tests/server/test_image.py

test-matrix: $(READY) ## Run the tests on other versions of Python, downloaded if necessary (PYTHONS="3.12 3.14" ARGS="tests/cards")
	$(BIN)/python -m pip install --quiet uv
	@for version in $(PYTHONS); do \
	  echo "Python $$version" && \
	  $(BIN)/uv venv --quiet --allow-existing --python $$version .venvs/$$version || { echo "skipped: it cannot be installed here"; continue; }; \
	  $(BIN)/uv pip install --quiet --python .venvs/$$version --require-hashes -r requirements/dev.txt && \
	  $(BIN)/uv pip install --quiet --python .venvs/$$version --require-hashes --no-deps -r requirements/vocabularies.txt && \
	  $(BIN)/uv pip install --quiet --python .venvs/$$version --no-deps --editable . && \
	  .venvs/$$version/bin/python -m pytest -q -n $(WORKERS) --dist worksteal $(ARGS) || exit 1; \
	done

load: $(READY) ## Measure what the service adds to a turn at 1, 50 and 500 sessions
	$(BIN)/python -m benchmarks.load_server

scale-out: $(READY) ## Kill one of two service processes behind a balancer in mid-turn, on PostgreSQL
	$(BIN)/python -m tests.server.postgres_server $(BIN)/python -m benchmarks.scale_out

check: $(READY) ## Check format, lint, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright --warnings
	$(BIN)/lint-imports

check-page: ## Check format, lint and types of the studio's page (skipped without node; ARGS=--fix formats)
	@if command -v npm >/dev/null; then $(PAGE_TOOLS_READY) && node check.mjs $(CURDIR) $(ARGS); \
	else echo "check-page: SKIPPED, npm is not installed"; fi

vendor-page: ## Make the studio's vendored libraries again (needs node)
	@$(PAGE_TOOLS_READY) && node vendor.mjs $(CURDIR)

# Node installs its packages into a folder that git ignores, so nothing of them is in the repository.
define PAGE_TOOLS_READY
mkdir -p $(PAGE_TOOLS) && cp tools/studio/* $(PAGE_TOOLS)/ && cd $(PAGE_TOOLS) && npm install --no-package-lock --no-audit --no-fund --loglevel=error
endef

format: $(READY) ## Format the code and fix what can be fixed safely
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

conformance: $(READY) ## Run the conformance vectors and print a table (ARGS="--surface core/* --show 3")
	@$(BIN)/python -m tests.conformance $(ARGS)

bench: $(READY) ## Run the benchmarks and print a table (ARGS="--benchmark-timer=time.process_time")
	$(BIN)/python -m pytest -q benchmarks --benchmark-enable --benchmark-only --benchmark-columns=min,median,max,rounds --benchmark-sort=fullname -o python_files='bench_*.py' $(ARGS)

bench-cache: $(READY) ## Replay two chats and print how much of their prompts is cached
	@$(BIN)/python -m benchmarks.bench_cache

bench-growth: $(READY) ## Measure every operation at three sizes and print what its cost grows with
	@$(BIN)/python -m benchmarks.growth

bench-batch: $(READY) ## Measure batches: a core, two cores, two nodes of a Ray cluster (if Ray is installed)
	@$(BIN)/python -m benchmarks.batch

performance: $(READY) ## Measure all of docs/performance.md and write its tables (20 minutes; ARGS="--baseline DIR")
	@$(BIN)/python -m benchmarks.performance_page $(ARGS)

fuzz: $(READY) ## Run property tests and fuzzing (ROUNDS=100000 for longer)
	TAVERNKIT_FUZZ_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -q -n $(WORKERS) fuzz -o python_files='fuzz_*.py'
	$(BIN)/python -m fuzz.guided --runs $(ROUNDS)

docs: $(DOCS_READY) ## Build the documentation into site/
	$(BIN)/zensical build --config-file mkdocs.yml --strict

tables: $(READY) ## Write the generated pages of the docs: compatibility, command options, service settings, the top level
	@$(BIN)/python -m tests.docs.compatibility
	@$(BIN)/python -m tests.docs.options

lock: $(READY) ## Make the lock files from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --python-version 3.11 --extra all --group dev --generate-hashes --no-header --no-emit-package tavernkit pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-package tavernkit --constraint requirements/dev.txt pyproject.toml -o requirements/base.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --extra all --group dev --group docs --generate-hashes --no-header --no-emit-package tavernkit pyproject.toml -o requirements/docs.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --group vocabularies --no-deps --generate-hashes --no-header -o requirements/vocabularies.txt

coverage: $(READY) ## Measure which lines of src the tests run, including subprocesses
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -n $(WORKERS) --dist worksteal
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover

mutation: $(READY) ## Change code and see whether tests notice (ARGS="trimmer"; see docs/decisions/0008)
	$(BIN)/python -m tests.mutation $(ARGS)

dist: $(READY) ## Build wheel and sdist, and run the quickstart from them in a clean environment
	$(BIN)/python -m tests.release

dist-extras: $(READY) ## The same, then each extra alone in its own clean environment (EXTRAS="lua server")
	$(BIN)/python -m tests.release --extras $(EXTRAS)

clean: ## Remove everything that the targets create
	rm -rf $(VENV) .venvs $(PAGE_TOOLS) .pytest_cache .ruff_cache .hypothesis .benchmarks .coverage site dist

# Every target does its own complete set-up in .venv and says what it does. `make help` lists them.

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
# Named after the place, as an editable install points there: a moved repository is installed anew.
STAMP := $(VENV)/.installed-$(shell echo "$(CURDIR)" | cksum | cut -d' ' -f1)
ARGS ?=
# The checker of the pages' scripts; nothing that runs needs Node.
TYPESCRIPT := 5.9.3
# Three test processes, each with its own servers: two cores are then never idle while one waits for a lease. Whole files
# stay together, as a stack is a heavy thing.
JOBS ?= 3

.DEFAULT_GOAL := help
.PHONY: help up test check bench lock setup browser

help:  ## show this
	@echo "steerweb: watch, steer and stop agent sessions from every device"
	@echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'

up: setup  ## start everything on this machine and print the link (ARGS="--port 8123 --data DIR --lan")
	@exec $(PY) -m steerweb up $(ARGS)

test: setup browser  ## run all tests (ARGS="tests/log -k chain"; JOBS=1 for one process)
	@echo "==> Running the tests"
	@exec $(PY) -m pytest -n $(JOBS) --dist loadfile $(ARGS)

check: setup  ## lint, formatting, types (Python's and, where Node is, the pages'), import contracts, migrations, the rules' page
	@echo "==> ruff: lint"; $(PY) -m ruff check .
	@echo "==> ruff: formatting"; $(PY) -m ruff format --check .
	@echo "==> mypy --strict"; $(PY) -m mypy
	@echo "==> import contracts"; $(BIN)/lint-imports
	@echo "==> JavaScript: types from JSDoc"; if command -v npx >/dev/null; then npx --yes --package typescript@$(TYPESCRIPT) tsc -p jsconfig.json && npx --yes --package typescript@$(TYPESCRIPT) tsc -p jsconfig.worker.json; else echo "left out: no Node here"; fi
	@echo "==> migrations are complete"; $(PY) -W ignore::RuntimeWarning -m steerweb makemigrations --check --dry-run
	@echo "==> the page of the rules is what the tests say"; $(PY) -m pytest -q tests/test_rules.py

bench: setup  ## measure stops, appends and fan-out (ARGS="--json")
	@exec $(PY) -m steerweb bench $(ARGS)

lock: setup  ## write requirements.lock anew from pyproject.toml
	@echo "==> Resolving the newest versions that fit"
	@$(BIN)/pip-compile --quiet --upgrade --extra dev --output-file requirements.lock --strip-extras --annotation-style line \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options pyproject.toml

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@sh .ci/install $(VENV)
	@touch $@

browser: setup
	@$(PY) -m tests.support.chromium

# Everything a person or CI does with a checkout. Each target is safe to repeat; set-up is cached in .venv.

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest
# Without compiled tests each worker compiles all of them anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-fast test-services test-managers lint types setup setup-test assets docs bench soak wheel image clean

help:  ## Show what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: setup  ## Set up what is missing, start kwhere on this machine, print its address
	@exec $(BIN)/kwhere up $(ARGS)

setup:  ## Virtual environment and built assets, enough to run
	@scripts/setup run

setup-test:  ## The same with what the tests need
	@scripts/setup test

test-services:  ## Install the system services that tests use (root): browser, Prometheus, VictoriaMetrics, PostgreSQL, stress-ng, managers
	@scripts/setup services

test: setup-test lint types  ## The whole suite, gates and coverage included
	@scripts/test

test-fast: setup-test lint  ## What takes no program, no PostgreSQL and no two seconds, without the suites over every implementation
	@$(PYTEST) -q -n 2 -m "not uncounted" --ignore=tests/contract

test-managers: setup-test  ## Resource managers that run here, for real: SLURM with its database, OAR (root)
	@$(PYTEST) -q -m managers

lint: setup-test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup-test
	@$(BIN)/mypy

docs: setup-test  ## Write the generated reference pages anew
	@$(BIN)/python -m scripts.reference

bench: setup-test  ## Every benchmark; one JSON line per figure
	@for file in bench/[a-z]*.py; do $(BIN)/python -m bench.$$(basename $$file .py) || exit 1; done

soak: setup-test  ## The ten-minute soaks
	@KWHERE_SOAK_SECONDS=600 $(PYTEST) -q -m soak -rA

wheel: setup  ## Build the wheel with its assets
	@$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps --wheel-dir dist .

image: setup  ## Build the container image of every role (podman, buildah or docker); IMAGE=name:tag, BASE=python image
	@scripts/image $(IMAGE) $(BASE)

clean:  ## Remove everything that set-up and tests made
	rm -rf $(VENV) node_modules dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*

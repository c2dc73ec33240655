# The front door. `make` alone says what there is.
# Every target sets up what it needs by itself; what is there already costs nothing the second time.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
# `with PROFILE` sets up a profile of the toolchain, then runs what follows inside it.
with = $(PYTHON) -m lab.toolchain run $(1) --

.PHONY: help demo test test-unit test-simulation test-components test-pages test-api test-pulumi test-training test-lab bench bench-lab soak lint format policy \
	lab-up lab-down lab-status lab-reset setup env requirements clean
.PHONY: ci-preview ci-up ci-drift tools images

help: ## Say what each target does.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Set up everything on this machine (root, Debian 12 or newer), then show a training job outlive its GPU.
	@$(call with,lab) python -m lab.demo

test: ## Run every tier of the tests, with a summary line for each.
	@$(call with,pages) true
	@$(call with,lab) python -m tests.tiers unit simulation components pages api pulumi training lab

test-unit: ## Run the tests of pure code; no I/O, no set-up beyond Python.
	@$(call with,python) python -m tests.tiers unit

test-simulation: ## Play whole incidents in memory: killed at every write, with seeded trouble.
	@$(call with,python) python -m tests.tiers simulation

test-components: ## Run the tests of the Pulumi components against Pulumi's mocks.
	@$(call with,python) python -m tests.tiers components

test-pages: ## Look at the command line's pages in a real browser, by day and night, wide and narrow.
	@$(call with,pages) python -m tests.tiers pages

test-api: ## Run the tests that need a real etcd and API server.
	@$(call with,api) python -m tests.tiers api

test-pulumi: ## Run the tests that need the real Pulumi engine.
	@$(call with,pulumi) python -m tests.tiers pulumi

test-training: ## Run the tests of the training template with real PyTorch on nodes of their own.
	@$(call with,lab) python -m tests.tiers training

test-lab: ## Run the tests that need the running data centre; it is started where it isn't.
	@$(call with,lab) python -m tests.tiers lab

bench: ## Measure what the docs claim; prints the figures and writes build/bench/results.json.
	@$(call with,bench) python -m bench

bench-lab: ## Measure on the data centre (root): a GPU's death to the first new step, and plain Slurm beside ours.
	@$(call with,lab) python -m bench first_step plain_slurm

soak: ## Play 100,000 seeded schedules of faults and trouble in memory; SOAK="--minutes 10" for less, SOAK=--help for more.
	@$(call with,python) python -m tests.soak $(SOAK)

lint: ## Check style, types, layers, dependencies, shell scripts and pipelines.
	@$(call with,lint) python -m lab.toolchain.lint

policy: ## Judge FILES (exported state, preview's JSON, manifests, a stack's file), or each stack's file, by docs/policies.md.
	@$(call with,python) python -m policies $(FILES)

ci-preview: ## Say what an up of STACK would do and what the policies say; comments on the request in a pipeline.
	@$(call with,stack) python -m pipelines preview --stack "$(STACK)"

ci-up: ## Bring STACK up with the policies in the engine; goes on where an earlier one was cut off.
	@$(call with,stack) python -m pipelines up --stack "$(STACK)"

ci-drift: ## Check that STACK is as declared, in its state and in the cluster; tells ALERT_URL where it isn't.
	@$(call with,stack) python -m pipelines drift --stack "$(STACK)"

images: ## Build our images, push them to REGISTRY with TAG, and print the block for a stack's file (docker or podman).
	@images/build.sh

format: ## Rewrite the Python files in the project's style.
	@$(call with,python) ruff format .
	@$(call with,python) ruff check --fix .

lab-up: ## Start the data centre on this machine, or go on with the one that is there.
	@$(call with,lab) python -m lab up

lab-down: ## Stop the data centre and wipe its state, so that no process, mount, namespace or bridge is left.
	@$(call with,python) python -m lab down

lab-status: ## Say what runs in the data centre and what doesn't.
	@$(call with,python) python -m lab status

lab-reset: ## Cancel every job, delete every incident, and bring every host of the data centre back to health.
	@$(call with,lab) python -m lab reset

setup: ## Do all the set-up and nothing else.
	@$(call with,pages) true
	@$(call with,lab) true

tools: ## Set up only what pulumi and sparewheel need against a cluster of yours; no root, no data centre.
	@$(call with,stack) true

env: ## Print the shell lines that put the project's tools on your PATH; use it as: eval "$(make env)".
	@$(PYTHON) -m lab.toolchain env

requirements: ## Pin requirements/*.txt anew from requirements/*.in.
	@$(call with,python) python -m lab.toolchain.pin

clean: lab-down ## Do lab-down and remove build/; the cache outside the checkout stays.
	@rm -rf build

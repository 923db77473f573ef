# Settings, on the command line or in the environment: `make serve PORT=8001`.
ACCELERATOR ?= cpu
MODEL ?= $(or $(DETECTOR_MODEL),embedded)
PORT ?= $(or $(DETECTOR_PORT),8000)
URL ?= http://127.0.0.1:$(PORT)
OUT ?= build/drift
PROFILE ?= smoke
# More arguments for what the target runs: `make serve ARGS="--log-json"`, `make test ARGS="-k api"`.
ARGS ?=

# One environment for each accelerator: vLLM's two builds own the same files.
VENV ?= $(if $(filter cuda,$(ACCELERATOR)),.venv-cuda,.venv)

# The first of the two that is a Python 3.11; else python3, and the installer says what is missing.
ifndef PYTHON
PYTHON = $(shell for python in python3.11 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null \
	&& echo $$python && exit; done; echo python3)
endif

INSTALL = "$(PYTHON)" requirements/install.py --accelerator "$(ACCELERATOR)" --venv "$(VENV)"
RUN = "$(VENV)/bin/python" -m

SHELL = /bin/sh
.DEFAULT_GOAL := help
.PHONY: help serve test check bench loadtest drift train train-smoke clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# exec, so that Ctrl-C and SIGTERM reach the service itself, which then drains.
serve: ## run the service (PORT=8000 MODEL=embedded ACCELERATOR=cpu|cuda)
	@$(INSTALL)
	@exec $(RUN) service --model "$(MODEL)" --port "$(PORT)" $(ARGS)

test: ## run all tests (ARGS="-m 'not engine'" for the quick ones)
	@$(INSTALL) --dev
	@exec $(RUN) pytest $(ARGS)

check: ## lint, formatting and types; workflows and actions, too
	@$(INSTALL) --dev
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy --strict contract/ service/ client/ evaluation/ training/ loadtest/
	"$(VENV)/bin/jactionlint" --strict-exit --no-online --shellcheck "$(VENV)/bin/shellcheck"

bench: ## compare with vLLM's own server and with the bare engine, on this machine
	@$(INSTALL)
	@exec $(RUN) loadtest.compare $(ARGS)

loadtest: OUT = build/loadtest
loadtest: ## load a service, hold it against goals (URL=... PROFILE=smoke|slo|stress|spike|soak|coldstart)
	@$(INSTALL) --loadtest
	@exec $(RUN) loadtest --url "$(URL)" --profile "$(PROFILE)" --out "$(OUT)" $(ARGS)

drift: ## is a service the same as its baseline? (URL=... BASELINE=... OUT=build/drift)
	@test -n "$(BASELINE)" || { echo 'make drift needs BASELINE=, a file that' \
		'`python -m evaluation baseline` wrote (docs/evaluation.md)'; exit 2; }
	@$(INSTALL) --training
	@exec $(RUN) evaluation drift --url "$(URL)" --baseline "$(BASELINE)" --out "$(OUT)" $(ARGS)

train: ## train and export a model (CONFIG=training/configs/... ARGS="--resume")
	@test -n "$(CONFIG)" || { echo 'make train needs CONFIG=, one of:'; \
		ls training/configs/*.toml training/configs/*/*.toml; exit 2; }
	@$(INSTALL) --training
	@exec $(RUN) training run "$(CONFIG)" $(ARGS)

train-smoke: ## every stage of training in seconds, on a random model
	@$(INSTALL) --training
	@rm -rf build/train-smoke
	@exec $(RUN) training run training/configs/smoke.toml --runs-dir build/train-smoke $(ARGS)

clean: ## remove caches and build products; environments stay
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache build *.egg-info
	find . -name '.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

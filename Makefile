# Everything runs inside .venv, made on first use. Go programs and the CPU engine go into a per-user cache
# ($PLIMSOLL_CACHE, else ~/.cache/plimsoll).
.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin
RUNS := .venv/.runs
READY := .venv/.ready
PYTEST := $(BIN)/python -m pytest
# A file is one worker's alone. One worker uses one core; tests on a cluster mostly wait, so there three share a core.
WAITING := PLIMSOLL_WORKERS_PER_CORE=3
AT_ONCE := -n auto --dist loadfile --no-loadscope-reorder
APART := cluster or helm or gitops or browser
ELSEWHERE := engine or live or bench or at_length
FAST := not ($(APART) or $(ELSEWHERE))
LENGTHY = $(shell grep -rl --include='test_*.py' 'mark\.lengthy' tests)
WITH_PARTS := tests/chart tests/cluster tests/browser tests/states tests/testbed

# Bytecode is kept even where a user's shell or a container says otherwise: each worker, and each program that a test
# starts, would compile the same modules again.
export PYTHONDONTWRITEBYTECODE :=

##@ Try it
try: $(RUNS) ## size and place a 70B model on an example fleet: no cluster, no GPU (a minute on first use)
	$(BIN)/plimsoll estimate RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic --gpu h100-sxm-80gb
	$(BIN)/plimsoll plan -f examples/02-70b-fp8/deployment.yaml --fleet examples/fleet.yaml

##@ See it
demo: $(READY) ## a live demonstration on an embedded control plane; Ctrl-C ends it (ARGS="--exit" ends by itself)
	$(BIN)/python -m testbed.demo $(ARGS)

calculator: $(READY) ## the calculator as static files in build/calculator, with Python for the browser (ARGS=FOLDER)
	$(BIN)/python -m calculator $(ARGS)

##@ Test it
test: ## everything but the real engine: first what is quick (five minutes), then cluster and browser, and meanwhile what is lengthy
	$(MAKE) --no-print-directory test-unit
	$(MAKE) --no-print-directory -j2 test-apart test-lengthy

test-unit: $(READY) ## the quick part: no cluster, no Helm, no engine, no browser
	$(PYTEST) -m "$(FAST) and not lengthy" $(AT_ONCE) $(ARGS)

# Tests on a cluster leave part of the processor idle. These take that alone, so that nothing has to wait for them.
test-lengthy: $(READY) ## files without a cluster that keep the processor busy for seconds, at a low priority
	nice -n 10 $(PYTEST) $(LENGTHY) -m "$(FAST) and lengthy" $(AT_ONCE) $(ARGS)

test-apart: $(READY) build browser ## the rest: on a real API server, scheduler and Prometheus, and in a real Chromium
	$(WAITING) $(PYTEST) $(WITH_PARTS) -m "($(APART)) and not ($(ELSEWHERE))" $(AT_ONCE) $(ARGS)

# The constraints are what a clean checkout gets; a user's `pip install` gets the newest releases.
test-newest: ## the fast part and the README's commands on the newest releases that pyproject.toml allows (ARGS=tests/cli)
	scripts/make_venv.sh newest
	.venv-newest/bin/python -m pytest -m "$(FAST)" $(AT_ONCE) $(ARGS)

test-slow: $(READY) build browser ## "make test" next to busy loops, then with half a core (hours; ARGS="--busy 2" or "--cores 0.5" for one)
	$(BIN)/python -m scripts.slow_machine $(or $(ARGS),--busy 2) -- $(MAKE) test ARGS=
	$(if $(ARGS),,$(BIN)/python -m scripts.slow_machine --cores 0.5 -- $(MAKE) test)

test-all: $(READY) ## the fast part with every case of the lists that it takes samples of, and the benchmarks' own tests
	PLIMSOLL_ALL=1 $(PYTEST) -m "not ($(APART) or engine or live)" --timeout 3600 $(AT_ONCE) $(ARGS)

test-benchmarks: $(READY) ## the benchmarks' own tests: peers' policies, situations, bounds
	PLIMSOLL_ALL=1 $(PYTEST) -m bench --timeout 3600 $(AT_ONCE) $(ARGS)

test-browser: $(READY) build browser ## the console in a real Chromium: every page in every way
	PLIMSOLL_ALL=1 $(PYTEST) -m browser $(AT_ONCE) $(ARGS)

test-cluster: $(READY) build ## on a real API server, scheduler and Prometheus
	$(WAITING) PLIMSOLL_ALL=1 $(PYTEST) -m "cluster and not browser and not at_length" $(AT_ONCE) $(ARGS)

poison: $(READY) build ## all poison and forgeries on a real API server (PLIMSOLL_POISON_OBJECTS, PLIMSOLL_POISON_SEED)
	PLIMSOLL_POISON_OBJECTS=$${PLIMSOLL_POISON_OBJECTS:-2000} $(PYTEST) tests/cluster/test_poison.py \
	  tests/cluster/test_poison_past_validation.py tests/cluster/test_forgery.py --log-cli-level=INFO $(ARGS)

kills: $(READY) build ## kill the operator at every write of a scale-out, a move and an approved change (minutes)
	PLIMSOLL_KILLS_AT_ALL=1 $(PYTEST) tests/cluster/test_killed_while_rebalancing.py --log-cli-level=INFO $(ARGS)

neighbours: $(READY) build ## large, busy and lying neighbours, and the times of an honest one (five minutes of a quiet machine)
	PLIMSOLL_ALLOWED_SECONDS=1.5 PLIMSOLL_BUSY_OBJECTS=30 PLIMSOLL_BUSY_PATCHES=25 PLIMSOLL_LARGE_OBJECTS=100 \
	  PLIMSOLL_LARGE_FOREIGN=2 PLIMSOLL_LAPS=5 $(PYTEST) tests/cluster/test_large_neighbours.py \
	  tests/cluster/test_busy_neighbours.py tests/cluster/test_bad_neighbours.py --log-cli-level=INFO $(ARGS)

chaos: $(READY) build ## chains of faults, in memory and over 50 real objects (PLIMSOLL_STORIES, PLIMSOLL_CHAOS_OBJECTS, _SEEDS, _FAULTS=volume)
	PLIMSOLL_STORIES=$${PLIMSOLL_STORIES:-1000} $(PYTEST) tests/app/test_poison_and_faults.py $(ARGS)
	PLIMSOLL_CHAOS_OBJECTS=$${PLIMSOLL_CHAOS_OBJECTS:-50} PLIMSOLL_CHAOS_SEEDS=$${PLIMSOLL_CHAOS_SEEDS:-20} \
	  $(PYTEST) tests/cluster/test_chains.py --log-cli-level=INFO $(ARGS)

test-kueue: $(READY) build ## the queue of Kueue itself admits the pods (built on first use, in minutes; then one minute)
	$(PYTEST) tests/cluster/test_real_queue.py $(ARGS)

test-gateway: $(READY) build ## Istio's control plane, and requests through an Envoy that it configures (built on first use, in minutes; then four)
	$(PYTEST) tests/cluster/test_real_gateway.py tests/cluster/test_gateway_traffic.py $(ARGS)

scale: $(READY) build ## 300 and 1,000 objects on 1,250 nodes, with and without a slow API server: a table, in minutes
	$(BIN)/python -m benchmarks.cluster $(ARGS)

scale-console: $(READY) build ## the console's pages on 5,000 deployments and 1,250 nodes: a table, in minutes; fails where a goal is missed
	$(BIN)/python -m benchmarks.console $(ARGS)

test-engine: $(READY) build ## ask a real vLLM server (CPU build, installed on first use) what `test` reads of recorded answers, and a real SGLang
	$(BIN)/python -m testbed.engine install
	PLIMSOLL_ENGINE=ask $(PYTEST) tests/engine $(ARGS)
	$(if $(ARGS),,$(PYTEST) tests/sglang)
	$(if $(ARGS),,$(BIN)/python -m testbed.engine asked)

test-engine-if-changed: $(READY) ## test-engine, if its files, the renderer or the release have changed since it last passed
	@$(BIN)/python -m testbed.engine unchanged || $(MAKE) test-engine

record-engine: $(READY) build ## record what a real vLLM server answers, for another release or new questions
	$(BIN)/python -m testbed.engine install
	PLIMSOLL_ENGINE=record $(PYTEST) tests/engine
	$(BIN)/python -m testbed.engine asked

test-live: $(READY) build ## real engines as pods of a real control plane, under the operator and a load (25 minutes)
	$(BIN)/python -m testbed.engine install
	$(PYTEST) tests/live --log-cli-level=INFO $(ARGS)

test-live-short: $(READY) build ## of test-live, a move, a replica more, and users of both (two minutes)
	$(BIN)/python -m testbed.engine install
	$(PYTEST) tests/live -m short --log-cli-level=INFO $(ARGS)

check: check-style check-types check-generated check-mutants ## format, lint, imports, types, generated files, mutants of changed decisions (-j2 is faster)

check-style: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

check-types: $(READY)
	$(BIN)/mypy

check-generated: $(READY)
	$(BIN)/python -m scripts.generate_crd --check
	$(BIN)/python -m scripts.serve_options --check
	$(BIN)/python -m scripts.dashboard --check
	$(BIN)/python -m scripts.chart_readme --check

# Whoever imports a module first compiles it, and workers that begin together would compile the same ones.
compiled: $(READY)
	@$(PYTEST) --collect-only -q >.venv/.compiled 2>&1 || { cat .venv/.compiled; false; }

check-mutants: $(READY)
	nice -n 19 $(BIN)/python -m benchmarks.mutants --changed

##@ Measure it
law-sources: $(READY) ## what the law was read from against another vLLM release, from PyPI's wheels (ARGS="0.34.0 --record"; the newest by default)
	$(BIN)/python -m scripts.law_sources $(ARGS)

accuracy: $(READY) ## our estimate and its peers against measured starts, one table (ARGS="--peers none", "--logs FILE")
	$(BIN)/python -m benchmarks.accuracy $(ARGS)

bench-placement: $(READY) ## every solver against the proven optimum, in 3 minutes (ARGS="--full", "--nodes 50 --solvers greedy", "--json FILE")
	$(BIN)/python -m benchmarks.placement $(ARGS)

bench-rebalance: $(READY) ## our scaling and that of peers on simulated replicas (ARGS="--quick", "--list", "--set tuning --seeds 2 --jobs 2", "--json FILE", "--trace FILE")
	$(BIN)/python -m benchmarks.rebalance $(ARGS)

bench-signals: $(READY) build ## 1,000 and 5,000 live deployments on a real Prometheus: CPU, requests, age, memory (ten minutes; ARGS="--rows 0")
	$(BIN)/python -m benchmarks.signals $(ARGS)

latency-accuracy: $(READY) ## our times per token and to the first token against measured ones (ARGS="--rows FILE")
	$(BIN)/python -m benchmarks.latency $(ARGS)

latency-fit: $(READY) ## fit the constants of operator/plimsoll/catalog/performance.json anew (two minutes)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group latency-fit
	$(BIN)/python -m benchmarks.latency.fit
	$(BIN)/python -m benchmarks.latency.fit --engines

# A mutant is often as long as the original, and as old to the second: its bytecode would be taken for that of the other.
mutants check-mutants: export PYTHONDONTWRITEBYTECODE := 1
mutants: $(READY) ## change the decision code in small ways: what do the tests notice? (ARGS="--only placement --sample 100 --seed 7", "--changed main", "--all")
	$(BIN)/python -m benchmarks.mutants $(ARGS)

##@ Release it
release: $(READY) ## all of a release but the push, in build/release (ARGS="--repository https://git.example/plimsoll --registry registry.example")
	$(BIN)/python -m scripts.release $(ARGS)

##@ Work on it
init: $(READY) ## make .venv with everything pinned
format: $(READY) ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

crds: $(READY) ## regenerate the CRDs, the chart's copies, docs/api.md and the schemas for editors
	$(BIN)/python -m scripts.generate_crd

dashboard: $(READY) ## regenerate the chart's Grafana dashboard
	$(BIN)/python -m scripts.dashboard

chart-readme: $(READY) ## regenerate the chart's README from the comments of its values
	$(BIN)/python -m scripts.chart_readme

goldens: $(READY) ## regenerate what is expected of examples, stories and measured starts
	$(BIN)/python -m scripts.update_goldens

screenshots: $(READY) build browser ## take docs/screenshots anew, in both colour schemes (two minutes)
	$(BIN)/python -m testbed.screenshots $(ARGS)

build: $(READY) ## build the control plane's programs that are missing (about 9 minutes from nothing)
	$(BIN)/python -m testbed build

browser: $(READY) ## find Chromium for the browser tests, or install Debian's (as root)
	$(BIN)/python -m testbed.browser install

constraints: ## pin the newest versions of everything
	scripts/pin_constraints.sh

clean: ## remove .venv and caches of this checkout
	rm -rf .venv .venv-newest .venv*.lock .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

help: ## this
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(RUNS): pyproject.toml constraints.txt
	scripts/make_venv.sh run

$(READY): pyproject.toml constraints.txt
	scripts/make_venv.sh all

.PHONY: release law-sources calculator kills neighbours test-kueue test-gateway scale-console try demo test test-unit test-lengthy test-apart test-all test-benchmarks test-newest test-slow check-style check-types check-generated check-mutants compiled test-cluster poison chaos scale test-browser browser test-engine test-engine-if-changed record-engine test-live test-live-short check accuracy bench-placement bench-rebalance bench-signals latency-accuracy latency-fit mutants init format crds dashboard chart-readme goldens screenshots build constraints clean help

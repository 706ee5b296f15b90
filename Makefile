# Every target installs what it needs: a virtual environment in .venv, the package and its tools.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
# Most modules of the dependencies are never imported: Python compiles those that are.
INSTALL := install --quiet --no-compile --constraint constraints.txt --editable

# Benchmarks read real data from this folder; see benchmarks/README.md.
SETPOINT_DATA ?= data
export SETPOINT_DATA

.DEFAULT_GOAL := help
.PHONY: help demo test test-minimum coverage test-browser test-engines test-cuda validity lint format bench-train bench-heldout bench-selection bench-referee bench-speed bench-busy \
        bench-bundled bench-threshold bench-promise bench-decisions bench-labels bench-certify bench-end-to-end bench-predict \
        bench-stream-threshold bench-stochastic bench-large bench-rows bench-processes \
        bench-step bench-objective bench-goals bench-sql bench-tables reproduce reproduce-smoke gallery docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 24

$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "setpoint needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $(INSTALL) '.[demo]'
	touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(PIP) $(INSTALL) '.[dev]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) $(INSTALL) '.[bench]'
	touch $@

$(VENV)/.gallery: $(VENV)/.dev
	$(PIP) $(INSTALL) '.[trainers]'
	touch $@

$(VENV)/.docs: $(VENV)/.demo
	$(PIP) $(INSTALL) '.[docs]'
	touch $@

demo: $(VENV)/.demo ## train for three goals on real data; print a table, draw a figure, write a report
	$(BIN)/python -m setpoint demo

test: $(VENV)/.dev ## run the tests
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

$(VENV)-minimum/.dev: pyproject.toml constraints-minimum.txt
	test -x $(VENV)-minimum/bin/python || $(PYTHON) -m venv $(VENV)-minimum
	$(VENV)-minimum/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints-minimum.txt --editable '.[dev]'
	touch $@

test-minimum: $(VENV)-minimum/.dev ## run the tests with the lowest versions of numpy, scipy and scikit-learn
	$(VENV)-minimum/bin/python -m pytest --numprocesses auto --dist worksteal

coverage: $(VENV)/.dev ## run the tests and report line coverage
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal --cov --cov-report=term:skip-covered --cov-report=html:build/coverage
	@echo "Coverage by line: build/coverage/index.html"

test-browser: $(VENV)/.dev docs ## test reports and the site in headless Chromium (apt install chromium chromium-driver)
	$(BIN)/python -m pytest --numprocesses auto browser_tests

$(VENV)-engines/.engines: pyproject.toml constraints-engines.txt
	test -x $(VENV)-engines/bin/python || $(PYTHON) -m venv $(VENV)-engines
	$(VENV)-engines/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints-engines.txt --editable '.[engines]'
	touch $@

test-engines: $(VENV)-engines/.engines ## test with MLflow, Spark and Ray, each run locally, and the recipes for Lightning and Trainer (needs Java 17; 15 minutes)
	$(VENV)-engines/bin/python -m pytest engine_tests
	$(VENV)-engines/bin/python examples/lightning_module.py
	$(VENV)-engines/bin/python examples/hugging_face_trainer.py

test-cuda: $(VENV)/.dev ## run the tests that need a GPU
	$(BIN)/python -m pytest tests/cuda

validity: $(VENV)/.dev ## simulate how often certificates and verdicts are false (half an hour)
	$(BIN)/python -m pytest --numprocesses auto validity

lint: $(VENV)/.dev ## run ruff and mypy, and check the import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## fix and format the code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-train: $(VENV)/.bench ## training objective on nine data sets, compared with cost-weighted logistic and hinge models (needs SETPOINT_DATA; 20 minutes)
	$(BIN)/python benchmarks/bench_train.py

bench-heldout: $(VENV)/.bench ## test objective on nine data sets, compared with plain, balanced and cost-weighted logistic regression (needs SETPOINT_DATA; an hour)
	$(BIN)/python benchmarks/bench_heldout.py

bench-selection: $(VENV)/.bench ## rules that choose among the candidates of a fit, compared on rows that bench-heldout does not test on (needs SETPOINT_DATA; 5 minutes)
	$(BIN)/python benchmarks/bench_selection.py

bench-referee: $(VENV)/.dev ## solvers compared with the proven optimum of small problems (half an hour)
	$(BIN)/python benchmarks/bench_referee.py

bench-speed: $(VENV)/.bench ## time of a fit, compared with XGBoost and by number of rows (needs SETPOINT_DATA)
	$(BIN)/python benchmarks/bench_speed.py

bench-busy: $(VENV)/.bench ## CPU and wall time of a fit with one thread and with all, on an idle and a busy machine; time of `setpoint fit`
	$(BIN)/python benchmarks/bench_busy.py

bench-bundled: $(VENV)/.dev ## test objectives on scikit-learn's bundled data
	$(BIN)/python benchmarks/bench_bundled.py

bench-threshold: $(VENV)/.dev ## exact threshold of 10 million scores, compared with numpy.argsort
	$(BIN)/python benchmarks/bench_threshold.py

bench-stream-threshold: $(VENV)/.dev ## exact threshold from a stream of scores, compared with one sort
	$(BIN)/python benchmarks/bench_stream_threshold.py

bench-step: $(VENV)/.dev ## time of a training step: cross-entropy, lifted, projected, 16 models at once; uses a GPU if there is one
	$(BIN)/python benchmarks/bench_step.py

bench-objective: $(VENV)/.dev ## time to reach Algorithm 1's training objective (needs SETPOINT_DATA and a GPU, or hours)
	$(BIN)/python benchmarks/bench_objective.py

bench-goals: $(VENV)/.dev ## several goals at once, compared with one after another (needs SETPOINT_DATA)
	$(BIN)/python benchmarks/bench_goals.py

bench-stochastic: $(VENV)/.dev ## mini-batches compared with full batches (needs SETPOINT_DATA; an hour)
	$(BIN)/python benchmarks/bench_stochastic.py

bench-large: $(VENV)/.dev ## fit 10 million rows from Parquet: memory, time, objective (2 GB of disk)
	$(BIN)/python benchmarks/bench_large.py

bench-rows: $(VENV)/.dev ## time of a pass and extra memory at 10^4 to 10^7 rows
	$(BIN)/python benchmarks/bench_rows.py

bench-processes: $(VENV)/.dev ## one and two processes on the same files: time, bytes sent, equality of the results
	$(BIN)/python benchmarks/bench_processes.py

bench-promise: $(VENV)/.bench ## certified floors on test rows, compared with scikit-learn and MAPIE (needs SETPOINT_DATA; half an hour)
	$(BIN)/python benchmarks/bench_promise.py

bench-decisions: $(VENV)/.bench ## money, budgets, groups, review bands and several labels, compared with scikit-learn, empulse, Fairlearn and MAPIE (needs SETPOINT_DATA; 40 minutes)
	$(BIN)/python benchmarks/bench_decisions.py

bench-labels: $(VENV)/.dev ## labels that certificates need, compared with labelling at random (needs SETPOINT_DATA; 20 minutes)
	$(BIN)/python benchmarks/bench_labels.py

bench-end-to-end: $(VENV)/.dev ## fit, predict, evaluate and report on real tables (needs SETPOINT_DATA)
	$(BIN)/python benchmarks/bench_end_to_end.py

bench-predict: $(VENV)/.dev ## memory and speed of `setpoint predict` on five million rows (ten minutes)
	$(BIN)/python benchmarks/bench_predict.py

bench-tables: $(VENV)/.bench ## model auto on nine tables, compared with tuned XGBoost and a stack of scikit-learn (needs SETPOINT_DATA; hours)
	$(BIN)/python benchmarks/bench_tables.py

bench-sql: $(VENV)/.dev ## exported SQL statements on 100,000 rows in DuckDB: scores, decisions and time, compared with Python (two minutes)
	$(BIN)/python benchmarks/bench_sql.py

bench-certify: $(VENV)/.dev ## time of a certificate, compared with numpy.sort; objective kept by each planning method; width of bounds on a mean cost
	$(BIN)/python benchmarks/bench_certify.py
	$(BIN)/python benchmarks/bench_planning.py
	$(BIN)/python benchmarks/bench_mean_bounds.py

reproduce: $(VENV)/.dev ## write the paper's tables and figures to results/ (needs SETPOINT_DATA; hours on a CPU)
	$(BIN)/python -m setpoint.paper all --scale small --out results

reproduce-smoke: $(VENV)/.dev ## the same on generated data, as a smoke test (a minute)
	$(BIN)/python -m setpoint.paper all --scale smoke --out build/smoke

gallery: $(VENV)/.gallery ## run the examples and store their figures in docs/gallery/
	mkdir -p docs/gallery
	cd docs/gallery && for example in ../../examples/*.py; do ../../$(BIN)/python $$example || exit 1; done

docs: $(VENV)/.docs ## build the documentation in site/, as a site that needs no network
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html in a browser."

clean: ## remove virtual environments, caches and build output
	rm -rf $(VENV) $(VENV)-minimum $(VENV)-engines .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site

# Each target does all its own set-up: a bare clone and Python 3.11 or newer are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := -m pip install --quiet --disable-pip-version-check
JOBS ?= 2
# Each job has a core: if each started as many OpenMP threads as there are cores, they would wait for one another. Many
# tests start a Python of their own, which finds compiled modules unless the environment says that none are kept.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# tests/conftest.py distributes the tests, starting with Spark.
PARALLEL := -n $(JOBS) --dist loadscope --no-loadscope-reorder

.DEFAULT_GOAL := help
.NOTPARALLEL:  # targets share one environment
.PHONY: help demo test quick spark peers site coverage minimum lint slow bench paper docs clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --upgrade pip
	touch $@

# .venv/.test marks that `pip install 'vardi[test]'` is done, and so for the other extras.
$(VENV)/.%: pyproject.toml | $(VENV)/.made
	$(BIN)/python $(PIP) --editable '.[$*]'
	touch $@

# A dependency group: the paper is no part of what users install.
$(VENV)/.paper: pyproject.toml | $(VENV)/.made
	$(BIN)/python $(PIP) --editable . --group paper
	touch $@

demo: $(VENV)/.cli  ## debias the two-sample house-price case: weights and a report in demo/
	$(BIN)/vardi demo --output demo

test: $(VENV)/.test $(VENV)/.docs  ## tests and doctests
	$(PYTEST) $(PARALLEL) -m 'not spark and not peers and not site'

spark: $(VENV)/.test  ## on a Spark cluster of two workers, in Ibis and in Dask: every question, lost workers, refusals
	$(PYTEST) -m spark tests/engines

peers: $(VENV)/.peers  ## against the peers, and their own suites with vardi in their place
	$(PYTEST) $(PARALLEL) -m peers tests

site: docs $(VENV)/.test  ## the site in a browser: pages fit a phone, are silent, and show no prompts
	$(PYTEST) tests/docs/test_site.py

quick: $(VENV)/.test  ## the tests of the core, in under a minute
	$(PYTEST) $(PARALLEL) -m 'not long and not spark' tests/inputs tests/biases tests/weights tests/estimates

# A floor: 82% (lines and branches) is what the short tests of a dozen folders reach on their own.
coverage: $(VENV)/.test $(VENV)/.docs  ## the same, with the lines that no test runs
	$(BIN)/python -m pytest -m 'not site' --cov --cov-report=term:skip-covered --cov-fail-under=82

# Without the documentation, which shows the output of the newest versions. Old packages may warn of newer ones.
minimum: pyproject.toml  ## the same, with every dependency at its lower bound
	$(PYTHON) -m venv $(VENV)-minimum
	$(VENV)-minimum/bin/python $(PIP) uv
	$(VENV)-minimum/bin/uv pip install --quiet --python $(VENV)-minimum --resolution lowest-direct --editable '.[test]'
	OMP_NUM_THREADS=1 $(VENV)-minimum/bin/python -m pytest $(PARALLEL) -m 'not peers and not site' -o filterwarnings=default tests src paper README.md

slow: $(VENV)/.test  ## statistical claims and large designs, by simulation; every question in every engine
	$(BIN)/python -m pytest tests/slow -s --timeout 0
	VARDI_EVERY_PAIR=1 $(BIN)/python -m pytest tests/engines/test_conformance.py tests/engines/test_questions.py tests/questions/test_questions.py tests/errors/test_faults.py tests/weights/test_population.py --timeout 0

lint: $(VENV)/.lint  ## ruff, mypy (strict), import-linter, codespell, banned phrases
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python tools/banned_phrases.py

bench: $(VENV)/.bench  ## peers side by side, written to benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

paper: $(VENV)/.paper  ## every table and figure of the paper, into vardi-paper/: an hour on two cores
	$(BIN)/python -m paper --jobs $(JOBS)

docs: $(VENV)/.docs  ## the site, into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -E -W --keep-going -q -b html docs docs/_build/html
	@echo "The site is at docs/_build/html/index.html"

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(VENV)-minimum demo vardi-paper build dist .coverage htmlcov docs/_build docs/_generated docs/gallery docs/reference/generated

# Each target does all its own set-up: a bare clone and Python 3.11 or newer are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint slow minimum bench docs clean

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	touch $@

demo: $(VENV)/.dev  ## debias the two-sample house-price case: weights and a report in demo/
	$(BIN)/vardi demo --output demo

test: $(VENV)/.dev  ## all tests and doctests, with coverage
	$(BIN)/python -m pytest --cov --cov-report=term:skip-covered

slow: $(VENV)/.dev  ## statistical claims and large designs, by simulation
	$(BIN)/python -m pytest tests/slow -s

minimum:  ## the tests on the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv $(VENV)-minimum
	$(VENV)-minimum/bin/python -m pip install --quiet --disable-pip-version-check uv
	VIRTUAL_ENV=$(VENV)-minimum $(VENV)-minimum/bin/uv pip install --quiet --resolution lowest-direct \
	  --editable '.[cli,duckdb,frames,paper,plot,report]' 'click==8.1.8' 'pyparsing==3.1.4' 'pytest>=8.2' 'hypothesis>=6.100' 'mpmath>=1.3'
	$(VENV)-minimum/bin/python -m pytest tests -q $(addprefix --ignore tests/test_,browser.py torch.py peers.py pymbar_suite.py \
	  docs.py packaging.py benchmarks.py import.py) --ignore tests/engines --ignore tests/test_estimator.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench  ## peers side by side, written to benchmarks/RESULTS.md
	$(BIN)/vardi bench

docs: $(VENV)/.dev  ## the site, into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -E -W --keep-going -q -b html docs docs/_build/html
	@echo "The site is at docs/_build/html/index.html"

clean:
	rm -rf $(VENV) $(VENV)-minimum demo build dist .coverage htmlcov docs/_build docs/_generated docs/gallery docs/reference/generated

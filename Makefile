# Each target does all its own set-up: a bare clone and Python 3.11 or newer are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
# In the order of files, so that engines come first: a process that has grown cannot always start Spark.
PARALLEL := -n $(JOBS) --dist loadgroup --no-loadscope-reorder

.PHONY: demo test coverage minimum lint slow bench docs clean

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

test: $(VENV)/.dev  ## all tests and doctests
	$(BIN)/python -m pytest $(PARALLEL)

coverage: $(VENV)/.dev  ## the same, with the lines that no test runs
	$(BIN)/python -m pytest --cov --cov-report=term:skip-covered

# Without the documentation, which prints what the newest versions give. Old packages may warn of newer ones.
minimum: pyproject.toml  ## the same, with every dependency at its lower bound
	$(PYTHON) -m venv $(VENV)-minimum
	$(VENV)-minimum/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(VENV)-minimum/bin/uv pip install --quiet --python $(VENV)-minimum --resolution lowest-direct --editable '.[test]'
	$(VENV)-minimum/bin/python -m pytest $(PARALLEL) -o filterwarnings=default tests src README.md

slow: $(VENV)/.dev  ## statistical claims and large designs, by simulation
	$(BIN)/python -m pytest tests/slow -s --timeout 0

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench  ## peers side by side, written to benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

docs: $(VENV)/.dev  ## the site, into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -E -W --keep-going -q -b html docs docs/_build/html
	@echo "The site is at docs/_build/html/index.html"

clean:
	rm -rf $(VENV) $(VENV)-minimum demo build dist .coverage htmlcov docs/_build docs/_generated docs/gallery docs/reference/generated

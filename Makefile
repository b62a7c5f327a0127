# SPDX-License-Identifier: BSD-2-Clause
# One make for the whole tree: each room's Makefile declares what the room builds, and make knows all
# dependencies. So any number of jobs may run, and nothing is built twice.
# What make builds is printed a target at a time. What a program prints that runs under make, such as the
# tests, is printed as it comes.
RUNS := demo demo-failover check test test-all soak fault-matrix test-vm fuzz sim bench deb rpm
# A recipe contains $(MAKE) literally, because make gives its jobs only to such recipes.
BUILD_OPTIONS := --no-print-directory -Otarget
JOBS ?= $(shell nproc)
# Tests side by side, at most: some wait for most of their time.
TEST_JOBS ?= $(shell expr 3 '*' $(JOBS))
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(JOBS) $(if $(filter $(RUNS),$(MAKECMDGOALS)),,-Otarget)
endif

.DEFAULT_GOAL := all
.SECONDARY:
include common.mk

# What is built and installed, each after what it uses. Tests come last (selftests/Makefile).
PRODUCT := lib bpf loader userspace controller hostlib topo docs docs/man docs/completion
include $(PRODUCT:%=%/Makefile) selftests/Makefile scripts/packages.mk

.PHONY: all tests deps demo demo-failover test test-all soak fault-matrix test-vm fuzz sim bench install uninstall format check-format \
	compile_commands.json clean help

all: $(PRODUCT) ## build the product into build/ (JOBS=n: so many jobs, otherwise one a CPU)

tests: all man selftests ## the same, and what the tests need

deps: ## install the packages that are missing (apt or dnf, needs root)
	$(Q)scripts/install-deps

deps-%:
	$(Q)scripts/install-deps $*

DEMO := $(addprefix $(B)/,inc-switchd inc-controller incctl inc-lab inc-wire inccl-perf inccl-digits digits.csv)
# Programs that need no clang are compiled while the other packages are installed, because clang takes longest. The
# installation is a job of make, so that make -n only prints it and ctrl-C ends it.
WITHOUT_CLANG = $(LIB) $(filter-out %/inc-switchd,$(DEMO))
demo: ## four hosts train a model through an XDP switch, every sum checked
demo-failover: ## a cable is cut while the NCCL plugin sends, and the messages go on by another one
demo-failover: DEMO := $(addprefix $(B)/,inc-switchd inc-controller inc-lab inc-wire ha-nccl-perf $(PLUGIN))
demo demo-failover:
	$(Q)[ "$$(id -u)" = 0 ] || { echo "make $@ needs root: it makes network namespaces and loads XDP programs" >&2; exit 1; }
	$(Q)scripts/install-deps gcc
	$(Q)$(MAKE) --no-print-directory deps-product $(WITHOUT_CLANG)
	$(Q)$(MAKE) $(BUILD_OPTIONS) $(DEMO)
	$(Q)topo/demo $(filter-out demo,$(@:demo-%=%))

check: ## in two minutes, before each commit: format, rules of the house, units, a job in each mode
	$(Q)scripts/install-deps test
	$(Q)$(MAKE) $(BUILD_OPTIONS) tests
	$(Q)selftests/run --jobs $(TEST_JOBS) --size check

test: ## every promise of the README, on this machine and in a virtual one
	$(Q)scripts/install-deps gcc judges
	$(Q)$(MAKE) --no-print-directory deps-vm $(WITHOUT_CLANG)
	$(Q)$(MAKE) $(BUILD_OPTIONS) tests
	$(Q)selftests/run --jobs $(TEST_JOBS)

# With FULL=1 tests do whole what they do in part otherwise. The table is that of test_matrix.
test-all: ## the same with long searches, each collective, type and topology with each other, soak, fuzzers, simulation
	$(Q)scripts/install-deps vm packages judges torch image
	$(Q)$(MAKE) $(BUILD_OPTIONS) tests
	$(Q)rc=0; \
		FULL=1 ROUNDS=$(or $(ROUNDS),20) MINUTES=$(or $(MINUTES),10) selftests/run --jobs $(TEST_JOBS) --size all || rc=1; \
		selftests/fuzz/fuzz || rc=1; \
		$(B)/sim --seeds $(or $(SEEDS),100000) || rc=1; \
		grep '^|' $(B)/test-logs/e2e/test_matrix.log; exit $$rc

# The whole fault matrix; its table goes into docs/faults.md.
fault-matrix: ## every fault at every place, with every window: soft hosts, then rxe in the virtual machine
	$(Q)scripts/install-deps vm
	$(Q)$(MAKE) $(BUILD_OPTIONS) tests
	$(Q)rm -f $(B)/fault-rows.json; INC_FAULT_ROWS=$(abspath $(B))/fault-rows.json FULL=1 selftests/run e2e/test_fault_matrix; rc=$$?; \
		topo/inc-vm run --name fault-matrix --time-limit 7200 -- env INC_FAULTS_FULL=1 selftests/vm/guest/faults.py || rc=1; \
		selftests/fault_table --markdown $(B)/fault-rows.json $(B)/vm/log/fault-matrix/fault-rows.json; exit $$rc

soak: ## every process killed and stopped at random moments, ROUNDS=100 of each of KINDS="a b" (SEED=n: the same again); then what grows in MINUTES=30
	$(Q)scripts/install-deps
	$(Q)$(MAKE) $(BUILD_OPTIONS) tests
	$(Q)rc=0; \
		ROUNDS=$(or $(ROUNDS),100) selftests/run e2e/test_soak || rc=1; \
		MINUTES=$(or $(MINUTES),30) selftests/run e2e/test_endurance || rc=1; \
		grep -h '^# rounds that' $(B)/test-logs/e2e/test_soak@*.log; \
		grep -h -A6 '^# [a-z]*: .* minutes' $(B)/test-logs/e2e/test_endurance.log; exit $$rc

test-vm: ## the suites that need a stock kernel with rxe, under QEMU
	$(Q)scripts/install-deps vm
	$(Q)$(MAKE) $(BUILD_OPTIONS) tests
	$(Q)selftests/run vm

fuzz: ## the fuzzers for longer (RUNS=n or SECONDS=n of each, TARGETS="a b"; 60 seconds of each where nothing is said)
	$(Q)scripts/install-deps
	$(Q)$(MAKE) $(BUILD_OPTIONS) tests
	$(Q)selftests/fuzz/fuzz $(if $(RUNS),--runs $(RUNS)) $(if $(SECONDS),--seconds $(SECONDS)) $(TARGETS)

sim: ## the simulated system, SEEDS=n runs of it from SEED on (docs/simulation.md)
	$(Q)scripts/install-deps
	$(Q)$(MAKE) $(BUILD_OPTIONS) tests
	$(Q)$(B)/sim --seed $(or $(SEED),1) --seeds $(or $(SEEDS),10000)

bench: ## speeds, with peers side by side (BENCH="modes --quick": parts and options of selftests/bench)
	$(Q)scripts/install-deps
	$(Q)$(MAKE) $(BUILD_OPTIONS) tests
	$(Q)selftests/bench $(BENCH)

INSTALLED := userspace controller hostlib topo docs docs/man docs/completion
install: $(INSTALLED:%=install-%) ## programs, library, header, pkg-config file, man pages (PREFIX, DESTDIR)

uninstall: $(INSTALLED:%=uninstall-%) ## remove what install put there (the same PREFIX, DESTDIR)

FORMATTED = $(shell git ls-files '*.c' '*.h')
format: ## run clang-format over the sources
	$(Q)clang-format -i $(FORMATTED)

check-format: ## fail where clang-format would change something
	$(Q)clang-format --dry-run --Werror $(FORMATTED)

compile_commands.json: ## how each source is compiled, for editors and analysers
	$(Q)$(MAKE) --no-print-directory -n -B V=1 tests | scripts/compile-commands >$@

clean: ## remove build/ and what the sanitizers built
	$(Q)rm -rf build build-san build-tsan

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' Makefile scripts/packages.mk
	@echo "  V=1 shows commands; SANITIZE=address and SANITIZE=thread build and test with sanitizers,"
	@echo "  in build-san/ and build-tsan/"

# What the compiler found each object to depend on.
-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)

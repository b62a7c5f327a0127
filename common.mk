# SPDX-License-Identifier: BSD-2-Clause
# Settings and rules that every room's Makefile uses. The top Makefile includes this file first, and make
# runs in the top folder, so every path is relative to that folder. An object is
# build/obj/FLAVOUR/PATH.o; programs and libraries lie in build/, those of tests in build/selftests/.
B := build

CC ?= cc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
PREFIX ?= /usr/local
DESTDIR ?=
# Where a distribution wants something else: libraries, units, and the daemons' files in default/.
LIBDIR ?= $(PREFIX)/lib
SYSTEMD_DIR ?= $(PREFIX)/lib/systemd/system
SYSCONFDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),/etc,$(PREFIX)/etc)
comma := ,

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	-Wno-unused-parameter -Werror
# clang reads macros of <linux/netlink.h> differently, and finds a comparison of signs in them.
CC_IS_CLANG := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
WARN += $(if $(CC_IS_CLANG),-Wno-sign-compare)
OPT ?= -O2 -g
# -ffp-contract=off: every product and every sum of floats is rounded separately, so that all
# instruction sets give the same bits.
C_BASE := -std=gnu11 $(WARN) -fno-strict-aliasing -ffp-contract=off -D_GNU_SOURCE -I. -I$(B) -MMD -MP
CFLAGS_ALL := $(C_BASE) $(OPT) $(CFLAGS)
LDFLAGS_ALL := $(LDFLAGS)

# make SANITIZE=address (or 1) builds the same programs with the address and undefined-behaviour
# sanitizers, SANITIZE=thread with the thread sanitizer. Each has a build directory of its own, which
# selftests/run knows as well.
SAN_ADDRESS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# -Wno-tsan: the compiler warns of fences that the sanitizer does not understand. They order what XDP
# programs write, and the sanitizer watches the threads of one process only.
SAN_THREAD := -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan
# What the address flavour below is built with. A program cannot have both sanitizers.
SAN_ALWAYS := $(SAN_ADDRESS)
ifneq ($(filter 1 address,$(SANITIZE)),)
B := build-san
CFLAGS_ALL += $(SAN_ADDRESS)
LDFLAGS_ALL += $(SAN_ADDRESS)
else ifeq ($(SANITIZE),thread)
B := build-tsan
SAN_ALWAYS := $(SAN_THREAD)
CFLAGS_ALL += $(SAN_THREAD)
LDFLAGS_ALL += -fsanitize=thread
else ifneq ($(filter-out 0,$(SANITIZE)),)
$(error SANITIZE=$(SANITIZE): address (or 1) or thread)
endif

ifeq ($(V),1)
Q :=
else
Q := @
endif
say = @printf '  %-8s %s\n' $(1) $(2)

# ---- flavours: a source is compiled at most once in each ----

# plain: the product's objects, and the tests' that need no sanitizer. All of them may become part of
# a shared library.
FLAGS_plain = $(CC) $(CFLAGS_ALL) -fPIC -fvisibility=hidden
# address, thread: what reads bytes of others, or has threads, is tested with a sanitizer even where
# SANITIZE is not set. -O1 halves the time that the compiler needs, and -g1 saves another sixth.
FLAGS_address = $(CC) $(C_BASE) -O1 -g1 -Wno-maybe-uninitialized $(CFLAGS) $(SAN_ALWAYS)
FLAGS_thread = $(CC) $(C_BASE) -O1 -g1 $(CFLAGS) $(SAN_THREAD)
# fuzz: clang with coverage for libFuzzer. -O0 takes half of the compiler's time for -O1, which is more than the runs of
# `make test` would gain. Before days of `make fuzz`: rm -r build/obj/fuzz; make fuzz FUZZ_OPT=-O1.
FUZZ_CHECKS := -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ_OPT ?= -O0
FLAGS_fuzz = $(CLANG) $(C_BASE) -Wno-sign-compare $(FUZZ_OPT) -gline-tables-only -fno-omit-frame-pointer \
	-fsanitize=fuzzer-no-link $(FUZZ_CHECKS)
# native: the XDP programs, compiled by clang for this machine instead of for BPF. selftests/fakes/bpf stands for
# the kernel's helpers. PLANTED names a folder with changed copies of the programs (test_planted).
NATIVE := -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-address-of-packed-member -Wno-unused-function \
	-gline-tables-only -fno-strict-aliasing -D_GNU_SOURCE -Iselftests/fakes $(PLANTED) -I. -MMD -MP
# Frames begin at any address and are read in words, so alignment is not checked.
NATIVE_CHECKS := -fsanitize=address,undefined -fno-sanitize=alignment -fno-sanitize-recover=undefined -fno-omit-frame-pointer
NATIVE_COVERAGE := -fprofile-instr-generate -fcoverage-mapping
FLAGS_native = $(CLANG) $(NATIVE) -O2
FLAGS_native-address = $(CLANG) $(NATIVE) -O0 $(NATIVE_CHECKS)
FLAGS_native-coverage = $(CLANG) $(NATIVE) -O1 $(NATIVE_COVERAGE)

# openmpi: what includes Open MPI's mpi.h, of Debian's libopenmpi-dev or Fedora's openmpi-devel. OPENMPI_H is empty where
# that is not installed, and what needs it is not built then.
OPENMPI_H := $(firstword $(wildcard /usr/lib/*-linux-gnu*/openmpi/include/mpi.h /usr/include/openmpi-*/mpi.h))
OPENMPI_LIB := $(firstword $(wildcard /usr/lib/*-linux-gnu*/openmpi/lib /usr/lib64/openmpi/lib))
# The headers of its components: libopenmpi-dev has them, and other distributions may not.
OPENMPI_COLL := $(patsubst %/ompi/mca/coll/coll.h,%,$(firstword $(wildcard $(dir $(OPENMPI_H))openmpi/ompi/mca/coll/coll.h)))
# Those of Open MPI 5 include PMIx, and headers of threads that Debian 13 leaves out. Without these no component can be built.
ifneq ($(wildcard $(OPENMPI_COLL)/opal/mca/threads/threads.h),)
OPENMPI_PMIX := $(firstword $(wildcard /usr/lib/*-linux-gnu*/pmix2/include/pmix.h /usr/include/pmix.h))
ifeq ($(and $(OPENMPI_PMIX),$(wildcard $(OPENMPI_COLL)/opal/mca/threads/pthreads/threads_pthreads_threads.h)),)
OPENMPI_COLL :=
endif
endif
FLAGS_openmpi = $(FLAGS_plain) $(if $(OPENMPI_H),-isystem $(dir $(OPENMPI_H)))
# mpich: the same of MPICH, of Debian's libmpich-dev or Fedora's mpich-devel.
MPICH_H := $(firstword $(wildcard /usr/include/*-linux-gnu*/mpich/mpi.h /usr/include/mpich-*/mpi.h))
MPICH_LIB := $(firstword $(wildcard /usr/lib/*-linux-gnu*/libmpich.so /usr/lib64/mpich/lib/libmpi.so))
FLAGS_mpich = $(FLAGS_plain) $(if $(MPICH_H),-isystem $(dir $(MPICH_H)))

# ROOM_OPT: most tests run for less time than a compiler needs to optimise them, except those that compute.
COMPUTING := benchmarks orders reduce sim unit
$(B)/obj/plain/selftests/%.o: ROOM_OPT = -O1 -g1
$(foreach room,$(COMPUTING),$(eval $(B)/obj/plain/selftests/$(room)/%.o: ROOM_OPT =))
# EXTRA: what one object needs beside its flavour (set for the object, in its room's Makefile).
define flavour_rule
$(B)/obj/$(1)/%.o: %.c common.mk
	@mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$$(FLAGS_$(1)) $$(ROOM_OPT) $$(EXTRA) -c -o $$@ $$<
endef
$(foreach flavour,plain openmpi mpich address thread fuzz native native-address native-coverage,\
	$(eval $(call flavour_rule,$(flavour))))

# The objects of sources, by their paths in the tree.
plain = $(patsubst %.c,$(B)/obj/plain/%.o,$(1))
address = $(patsubst %.c,$(B)/obj/address/%.o,$(1))
thread = $(patsubst %.c,$(B)/obj/thread/%.o,$(1))
fuzz = $(patsubst %.c,$(B)/obj/fuzz/%.o,$(1))

# ---- programs and archives ----

# Two hundred programs of tests are linked, and gold needs half of the time that the usual linker needs.
# What is installed is linked by the usual one.
TEST_LINKER := $(if $(shell command -v ld.gold),-fuse-ld=gold)

# $(eval $(call program,FILE,OBJECTS AND ARCHIVES,LIBRARIES[,FLAGS[,COMPILER]])): a program, or with
# -shared among FLAGS a shared library. Prerequisites that are neither objects nor archives are built
# before, and are not linked.
define program
$(1): $(2)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$(or $(5),$$(CC)) $$(LDFLAGS_ALL) $(if $(filter $(B)/selftests/%,$(1)),$$(TEST_LINKER)) $(4) -o $$@ $$(filter %.o %.a,$$^) $(3)
endef

# An archive of objects that stay where they are; it is never installed.
define archive
$(1): $(2)
	@mkdir -p $$(@D)
	$$(call say,AR,$$@)
	$$(Q)rm -f $$@ && $$(AR) rcsT $$@ $$^
endef

# What all rooms of lib/ offer, an archive a flavour. A program gets the members that it calls, so it
# needs libevent only if it calls a member that does.
LIB := $(B)/obj/plain/lib.a
LIB_ADDRESS := $(B)/obj/address/lib.a
LIB_FUZZ := $(B)/obj/fuzz/lib.a
TLS_LIBS := -Wl,--push-state,--as-needed -lssl -lcrypto -Wl,--pop-state
LIB_LIBS := -ljansson -lyaml -lisal -lz $(TLS_LIBS)
LIBEVENT := -levent_extra -levent_core
EVENT_LIBS := $(LIBEVENT) $(TLS_LIBS)
# Tests name no libraries: the linker keeps those that are called.
TEST_LIBS := -Wl,--as-needed -lcmocka -lxdp -lbpf -lelf -libverbs $(LIBEVENT) -ljansson -lyaml -lisal -lssl -lcrypto \
	-lsqlite3 -lcurl -lcap -lmnl -lz -ldl -lm -lpthread

# A suite's program of address or plain objects: $(eval $(call test_address,SUITE,NAME,SOURCES OF THE TREE)).
# The program's own source is selftests/SUITE/NAME.c; LIB is always linked.
define test_address
$(call program,$(B)/selftests/$(1)/$(2),$(call address,selftests/$(1)/$(2).c $(3)) $(LIB_ADDRESS),$$(TEST_LIBS),$$(SAN_ALWAYS) $(4))
TESTS_$(1) += $(B)/selftests/$(1)/$(2)
endef
define test_plain
$(call program,$(B)/selftests/$(1)/$(2),$(call plain,selftests/$(1)/$(2).c $(3)) $(LIB),$$(TEST_LIBS),$(4))
TESTS_$(1) += $(B)/selftests/$(1)/$(2)
endef
# Several of them with the same sources.
tests_address = $(foreach name,$(2),$(eval $(call test_address,$(1),$(name),$(3),$(4))))
tests_plain = $(foreach name,$(2),$(eval $(call test_plain,$(1),$(name),$(3),$(4))))

# Linker options that replace functions by the tests' own.
wrapped = $(patsubst %,-Wl$(comma)--wrap=%,$(1))

# install, uninstall: $(call install_service,ROOM/DAEMON): a systemd unit, made from ROOM/DAEMON.service.in,
# and the file of its options. That one belongs to the administrator, so an edited one stays as it is.
UNIT_DIR = $(DESTDIR)$(SYSTEMD_DIR)
DEFAULT_DIR = $(DESTDIR)$(SYSCONFDIR)/default
define install_service
	$(Q)install -d $(UNIT_DIR) $(DEFAULT_DIR)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|' $(1).service.in > $(UNIT_DIR)/$(notdir $(1)).service
	$(Q)chmod 644 $(UNIT_DIR)/$(notdir $(1)).service
	$(Q)test -e $(DEFAULT_DIR)/$(notdir $(1)) || install -m 644 $(1).default $(DEFAULT_DIR)/$(notdir $(1))
endef
# $(call install_template,ROOM/DAEMON): the same unit once more, as a template for several daemons of a machine. The
# options of DAEMON@NAME are in default/DAEMON-NAME.
define install_template
	$(Q)sed -e 's|^\(EnvironmentFile=.*\)$$|\1-%i|' -e 's|^Description=.*|& %i|' \
		-e 's|^# .* Its options are in \(.*\), which|# One of several on this machine. The options of $(notdir $(1))@NAME are in \1-NAME;\n# \1|' \
		$(UNIT_DIR)/$(notdir $(1)).service > $(UNIT_DIR)/$(notdir $(1))@.service
	$(Q)chmod 644 $(UNIT_DIR)/$(notdir $(1))@.service
endef
define uninstall_service
	$(Q)rm -f $(UNIT_DIR)/$(notdir $(1)).service $(UNIT_DIR)/$(notdir $(1))@.service
	$(Q)! cmp -s $(1).default $(DEFAULT_DIR)/$(notdir $(1)) || rm -f $(DEFAULT_DIR)/$(notdir $(1))
endef

# SPDX-License-Identifier: BSD-2-Clause
# Settings shared by every directory's Makefile. A directory sets nothing but its
# targets; objects go to build/<directory>/, programs and libraries to build/.
TOP := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
B := $(TOP)/build

CC ?= cc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
PKG_CONFIG ?= pkg-config
PREFIX ?= /usr/local
DESTDIR ?=

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	-Wno-unused-parameter -Werror
OPT ?= -O2 -g
# Products and sums of floats are rounded each by itself, so that all instruction sets agree.
CFLAGS_ALL := -std=gnu11 $(WARN) $(OPT) -fno-strict-aliasing -ffp-contract=off -D_GNU_SOURCE -I$(TOP) -MMD -MP $(CFLAGS)
LDFLAGS_ALL := $(LDFLAGS)

# make SANITIZE=address (or 1): the same programs under the address and undefined-behaviour
# sanitizers; SANITIZE=thread: under the thread sanitizer. Each has a build directory of its
# own, which selftests/run knows, too.
SAN_ADDRESS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# The fences it does not understand order what XDP programs write; it sees only our threads.
SAN_THREAD := -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan
# What reads garbage is built with the sanitizers even where nothing else is; the thread
# sanitizer cannot share a program with them.
SAN_ALWAYS := $(SAN_ADDRESS)
ifneq ($(filter 1 address,$(SANITIZE)),)
B := $(TOP)/build-san
CFLAGS_ALL += $(SAN_ADDRESS)
LDFLAGS_ALL += $(SAN_ADDRESS)
else ifeq ($(SANITIZE),thread)
B := $(TOP)/build-tsan
SAN_ALWAYS :=
CFLAGS_ALL += $(SAN_THREAD)
LDFLAGS_ALL += -fsanitize=thread
else ifneq ($(filter-out 0,$(SANITIZE)),)
$(error SANITIZE=$(SANITIZE): address (or 1) or thread)
endif

# Of lib/net/tls*.o; programs that speak no TLS do not get it.
TLS_LIBS := -Wl,--push-state,--as-needed -lssl -lcrypto -Wl,--pop-state
TLS_SRC := net/tls.c net/tls_errors.c net/tls_key.c net/tls_link.c net/stream.c net/wait.c # in lib/
UTIL := $(B)/libinc_util.a
UTIL_LIBS := -ljansson -lyaml -lisal -lz $(TLS_LIBS)
EVENT := $(B)/libinc_event.a
LIBEVENT := -levent_extra -levent_core
EVENT_LIBS := $(LIBEVENT) $(TLS_LIBS)

ifeq ($(V),1)
Q :=
else
Q := @
endif
# install: a systemd unit, made from UNIT.in
UNIT_DIR = $(DESTDIR)$(PREFIX)/lib/systemd/system
define install_unit
	$(Q)install -d $(UNIT_DIR)
	$(Q)sed 's|@PREFIX@|$(PREFIX)|' $(1).in > $(UNIT_DIR)/$(1)
	$(Q)chmod 644 $(UNIT_DIR)/$(1)
endef
say = @printf '  %-8s %s\n' $(1) $(patsubst $(TOP)/%,%,$(2))

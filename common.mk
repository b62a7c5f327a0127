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
CFLAGS_ALL := -std=gnu11 $(WARN) $(OPT) -fno-strict-aliasing -D_GNU_SOURCE -I$(TOP) -MMD -MP $(CFLAGS)
LDFLAGS_ALL := $(LDFLAGS)

# make SANITIZE=1: the same programs under the address and undefined-behaviour sanitizers
ifeq ($(SANITIZE),1)
B := $(TOP)/build-san
CFLAGS_ALL += -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LDFLAGS_ALL += -fsanitize=address,undefined
endif

UTIL := $(B)/libinc_util.a
UTIL_LIBS := -ljansson -lyaml -lisal -lz
EVENT := $(B)/libinc_event.a
EVENT_LIBS := -levent_core

ifeq ($(V),1)
Q :=
else
Q := @
endif
say = @printf '  %-8s %s\n' $(1) $(patsubst $(TOP)/%,%,$(2))

# SPDX-License-Identifier: BSD-2-Clause
# A room's Makefile includes this file if it is called alone: `make -C ROOM`, or make in the room's
# folder, is `make ROOM` of the top Makefile, which builds what the room needs of the others as well.
TOP := $(patsubst %/scripts/alone.mk,%,$(abspath $(lastword $(MAKEFILE_LIST))))
ROOM := $(patsubst $(TOP)/%,%,$(CURDIR))

.DEFAULT_GOAL := all
.PHONY: all install uninstall
all:
	@$(MAKE) --no-print-directory -C $(TOP) $(ROOM)
install uninstall:
	@$(MAKE) --no-print-directory -C $(TOP) $@-$(ROOM)

# SPDX-License-Identifier: BSD-2-Clause
# Man pages, into build/man: `man -M build/man inc-lab`. NAME, SYNOPSIS, COMMANDS, OPTIONS and
# EXIT STATUS of a program come from its table of options (lib/base/opt.h), the rest from
# PROGRAM.SECTION.in. Pages of the libraries' calls are made from the comments of the public headers.
MAN := $(B)/man
MAN_PROGRAMS := ha-nccl-perf.1 incctl.1 inc-lab.1 inc-wire.1 inccl-perf.1 inccl-reduce.1 inc-connect.1 inc-switchd.8 inc-controller.8
# Pages of programs that are used where they were built.
MAN_OTHERS := inccl-digits.1 inc-vm.1
# incctl.1 -> man1/incctl.1
in_section = $(foreach page,$(1),man$(patsubst .%,%,$(suffix $(page)))/$(page))

# $(call man_page,PROGRAM): joins the program's table and its PAGE.in.
define man_page
	$(call say,MAN,$@)
	@mkdir -p $(@D)
	$(Q)$(1) --help=man >$@.table
	$(Q)cd docs/man && awk -f join.awk $(abspath $@.table) $(notdir $@).in >$(abspath $@.tmp)
	$(Q)rm $@.table && mv $@.tmp $@
endef

define man_rules
$(MAN)/man$(1)/%.$(1): docs/man/%.$(1).in docs/man/join.awk $(wildcard docs/man/*.inc) $(B)/%
	$$(call man_page,$(B)/$$*)
endef
$(foreach section,1 8,$(eval $(call man_rules,$(section))))

# $(call man_calls,LIBRARY,HEADER,EXAMPLE): a page of the library, and one of each call that it exports. They
# need Python, which the product's build does not, so `make all` leaves them out. `make man`, `make tests` and
# `make install` make them.
define man_calls
MAN_$(1) := $(1).3 $(shell sed -n 's/^\t\(inc[a-z_]*\);/\1.3/p' hostlib/$(1).map)
$$(MAN_$(1):%=$(MAN)/man3/%) &: hostlib/include/$(2) hostlib/examples/$(3) hostlib/$(1).map docs/man/header-pages
	$$(call say,MAN,$(MAN)/man3/$(1).3)
	$$(Q)python3 docs/man/header-pages hostlib/include/$(2) hostlib/examples/$(3) $(MAN)/man3
MAN_CALLS += $$(MAN_$(1))
endef
$(eval $(call man_calls,libinccl,inccl.h,sum.c))
$(eval $(call man_calls,libinc_connect,inc_connect.h,hello.c))

# inc-vm is a script, which has a table of its options only.
$(MAN)/man1/inc-vm.1: docs/man/inc-vm.1.in docs/man/join.awk topo/inc-vm
	$(call man_page,topo/inc-vm)

MAN_PLACE := $(DESTDIR)$(PREFIX)/share/man
MAN_INSTALLED := $(call in_section,$(MAN_PROGRAMS) $(MAN_CALLS))

.PHONY: docs/man man install-docs/man uninstall-docs/man
docs/man: $(addprefix $(MAN)/,$(call in_section,$(MAN_PROGRAMS) $(MAN_OTHERS)))

man: docs/man $(addprefix $(MAN)/,$(call in_section,$(MAN_CALLS)))

install-docs/man: man
	$(Q)for page in $(MAN_INSTALLED); do \
		install -D -m 644 $(MAN)/$$page $(MAN_PLACE)/$$page || exit 1; done

uninstall-docs/man:
	$(Q)rm -f $(addprefix $(MAN_PLACE)/,$(MAN_INSTALLED))

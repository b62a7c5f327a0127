# SPDX-License-Identifier: BSD-2-Clause
# Man pages, into build/man: `man -M build/man inc-lab`. NAME, SYNOPSIS, COMMANDS, OPTIONS and
# EXIT STATUS of a program come from its table of options (lib/base/opt.h), the rest from
# PROGRAM.SECTION.in. Pages of the libraries' calls, *.3, are written by hand and all installed.
MAN := $(B)/man
MAN_CALLS := $(wildcard docs/man/*.3)
# PAGE/CALL.3 of each further call that the NAME section of a page lists: CALL.3 leads to that page.
MAN_ALIASES := $(shell awk 'FNR == 1 { split(FILENAME, path, /[\/.]/) } /^\.SH/ { name = $$2 == "NAME"; next } \
	name { if (/\\-/) name = 0; sub(/\\-.*/, ""); n = split($$0, call, /[ ,]+/); \
		for (i = 1; i <= n; i++) if (call[i] != "" && call[i] != path[3]) print path[3] "/" call[i] ".3" }' $(MAN_CALLS))
MAN_INSTALLED := ha-nccl-perf.1 incctl.1 inc-lab.1 inc-wire.1 inccl-perf.1 inccl-reduce.1 inc-connect.1 inc-switchd.8 inc-controller.8 \
	$(notdir $(MAN_CALLS)) $(notdir $(MAN_ALIASES))
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

$(MAN)/man$(1)/%.$(1): docs/man/%.$(1)
	$$(call say,MAN,$$@)
	@mkdir -p $$(@D)
	$$(Q)cp $$< $$@
endef
$(foreach section,1 3 8,$(eval $(call man_rules,$(section))))

define man_alias
$(MAN)/man3/$(notdir $(1)): docs/man/$(patsubst %/,%,$(dir $(1))).3 docs/man/room.mk
	@mkdir -p $$(@D)
	$$(Q)echo '.so man3/$$(<F)' >$$@
endef
$(foreach alias,$(MAN_ALIASES),$(eval $(call man_alias,$(alias))))

# inc-vm is a script, which has a table of its options only.
$(MAN)/man1/inc-vm.1: docs/man/inc-vm.1.in docs/man/join.awk topo/inc-vm
	$(call man_page,topo/inc-vm)

MAN_PLACE := $(DESTDIR)$(PREFIX)/share/man

.PHONY: docs/man install-docs/man uninstall-docs/man
docs/man: $(addprefix $(MAN)/,$(call in_section,$(MAN_INSTALLED) $(MAN_OTHERS)))

install-docs/man: docs/man
	$(Q)for page in $(call in_section,$(MAN_INSTALLED)); do \
		install -D -m 644 $(MAN)/$$page $(MAN_PLACE)/$$page || exit 1; done

uninstall-docs/man:
	$(Q)rm -f $(addprefix $(MAN_PLACE)/,$(call in_section,$(MAN_INSTALLED)))

# SPDX-License-Identifier: BSD-2-Clause
# Documents that are printed from the programs' own tables, into build/docs: the messages of the control
# protocol, and a dashboard for Grafana. The dashboard is installed; a package has the messages, too.
# Man pages are made in docs/man.
DOCUMENTS := $(B)/docs/messages.md $(B)/docs/dashboard.json
$(eval $(call program,$(B)/docs/print-messages,$(call plain,docs/messages.c) $(LIB),$(LIB_LIBS)))
$(eval $(call program,$(B)/docs/print-dashboard,$(call plain,docs/dashboard.c),-ljansson))

$(B)/docs/messages.md: $(B)/docs/print-messages
$(B)/docs/dashboard.json: $(B)/docs/print-dashboard
$(DOCUMENTS):
	$(call say,DOC,$@)
	$(Q)$< >$@.tmp && mv $@.tmp $@

.PHONY: docs install-docs uninstall-docs
docs: $(DOCUMENTS)

install-docs: docs
	$(Q)install -D -m 644 $(B)/docs/dashboard.json $(DESTDIR)$(PREFIX)/share/inc/dashboard.json

uninstall-docs:
	$(Q)rm -f $(DESTDIR)$(PREFIX)/share/inc/dashboard.json

# SPDX-License-Identifier: BSD-2-Clause
# Of the documents, beside the man pages (docs/man), a dashboard for Grafana is installed.
.PHONY: docs install-docs uninstall-docs
docs:

install-docs:
	$(Q)install -D -m 644 docs/dashboard.json $(DESTDIR)$(PREFIX)/share/inc/dashboard.json

uninstall-docs:
	$(Q)rm -f $(DESTDIR)$(PREFIX)/share/inc/dashboard.json

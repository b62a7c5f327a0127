# SPDX-License-Identifier: BSD-2-Clause
# inc-controller and incctl.
CONTROLLER_SRC := $(wildcard controller/*.c controller/core/*.c controller/net/*.c controller/store/*.c)
INCCTL_SRC := $(wildcard controller/incctl/*.c)

$(eval $(call program,$(B)/inc-controller,$(call plain,$(CONTROLLER_SRC)) $(LIB),$(EVENT_LIBS) $(LIB_LIBS) -lsqlite3))
$(eval $(call program,$(B)/incctl,$(call plain,$(INCCTL_SRC)) $(LIB),$(LIB_LIBS)))

.PHONY: controller install-controller uninstall-controller
controller: $(B)/inc-controller $(B)/incctl

install-controller: controller
	$(Q)install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/bin
	$(Q)install -m 755 $(B)/inc-controller $(DESTDIR)$(PREFIX)/sbin/
	$(Q)install -m 755 $(B)/incctl $(DESTDIR)$(PREFIX)/bin/
	$(call install_service,controller/inc-controller)
	$(Q)install -D -m 644 controller/inc-controller.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/inc-controller.conf

uninstall-controller:
	$(Q)rm -f $(DESTDIR)$(PREFIX)/sbin/inc-controller $(DESTDIR)$(PREFIX)/bin/incctl \
		$(DESTDIR)$(PREFIX)/lib/sysusers.d/inc-controller.conf
	$(call uninstall_service,controller/inc-controller)

# SPDX-License-Identifier: BSD-2-Clause
# inc-switchd.
SWITCHD_SRC := $(wildcard userspace/*.c userspace/xdp/*.c userspace/term/*.c)

$(eval $(call program,$(B)/inc-switchd,$(call plain,$(SWITCHD_SRC)) $(LOADER) $(LIB),\
	$(LOADER_LIBS) -lmnl -libverbs -lcap $(EVENT_LIBS) $(LIB_LIBS)))

.PHONY: userspace install-userspace uninstall-userspace
userspace: $(B)/inc-switchd

install-userspace: userspace
	$(Q)install -D -m 755 $(B)/inc-switchd $(DESTDIR)$(PREFIX)/sbin/inc-switchd
	$(call install_service,userspace/inc-switchd)

uninstall-userspace:
	$(Q)rm -f $(DESTDIR)$(PREFIX)/sbin/inc-switchd
	$(call uninstall_service,userspace/inc-switchd)

# SPDX-License-Identifier: BSD-2-Clause
# inc-wire and inc-lab. inc-vm and demo are scripts.
$(eval $(call program,$(B)/inc-wire,$(call plain,topo/inc-wire.c $(wildcard topo/wire_*.c)) $(LIB),-lbpf $(LIB_LIBS)))
$(eval $(call program,$(B)/inc-lab,$(call plain,topo/inc-lab.c $(wildcard topo/lab_*.c)) $(LIB),$(LIB_LIBS) -levent_core))

.PHONY: topo install-topo uninstall-topo
topo: $(B)/inc-wire $(B)/inc-lab

install-topo: topo
	$(Q)install -D -m 755 $(B)/inc-wire $(DESTDIR)$(PREFIX)/bin/inc-wire
	$(Q)install -D -m 755 $(B)/inc-lab $(DESTDIR)$(PREFIX)/bin/inc-lab

uninstall-topo:
	$(Q)rm -f $(DESTDIR)$(PREFIX)/bin/inc-wire $(DESTDIR)$(PREFIX)/bin/inc-lab

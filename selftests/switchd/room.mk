# SPDX-License-Identifier: BSD-2-Clause
# other-xdp, which attaches a foreign XDP program, and attach-legacy, for the tests of ports. Most tests are scripts.
OTHER_XDP := $(B)/selftests/switchd/other_xdp

$(OTHER_XDP).bpf.o: selftests/switchd/other_xdp.bpf.c selftests/switchd/room.mk
	$(call say,CLANG,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) --target=bpf -O2 -g -Wall -Werror -I/usr/include/$(MULTIARCH) -c $< -o $@

$(OTHER_XDP).skel.h: $(OTHER_XDP).bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name other_xdp >$@.tmp && mv $@.tmp $@

$(call plain,selftests/switchd/other_xdp.c): $(OTHER_XDP).skel.h
$(call plain,selftests/switchd/other_xdp.c): EXTRA := -I$(B)/selftests/switchd
$(eval $(call program,$(B)/selftests/switchd/other-xdp,$(call plain,selftests/switchd/other_xdp.c),$$(TEST_LIBS)))
$(eval $(call program,$(B)/selftests/switchd/attach-legacy,$(call plain,selftests/switchd/attach_legacy.c) $(LOADER) $(LIB),$$(TEST_LIBS)))

TESTS_switchd := $(addprefix $(B)/selftests/switchd/,other-xdp attach-legacy)

# The list of interfaces. The test changes interfaces between two of the kernel's messages to the reader.
$(call tests_address,switchd,test_link_list,userspace/links.c,$(call wrapped,mnl_socket_recvfrom mnl_socket_sendto))
# The look-up of the controller's name.
$(call tests_address,switchd,test_addresses,userspace/addresses.c)

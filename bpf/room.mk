# SPDX-License-Identifier: BSD-2-Clause
# The XDP programs: an object, and a skeleton header that the loader includes.

# clang's bpf target finds <asm/...> under the host's multiarch directory.
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)
BPF_CFLAGS := --target=bpf -mcpu=v3 -O2 -g -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter \
	-Wno-address-of-packed-member -I. -I/usr/include/$(MULTIARCH) -MMD -MP
BPF_SKELETONS := $(B)/inc_xdp.skel.h $(B)/inc_xdp_test.skel.h

$(B)/obj/bpf/%.bpf.o: bpf/%.bpf.c bpf/room.mk
	$(call say,CLANG,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@

# bpftool removes DWARF from the object and leaves BTF in it.
$(B)/%.bpf.o: $(B)/obj/bpf/%.bpf.o
	$(Q)$(BPFTOOL) gen object $@ $<

$(B)/%.skel.h: $(B)/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $* >$@.tmp && mv $@.tmp $@

.PHONY: bpf
bpf: $(BPF_SKELETONS)

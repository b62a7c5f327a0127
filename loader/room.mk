# SPDX-License-Identifier: BSD-2-Clause
# BPF objects: open, size, fill, pin, adopt, attach.
LOADER := $(B)/obj/plain/loader.a
LOADER_LIBS := -lxdp -lbpf -lelf

$(eval $(call archive,$(LOADER),$(call plain,$(wildcard loader/*.c))))

# The skeleton is generated. This line makes a first build generate it before the compiler reads it;
# later builds know from the compiler which objects include it.
$(call plain,$(wildcard loader/*.c)): | $(B)/inc_xdp.skel.h

.PHONY: loader
loader: $(LOADER)

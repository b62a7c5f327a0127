# SPDX-License-Identifier: BSD-2-Clause
# Completion of command lines, into build/completion: each program prints its own from its table of
# options (lib/base/opt_complete.c).
COMPLETION := $(B)/completion
COMPLETED := inc-switchd inc-controller incctl inc-lab inc-wire inccl-perf inccl-reduce inc-connect ha-nccl-perf
COMPLETION_FILES := $(COMPLETED:%=$(COMPLETION)/bash/%) $(COMPLETED:%=$(COMPLETION)/zsh/_%)
BASH_COMPLETION_DIR ?= $(PREFIX)/share/bash-completion/completions
ZSH_COMPLETION_DIR ?= $(PREFIX)/share/zsh/site-functions

# $(call completion_rule,SHELL,PREFIX OF THE FILE)
define completion_rule
$(COMPLETION)/$(1)/$(2)%: $(B)/%
	$$(call say,COMPLETE,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$< --help=$(1) >$$@.tmp && mv $$@.tmp $$@
endef
$(eval $(call completion_rule,bash,))
$(eval $(call completion_rule,zsh,_))

.PHONY: docs/completion install-docs/completion uninstall-docs/completion
docs/completion: $(COMPLETION_FILES)

install-docs/completion: docs/completion
	$(Q)for program in $(COMPLETED); do \
		install -D -m 644 $(COMPLETION)/bash/$$program $(DESTDIR)$(BASH_COMPLETION_DIR)/$$program && \
		install -D -m 644 $(COMPLETION)/zsh/_$$program $(DESTDIR)$(ZSH_COMPLETION_DIR)/_$$program || exit 1; done

uninstall-docs/completion:
	$(Q)rm -f $(COMPLETED:%=$(DESTDIR)$(BASH_COMPLETION_DIR)/%) $(COMPLETED:%=$(DESTDIR)$(ZSH_COMPLETION_DIR)/_%)

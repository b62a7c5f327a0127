# SPDX-License-Identifier: BSD-2-Clause
# Objects of a suite's programs, in its directory D: its own sources as everything is built, and any
# source of the tree, by its path in the tree, once more always with the sanitizers. A suite's
# Makefile includes this behind its targets.
$(D)/%.o: %.c Makefile ../objects.mk ../../common.mk
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS_ALL) -c -o $@ $<

$(D)/san/%.o: $(TOP)/%.c Makefile ../objects.mk ../../common.mk
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(SAN_ALWAYS) -c -o $@ $<

.SECONDARY:
-include $(wildcard $(D)/*.d $(D)/san/*/*.d $(D)/san/*/*/*.d $(D)/san/*/*/*/*.d)

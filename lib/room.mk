# SPDX-License-Identifier: BSD-2-Clause
# Code that all programs share: one archive for each flavour.

# The loops of lib/reduce are compiled once for each set of instructions and each type, because that
# makes different code of the same source (lib/reduce/kernels.h). The object of an integer type also has
# the unsigned type of that size.
REDUCE_SETS := generic $(if $(filter x86_64-% i386-% i686-%,$(shell $(CC) -dumpmachine 2>/dev/null)),avx2 avx512)
REDUCE_INTS := int8 int16 int32 int64
REDUCE_FLOATS := float32 float16 bfloat16 float64
REDUCE_PARTS := lib/reduce/set.c lib/reduce/part_int.c lib/reduce/part_float.c
reduce_objects = $(foreach set,$(REDUCE_SETS),$(patsubst %,$(B)/obj/$(1)/lib/reduce/$(set)/%.o,set $(REDUCE_INTS) $(REDUCE_FLOATS)))

# The compiler must vectorize loops of any length. gcc does so with these options. With -O3 it would, too, but take
# twice as long. -g1 describes lines and not variables, which saves a third of the remaining time. Each source
# uses some of the loops only, so unused functions are no error.
REDUCE_OPT := -O2 -g1 -ftree-vectorize $(if $(CC_IS_CLANG),,-fvect-cost-model=dynamic)
define reduce_rule
$(2): $(B)/obj/$(1)/%.o: $(3) common.mk lib/room.mk
	@mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$$(FLAGS_$(1)) $(if $(filter plain,$(1)),$$(REDUCE_OPT)) -Wno-unused-function -DINC_SET=$$(notdir $$(@D)) -DINC_SET_$$(notdir $$(@D)) \
		-DINC_TYPE=$$(notdir $$*) -c -o $$@ $$<
endef
define reduce_rules
$(call reduce_rule,$(1),$(filter %/set.o,$(call reduce_objects,$(1))),lib/reduce/set.c)
$(call reduce_rule,$(1),$(filter $(REDUCE_INTS:%=\%/%.o),$(call reduce_objects,$(1))),lib/reduce/part_int.c)
$(call reduce_rule,$(1),$(filter $(REDUCE_FLOATS:%=\%/%.o),$(call reduce_objects,$(1))),lib/reduce/part_float.c)
endef
$(foreach flavour,plain address thread,$(eval $(call reduce_rules,$(flavour))))

LIB_SRC := $(filter-out $(REDUCE_PARTS),$(wildcard lib/*/*.c))

$(eval $(call archive,$(LIB),$(call plain,$(LIB_SRC)) $(call reduce_objects,plain)))
$(eval $(call archive,$(LIB_ADDRESS),$(call address,$(LIB_SRC)) $(call reduce_objects,address)))
# Without the loops, because no fuzzer runs them, and clang does not vectorize them with the fuzzers' flags.
$(eval $(call archive,$(LIB_FUZZ),$(call fuzz,$(filter-out lib/reduce/%,$(LIB_SRC)))))

.PHONY: lib
lib: $(LIB)

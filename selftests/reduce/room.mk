# SPDX-License-Identifier: BSD-2-Clause
# The tests of lib/reduce are built twice: like the library, whose loops are vectorized, and with the sanitizers.
REDUCE_HELPERS := $(patsubst %,selftests/reduce/%.c,numbers exact harness_float_sum)

define test_reduce
$(call test_plain,reduce,$(1),$(REDUCE_HELPERS))
$(call program,$(B)/selftests/reduce/$(1)_san,$(call address,selftests/reduce/$(1).c $(REDUCE_HELPERS)) $(LIB_ADDRESS),\
	$$(TEST_LIBS),$$(SAN_ALWAYS))
TESTS_reduce += $(B)/selftests/reduce/$(1)_san
endef
$(foreach name,test_ints test_many test_order test_fixed test_sets test_example,$(eval $(call test_reduce,$(name))))

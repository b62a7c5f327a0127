# SPDX-License-Identifier: BSD-2-Clause
# Compares the natively compiled data path with the kernel's. It has sanitizers of its own, so SANITIZE builds none of
# these.
NATIVE_LIBS := $(UNIT) $(LOADER) $(LIB)
# $(call native,NAME,FLAVOUR): the objects of a program whose XDP programs are of that flavour.
native = $(call plain,selftests/native/$(1).c selftests/native/harness_native_twin.c) $(B)/obj/$(2)/selftests/native/native.o $(NATIVE_LIBS)

$(foreach name,same cases alone,\
	$(eval $(call program,$(B)/selftests/native/test_$(name),$(call native,test_$(name),native),$$(TEST_LIBS))) \
	$(eval $(call program,$(B)/selftests/native/$(name)_cov,$(call native,test_$(name),native-coverage),$$(TEST_LIBS),\
		$$(NATIVE_COVERAGE),$$(CLANG))))
# The sanitizers watch the XDP programs only, not the code to which they are compared.
$(eval $(call program,$(B)/selftests/native/test_same_san,$(call native,test_same,native-address),$$(TEST_LIBS),\
	$$(NATIVE_CHECKS),$$(CLANG)))

ifeq ($(filter-out 0,$(SANITIZE)),)
TESTS_native := $(addprefix $(B)/selftests/native/,test_same test_same_san same_cov cases_cov alone_cov)
endif

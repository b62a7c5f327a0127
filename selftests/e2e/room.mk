# SPDX-License-Identifier: BSD-2-Clause
# Programs that the tests run on a lab's hosts. The tests themselves are scripts. The programs use the public
# interface only, as a user's program would.
E2E_RPATH := -Wl,-rpath,'$$ORIGIN/../..'
$(foreach name,threads churn derive live remode forked small_stack,\
	$(eval $(call program,$(B)/selftests/e2e/$(name),$(call plain,selftests/e2e/$(name).c) $(LIB) $(B)/libinccl.so,-L$$(B) -linccl $$(E2E_RPATH) -pthread)) \
	$(eval TESTS_e2e += $(B)/selftests/e2e/$(name)))

# A library that spoils results, to be preloaded into a program.
$(call plain,selftests/fakes/libinccl_broken.c): EXTRA := -fvisibility=default
$(eval $(call program,$(B)/selftests/e2e/broken_library.so,$(call plain,selftests/fakes/libinccl_broken.c),-ldl,-shared))
TESTS_e2e += $(B)/selftests/e2e/broken_library.so

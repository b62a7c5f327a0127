# SPDX-License-Identifier: BSD-2-Clause
# The tests of lib/rdma that need no device, built with the sanitizers. Those that need one run in the virtual machine
# (selftests/vm).
$(call tests_address,rdma,test_info)
$(call tests_address,rdma,test_describe test_async,$(FAKE_VERBS))
$(call tests_address,rdma,test_place,$(call fakes,inventory))
$(call tests_address,rdma,test_cache test_watch,selftests/rdma/harness_cache.c $(call fakes,registration))

# SPDX-License-Identifier: BSD-2-Clause
# The tests of lib/rdma that need no device, built with the sanitizers. Those that need one run in the virtual machine
# (selftests/vm).
$(call tests_address,rdma,test_info test_describe test_async test_place)
$(call tests_address,rdma,test_cache test_watch,selftests/rdma/pinned.c)

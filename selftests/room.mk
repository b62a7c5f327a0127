# SPDX-License-Identifier: BSD-2-Clause
# The targets of the tests, one room per suite. selftests/SUITE/room.mk adds to TESTS_SUITE.
SUITES := unit native reduce rdma term control switchd hostlib connect nccl fuzz orders sim e2e vm benchmarks tools
include $(SUITES:%=selftests/%/room.mk)

.PHONY: selftests $(SUITES:%=selftests/%)
selftests: $(SUITES:%=selftests/%)
$(foreach suite,$(SUITES),$(eval selftests/$(suite): $(TESTS_$(suite))))

# SPDX-License-Identifier: BSD-2-Clause
# The targets of the tests, one room per suite. selftests/SUITE/room.mk adds to TESTS_SUITE.
SUITES := unit native reduce rdma term control switchd hostlib connect nccl mpi fuzz orders sim e2e vm benchmarks tools

# $(call fakes,NAMES): sources of selftests/fakes, which stand for what is outside the code under test.
fakes = $(patsubst %,selftests/fakes/%.c,$(1))
# RDMA devices, which replace libibverbs' functions.
FAKE_VERBS := $(call fakes,verbs_devices verbs_objects verbs_queue_pairs verbs_wire)

include $(SUITES:%=selftests/%/room.mk)

.PHONY: selftests $(SUITES:%=selftests/%)
selftests: $(SUITES:%=selftests/%)
$(foreach suite,$(SUITES),$(eval selftests/$(suite): $(TESTS_$(suite))))

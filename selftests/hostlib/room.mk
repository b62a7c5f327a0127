# SPDX-License-Identifier: BSD-2-Clause
# The library's tests that need no switch, built with the sanitizers, because the library parses input from other
# machines.
hostlib_test = $(call tests_address,hostlib,$(1),$(patsubst %,selftests/hostlib/%.c,$(2)) $(3))
FAKE_SWITCH := $(call fakes,switch switch_messages controller rc_peer) selftests/hostlib/soft_endpoint.c
RANK := selftests/hostlib/fixture_rank.c selftests/hostlib/soft_endpoint.c $(call fakes,controller rc_peer)

$(call hostlib_test,test_parsers,,hostlib/tools/npy.c)
$(call hostlib_test,test_rto test_lines test_spin)
$(call hostlib_test,test_soft_open,,$(INCCL_SRC))
$(call hostlib_test,test_api test_derive test_resume test_descriptors test_job_names test_turned_away,,$(call fakes,controller) $(INCCL_SRC))
$(call hostlib_test,test_soft test_soft_full test_soft_acks test_probes test_reorder test_segments test_lengths,soft_endpoint,$(call fakes,rc_peer) $(INCCL_SRC))
$(call hostlib_test,test_coll test_coll_types test_coll_args test_float_order,,$(FAKE_SWITCH) $(INCCL_SRC))
$(call hostlib_test,test_node,,$(INCCL_SRC))
$(call hostlib_test,test_floats,float_data,$(FAKE_SWITCH) $(INCCL_SRC))
$(call hostlib_test,test_modes,,$(FAKE_SWITCH) selftests/reduce/numbers.c $(INCCL_SRC))
$(call hostlib_test,test_told test_promises test_fork test_negotiated,,$(RANK) $(INCCL_SRC))
$(call hostlib_test,test_perf_check,,selftests/reduce/numbers.c $(patsubst %,hostlib/tools/perf_%.c,data coll float) $(INCCL_SRC))

# These tests cancel threads, which the address sanitizer does not support, or limit the address space, of which it
# needs much. So they are built without it.
$(call tests_plain,hostlib,test_progress test_realtime,$(RANK) $(INCCL_SRC))
$(call tests_plain,hostlib,test_coll_threads,$(FAKE_SWITCH) $(INCCL_SRC))
$(call tests_plain,hostlib,test_long,$(call fakes,transport) $(FAKE_SWITCH) $(INCCL_SRC))

# A program that loads the library as it was built.
$(eval $(call program,$(B)/selftests/hostlib/names,$(call plain,selftests/hostlib/names.c),-ldl))
TESTS_hostlib += $(B)/selftests/hostlib/names

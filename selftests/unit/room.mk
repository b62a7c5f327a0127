# SPDX-License-Identifier: BSD-2-Clause
# The XDP programs under BPF_PROG_TEST_RUN, compared with a reference in C.
UNIT_COMMON := $(patsubst %,selftests/unit/%.c,frame report ref_switch ref_comm ref_element unit packets compare egress stream \
	misuse cases cases_header cases_protocol cases_link cases_gap cases_reduce cases_types cases_tree cases_edges)
UNIT := $(B)/obj/plain/selftests/unit.a

$(eval $(call archive,$(UNIT),$(call plain,$(UNIT_COMMON))))

define test_unit
$(call program,$(B)/selftests/unit/$(1),$(call plain,selftests/unit/$(1).c $(2)) $(UNIT) $(LOADER) $(LIB),$$(TEST_LIBS))
TESTS_unit += $(B)/selftests/unit/$(1)
endef
$(foreach name,test_frame test_xdp_cases test_xdp_random test_xdp_parallel test_xdp_race test_xdp_stress test_xdp_live test_room,\
	$(eval $(call test_unit,$(name))))
$(eval $(call test_unit,test_packet,userspace/xdp/packet.c))

# The skeleton is generated. This line makes a first build generate it before the compiler reads it.
$(call plain,selftests/unit/egress.c): $(B)/inc_xdp_test.skel.h

# SPDX-License-Identifier: BSD-2-Clause
# A libFuzzer program for each parser (fuzz.h). clang builds its objects with coverage and the sanitizers. SANITIZE
# builds none of them, because they have sanitizers already.
FUZZ_SEEN := $(patsubst %,hostlib/connect/%.c,config figures flow peers protocol select state)

# FUZZ_target: the sources that the target tests, besides those of lib/. Other variables of a target name the functions
# that its program replaces, and the parts of the loader that it needs.
FUZZ_topology :=
FUZZ_tables :=
FUZZ_switch_file := $(patsubst %,userspace/%.c,config config_default instance settings)
LOADER_switch_file := $(LOADER)
FUZZ_connect_file := $(FUZZ_SEEN)
FUZZ_connect_lines := $(FUZZ_SEEN)
FUZZ_answers := $(filter-out %/incctl.c,$(INCCTL_SRC))
FUZZ_controller := $(FUZZ_switch_file) $(filter-out controller/main.c,$(CONTROLLER_SRC)) \
	$(call fakes,tls_hostile)
LOADER_controller := $(LOADER)
FUZZ_nccl := $(patsubst %,hostlib/nccl/%.c,control_msg handle iflist)
FUZZ_data_path := selftests/native/native.c $(patsubst %,selftests/sim/%.c,sim xdp_maps) \
	$(patsubst %,selftests/unit/%.c,ref_switch ref_comm ref_element frame packets report) \
	$(patsubst %,loader/%.c,inc_comm inc_comm_plan inc_port inc_range inc_state inc_steer inc_crc_tables inc_counters)
WRAP_data_path := $(call wrapped,if_indextoname)
FUZZ_packet :=
FUZZ_soft_switch := $(patsubst %,selftests/fakes/%.c,memory_os rc_peer)
FUZZ_soft_host := $(FUZZ_soft_switch) $(patsubst %,hostlib/src/%.c,endpoint path_mtu verbs_config env)
FUZZ_scrape :=
FUZZ_values :=
FUZZ_keys :=
FUZZ_tls :=
FUZZ_tls_beside := $(call fakes,tls_hostile)
FUZZ_npy := hostlib/tools/npy.c

# alignment is not checked in the XDP programs, because frames begin at any address and are read in words
$(call fuzz,selftests/native/native.c): EXTRA := -Iselftests/fakes -Wno-address-of-packed-member -Wno-unused-function \
	-fno-sanitize=alignment,null,object-size -Wno-missing-prototypes -Wno-shadow -Wno-pointer-arith

FUZZ_TARGETS := $(patsubst selftests/fuzz/fuzz_%.c,%,$(wildcard selftests/fuzz/fuzz_*.c))
$(foreach target,$(FUZZ_TARGETS),$(eval $(call program,$(B)/selftests/fuzz/fuzz_$(target),\
	$(call fuzz,selftests/fuzz/fuzz_$(target).c selftests/fuzz/fuzz.c $(FUZZ_$(target))) $(LOADER_$(target)) $(LIB_FUZZ),$$(TEST_LIBS),\
	-fsanitize=fuzzer $(FUZZ_CHECKS) $(WRAP_$(target)),$$(CLANG))))

ifeq ($(SANITIZE),)
TESTS_fuzz := $(FUZZ_TARGETS:%=$(B)/selftests/fuzz/fuzz_%)
endif

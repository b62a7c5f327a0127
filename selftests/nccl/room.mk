# SPDX-License-Identifier: BSD-2-Clause
# The network plugin. Its state machines need no device, and its other parts run over fake devices, both with the
# sanitizers. The exhaustive searches are built without sanitizers, because they visit millions of states.
nccl = $(patsubst %,hostlib/nccl/%.c,$(1))
nccl_test = $(call tests_address,nccl,$(1),$(patsubst %,selftests/nccl/%.c,$(2)) $(3))

# ---- state machines ----

NCCL_MACHINES := $(call nccl,control_msg end sender receiver)
$(call nccl_test,test_protocol test_sender test_receiver,,$(NCCL_MACHINES))
$(call nccl_test,test_walk,harness_ends harness_ends_events,$(NCCL_MACHINES))
# The random walk has a larger model than the exhaustive search, which is built without sanitizers.
$(call address,$(patsubst %,selftests/nccl/%.c,harness_ends harness_ends_events test_walk)): EXTRA := -DENDS_LARGE
$(call tests_plain,nccl,test_orders,$(patsubst %,selftests/nccl/%.c,harness_ends harness_ends_events) $(NCCL_MACHINES))

# ---- parts ----

$(call nccl_test,test_choose,,$(call nccl,choose iflist))
$(call nccl_test,test_config,,$(call nccl,keys))
$(call nccl_test,test_handle,,$(call nccl,handle))
$(call nccl_test,test_tcp,,$(call nccl,tcp iflist))
$(call nccl_test,test_bringup test_bringup_ends,,$(call nccl,bringup))
$(call nccl_test,test_path,harness_two_paths,$(call nccl,path choose devices iflist control_msg) $(FAKE_VERBS))
$(call nccl_test,test_region,,$(call nccl,memory) $(FAKE_VERBS))
# The whole plugin except NCCL's tables.
$(call nccl_test,test_comm test_comm_breaks test_comm_ways,harness_flow,$(filter-out %/plugin.c,$(PLUGIN_SRC)) $(FAKE_VERBS))

# The plugin with NCCL's tables, called by ha-nccl-perf's code.
$(call nccl_test,test_calls,,$(PLUGIN_SRC) $(patsubst %,hostlib/tools/ha_perf_%.c,net stream survey verify) $(FAKE_VERBS))

# A test that loads the plugin as it is installed.
$(call tests_plain,nccl,test_tables)

# A plugin for test_driver.
$(eval $(call program,$(B)/selftests/nccl/libnccl-net-socket.so,$(call plain,selftests/fakes/nccl_net_socket.c),,\
	-shared -Wl$$(comma)-soname$$(comma)libnccl-net-socket.so))
TESTS_nccl += $(B)/selftests/nccl/libnccl-net-socket.so

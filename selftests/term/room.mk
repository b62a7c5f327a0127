# SPDX-License-Identifier: BSD-2-Clause
# Tests of the termination engine, under the sanitizers. They need no device. The tests that try every order of events
# are built without sanitizers as well, because they try millions of orders.
TERM_HELPERS := $(addprefix selftests/,$(patsubst %,term/%.c,harness_node harness_paths harness_states ref_floats) unit/ref_element.c reduce/numbers.c)
TERM_NODE := $(addprefix userspace/,term/node.c term/slot.c term/error_text.c term/arithmetic.c call.c)
# A communicator, and the engine, with endpoints in memory.
TERM_COMM := $(addprefix userspace/term/,comm.c comm_run.c comm_view.c devices.c worker.c pool.c)
TERM_ENGINE := $(addprefix userspace/term/,term_engine.c capabilities.c notices.c) userspace/settings.c

$(call tests_address,term,test_collectives test_mismatch test_deaths test_random test_node,$(TERM_HELPERS) $(TERM_NODE))
$(eval $(call program,$(B)/selftests/term/test_orders_san,\
	$(call address,selftests/term/test_orders.c $(TERM_HELPERS) $(TERM_NODE)) $(LIB_ADDRESS),$$(TEST_LIBS),$$(SAN_ALWAYS)))
$(call tests_plain,term,test_orders,$(TERM_HELPERS) $(TERM_NODE))
$(call tests_address,term,test_form test_comm,selftests/term/fixture_comm.c $(call fakes,channel) $(TERM_HELPERS) $(TERM_COMM) $(TERM_NODE))
$(call tests_address,term,test_engine,$(call fakes,channel) $(TERM_ENGINE) $(TERM_COMM) $(TERM_NODE))
$(call tests_address,term,test_soft_wrong test_soft_answers test_soft_fuzz,selftests/term/soft_lone.c $(call fakes,memory_os rc_peer))
$(call tests_address,term,test_soft_mirror,$(call fakes,rc_peer))
$(call tests_address,term,test_verbs,$(FAKE_VERBS))
$(call tests_address,term,test_lost_acks test_soft_ports,$(call fakes,rc_peer) $(TERM_COMM) $(TERM_NODE))
$(call tests_address,term,test_crc test_ip_id test_awake)
$(call tests_address,term,test_ingress,$(call fakes,rc_peer))
$(call tests_address,term,test_soft_pair,selftests/term/harness_device_pair.c $(call fakes,lossy_udp))
$(call tests_address,term,test_soft_host,$(call fakes,lossy_udp) $(INCCL_SRC))

# The engine's threads under the thread sanitizer, in a program that shares no objects with the others.
$(eval $(call program,$(B)/selftests/term/engine_tsan,$(call thread,selftests/term/test_engine.c $(call fakes,channel) $(TERM_ENGINE) $(TERM_COMM) $(TERM_NODE) \
	$(addprefix lib/,$(patsubst %,base/%.c,err errno_name log machine os printable random spin thread) conf/ranks.c conf/comm_conf.c conf/event_kind.c metric/metric.c) \
	$(filter lib/reduce/%,$(LIB_SRC))) $(call reduce_objects,thread),$$(TEST_LIBS),$$(SAN_THREAD)))
$(B)/selftests/term/engine_tsan: LDFLAGS_ALL := $(filter-out $(SAN_ADDRESS),$(LDFLAGS_ALL))

TESTS_term += $(addprefix $(B)/selftests/term/,test_orders_san engine_tsan)

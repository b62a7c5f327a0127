# SPDX-License-Identifier: BSD-2-Clause
# Tests of the controller's parts, and two controllers for tests that are scripts. One is built with the sanitizers,
# because it reads bytes of other programs. The database of the other one fails when a test asks for that.
ROUTE_SRC := $(patsubst %,controller/core/%.c,graph route route_search route_tree route_ways tree)

$(call tests_plain,control,test_lib test_log_unread test_histogram test_schema test_listen test_race test_tls test_tls_key)
$(call tests_plain,control,test_tls_link,$(call fakes,tls_hostile))
$(call tests_plain,control,test_route test_route_room,selftests/control/tree_check.c $(ROUTE_SRC))
$(call tests_plain,control,test_route_random,selftests/control/tree_check.c selftests/control/fabric.c $(ROUTE_SRC))
$(call tests_plain,control,test_core,$(call fakes,core_peers core_peers_hash core_messages core_database) $(wildcard controller/core/*.c) \
	$(patsubst %,controller/store/%.c,write_rows restore rows))

$(eval $(call program,$(B)/selftests/control/inc-controller-san,$(call address,$(CONTROLLER_SRC)) $(LIB_ADDRESS),$$(TEST_LIBS),$$(SAN_ALWAYS)))
$(eval $(call program,$(B)/selftests/control/inc-controller-fault,$(call plain,$(call fakes,disk_vfs) $(CONTROLLER_SRC)) $(LIB),$$(TEST_LIBS)))
$(eval $(call program,$(B)/selftests/control/tls_hostile_client,$(call plain,$(call fakes,tls_hostile tls_hostile_client)) $(LIB),$$(TEST_LIBS)))
$(eval $(call program,$(B)/selftests/control/switch_figures,\
	$(call plain,selftests/control/switch_figures.c userspace/figures.c userspace/interface.c) $(LOADER) $(LIB),$$(TEST_LIBS)))

TESTS_control += $(addprefix $(B)/selftests/control/,inc-controller-san inc-controller-fault tls_hostile_client switch_figures)

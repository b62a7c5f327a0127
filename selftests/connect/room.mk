# SPDX-License-Identifier: BSD-2-Clause
# The parts of the connection service that need no device, built with the sanitizers.
connect = $(patsubst %,hostlib/connect/%.c,$(1))
CONNECT_ROOM := $(call connect,config figures flow peers protocol select state)
connect_test = $(call tests_address,connect,$(1),$(patsubst %,selftests/connect/%.c,$(2)) $(CONNECT_ROOM) $(3))

$(call connect_test,test_flow test_select test_figures test_peers test_protocol)
$(call connect_test,test_state test_two_sides,model_side)
$(call connect_test,test_config test_document,document)
# Tests with an event loop. They replace devices and sockets by fakes.
$(call connect_test,test_service test_service_bounds test_open test_rtr test_counts,harness_service,\
	$(call fakes,inventory connect_socket) $(call connect,accept call client context question request rtr service))
# Tests with fake devices, which replace libibverbs' functions.
$(call connect_test,test_socket test_socket_ends,harness_socket_sides,\
	$(FAKE_VERBS) $(call connect,socket socket_data socket_progress socket_region))

# The fake library for test_tool. It has the symbol versions of the real one, so that inc-connect accepts it.
FAKE_CONNECT := $(B)/selftests/connect/fake/libinc_connect.so.0
$(call plain,selftests/fakes/libinc_connect.c): EXTRA := -fvisibility=default
$(eval $(call program,$(FAKE_CONNECT),$(call plain,selftests/fakes/libinc_connect.c) hostlib/libinc_connect.map,-levent_core,\
	-shared -Wl$$(comma)-soname$$(comma)libinc_connect.so.0 -Wl$$(comma)--version-script=hostlib/libinc_connect.map))

TESTS_connect += $(FAKE_CONNECT)

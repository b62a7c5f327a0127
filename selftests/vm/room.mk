# SPDX-License-Identifier: BSD-2-Clause
# Programs that run in the virtual machine. The test_* scripts here boot it. The programs link the objects of the
# rooms, because libraries hide the internal functions that they call.
vm_program = $(call tests_plain,vm,$(1),$(patsubst %,selftests/vm/%.c,$(2)) $(3))

$(call vm_program,verbs_loop,verbs_memory,$(patsubst %,hostlib/src/%.c,endpoint path_mtu verbs_config))
$(call vm_program,rdma_live,rdma_pair rdma_side rdma_ends)
# The endpoints of a termination switch, soft and on verbs.
$(call vm_program,term_verbs,rdma_ends,selftests/term/harness_device_pair.c)
$(call vm_program,connect_socket,rdma_ends,$(patsubst %,hostlib/connect/%.c,socket socket_data socket_progress socket_region \
	flow state select config protocol figures))
$(call vm_program,nccl_path,rdma_ends,selftests/nccl/harness_two_paths.c $(patsubst %,hostlib/nccl/%.c,path devices choose iflist control_msg))

# These use the public interface only.
$(eval $(call program,$(B)/selftests/vm/connect_live,\
	$(call plain,$(patsubst %,selftests/vm/connect_%.c,live sides resources relay messages end raw many)) $(LIB) $(B)/libinc_connect.so,\
	-L$$(B) -linc_connect $$(E2E_RPATH) $(EVENT_LIBS) -lcmocka -lpthread))
TESTS_vm += $(B)/selftests/vm/connect_live

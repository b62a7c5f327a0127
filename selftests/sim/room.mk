# SPDX-License-Identifier: BSD-2-Clause
# The simulation (docs/simulation.md): the product's own objects, and objects of the simulation in place of those that
# use the kernel. There is no sanitizer, because coroutines do not work with one.
SIM := $(B)/obj/plain/selftests/sim
sim = $(call plain,$(patsubst %,selftests/sim/%.c,$(1)))
SIM_XDP := $(B)/obj/native/selftests/sim/xdp.o
SIM_UNIT := $(call plain,$(patsubst %,selftests/unit/%.c,report frame ref_element))
SIM_OWN := $(call sim,main seeds sim task descriptor locks memory wire host rdma_device rdma_queue rdma_requester rdma_responder tcp neighbour watch collective \
	scenario scenario_draw scenario_devices xdp_maps database cluster cluster_controller \
	cluster_faults cluster_forge cluster_hostile cluster_kernel cluster_move cluster_rank cluster_reason cluster_switch \
	cluster_tree) $(SIM)/native_floats.o $(call plain,selftests/hostlib/float_data.c selftests/fakes/tls_hostile.c) $(SIM_UNIT)
SIM_HOST := $(call plain,$(patsubst %,hostlib/src/%.c,caller_log channels collective comm control derive endpoint env group names progress resume stall \
	util verbs_config) $(wildcard hostlib/src/coll/*.c hostlib/node/*.c))
SIM_SWITCH := $(call plain,$(patsubst %,userspace/xdp/%.c,failure packet port resend response slowpath stale_nak whereabouts xdp_engine) \
	$(patsubst %,userspace/term/%.c,arithmetic capabilities comm comm_run comm_view devices error_text node notices pool slot term_engine worker) \
	$(patsubst %,userspace/%.c,addresses call config config_default configured daemon engine event figures ports query settings switch_client) \
	$(patsubst %,loader/%.c,inc_adopt inc_comm inc_comm_plan inc_crc_tables inc_port inc_range inc_state inc_steer))
SIM_CONTROL := $(call plain,$(filter-out controller/main.c,$(CONTROLLER_SRC)))
# eventfd() to accept4() record whose a descriptor is.
SIM_WRAP := $(call wrapped,eventfd epoll_create1 pipe2 close accept4 if_indextoname if_nametoindex getifaddrs freeifaddrs inc_interface_find \
	inc_interface_at inc_interface_mac inc_interface_mtu malloc calloc realloc free strdup pthread_join pthread_detach pthread_mutex_init pthread_mutex_destroy \
	pthread_mutex_lock pthread_mutex_unlock pthread_cond_init pthread_cond_destroy pthread_cond_wait pthread_cond_timedwait \
	pthread_cond_broadcast pthread_cond_signal pthread_self getpid gethostname sigaction inc_event_notice inc_persist_start inc_log inc_ndjson_new \
	inc_ndjson_drain_stop SSL_CTX_new SSL_CTX_free SSL_new SSL_free)
# The simulation's own memory does not belong to a simulated process.
SIM_OWN_MEMORY := $(foreach f,malloc calloc realloc free strdup,--redefine-sym $(f)=__real_$(f))

# Two references of floats have symbols with the same names.
$(SIM)/native_floats.o: $(call sim,native) $(call plain,selftests/reduce/numbers.c)
	$(call say,LD,$@)
	$(Q)$(LD) -r -o $@.all $^
	$(Q)objcopy --keep-global-symbol=collective_native $@.all $@
	$(Q)rm $@.all

$(SIM)/own.o: $(SIM_OWN)
	$(call say,LD,$@)
	$(Q)$(LD) -r -o $@.all $^
	$(Q)objcopy $(SIM_OWN_MEMORY) $@.all $@
	$(Q)rm $@.all

$(SIM)/controller_main.o: $(call plain,controller/main.c)
	@mkdir -p $(@D)
	$(call say,OBJCOPY,$@)
	$(Q)objcopy --redefine-sym main=inc_controller_main --redefine-sym printf=cluster_say $< $@

# LIB's own base/thread.o is not linked, because the simulation defines what it offers.
$(eval $(call program,$(B)/sim,$(SIM)/own.o $(SIM_XDP) $(SIM)/controller_main.o $(SIM_HOST) $(SIM_SWITCH) $(SIM_CONTROL) $(LIB),\
	-Wl$$(comma)-Bstatic $(LIBEVENT) -Wl$$(comma)-Bdynamic $(LIB_LIBS) -libverbs -lsqlite3 -lm -lpthread,$(SIM_WRAP)))

ifeq ($(filter-out 0,$(SANITIZE)),)
# The simulation needs libevent as a static library. Where that library is missing, the tests report it.
TESTS_sim := $(if $(filter /%,$(shell $(CC) -print-file-name=libevent_core.a 2>/dev/null)),$(B)/sim)
endif

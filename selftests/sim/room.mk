# SPDX-License-Identifier: BSD-2-Clause
# The simulation (docs/simulation.md): the product's own objects, and objects of the simulation in place of those that
# use the kernel. There is no sanitizer, because coroutines do not work with one.
SIM := $(B)/obj/plain/selftests/sim
sim = $(call plain,$(patsubst %,selftests/sim/%.c,$(1)))
SIM_XDP := $(B)/obj/native/selftests/sim/xdp.o
SIM_SHARED := $(call sim,seeds sim task wire host xdp_maps neighbour) $(SIM_XDP)
SIM_TREE := $(SIM_SHARED) $(call sim,main daemon tree tree_plan tree_rank tree_control tree_check tree_kernel tree_term tree_death tree_move tree_forge \
	tree_call) $(SIM)/native_floats.o $(call plain,selftests/hostlib/float_data.c)
SIM_UNIT := $(call plain,$(patsubst %,selftests/unit/%.c,report frame ref_element))
SIM_HOST := $(call plain,$(patsubst %,hostlib/src/%.c,caller_log collective comm env group names progress \
	endpoint util verbs_config) $(wildcard hostlib/src/coll/*.c))
SIM_SWITCH := $(call plain,$(patsubst %,userspace/xdp/%.c,slowpath port resend stale_nak failure response whereabouts packet) \
	userspace/call.c $(patsubst %,loader/%.c,inc_comm inc_comm_plan inc_map inc_port inc_range inc_state \
	inc_crc_tables))
SIM_TERM := $(call plain,$(patsubst %,userspace/term/%.c,arithmetic comm comm_run comm_view devices error_text node pool \
	slot worker))
SIM_WRAP := $(call wrapped,ppoll eventfd timerfd_create timerfd_settime close clock_gettime getrandom \
	pthread_join sendmmsg if_indextoname)
SIM_TREE_WRAP := $(SIM_WRAP) $(call wrapped,socket setsockopt sendto ioctl epoll_create1 epoll_ctl epoll_wait \
	if_nametoindex inc_interface_find inc_interface_at inc_log)

# With the controller, the switch's daemon and libevent. libevent's system calls are replaced.
SIM_CLUSTER := $(SIM_SHARED) $(call sim,cluster_main cluster cluster_faults cluster_hostile cluster_rank cluster_switch cluster_kernel cluster_controller locks \
	memory tcp tcp_calls) $(call plain,selftests/fakes/tls_hostile.c)
SIM_CONTROL := $(SIM_HOST) $(call plain,$(patsubst %,hostlib/src/%.c,control derive resume)) $(SIM_SWITCH) \
	$(call plain,$(patsubst %,userspace/%.c,daemon config config_default settings configured addresses switch_client query \
	figures event engine ports xdp/xdp_engine) loader/inc_adopt.c $(filter-out controller/main.c,$(CONTROLLER_SRC)))
SIM_CLUSTER_WRAP := $(SIM_WRAP) $(call wrapped,poll socket bind listen accept4 connect getsockopt setsockopt \
	getsockname getpeername shutdown fcntl ioctl pipe2 send sendto sendmsg recv read write readv writev malloc calloc realloc free strdup \
	pthread_mutex_init pthread_mutex_destroy pthread_mutex_lock pthread_mutex_unlock pthread_cond_init \
	pthread_cond_destroy pthread_cond_wait pthread_cond_timedwait pthread_cond_broadcast pthread_self getpid \
	gethostname gettimeofday time sigaction if_nametoindex inc_interface_mtu inc_persist_start inc_log inc_ndjson_new inc_ndjson_drain_stop bufferevent_setwatermark sqlite3_open_v2 sqlite3_step \
	sqlite3_close SSL_CTX_new SSL_CTX_free SSL_new SSL_free)
# The simulation's own memory does not belong to a simulated process.
SIM_OWN_MEMORY := $(foreach f,malloc calloc realloc free strdup,--redefine-sym $(f)=__real_$(f))

# LIB's own roce/udp.o and base/thread.o are not linked, because the simulation defines what they offer.
$(eval $(call program,$(B)/sim,$(SIM_TREE) $(SIM_UNIT) $(SIM_HOST) $(SIM_SWITCH) $(SIM_TERM) $(LIB),$(LIB_LIBS) -lm -lpthread,$(SIM_TREE_WRAP)))

# The two references of floats have symbols with the same names.
$(SIM)/native_floats.o: $(call sim,tree_native) $(call plain,selftests/reduce/numbers.c)
	$(call say,LD,$@)
	$(Q)$(LD) -r -o $@.all $^
	$(Q)objcopy --keep-global-symbol=tree_native_reduce $@.all $@
	$(Q)rm $@.all

$(SIM)/cluster_own.o: $(SIM_CLUSTER) $(SIM_UNIT)
	$(call say,LD,$@)
	$(Q)$(LD) -r -o $@.all $^
	$(Q)objcopy $(SIM_OWN_MEMORY) $@.all $@
	$(Q)rm $@.all

$(SIM)/controller_main.o: $(call plain,controller/main.c)
	@mkdir -p $(@D)
	$(call say,OBJCOPY,$@)
	$(Q)objcopy --redefine-sym main=inc_controller_main --redefine-sym printf=cluster_say $< $@

$(eval $(call program,$(B)/sim-cluster,$(SIM)/cluster_own.o $(SIM)/controller_main.o $(SIM_CONTROL) $(LIB),\
	-Wl$$(comma)-Bstatic $(LIBEVENT) -Wl$$(comma)-Bdynamic $(LIB_LIBS) -lsqlite3 -lm -lpthread,$(SIM_CLUSTER_WRAP)))

ifeq ($(filter-out 0,$(SANITIZE)),)
# sim-cluster needs libevent as a static library. Where that library is missing, the tests report it.
TESTS_sim := $(B)/sim $(if $(filter /%,$(shell $(CC) -print-file-name=libevent_core.a 2>/dev/null)),$(B)/sim-cluster)
endif

# SPDX-License-Identifier: BSD-2-Clause
# libinccl (shared and static), libinc_connect (shared), the plugin of NCCL, tools and examples.
INCCL_VERSION := $(shell sed -n 's/^.define INCCL_VERSION_[A-Z]* //p' hostlib/include/inccl.h | paste -sd.)
INCCL_SONAME := libinccl.so.0
INCCL_SRC := $(wildcard hostlib/src/*.c hostlib/src/coll/*.c hostlib/node/*.c)
INCCL_LIBS := -ljansson -lisal -libverbs -lpthread $(TLS_LIBS)

CONNECT_SONAME := libinc_connect.so.0
CONNECT_SRC := $(wildcard hostlib/connect/*.c)
# The caller owns the event base, so libevent is a library that the caller sees as well.
CONNECT_LIBS := -ljansson -lyaml $(EVENT_LIBS) -libverbs -lpthread

# NCCL loads the plugin by this name (NCCL_NET_PLUGIN=ha), and the plugin links nothing of NCCL.
PLUGIN := libnccl-net-ha.so
PLUGIN_SRC := $(wildcard hostlib/nccl/*.c)

# What a library takes from lib/ is linked into the library and stays hidden. nodelete: a library stays
# loaded, because the look-up of a name that its caller has given up still runs in the library, and because
# before version 11 of NCCL's interface nothing ends the plugin's threads ahead of dlclose().
define hostlib_library
$(call program,$(B)/$(1),$(call plain,$(2)) $(LIB) hostlib/$(3),-Wl$$(comma)--as-needed $(4),-shared \
	-Wl$$(comma)-soname$$(comma)$(1) -Wl$$(comma)--version-script=hostlib/$(3) -Wl$$(comma)-z$$(comma)defs -Wl$$(comma)-z$$(comma)nodelete -Wl$$(comma)--exclude-libs$$(comma)ALL)
endef
$(eval $(call hostlib_library,$(INCCL_SONAME),$(INCCL_SRC),libinccl.map,$$(INCCL_LIBS)))
$(eval $(call hostlib_library,$(CONNECT_SONAME),$(CONNECT_SRC),libinc_connect.map,$$(CONNECT_LIBS)))
$(eval $(call hostlib_library,$(PLUGIN),$(PLUGIN_SRC),libnccl-net-ha.map,-libverbs -lpthread))

# The front end for MPI, which is preloaded into programs of Open MPI. It is built where Open MPI's headers are.
$(eval $(call program,$(B)/libinccl-mpi.so,$(patsubst %.c,$(B)/obj/openmpi/%.o,$(wildcard hostlib/mpi/*.c)) $(LIB) $(B)/libinccl.so \
	hostlib/libinccl-mpi.map,-L$$(B) -linccl -L$(OPENMPI_LIB) -lmpi -lpthread,-shared -Wl$(comma)-soname$(comma)libinccl-mpi.so \
	-Wl$(comma)--version-script=hostlib/libinccl-mpi.map -Wl$(comma)-z$(comma)defs -Wl$(comma)--exclude-libs$(comma)ALL $$(HOSTLIB_RPATH)))
.PHONY: hostlib-mpi hostlib-no-mpi
hostlib-mpi: $(B)/libinccl-mpi.so
hostlib-no-mpi:
	@echo "  SKIP     libinccl-mpi.so: no mpi.h of Open MPI (package libopenmpi-dev, or scripts/install-deps mpi)"

$(B)/%.so: $(B)/%.so.0
	$(Q)ln -sf $(<F) $@

# The static library is one object in which all names but the public ones are local.
$(B)/libinccl.a: $(call plain,$(INCCL_SRC)) $(LIB) hostlib/libinccl.map
	$(call say,AR,$@)
	$(Q)$(CC) -r -nostdlib -o $(B)/obj/libinccl.o $(filter %.o %.a,$^)
	$(Q)sed -n 's/^\t\(inccl_[a-z_]*\);/\1/p' hostlib/libinccl.map > $(B)/obj/libinccl.public
	$(Q)objcopy --keep-global-symbols=$(B)/obj/libinccl.public $(B)/obj/libinccl.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(B)/obj/libinccl.o

# The tools use the public interface, and the programs' helpers of lib/. They find the library where it
# is built and where it is installed, whatever ldconfig knows. (A distribution's packages need no such path.)
HOSTLIB_RPATH := -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib'
tool = $(call plain,$(patsubst %,hostlib/tools/%.c,$(1)))
define hostlib_tool
$(call program,$(B)/$(1),$(2) $(LIB) $(B)/lib$(3).so,-L$$(B) -l$(3) $$(HOSTLIB_RPATH) -ljansson -lm $(4))
endef
$(eval $(call hostlib_tool,inccl-perf,$(call tool,inccl-perf perf_opts perf_coll perf_data perf_float job),inccl))
$(eval $(call hostlib_tool,inccl-reduce,$(call tool,inccl-reduce npy job),inccl))
$(eval $(call hostlib_tool,inccl-digits,$(call plain,$(wildcard hostlib/examples/digits/*.c)) $(call tool,npy job),inccl))
$(eval $(call hostlib_tool,inc-connect,$(call tool,inc-connect connect_serve connect_try connect_measure connect_print),inc_connect,$(EVENT_LIBS)))
# This one loads a plugin by name, and links none.
$(eval $(call program,$(B)/ha-nccl-perf,$(call tool,ha_nccl_perf $(notdir $(basename $(wildcard hostlib/tools/ha_perf_*.c)))) $(LIB),-ljansson -ldl))

# The examples are built as a user builds them: with the public header and the library only.
define example
$(B)/examples/$(1): hostlib/examples/$(1).c hostlib/include/$(2).h $(B)/lib$(2).so
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(filter-out -I% -MMD -MP,$$(CFLAGS_ALL)) -Ihostlib/include $$(LDFLAGS_ALL) -o $$@ $$< -L$$(B) -l$(2) $(3) -Wl,-rpath,'$$$$ORIGIN/..'
endef
$(eval $(call example,sum,inccl))
$(eval $(call example,hello,inc_connect,-levent_core))

$(B)/digits.csv: hostlib/examples/digits/digits.csv
	$(Q)mkdir -p $(@D) && cp $< $@

HOSTLIB_TOOLS := inccl-perf inccl-reduce inc-connect ha-nccl-perf
PC_FILES := $(notdir $(patsubst %.in,%,$(wildcard hostlib/*.pc.in)))
HEADERS := $(notdir $(wildcard hostlib/include/*.h))
SUM_C := share/doc/libinccl/examples/sum.c
HELLO_C := share/doc/libinc_connect/examples/hello.c

.PHONY: hostlib install-hostlib uninstall-hostlib
hostlib: $(addprefix $(B)/,$(INCCL_SONAME) libinccl.so libinccl.a libinc_connect.so $(PLUGIN) $(HOSTLIB_TOOLS) inccl-digits digits.csv \
	examples/sum examples/hello) $(if $(OPENMPI_H),hostlib-mpi,hostlib-no-mpi)

install-hostlib: hostlib
	$(Q)install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/bin
	$(Q)for so in $(INCCL_SONAME) $(CONNECT_SONAME); do \
		install -m 755 $(B)/$$so $(DESTDIR)$(LIBDIR)/$$so && \
		ln -sf $$so $(DESTDIR)$(LIBDIR)/$${so%.0} || exit 1; done
	$(Q)install -m 755 $(B)/$(PLUGIN) $(DESTDIR)$(LIBDIR)/$(PLUGIN)
	$(if $(OPENMPI_H),$(Q)install -m 755 $(B)/libinccl-mpi.so $(DESTDIR)$(LIBDIR)/libinccl-mpi.so)
	$(Q)install -m 644 $(B)/libinccl.a $(DESTDIR)$(LIBDIR)/libinccl.a
	$(Q)for pc in $(PC_FILES); do \
		sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|' -e 's|@VERSION@|$(INCCL_VERSION)|' \
			-e 's|@LIBS_PRIVATE@|$(filter -l%,$(INCCL_LIBS))|' hostlib/$$pc.in \
			> $(DESTDIR)$(LIBDIR)/pkgconfig/$$pc || exit 1; done
	$(Q)install -m 644 $(addprefix hostlib/include/,$(HEADERS)) $(DESTDIR)$(PREFIX)/include/
	$(Q)install -m 755 $(addprefix $(B)/,$(HOSTLIB_TOOLS)) $(DESTDIR)$(PREFIX)/bin/
	$(Q)install -D -m 644 hostlib/examples/sum.c $(DESTDIR)$(PREFIX)/$(SUM_C)
	$(Q)install -D -m 644 hostlib/examples/hello.c $(DESTDIR)$(PREFIX)/$(HELLO_C)

uninstall-hostlib:
	$(Q)rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(foreach so,$(INCCL_SONAME) $(CONNECT_SONAME),$(so) $(so:.0=)) $(PLUGIN) libinccl-mpi.so libinccl.a \
			$(addprefix pkgconfig/,$(PC_FILES))) \
		$(addprefix $(DESTDIR)$(PREFIX)/,$(addprefix include/,$(HEADERS)) $(SUM_C) $(HELLO_C) $(addprefix bin/,$(HOSTLIB_TOOLS)))

# SPDX-License-Identifier: BSD-2-Clause
# The search through the orders of accesses to shared memory (docs/orders.md). clang compiles the searched code, which
# is the XDP programs and the loader's reader of their maps, as for its thread sanitizer. hooks.c has the functions of
# that sanitizer. So there is no build with a real sanitizer.
ORDERS := $(B)/selftests/orders
ORDERS_SEARCH := $(patsubst %,selftests/orders/%.c,search words races memory hooks) selftests/unit/report.c

# -fno-vectorize and the like keep each instruction one access, so that the compiler calls a hook for each of them.
WATCHED := -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-address-of-packed-member -Wno-unused-function \
	-O2 -g -D_GNU_SOURCE -Iselftests/fakes -I. -MMD -MP -fno-vectorize -fno-slp-vectorize -fsanitize=thread \
	-mllvm -tsan-instrument-func-entry-exit=0 -mllvm -tsan-instrument-read-before-write=1
ORDERS_RENAMED := --redefine-sym memcpy=orders_memcpy --redefine-sym memset=orders_memset
ORDERS_WATCHED := $(addprefix $(B)/obj/watched/,selftests/orders/data_path.o loader/inc_state.o)
$(ORDERS_WATCHED): $(B)/obj/watched/%.o: %.c selftests/orders/room.mk common.mk
	$(call say,CLANG,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(WATCHED) -c $< -o $@ && objcopy $(ORDERS_RENAMED) $@

$(eval $(call program,$(ORDERS)/test_search,$(call plain,selftests/orders/test_search.c $(ORDERS_SEARCH)),-lz))
$(eval $(call program,$(ORDERS)/test_orders,$(call plain,$(patsubst %,selftests/orders/%.c,test_orders harness_peers) $(ORDERS_SEARCH) \
	selftests/unit/frame.c loader/inc_crc_tables.c) $(ORDERS_WATCHED) $(LIB),-lz))

ifeq ($(filter-out 0,$(SANITIZE)),)
TESTS_orders := $(addprefix $(ORDERS)/,test_search test_orders)
endif

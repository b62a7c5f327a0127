# SPDX-License-Identifier: BSD-2-Clause
# Searches through the orders of accesses to shared memory (docs/orders.md). What is searched, the XDP programs and
# the loader's reader of their maps, is compiled by clang as for its thread sanitizer, whose functions are those of
# hooks.c. So there is nothing to build with a sanitizer itself.
ORDERS := $(B)/selftests/orders
ORDERS_SEARCH := $(patsubst %,selftests/orders/%.c,search words races memory hooks) selftests/unit/report.c

# -fno-vectorize and the like: an instruction stays one access, and the compiler asks for each of them.
WATCHED := -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-address-of-packed-member -Wno-unused-function \
	-O2 -g -D_GNU_SOURCE -Iselftests/orders/shim -I. -MMD -MP -fno-vectorize -fno-slp-vectorize -fsanitize=thread \
	-mllvm -tsan-instrument-func-entry-exit=0 -mllvm -tsan-instrument-read-before-write=1
ORDERS_RENAMED := --redefine-sym memcpy=orders_memcpy --redefine-sym memset=orders_memset
ORDERS_WATCHED := $(addprefix $(B)/obj/watched/,selftests/orders/data_path.o loader/inc_state.o)
$(ORDERS_WATCHED): $(B)/obj/watched/%.o: %.c selftests/orders/room.mk common.mk
	$(call say,CLANG,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(WATCHED) -c $< -o $@ && objcopy $(ORDERS_RENAMED) $@

$(eval $(call program,$(ORDERS)/test_search,$(call plain,selftests/orders/test_search.c $(ORDERS_SEARCH)),-lz))
$(eval $(call program,$(ORDERS)/test_orders,$(call plain,$(patsubst %,selftests/orders/%.c,test_orders world) $(ORDERS_SEARCH) \
	selftests/unit/frame.c loader/inc_crc_tables.c) $(ORDERS_WATCHED),-lz))

ifeq ($(filter-out 0,$(SANITIZE)),)
TESTS_orders := $(addprefix $(ORDERS)/,test_search test_orders)
endif

# SPDX-License-Identifier: BSD-2-Clause
# Programs of selftests/bench.
BENCH := $(B)/bench
bench = $(call program,$(BENCH)/$(1),$(call plain,selftests/benchmarks/$(1).c $(2)) $(3) $(LIB),$$(TEST_LIBS))

$(eval $(call bench,bench_xdp,,$(LOADER)))
$(foreach name,bench_reduce bench_many ring,$(eval $(call bench,$(name))))
$(eval $(call bench,bench_soft))
$(eval $(call bench,bench_route,selftests/control/fabric.c $(ROUTE_SRC)))

$(call plain,selftests/benchmarks/bench_xdp.c): $(B)/inc_xdp_test.skel.h

TESTS_benchmarks := $(addprefix $(BENCH)/,bench_xdp bench_reduce bench_many bench_route bench_soft ring)

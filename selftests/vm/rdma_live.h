/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared declarations of the tests of lib/rdma on real devices. */
#ifndef RDMA_LIVE_H
#define RDMA_LIVE_H

#include "selftests/vm/rdma_ends.h"

#define DEADLINE_S 60

/* tests of rdma_pair.c */
void test_messages(void **state);
void test_read_and_write(void **state);
void test_what_a_peer_may_not(void **state);
void test_stop_flushes(void **state);
void test_refusals(void **state);

#endif

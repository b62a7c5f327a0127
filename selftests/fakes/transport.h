/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A transport that replaces the transport of a communicator's endpoint. It returns every message
 * unchanged, as if the other ranks contributed neutral elements. Completions are delayed and in
 * order. There is no network, so the speed is that of memory.
 */
#ifndef SELFTESTS_FAKES_TRANSPORT_H
#define SELFTESTS_FAKES_TRANSPORT_H

#include <stdint.h>
#include "hostlib/include/inccl.h"

/* Installs this transport, of which only one can exist at a time. No message may be in flight.
 * payload: size of packets from now on. */
void fake_transport_begin(struct inccl_communicator *comm, unsigned int payload);
/* Removes this transport, and restores the endpoint's real transport. */
void fake_transport_end(void);

/* Number of bytes that were posted with this operator (of INC_OPERATORS) since
 * fake_transport_begin(). */
uint64_t fake_transport_bytes(unsigned int op);

#endif

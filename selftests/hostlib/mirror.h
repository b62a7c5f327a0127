/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A transport that replaces that of a communicator's endpoint. Every message returns unchanged, as
 * if the other ranks contributed neutral elements. Completions are delayed and in order. There is
 * no network, so the speed is that of memory.
 */
#ifndef SELFTESTS_MIRROR_H
#define SELFTESTS_MIRROR_H

#include <stdint.h>
#include "hostlib/include/inccl.h"

/* Installs the mirror, of which there is one at a time. No message may be in flight. payload: the
 * size of packets from now on. */
void mirror_begin(struct inccl_communicator *comm, unsigned int payload);
/* Restores the endpoint's own transport. */
void mirror_end(void);

/* Bytes posted with this operator (of INC_OPERATORS) since mirror_begin(). */
uint64_t mirror_bytes(unsigned int op);

#endif

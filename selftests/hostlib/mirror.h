/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In place of a communicator's endpoint: what is posted comes back as it is, as from a switch whose
 * other ranks give what changes nothing; after a while, in order, and as fast as memory is.
 */
#ifndef SELFTESTS_MIRROR_H
#define SELFTESTS_MIRROR_H

#include <stdint.h>
#include "hostlib/include/inccl.h"

/* There is one at a time. Nothing is under way. payload: of packets from now on. */
void mirror_begin(struct inccl_communicator *comm, unsigned int payload);
/* The endpoint is back as it was. */
void mirror_end(void);

/* Bytes that have been posted with this operator, of INC_OPERATORS, since the beginning. */
uint64_t mirror_bytes(unsigned int op);

#endif

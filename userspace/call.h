/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts that both engines use in error reports: the names of peers, and which collective each peer
 * has called. The functions keep no state and may be called on any thread. */
#ifndef INC_CALL_H
#define INC_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Time without an acknowledgement after which a peer that owes one is reported as unresponsive. */
#define INC_UNRESPONSIVE_S 10ull

/* Writes "rank 3" for a host, or "the switch of rank 4" for a switch, of which 4 is the lowest rank
 * behind it. Returns buf. */
#define INC_PEER_TEXT 48
const char *inc_child_name(char buf[INC_PEER_TEXT], bool is_switch, uint32_t rank);

struct inc_call {
	char who[INC_PEER_TEXT];
	uint32_t desc;  /* descriptor of the call: INC_DESC */
	uint32_t bytes; /* length of the rank's contribution */
};

/*
 * Writes "rank 0 called reduce (sum of int32, root 0, sequence 7) with 1024 bytes, but rank 1
 * called ...; different: root, size" into text, truncated to size. If other is NULL, only the first
 * call is described.
 */
#define INC_CALL_TEXT 320
void inc_call_text(char *text, size_t size, const struct inc_call *call,
		   const struct inc_call *other);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Who has called what, in the words that all engines tell it in. Kept nowhere, any thread. */
#ifndef INC_CALL_H
#define INC_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A peer that is silent for so long, though it owes an acknowledgement, is told of. */
#define INC_UNRESPONSIVE_S 10ull

/* "rank 3", or "the switch of rank 4", the lowest behind it. Returns buf. */
#define INC_PEER_TEXT 48
const char *inc_child_name(char buf[INC_PEER_TEXT], bool is_switch, uint32_t rank);

struct inc_call {
	char who[INC_PEER_TEXT];
	uint32_t desc;  /* INC_DESC */
	uint32_t bytes; /* that it has given */
};

/*
 * "rank 0 called reduce (sum of int32, root 0, sequence 7) with 1024 bytes, but rank 1 called ...;
 * different: root, size", cut at size. other may be NULL: then it is the first half.
 */
#define INC_CALL_TEXT 320
void inc_call_text(char *text, size_t size, const struct inc_call *call,
		   const struct inc_call *other);

#endif

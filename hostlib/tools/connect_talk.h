/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What inc-connect connect says to inc-connect serve, once they have a socket: messages whose
 * first byte says what becomes of them.
 */
#ifndef INC_CONNECT_TALK_H
#define INC_CONNECT_TALK_H

#include <endian.h>
#include <stdint.h>

enum connect_talk {
	CONNECT_TALK_ECHO = 'e',   /* comes back as it is */
	CONNECT_TALK_DROP = 'd',   /* is forgotten */
	CONNECT_TALK_MEMORY = 'm', /* struct connect_memory, comes back filled in */
};

#define CONNECT_MEMORY_MAX (1u << 30) /* bytes, of one client and of all */

/* Memory of the service's for READ and WRITE. Numbers in network byte order. */
struct connect_memory {
	uint8_t kind; /* CONNECT_TALK_MEMORY */
	uint8_t zero[3];
	uint32_t size; /* asked for: 1 to CONNECT_MEMORY_MAX; in the answer 0: there is none */
	uint32_t key;
	uint32_t zero2;
	uint64_t address;
};

#endif

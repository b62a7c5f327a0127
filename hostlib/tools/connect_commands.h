/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages from inc-connect connect to inc-connect serve, once they have a socket. The first
 * byte of a message is its command.
 */
#ifndef INC_CONNECT_COMMANDS_H
#define INC_CONNECT_COMMANDS_H

#include <endian.h>
#include <stdint.h>

enum connect_command {
	/* command "echo": the service sends the message back unchanged */
	CONNECT_COMMAND_ECHO = 'e',
	CONNECT_COMMAND_DROP = 'd', /* command "drop": the service ignores the message */
	/* Command that requests memory: a struct connect_memory, which the service fills in and
	 * sends back. */
	CONNECT_COMMAND_MEMORY = 'm',
};

/* Limit, in bytes, of the memory that clients may request: of one client, and of all clients
 * together. */
#define CONNECT_MEMORY_MAX (1u << 30)

/* Memory of the service that the client may READ and WRITE. Numbers are in network byte order. */
struct connect_memory {
	uint8_t kind; /* kind of the message: CONNECT_COMMAND_MEMORY */
	uint8_t zero[3];
	/* Size of the memory in bytes. In a request it is 1 to CONNECT_MEMORY_MAX. The answer has
	 * the same size, or 0 if there is no memory. */
	uint32_t size;
	uint32_t key;
	uint32_t zero2;
	uint64_t address;
};

#endif

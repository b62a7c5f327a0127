/* SPDX-License-Identifier: BSD-2-Clause */
/* inc-connect: its settings, and the functions that its files call of each other. One thread. */
#ifndef INC_CONNECT_TOOL_H
#define INC_CONNECT_TOOL_H

#include <endian.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include "hostlib/include/inc_connect.h"

enum connect_mode { CONNECT_SEND, CONNECT_WRITE, CONNECT_READ };

/* The modes that --mode accepts, with their names, as rows from which initializers are made. */
#define CONNECT_MODES(_)          \
	_(CONNECT_SEND, "send")   \
	_(CONNECT_WRITE, "write") \
	_(CONNECT_READ, "read")

struct connect_tool {
	const char *config; /* path of the configuration file; NULL: none */
	const char *host;
	/* Addresses in the form HOST:PORT: where the service listens, and where figures are served
	 * over HTTP. */
	const char *listen, *figures_at;
	unsigned int timeout_ms;
	uint64_t bytes; /* size in bytes of each message or transfer that is measured */
	unsigned int iters;
	enum connect_mode mode;
	bool json, figures, allow_no_usable_devices;

	struct event_base *base;
	struct inc_connect *ctx;
	uint64_t began_at_ns; /* when connect_wait() was called */
};

/* Runs the event loop until a callback breaks it. Shows on a terminal how long that takes. */
void connect_wait(struct connect_tool *tool);

/* The results of a measurement. */
struct connect_measured {
	/* latency of an operation; in mode send it is half of a round trip */
	double min_us, median_us, p99_us;
	double gbps; /* bandwidth in 10^9 bits per second */
	double operations_per_s;
};

/* The choice of ports: all pairs of ports, each with the reason why it was chosen or not. */
struct connect_found {
	struct inc_connect_pair *pairs; /* owned */
	uint32_t n_pairs;
	bool zones_ignored;
};

/* Runs inc-connect serve until a signal arrives. Returns an exit code. */
int connect_serve(struct connect_tool *tool);
/* Runs inc-connect connect: connects, measures and prints. Returns an exit code. */
int connect_try(struct connect_tool *tool);

/*
 * Measures over a socket whose peer is inc-connect serve. Returns 0, or the error of the socket,
 * whose reason inc_connect_socket_error() has, or an error from this list:
 *	-ENOMEM		this program or the peer has no memory
 *	-EMSGSIZE	the size exceeds a message or the port's limit
 *	-ETIMEDOUT	no progress for tool->timeout_ms
 *	-EHOSTDOWN	the peer's device has not answered for that time, either
 *	-EBADMSG	the data received differ from the data sent
 *	-EPROTO		the peer is not inc-connect
 */
int connect_measure(struct connect_tool *tool, struct inc_connect_socket *socket,
		    struct connect_measured *measured);

/* Prints the devices of a service that was queried, as text or as JSON. */
void connect_print_devices(const struct connect_tool *tool,
			   const struct inc_connect_devices *devices);

/* The findings of the steps of inc-connect connect. The pointer of a step that was not reached is
 * NULL. */
struct connect_outcome {
	const struct connect_found *found;
	const struct inc_connect_socket_info *info;
	const struct connect_measured *measured;
	int error; /* result of the last step: 0 or -errno, for which why has the reason */
	const char *why;
};

/* Prints the outcome of inc-connect connect as JSON. */
void connect_print_json(const struct connect_tool *tool, const struct connect_outcome *outcome);
/* Each of these functions prints one part of the outcome of inc-connect connect as text. */
void connect_print_found(const struct connect_found *found);
void connect_print_info(const struct inc_connect_socket_info *info);
void connect_print_measured(const struct connect_tool *tool,
			    const struct connect_measured *measured);

const char *connect_mode_word(enum connect_mode mode);

/*
 * The messages from inc-connect connect to inc-connect serve, once they have a socket. The first
 * byte of a message is its command.
 */

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

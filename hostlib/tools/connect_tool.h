/* SPDX-License-Identifier: BSD-2-Clause */
/* inc-connect: what its command line says, and what its files do for each other. One thread. */
#ifndef INC_CONNECT_TOOL_H
#define INC_CONNECT_TOOL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include "hostlib/include/inc_connect.h"

enum connect_mode { CONNECT_SEND, CONNECT_WRITE, CONNECT_READ };

/* mode, its word: rows of a list, as these are initializers alone. */
#define CONNECT_MODES(_)          \
	_(CONNECT_SEND, "send")   \
	_(CONNECT_WRITE, "write") \
	_(CONNECT_READ, "read")

struct connect_tool {
	const char *config; /* file, NULL: none */
	const char *host;
	const char *listen, *figures_at; /* HOST:PORT; of the figures over HTTP */
	unsigned int timeout_ms;
	uint64_t bytes; /* of a message or transfer */
	unsigned int iters;
	enum connect_mode mode;
	bool json, figures, allow_no_usable_devices;

	struct event_base *base;
	struct inc_connect *ctx;
};

/* What was measured. */
struct connect_measured {
	double min_us, median_us, p99_us; /* of send: half a round trip */
	double gbps;                      /* 10^9 bits */
	double operations_per_s;
};

/* A pair of ports and its fate, or several. */
struct connect_found {
	struct inc_connect_pair *pairs; /* owned */
	uint32_t n_pairs;
	bool zones_ignored;
};

/* Until a signal. An exit code. */
int connect_serve(struct connect_tool *tool);
/* Connects, measures, prints. An exit code. */
int connect_try(struct connect_tool *tool);

/*
 * Over a socket to inc-connect serve. 0; or -errno: the socket's, whose story the socket tells, or
 * -ENOMEM; -EMSGSIZE: a message holds less, or the port can do less; -ETIMEDOUT: nothing has moved
 * for tool->timeout_ms; -EHOSTDOWN: so long the peer's device has not answered, either; -EBADMSG:
 * what has come is not what was sent; -EPROTO: the peer is no inc-connect.
 */
int connect_measure(struct connect_tool *tool, struct inc_connect_socket *socket,
		    struct connect_measured *measured);

/* Devices of whom was asked, as text or JSON. */
void connect_print_devices(const struct connect_tool *tool,
			   const struct inc_connect_devices *devices);

/* How it went; in the order of time, NULL for what it did not come to. */
struct connect_story {
	const struct connect_found *found;
	const struct inc_connect_socket_info *info;
	const struct connect_measured *measured;
	int error; /* 0 or -errno */
	const char *why;
};

/* All of it. */
void connect_print_json(const struct connect_tool *tool, const struct connect_story *story);
/* A part each. */
void connect_print_found(const struct connect_found *found);
void connect_print_info(const struct inc_connect_socket_info *info);
void connect_print_measured(const struct connect_tool *tool,
			    const struct connect_measured *measured);

const char *connect_mode_word(enum connect_mode mode);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared parts of the tests of the connection service on real devices, which use only its public
 * header. Client and service are in one process and one loop, so a test determines the order of
 * events. The packets still travel from one device to the other.
 */
#ifndef CONNECT_LIVE_H
#define CONNECT_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inc_connect.h"

#define DEADLINE_S 60
#define FEW        4096 /* bytes of a message in most tests, because large buffers are slow */

enum { CLIENT, SERVICE, SIDES };

/* The client's and the service's device, from the program's arguments. */
struct end {
	const char *device;  /* for example "rxe0" */
	const char *port;    /* the other end of its cable in namespace sw, for example "p0" */
	const char *address; /* for example "10.77.0.1" */
};
extern struct end ends[SIDES];
extern bool full; /* run each test completely; make test runs only a part */

/* ---- connect_sides.c ------------------------------------------------------------------------ */

/* A socket that its owner has received, and its event in the loop. */
struct held {
	struct inc_connect_socket *socket;
	struct event *readable;
	int error; /* the error of progress(); 0: none yet */
};

#define MAX_ACCEPTED 128

struct sides {
	struct event_base *base;
	struct event *tick; /* limits each wait of the loop */
	struct inc_connect *ctx[SIDES];
	struct inc_connect_service *service;
	char address[64]; /* the service's address with its port */
	struct inc_connect_socket *accepted[MAX_ACCEPTED];
	unsigned int n_accepted;
};

struct sides_opts {
	/* a file for the context; NULL: only the side's own device */
	const char *file[SIDES];
	/* the client's settings; NULL: test_settings() */
	const struct inc_connect_settings *setting;
	unsigned int accept_timeout_ms;
	bool quiet; /* prints nothing, for tests with hundreds of connections */
};

/* The defaults, except for ACK timeouts. An emulated machine needs long ones, but they must end. */
void test_settings(struct inc_connect_settings *settings);
/* opts may be NULL. */
void sides_open(struct sides *s, const struct sides_opts *opts);
/* Closes both sides. Sockets that were accepted and not taken are destroyed. */
void sides_close(struct sides *s);

/* Turns the loop once, for 10 ms at most. Fails the test after the deadline. */
void turn(struct sides *s, uint64_t deadline_at_ns, const char *what, int line);
#define UNTIL(s, condition)                                                                 \
	for (uint64_t by_ns_ = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC; !(condition);) \
	turn(s, by_ns_, #condition, __LINE__)
/* Turns the loop for exactly this time. */
void let_pass(struct sides *s, unsigned int ms);

void hold(struct sides *s, struct held *h, struct inc_connect_socket *socket);
void let_go(struct held *h);
/* Waits for the service's next socket. */
void take(struct sides *s, struct held *h);

#define MAX_PAIRS 8

/* The outcome of a request. */
struct outcome {
	struct sides *s;
	bool done;
	int error;
	char why[600];
	struct held held; /* the socket of a connect */
	bool chosen;      /* a pair of ports was chosen */
	struct inc_connect_pair pair[MAX_PAIRS];
	uint32_t pairs;
	bool zones_ignored;
	uint64_t counter;
	/* the answer to a query */
	uint32_t devices;
	struct inc_connect_device device; /* the first device */
};

/* Begins a request, whose outcome is set by the loop. timeout_ms 0: the default. */
struct inc_connect_request *open_begin(struct sides *s, const char *address,
				       unsigned int timeout_ms, struct outcome *out);
/* The same, and waits for the outcome. */
void open_address(struct sides *s, const char *address, unsigned int timeout_ms,
		  struct outcome *out);
void query_address(struct sides *s, const char *address, struct outcome *out);
/* Takes both ends of a request's connection. Waits for the service's end. */
void open_adopt(struct sides *s, struct outcome *out, struct held held[SIDES]);
/* Makes a connection and takes both ends. The service has received its first message. */
void open_pair(struct sides *s, struct held held[SIDES]);
/* Closes both ends and waits until both are destroyed. */
void close_pair(struct sides *s, struct held held[SIDES]);

/* Fills p with bytes that depend on the seed only. */
void fill(uint8_t *p, size_t size, unsigned int seed);
void send_message(struct sides *s, struct held *from, const void *data, size_t size);
void expect_message(struct sides *s, struct held *to, const void *data, size_t size);
/* Sends a message each way and checks it. */
void talk(struct sides *s, struct held held[SIDES]);

/* ---- connect_books.c ------------------------------------------------------------------------ */

/* The resources that a connection must return. */
struct books {
	/* counts over all devices */
	unsigned int queue_pairs, completion_queues, regions, domains;
	unsigned int descriptors;
	uint64_t heap_bytes;   /* allocated */
	uint64_t pinned_bytes; /* pinned by registrations */
};

void books_now(struct books *books);
/* Waits until everything except the heap is as before. Fails with the differences. s: the sides
 * whose loop must run meanwhile, or NULL. */
void books_balance(struct sides *s, const struct books *before);
/* The sum of a figure's series in inc_connect_figures(). Fails if there is none. */
double figure(struct sides *s, int side, const char *name);

/* ---- connect_relay.c ------------------------------------------------------------------------ */

enum { UP, DOWN }; /* the directions to the service, and from it */

/*
 * A TCP address that relays to the service with limits. In each direction, bytes beyond limit[],
 * counted over all connections, either wait or end the connection.
 */
struct relay {
	struct sides *s;
	struct evconnlistener *listener;
	char address[64];
	size_t limit[2];  /* SIZE_MAX: no limit */
	size_t passed[2]; /* bytes that were relayed */
	/* at a limit both sides of the connection are closed; otherwise bytes wait */
	bool cut;
	char *seen[2]; /* the text that was relayed */
	struct pipe *pipes;
};

void relay_open(struct relay *r, struct sides *s);
/* Clears the counts and the limits. */
void relay_reset(struct relay *r);
/* Relays the bytes that wait. */
void relay_release(struct relay *r);
void relay_close(struct relay *r);
/* Makes a connection through the relay once. Returns the offset of the answer to the connect in the
 * bytes from the service. */
size_t relay_learn(struct relay *r);

/* ---- tests ---------------------------------------------------------------------------------- */

/* connect_talk.c */
void test_choice(void **state);
void test_messages(void **state);
void test_slow_reader(void **state);
void test_transfers(void **state);
void test_memory_that_is_not_lent(void **state);
void test_threads(void **state);
void test_context_goes_first(void **state);
/* connect_end.c */
void test_one_closes(void **state);
void test_both_close(void **state);
void test_peer_is_gone(void **state);
void test_port_down_while_connected(void **state);
void test_port_down_while_connecting(void **state);
void test_port_down_before(void **state);
/* connect_raw.c */
void test_wrong_device(void **state);
void test_cannot_do(void **state);
void test_silent_client(void **state);
void test_peer_is_nowhere(void **state);
void test_lost_answer(void **state);
void test_cut_requests(void **state);
void test_cut_answers(void **state);
/* connect_many.c */
void test_hundred_at_once(void **state);
void test_connects_leave_nothing(void **state);
void test_turns_and_zones(void **state);

/* ---- the lab -------------------------------------------------------------------------------- */

/* Unplugs a side's cable, or plugs it in. Its port goes down, but its addresses and routes
 * remain. */
void cable(int side, bool in);
/* The same, and waits until the side's context has noticed. */
void cable_known(struct sides *s, int side, bool in);

#endif

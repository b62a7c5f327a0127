/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared parts of the tests of the connection service on real devices. The tests use only its
 * public header. Client and service are in one process and one loop, so that a test determines the
 * order of events. The packets still travel from one device to the other.
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
	const char *device; /* name of the RDMA device, for example "rxe0" */
	/* the other end of the device's cable in namespace sw, for example "p0" */
	const char *port;
	const char *address; /* IP address, for example "10.77.0.1" */
};
extern struct end ends[SIDES];
extern bool full; /* run each test completely; `make test` runs only a part of each */

/* ---- connect_sides.c ------------------------------------------------------------------------ */

/* A socket that belongs to the test, and its event in the loop. */
struct held {
	struct inc_connect_socket *socket;
	struct event *readable;
	int error; /* the error that progress() has returned; 0: none yet */
};

#define MAX_ACCEPTED 128

struct connect_sides {
	struct event_base *base;
	struct event *tick; /* timer that limits each wait of the loop */
	struct inc_connect *ctx[SIDES];
	struct inc_connect_service *service;
	char address[64]; /* the service's address with its port */
	struct inc_connect_socket *accepted[MAX_ACCEPTED];
	unsigned int n_accepted;
};

struct connect_sides_opts {
	/* the file of each side's context; NULL: only the side's own device */
	const char *file[SIDES];
	/* the client's settings; NULL: test_settings() */
	const struct inc_connect_settings *setting;
	unsigned int accept_timeout_ms;
	bool quiet; /* print nothing, for tests with hundreds of connections */
};

/* Sets the defaults, except for ACK timeouts. An emulated machine needs long timeouts, but they
 * must end. */
void test_settings(struct inc_connect_settings *settings);
/* Opens both sides. opts may be NULL. */
void sides_open(struct connect_sides *s, const struct connect_sides_opts *opts);
/* Closes both sides. Sockets that were accepted but not fetched by take() are destroyed. */
void sides_close(struct connect_sides *s);

/* Runs one turn of the loop, for 10 ms at most. Fails the test after the deadline. */
void turn(struct connect_sides *s, uint64_t deadline_at_ns, const char *what, int line);
#define UNTIL(s, condition)                                                                 \
	for (uint64_t by_ns_ = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC; !(condition);) \
	turn(s, by_ns_, #condition, __LINE__)
/* Runs the loop for exactly this time. */
void let_pass(struct connect_sides *s, unsigned int ms);

void hold(struct connect_sides *s, struct held *h, struct inc_connect_socket *socket);
void let_go(struct held *h);
/* Waits for the next socket that the service has accepted, and fetches it. */
void take(struct connect_sides *s, struct held *h);

#define MAX_PAIRS 8

/* The outcome of a request. */
struct outcome {
	struct connect_sides *s;
	bool done;
	int error;
	char why[600];
	struct held held; /* the socket that a connect has made */
	bool chosen;      /* a pair of ports was chosen */
	struct inc_connect_pair pair[MAX_PAIRS];
	uint32_t pairs;
	bool zones_ignored;
	uint64_t counter;
	/* the number of devices in the answer to a query */
	uint32_t devices;
	struct inc_connect_device device; /* the first device in the answer */
};

/* Begins a request, whose outcome the loop sets later. timeout_ms 0: the default. */
struct inc_connect_request *open_begin(struct connect_sides *s, const char *address,
				       unsigned int timeout_ms, struct outcome *out);
/* Makes a request, and waits for its outcome. */
void open_address(struct connect_sides *s, const char *address, unsigned int timeout_ms,
		  struct outcome *out);
void query_address(struct connect_sides *s, const char *address, struct outcome *out);
/* Fetches both ends of the connection that a request has made. Waits for the service's end. */
void open_adopt(struct connect_sides *s, struct outcome *out, struct held held[SIDES]);
/* Makes a connection and fetches both ends. The service has received its first message then. */
void open_pair(struct connect_sides *s, struct held held[SIDES]);
/* Closes both ends and waits until both are destroyed. */
void close_pair(struct connect_sides *s, struct held held[SIDES]);

/* Fills p with bytes that depend on the seed only. */
void fill(uint8_t *p, size_t size, unsigned int seed);
void send_message(struct connect_sides *s, struct held *from, const void *data, size_t size);
void expect_message(struct connect_sides *s, struct held *to, const void *data, size_t size);
/* Sends a message each way and checks it. */
void exchange(struct connect_sides *s, struct held held[SIDES]);

/* ---- connect_resources.c ------------------------------------------------------------------------
 */

/* The resources that a connection must return. */
struct resources {
	/* numbers of objects of all devices */
	unsigned int queue_pairs, completion_queues, regions, domains;
	unsigned int descriptors;
	uint64_t heap_bytes;   /* bytes that the process has allocated */
	uint64_t pinned_bytes; /* bytes that registrations have pinned */
};

void resources_now(struct resources *resources);
/* Waits until all resources except the heap are as before. Fails with the differences. s: the sides
 * whose loop must run meanwhile, or NULL. */
void resources_returned(struct connect_sides *s, const struct resources *before);
/* The sum of a metric's series in inc_connect_figures(). Fails if there is no such metric. */
double figure(struct connect_sides *s, int side, const char *name);

/* ---- connect_relay.c ------------------------------------------------------------------------ */

enum { UP, DOWN }; /* direction of bytes: to the service (UP), or from it (DOWN) */

/*
 * A TCP address whose connections are relayed to the service, within limits. The limit of a
 * direction counts the bytes of all connections. Further bytes either wait, or end the connection.
 */
struct relay {
	struct connect_sides *s;
	struct evconnlistener *listener;
	char address[64];
	size_t limit[2];  /* greatest number of bytes in each direction; SIZE_MAX: no limit */
	size_t passed[2]; /* number of bytes that were relayed in each direction */
	/* at a limit both sides of the connection are closed; otherwise bytes wait */
	bool cut;
	char *seen[2]; /* the bytes that were relayed in each direction */
	struct pipe *pipes;
};

void relay_open(struct relay *r, struct connect_sides *s);
/* Clears the counts and the limits of the relay. */
void relay_reset(struct relay *r);
/* Relays the bytes that wait at a limit. */
void relay_release(struct relay *r);
void relay_close(struct relay *r);
/* Makes one connection through the relay. Returns the offset of the answer to the connect in the
 * bytes from the service. */
size_t relay_learn(struct relay *r);

/* ---- tests ---------------------------------------------------------------------------------- */

/* tests of connect_messages.c */
void test_choice(void **state);
void test_messages(void **state);
void test_slow_reader(void **state);
void test_transfers(void **state);
void test_memory_that_is_not_lent(void **state);
void test_threads(void **state);
void test_context_goes_first(void **state);
/* tests of connect_end.c */
void test_one_closes(void **state);
void test_both_close(void **state);
void test_peer_is_gone(void **state);
void test_port_down_while_connected(void **state);
void test_port_down_while_connecting(void **state);
void test_port_down_before(void **state);
/* tests of connect_raw.c */
void test_wrong_device(void **state);
void test_cannot_do(void **state);
void test_silent_client(void **state);
void test_peer_is_nowhere(void **state);
void test_lost_answer(void **state);
void test_cut_requests(void **state);
void test_cut_answers(void **state);
/* tests of connect_many.c */
void test_hundred_at_once(void **state);
void test_connects_leave_nothing(void **state);
void test_turns_and_zones(void **state);

/* ---- the lab -------------------------------------------------------------------------------- */

/* Unplugs the cable of a side, or plugs it in. The side's port goes down, but its addresses and
 * routes remain. */
void cable(int side, bool in);
/* Changes a side's cable as cable() does, and waits until the side's context has noticed the
 * change. */
void cable_known(struct connect_sides *s, int side, bool in);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection service on real devices, by its public header alone: what its tests share. A
 * client and a service in one process and one loop, so that a test says what happens when; what
 * goes over the wire goes from one device to the other all the same.
 */
#ifndef CONNECT_LIVE_H
#define CONNECT_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inc_connect.h"

#define DEADLINE_S 60
#define FEW        4096 /* bytes of a message where nothing depends on it: buffers cost time */

enum { CLIENT, SERVICE, SIDES };

/* The two devices that main() was told of: the client's, the service's. */
struct end {
	const char *device;  /* "rxe0" */
	const char *port;    /* the other end of its cable, in namespace sw: "p0" */
	const char *address; /* "10.77.0.1" */
};
extern struct end ends[SIDES];
extern bool full; /* whole, where make test holds a part */

/* ---- connect_sides.c ------------------------------------------------------------------------ */

/* A socket that has been handed over, in the loop. */
struct held {
	struct inc_connect_socket *socket;
	struct event *readable;
	int error; /* of progress(); 0: none yet */
};

#define MAX_ACCEPTED 128

struct sides {
	struct event_base *base;
	struct event *tick; /* no wait in the loop is longer */
	struct inc_connect *ctx[SIDES];
	struct inc_connect_service *service;
	char address[64]; /* the service's, with its port */
	struct inc_connect_socket *accepted[MAX_ACCEPTED];
	unsigned int n_accepted;
};

struct sides_opts {
	const char *file[SIDES];                    /* NULL: its own device, and no other */
	const struct inc_connect_settings *setting; /* the client's; NULL: test_settings() */
	unsigned int accept_timeout_ms;
	bool quiet; /* for what goes on by the hundred */
};

/* Defaults but for what an emulated machine needs: long ACK timeouts that end some time. */
void test_settings(struct inc_connect_settings *settings);
/* opts may be NULL. */
void sides_open(struct sides *s, const struct sides_opts *opts);
/* Sockets that were accepted and not taken are destroyed. */
void sides_close(struct sides *s);

/* One turn of the loop, 10 ms at most; fails the test when the time is over. */
void turn(struct sides *s, uint64_t deadline_at_ns, const char *what, int line);
#define UNTIL(s, condition)                                                                 \
	for (uint64_t by_ns_ = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC; !(condition);) \
	turn(s, by_ns_, #condition, __LINE__)
/* So long, and no shorter. */
void let_pass(struct sides *s, unsigned int ms);

void hold(struct sides *s, struct held *h, struct inc_connect_socket *socket);
void let_go(struct held *h);
/* The next socket of the service; waits for it. */
void take(struct sides *s, struct held *h);

#define MAX_PAIRS 8

/* What came of a request. */
struct outcome {
	struct sides *s;
	bool done;
	int error;
	char why[600];
	struct held held; /* of a connect */
	bool chosen;      /* it came to a choice */
	struct inc_connect_pair pair[MAX_PAIRS];
	uint32_t pairs;
	bool zones_ignored;
	uint64_t counter;
	/* of a query */
	uint32_t devices;
	struct inc_connect_device device; /* the first */
};

/* timeout_ms 0: the default. The outcome comes in the loop. */
struct inc_connect_request *open_begin(struct sides *s, const char *address,
				       unsigned int timeout_ms, struct outcome *out);
/* The same to its end. */
void open_address(struct sides *s, const char *address, unsigned int timeout_ms,
		  struct outcome *out);
void query_address(struct sides *s, const char *address, struct outcome *out);
/* Both ends of what came of a request; waits for the service's. */
void open_adopt(struct sides *s, struct outcome *out, struct held held[SIDES]);
/* Both ends of a new connection; the service's end has its first message. */
void open_pair(struct sides *s, struct held held[SIDES]);
/* Both close, to the end, and are gone. */
void close_pair(struct sides *s, struct held held[SIDES]);

/* Of a seed, in any length. */
void fill(uint8_t *p, size_t size, unsigned int seed);
void send_message(struct sides *s, struct held *from, const void *data, size_t size);
void expect_message(struct sides *s, struct held *to, const void *data, size_t size);
/* A message each way, checked. */
void talk(struct sides *s, struct held held[SIDES]);

/* ---- connect_books.c ------------------------------------------------------------------------ */

/* What a connection must not leave behind. */
struct books {
	/* of the devices, all of them */
	unsigned int queue_pairs, completion_queues, regions, domains;
	unsigned int descriptors;
	uint64_t heap_bytes;   /* in use */
	uint64_t pinned_bytes; /* registered */
};

void books_now(struct books *books);
/* Waits until everything but the heap is as it was; fails with what is not. s: whose loop runs on
 * meanwhile; NULL: nobody's. */
void books_balance(struct sides *s, const struct books *before);
/* Of inc_connect_figures(): the sum of a figure's series; fails where there is none. */
double figure(struct sides *s, int side, const char *name);

/* ---- connect_relay.c ------------------------------------------------------------------------ */

enum { UP, DOWN }; /* to the service, from it */

/*
 * A TCP address that leads to the service, as far as it may: bytes beyond limit[] of a direction,
 * counted over all of its connections, end the connection or wait.
 */
struct relay {
	struct sides *s;
	struct evconnlistener *listener;
	char address[64];
	size_t limit[2];  /* SIZE_MAX: none */
	size_t passed[2]; /* bytes */
	bool cut;         /* at a limit: both sides are hung up on. Else bytes wait */
	char *seen[2];    /* the text that has passed */
	struct pipe *pipes;
};

void relay_open(struct relay *r, struct sides *s);
/* Nothing has passed, nothing is limited. */
void relay_reset(struct relay *r);
/* What waits goes on. */
void relay_release(struct relay *r);
void relay_close(struct relay *r);
/* Connects through it once; where in the bytes from the service the answer to the connect began. */
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

/* Pulls the cable of a side, or puts it back: its port goes down, its addresses and routes stay. */
void cable(int side, bool in);
/* The same, and waits until the side's context knows. */
void cable_known(struct sides *s, int side, bool in);

#endif

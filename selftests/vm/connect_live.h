/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared parts of the tests of the connection service on real devices. The tests use only its
 * public header. Client and service are in one process and one loop, so that a test determines the
 * order of events. The packets still travel from one device to the other.
 */
#ifndef CONNECT_LIVE_H
#define CONNECT_LIVE_H

#include <errno.h>
#include <netinet/in.h>
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

/* The resources that a connection must return: objects of all devices, descriptors of this
 * process, and bytes that registrations have pinned. */
enum { QUEUE_PAIRS, COMPLETION_QUEUES, REGIONS, DOMAINS, DESCRIPTORS, PINNED_BYTES, RESOURCES };

struct resources {
	uint64_t of[RESOURCES];
};

void resources_now(struct resources *resources);
/* Waits until all resources are as before; the loop of open sides runs meanwhile. Fails with the
 * differences. */
void resources_returned(const struct resources *before);
/* The sum of a metric's series in inc_connect_figures(). Fails if there is no such metric. */
double figure(int side, const char *name);

/* A socket that belongs to the test, and its event in the loop. */
struct held {
	struct inc_connect_socket *socket;
	struct event *readable;
	int error; /* the error that progress() has returned; 0: none yet */
};

#define MAX_ACCEPTED 128

/* The client and the service of the running test. */
struct connect_sides {
	struct event_base *base;
	struct event *tick; /* timer that limits each wait of the loop */
	struct inc_connect *ctx[SIDES];
	struct inc_connect_service *service;
	char address[64]; /* the service's address with its port */
	struct inc_connect_socket *accepted[MAX_ACCEPTED];
	unsigned int n_accepted;
	struct resources before; /* the resources after both sides, and the relay, were opened */
};
extern struct connect_sides sides;
extern struct held held[SIDES]; /* both ends of the test's connection */

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
void sides_open(const struct connect_sides_opts *opts);
/* Waits until the test's connections have returned all resources, and closes both sides. */
void sides_close(void);
/* Closes what is open of both sides. Sockets that were accepted but not fetched by take() are
 * destroyed. */
void sides_free(void);

/* Runs one turn of the loop, for 10 ms at most. Fails the test after the deadline. */
void turn(uint64_t deadline_at_ns, const char *what, int line);
#define UNTIL(condition)                                                                    \
	for (uint64_t by_ns_ = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC; !(condition);) \
	turn(by_ns_, #condition, __LINE__)
/* Repeats a call until it returns something else than -EAGAIN, which is the value. */
#define DONE(call)                                 \
	({                                         \
		int ret_;                          \
		UNTIL((ret_ = (call)) != -EAGAIN); \
		ret_;                              \
	})
/* Runs the loop for exactly this time. */
void let_pass(unsigned int ms);

void hold(struct held *h, struct inc_connect_socket *socket);
void let_go(struct held *h, unsigned int n);
/* Waits for the next socket that the service has accepted, and fetches it. */
void take(struct held *h);

#define MAX_PAIRS 8

/* The outcome of a request. */
struct outcome {
	bool done;
	int error;
	char why[600];
	struct held held; /* the socket that a connect has made */
	struct inc_connect_choice choice;
	struct inc_connect_pair pair[MAX_PAIRS]; /* the pairs of the choice */
	/* the number of devices in the answer to a query */
	uint32_t devices;
	struct inc_connect_device device; /* the first device in the answer */
};
extern struct outcome opened;  /* of open_address() */
extern struct outcome queried; /* of query_address() */

/* Begins a request, whose outcome the loop sets later. timeout_ms 0: the default. */
struct inc_connect_request *open_begin(const char *address, unsigned int timeout_ms,
				       struct outcome *outcome);
/* Makes a request, and waits for its outcome. */
void open_address(const char *address, unsigned int timeout_ms);
/* Queries the service, which must answer. */
void query_address(void);
/* Makes a request that must fail with this error, and with this word in the reason. */
void open_fails(const char *address, unsigned int timeout_ms, int error, const char *word);
/* Moves the socket that a request has made from its outcome to h. */
void adopt(struct held *h, const struct outcome *outcome);
/* Makes a connection and fetches both ends. The service has received its first message then. */
void open_pair(struct held pair[SIDES]);
void open_pair_at(const char *address, struct held pair[SIDES]);
/* Closes all these sockets and waits until all are destroyed. */
void close_all(struct held *h, unsigned int n);
/* Makes a connection, sends a message each way and closes it. Returns the time of the connect. */
uint64_t connect_and_close(void);

/* Fills p with bytes that depend on the seed only. */
void fill(uint8_t *p, size_t size, unsigned int seed);
void send_message(struct held *from, const void *data, size_t size);
void expect_message(struct held *to, const void *data, size_t size);
/* n messages of FEW bytes at most, filled from growing seeds. */
void send_messages(struct held *from, unsigned int n, size_t size, unsigned int seed);
void expect_messages(struct held *to, unsigned int n, size_t size, unsigned int seed);
/* Sends a message each way and checks it. */
void exchange(struct held pair[SIDES]);

/* ---- connect_relay.c ------------------------------------------------------------------------ */

enum { UP, DOWN }; /* direction of bytes: to the service (UP), or from it (DOWN) */

/*
 * A TCP address whose connections are relayed to the service, within limits. The limit of a
 * direction counts the bytes of all connections. Further bytes either wait, or end the connection.
 */
struct relay {
	struct evconnlistener *listener;
	char address[64];
	size_t limit[2]; /* greatest number of bytes in each direction; SIZE_MAX: no limit */
	/* at a limit both sides of the connection are closed; otherwise bytes wait */
	bool cut;
	struct evbuffer *seen[2]; /* the bytes that were relayed in each direction */
	struct pipe *pipes;
};
extern struct relay relay;

/* Opens both sides, and the relay between them, which sides_free() closes. Makes one connection
 * through the relay. Returns the offset of the answer to the connect in the bytes from the
 * service. */
size_t relay_open(const struct connect_sides_opts *opts);
/* Clears the counts and the limits of the relay. */
void relay_reset(void);
/* The number of bytes that were relayed in this direction. */
size_t relay_passed(int way);
/* Relays the bytes that wait at a limit. */
void relay_release(void);
void relay_close(void);
/* A port of this machine, on the loopback address. */
struct sockaddr_in loopback(unsigned int port);
/* Listens at any such port, and writes its address. */
int loopback_listener(char *address);

/* ---- tests ---------------------------------------------------------------------------------- */

#define CONNECT_TESTS(_)                   \
	_(test_choice)                     \
	_(test_messages)                   \
	_(test_slow_reader)                \
	_(test_transfers)                  \
	_(test_memory_that_is_not_lent)    \
	_(test_threads)                    \
	_(test_context_goes_first)         \
	_(test_one_closes)                 \
	_(test_both_close)                 \
	_(test_peer_is_gone)               \
	_(test_wrong_device)               \
	_(test_cannot_do)                  \
	_(test_silent_client)              \
	_(test_peer_is_nowhere)            \
	_(test_lost_answer)                \
	_(test_cut_requests)               \
	_(test_cut_answers)                \
	_(test_port_down_before)           \
	_(test_port_down_while_connecting) \
	_(test_port_down_while_connected)  \
	_(test_turns_and_zones)            \
	_(test_hundred_at_once)            \
	_(test_connects_leave_nothing)

#define _(name) void name(void **state);
CONNECT_TESTS(_)
#undef _

/* ---- the lab -------------------------------------------------------------------------------- */

/* Unplugs the cable of a side, or plugs it in, and waits until the side's context has noticed the
 * change. The side's port goes down, but its addresses and routes remain. */
void cable(int side, bool in);

#endif

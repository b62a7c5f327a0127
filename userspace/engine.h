/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an engine offers the daemon: it owns the ports, makes results out of contributions, and
 * knows the figures of what it does. The daemon, its queries, its events and its connection to the
 * controller know an engine by these functions alone. There is one for each mode of a communicator,
 * and one that has both of them (engine.c), which is the daemon's.
 *
 * An engine keeps its communicators in places, numbered from 0; a communicator stays in its place
 * as long as it lives. All calls come from the daemon's one thread. What can fail returns 0 or
 * -errno and tells the story in err.
 */
#ifndef INC_ENGINE_H
#define INC_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include <jansson.h>
#include <net/if.h>
#include <netinet/in.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/messages.h"
#include "lib/metric/metric.h"
#include "lib/proto/maps.h"
#include "loader/inc_limits.h"

struct inc_options;
struct inc_settings;

/* What happened to a communicator, or to a port of the switch, for the log and the controller. */
struct inc_notice {
	const char *event;     /* as in docs/control.md */
	bool of_port;          /* it belongs to no communicator; all but event and text are 0 */
	uint32_t communicator; /* any number, also 0 */
	uint32_t ranks[INC_COMM_MAX_CHILDREN]; /* whom it concerns */
	uint32_t n_ranks;
	uint64_t chunk;
	const char *text; /* one line */
};

/* Called from the event loop. May not add or remove communicators. */
typedef void (*inc_notice_fn)(void *arg, const struct inc_notice *notice);

/* All that it points to outlives the engine. */
struct inc_engine_opts {
	struct event_base *base;
	const char *instance;
	const struct inc_options *options;   /* of the command line: an engine takes its own */
	const struct inc_settings *settings; /* merged with the file's, complete */
	inc_notice_fn notice;
	void *arg;
};

/* What is in use, and of how much. */
#define INC_USAGE_FIGURES(_, T)                                                            \
	_(T, communicators, "", GAUGE, "communicators in use")                             \
	_(T, communicators_limit, "", GAUGE, "communicators that the switch has room for") \
	_(T, connections, "", GAUGE, "connections in use")                                 \
	_(T, connections_limit, "", GAUGE, "connections that the switch has room for")     \
	_(T, rows, "", GAUGE, "rows of packets kept, in use: connections times slots")     \
	_(T, rows_limit, "", GAUGE, "rows of packets kept that the switch has")            \
	_(T, slots, "", GAUGE, "slots in use, each with the row of its result")            \
	_(T, slots_limit, "", GAUGE, "slots that the switch has")                          \
	_(T, root_rows, "", GAUGE, "rows of ranks in use")                                 \
	_(T, root_rows_limit, "", GAUGE, "rows of ranks that the switch has")

struct inc_engine_usage {
	INC_USAGE_FIGURES(INC_METRIC_FIELD, inc_engine_usage)
};

enum inc_port_condition {
	INC_PORT_UP,
	INC_PORT_DOWN, /* the interface is down: communicators can be made, and wait */
	INC_PORT_LOST, /* the switch cannot work on it: none is made */
};

/* A communicator's port that is lost for so long is reported to the controller. A port that is down
 * for so long is reported if the communicator waits. The limit is shorter than INC_UNRESPONSIVE_S,
 * so another switch does not report a peer first. While the port is not up, the silence of the
 * peers behind it says nothing about them. */
#define INC_PORT_LOST_S 8ull

/* The longest text of why a port is not up, with the final 0. */
#define INC_PORT_REASON sizeof(((struct inc_err *)0)->msg)

#define INC_PORT_FIGURES(_, T)                                                              \
	_(T, lost, "", GAUGE, "1: the switch cannot work on the port, or the port is down") \
	_(T, losses, "", COUNTER,                                                           \
	  "times that the port, its XDP program or its AF_XDP sockets were lost")

struct inc_engine_port {
	char name[IF_NAMESIZE];  /* the kernel's present one, or the last that it had */
	char given[IF_NAMESIZE]; /* the one that the switch was told when it started */
	uint32_t ifindex;        /* of the interface that is the port, or was the last one */
	bool gone;               /* no interface was the port at the last look */
	enum inc_port_condition condition;
	char reason[INC_PORT_REASON]; /* why it is not up, and what helps; "" where it is */
	INC_PORT_FIGURES(INC_METRIC_FIELD, inc_engine_port)
};

struct inc_link;

#define INC_COMM_FIGURES(_, T)                                                             \
	_(T, results, "", COUNTER, "results made, or passed on from the parent")           \
	_(T, children, "", GAUGE, "hosts and switches whose contributions it adds up")     \
	_(T, connections, "", GAUGE, "connections that it holds: theirs and the parent's") \
	_(T, slots, "", GAUGE, "packets that each peer may have under way")                \
	_(T, rows, "", GAUGE, "rows of contributions that it holds; in passthrough mode")  \
	_(T, receives, "", GAUGE, "receives posted with each peer; in termination mode")   \
	_(T, payload_bytes, "bytes", GAUGE, "of the numbers in a full packet")             \
	_(T, ended, "", GAUGE, "1: an error has ended it")

struct inc_engine_comm {
	uint32_t communicator;          /* the controller's number */
	enum inc_byte_order byte_order; /* of the numbers that are added */
	uint8_t error;                  /* AETH syndrome that ended it; 0: alive */
	const char *reason;             /* the same as a word, where the engine has one; or NULL */
	/* connections: those of the children, and behind them the parent's, where it has one */
	INC_COMM_FIGURES(INC_METRIC_FIELD, inc_engine_comm)
};

#define INC_CONN_FIGURES(_, T)                                                                \
	/* in termination mode, messages */                                                   \
	_(T, received, "", COUNTER, "packets or messages of the peer that were kept")         \
	_(T, acknowledged, "", COUNTER, "packets or messages that the peer has acknowledged") \
	_(T, results, "", COUNTER, "results made for the communicator; up, partial sums")     \
	_(T, duplicates, "packets", COUNTER, "packets that were kept before")                 \
	_(T, naks_sent, "packets", COUNTER, "NAKs to the peer")                               \
	_(T, naks_received, "packets", COUNTER, "NAKs of the peer")                           \
	_(T, rnrs_sent, "packets", COUNTER, "RNR NAKs to the peer")                           \
	_(T, retransmits, "packets", COUNTER, "packets sent again")                           \
	_(T, acks_paid, "packets", COUNTER, "owed ACKs that the slow path sent")              \
	_(T, timeouts, "", COUNTER, "times that the peer did not acknowledge soon")           \
	_(T, rtt_us, "microseconds", GAUGE, "round trip, smoothed; 0: not measured yet")

enum inc_conn_health { INC_CONN_IDLE, INC_CONN_ACTIVE, INC_CONN_UNRESPONSIVE, INC_CONN_ENDED };

struct inc_engine_conn {
	bool up;       /* to the parent */
	uint32_t rank; /* the child's, the lowest behind a switch; up, the lowest below this one */
	char port[IF_NAMESIZE]; /* its present name, or the last that it had */
	struct in_addr own_ip;
	struct in_addr peer_ip;
	uint16_t peer_port;
	uint32_t own_qp;
	uint32_t peer_qp;
	enum inc_conn_health health;
	bool unresponsive; /* also where its communicator has ended since */
	uint8_t error;     /* AETH syndrome that ended it or its communicator; 0: alive */
	const char
		*reason; /* what it has broken for itself, as a word where there is one; or NULL */
	INC_CONN_FIGURES(INC_METRIC_FIELD, inc_engine_conn)
};

/* The oldest incomplete chunk of a communicator that has arrivals. */
struct inc_engine_waiting {
	uint64_t chunk;
	uint64_t arrived;   /* a bit per child */
	bool up;            /* their partial sum is on its way: it waits for the parent */
	uint64_t waited_ms; /* since it was first seen so */
};

/* A counter of packets, in the books of the engine by its class. */
struct inc_engine_counter {
	const char *name;
	char class; /* R received = P passed + D dropped + A absorbed + W answered + M multicast;
		     * X: none of them */
	const char *text;
	uint64_t value;
};

#define INC_ENGINE_COUNTERS 64 /* of all engines together, by their names */

struct inc_engine_counters {
	uint64_t received, passed, dropped, absorbed, answered, multicast;
	bool balanced; /* up to what is under way */
	size_t n;
	struct inc_engine_counter counter[INC_ENGINE_COUNTERS];
};

struct inc_engine {
	const struct inc_engine_ops *ops;
};

struct inc_engine_ops {
	/* What an engine that is opened with opts can do, as "hello" has it. -EOPNOTSUPP, -EPERM:
	 * there cannot be one here. */
	int (*offer)(const struct inc_engine_opts *opts, struct inc_msg_engine *out,
		     struct inc_err *err);

	/* Ready for ports and communicators; nothing is received yet. */
	int (*open)(const struct inc_engine_opts *opts, struct inc_engine **out,
		    struct inc_err *err);
	/* Takes ports and communicators away. */
	void (*close)(struct inc_engine *e);
	/* From now on close() leaves what can go on without a daemon, for the next one of the
	 * instance. NULL: nothing can. */
	void (*leave)(struct inc_engine *e);
	/* Once all ports are attached: takes over the communicators that the instance's last daemon
	 * has left. How many these are. NULL: none are ever left. */
	int (*adopt)(struct inc_engine *e, struct inc_err *err);
	/* What the communicator in this place was made from, as far as the engine knows it. Asked
	 * of adopted communicators only; NULL where adopt is. */
	void (*describe)(const struct inc_engine *e, uint32_t place, struct inc_comm_conf *out);
	/* Is the communicator in this place what conf asks for? */
	bool (*is)(const struct inc_engine *e, uint32_t place, const struct inc_comm_conf *conf);

	/* A port that there is, one of the settings'. */
	int (*attach_port)(struct inc_engine *e, const char *ifname, struct inc_err *err);
	/* Ports, 0..n-1; false behind the last. engine.c keeps the list; a mode's own engine leaves
	 * this NULL. */
	bool (*port)(const struct inc_engine *e, size_t i, struct inc_engine_port *out);
	/* Compares all ports with what the kernel says of them now, repairs what has been lost, and
	 * reports what changes. engine.c's; a mode's own engine has check_port instead. */
	void (*check_ports)(struct inc_engine *e);
	/* The same for port i, which is the interface link now; link NULL: its interface is gone.
	 * True where something was lost since the last call. port has the condition and the
	 * reason that follow from link. An engine that cannot work on the port replaces them. */
	bool (*check_port)(struct inc_engine *e, size_t i, const struct inc_link *link,
			   struct inc_engine_port *port);

	/*
	 * Makes all of a communicator, or nothing; traffic finds it from start_comm on. -EEXIST,
	 * -ENODEV and so on where conf does not fit what is there. What conf leaves open of the
	 * switch's own ends is chosen and filled in.
	 */
	int (*add_comm)(struct inc_engine *e, struct inc_comm_conf *conf, struct inc_err *err);
	int (*start_comm)(struct inc_engine *e, uint32_t communicator, struct inc_err *err);
	/* The numbers of peers that conf left open: of peer, rank, up, peer_qp, peer_psn and
	 * peer_port are read. -ENOENT: there is no such connection; -EALREADY: it has its peer. */
	int (*connect_comm)(struct inc_engine *e, uint32_t communicator,
			    const struct inc_msg_peer *peer, uint32_t n, struct inc_err *err);
	/* When this returns 0, the engine does not touch the communicator any more; when it fails,
	 * the communicator runs on as before. */
	int (*remove_comm)(struct inc_engine *e, uint32_t communicator, struct inc_err *err);

	void (*usage)(const struct inc_engine *e, struct inc_engine_usage *out);
	/* How many places there are, always the same number. */
	uint32_t (*places)(const struct inc_engine *e);
	/* The place of a communicator; -ENOENT. */
	int (*find)(const struct inc_engine *e, uint32_t communicator);
	/* False where the place is empty. */
	bool (*comm)(const struct inc_engine *e, uint32_t place, struct inc_engine_comm *out);
	/* What follows tells of a place that is not empty, as it was when comm() was last asked of
	 * it, or later. conn: 0..connections-1. */
	void (*conn)(const struct inc_engine *e, uint32_t place, uint32_t i,
		     struct inc_engine_conn *out);
	/* False where nobody waits for anybody. */
	bool (*waiting)(const struct inc_engine *e, uint32_t place, struct inc_engine_waiting *out);
	int (*counters)(const struct inc_engine *e, struct inc_engine_counters *out,
			struct inc_err *err);
	/* What only this engine has, added to the answers to "status", "ports" and "metrics". */
	void (*tell_status)(const struct inc_engine *e, json_t *status);
	/* tell_port may be NULL: nothing. */
	void (*tell_port)(const struct inc_engine *e, size_t i, json_t *port);
	void (*tell_metrics)(const struct inc_engine *e, json_t *families);
	/* One line on what it has done, when it ends. */
	void (*log_totals)(const struct inc_engine *e);
};

/*
 * engine.c: the engine that has one for each mode, and opens it when it is first needed, or now
 * where the settings' mode is passthrough or the instance's last daemon has left something of it.
 */
int inc_engine_open(const struct inc_engine_opts *opts, struct inc_engine **out,
		    struct inc_err *err);
/* What its engine for a mode can do; -EOPNOTSUPP, -EPERM with the reason: this switch has none. */
int inc_engine_offer(const struct inc_engine *e, enum inc_mode_of_switch mode,
		     struct inc_msg_engine *out, struct inc_err *err);
/* The place of a communicator of any engine, and what comm() says of it; -ENOENT. */
int inc_engine_find(const struct inc_engine *e, uint32_t communicator,
		    struct inc_engine_comm *comm);
/* xdp/xdp_engine.c: whether it attaches ports, now or later, in a way that other XDP programs can
 * share; that takes CAP_SYS_ADMIN for as long as it may attach and detach. */
bool inc_engine_shares_ports(enum inc_attach attach);

#endif

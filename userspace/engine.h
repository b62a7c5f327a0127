/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface between the daemon and an engine. An engine reduces in one mode of a switch. It
 * owns the ports, makes results out of contributions, and counts what it does. The daemon, its
 * queries, its events and its connection to the controller use an engine through these functions
 * only. There is one engine for each mode of a communicator (engine.c).
 *
 * An engine stores its communicators in places, numbered from 0 to the setting max_comms - 1. A
 * communicator has the same place as long as it exists. All calls come from the daemon's only
 * thread. Functions that can fail return 0 or -errno and write the reason to err.
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
#include "lib/proto/rc_end.h"
#include "loader/inc_limits.h"
#include "userspace/call.h"
#include "lib/proto/roce.h"

struct inc_options;
struct inc_settings;

/* A function that receives an event from an engine. The event's kind, communicator (which may be
 * 0), ranks, r and message are set. The engine calls it from the event loop. It may not add or
 * remove communicators. */
typedef void (*inc_notice_fn)(void *arg, const struct inc_msg_event *event);

/* Options with which an engine is opened. All objects that they point to must outlive the
 * engine. */
struct inc_engine_opts {
	struct event_base *base;
	const char *instance;
	/* options of the command line, of which each engine reads those that concern it */
	const struct inc_options *options;
	/* settings of command line and file, merged and completed with defaults */
	const struct inc_settings *settings;
	inc_notice_fn notice;
	void *arg;
};

/* Figures of a switch: the resources that are in use, and the limit of each. */
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
	/* the interface is down; communicators of a file can be created on it, and wait until it is
	 * up; those of a controller are refused */
	INC_PORT_DOWN,
	INC_PORT_LOST, /* the switch cannot use the port, so no communicator is created on it */
};

/*
 * Time for which a port is lost before the switch reports this for its communicators to the
 * controller. If a port is only down for this time, the switch reports it for communicators that
 * wait. The time is shorter than INC_UNRESPONSIVE_S, so that another switch does not report a peer
 * first. While a port is not up, the switch does not report peers behind it for their silence.
 */
#define INC_PORT_LOST_S 8ull

/* Size of the text that says why a port is not up (`reason` of struct inc_engine_port), with the
 * final 0. */
#define INC_PORT_REASON sizeof(((struct inc_err *)0)->msg)

#define INC_PORT_FIGURES(_, T)                                                              \
	_(T, lost, "", GAUGE, "1: the switch cannot work on the port, or the port is down") \
	_(T, losses, "", COUNTER,                                                           \
	  "times that the port, its XDP program or its AF_XDP sockets were lost")

struct inc_engine_port {
	/* name of the port's interface now, or the last name that it had */
	char name[IF_NAMESIZE];
	char given[IF_NAMESIZE]; /* name of the port when the switch was started */
	/* index of the port's interface, or of the last interface that it had */
	uint32_t ifindex;
	bool gone; /* the port had no interface when the ports were last checked */
	enum inc_port_condition condition;
	/* why the port is not up, and how to repair that; "": the port is up */
	char reason[INC_PORT_REASON];
	unsigned int mtu;          /* 0: not known */
	struct inc_addr ip;        /* address of the interface (inc_interface_first_address()) */
	uint64_t addresses;        /* a number that stands for all its addresses; 0: it has none */
	uint64_t no_carrier_at_ns; /* time when the port lost its carrier; 0: it has one, or is down
				    */
	bool lacks_carrier;        /* it has had none for so long that it lacks one */
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
	uint32_t communicator;          /* number of the communicator at the controller */
	enum inc_byte_order byte_order; /* byte order of the elements in packets */
	uint8_t error;                  /* AETH syndrome that ended the communicator; 0: alive */
	/* a word for the error; NULL: there is no error, or the engine has no word for it */
	const char *reason;
	int cpu; /* CPU that handles all packets of the communicator; -1: there is none */
	/* The figures include the number of connections. They are numbered from 0: the children's
	 * first, and then the parent's, if there is one. */
	INC_COMM_FIGURES(INC_METRIC_FIELD, inc_engine_comm)
};

/* Figures of a connection. In termination mode, received and acknowledged count messages, not
 * packets. */
#define INC_CONN_FIGURES(_, T)                                                                \
	_(T, received, "", COUNTER, "packets or messages of the peer that were kept")         \
	_(T, acknowledged, "", COUNTER, "packets or messages that the peer has acknowledged") \
	_(T, results, "", COUNTER, "results made for the communicator; up, partial sums")     \
	_(T, duplicates, "packets", COUNTER, "packets that were kept before")                 \
	_(T, naks_sent, "packets", COUNTER, "NAKs to the peer")                               \
	_(T, naks_received, "packets", COUNTER, "NAKs of the peer")                           \
	_(T, rnrs_sent, "packets", COUNTER, "RNR NAKs to the peer")                           \
	_(T, retransmits, "packets", COUNTER, "packets sent again")                           \
	_(T, cnps_sent, "packets", COUNTER, "CNPs to the peer, by soft endpoints")            \
	_(T, congested, "", COUNTER, "reports of congestion on the way to the peer")          \
	_(T, acks_paid, "packets", COUNTER, "owed ACKs that the slow path sent")              \
	_(T, timeouts, "", COUNTER, "times that the peer did not acknowledge soon")           \
	_(T, rtt_us, "microseconds", GAUGE, "round trip, smoothed; 0: not measured yet")      \
	_(T, undelivered, "", GAUGE, "1: nearly nothing that is sent to the peer arrives at once")

enum inc_conn_health {
	INC_CONN_IDLE,
	INC_CONN_ACTIVE,
	INC_CONN_UNDELIVERED, /* nearly nothing that is sent to the peer arrives at once */
	INC_CONN_UNRESPONSIVE,
	INC_CONN_ENDED
};

struct inc_engine_conn {
	bool up; /* the connection leads to the parent */
	/* rank of the child; if the child is a switch, the lowest rank behind it; if up is set, the
	 * lowest rank below this switch */
	uint32_t rank;
	/* name of the connection's port now, or the last name that it had */
	char port[IF_NAMESIZE];
	struct inc_rc_end own, peer;
	enum inc_conn_health health;
	/* the peer was found unresponsive; this stays set after its communicator has ended */
	bool unresponsive;
	enum inc_loss loss; /* how much of what is sent to the peer is lost */
	/* AETH syndrome that ended the connection or its communicator; 0: alive */
	uint8_t error;
	/* a word for why this connection failed; NULL: it has not failed, or the engine has no word
	 * for it */
	const char *reason;
	/* settings of the switch's queue pair, if it is one of an RDMA device; a soft endpoint and
	 * a connection in passthrough mode have traffic_class alone, that of what is sent to the
	 * peer */
	struct inc_verbs_conf verbs;
	INC_CONN_FIGURES(INC_METRIC_FIELD, inc_engine_conn)
};

/* The oldest incomplete chunk of a communicator to which some children have contributed. */
struct inc_engine_waiting {
	uint64_t chunk;
	uint64_t arrived; /* mask with a bit for each child that has contributed */
	bool up; /* all children have contributed, and the switch waits for the parent's result */
	uint64_t waited_ms; /* time since the chunk was first seen incomplete */
};

/* A counter of packets, by name. Its class says to which sum of struct inc_engine_counters it
 * adds. */
struct inc_engine_counter {
	const char *name;
	/* Class R adds to the sum `received`, P to passed, D to dropped, A to absorbed, W to
	 * answered and M to multicast. Every received packet is in exactly one of the other sums,
	 * so received is their total. Class X adds to no sum. */
	char class;
	const char *text;
	uint64_t value;
};

/* Limit of the number of counters of all engines together. Two engines may share a counter by its
 * name. */
#define INC_ENGINE_COUNTERS 64

struct inc_engine_counters {
	uint64_t received, passed, dropped, absorbed, answered, multicast;
	/* received is the total of the other sums, apart from packets that are being processed */
	bool balanced;
	size_t n;
	struct inc_engine_counter counter[INC_ENGINE_COUNTERS];
};

struct inc_engine {
	const struct inc_engine_ops *ops;
};

struct inc_engine_ops {
	/* Fills out with the capabilities that an engine would have if opened with opts, in the
	 * form of "hello". Returns 0; 1 if some were not found for want of memory or descriptors;
	 * or -errno. -EOPNOTSUPP and -EPERM mean that this machine cannot have the engine. */
	int (*offer)(const struct inc_engine_opts *opts, struct inc_msg_engine *out,
		     struct inc_err *err);

	/* Opens an engine, to which ports and communicators can be added. The engine receives
	 * nothing yet. */
	int (*open)(const struct inc_engine_opts *opts, struct inc_engine **out,
		    struct inc_err *err);
	/* Removes ports and communicators, and frees the engine. */
	void (*close)(struct inc_engine *e);
	/* Makes close() leave running what works without a daemon, for the instance's next daemon.
	 * The function is NULL if nothing of this engine works without a daemon. */
	void (*leave)(struct inc_engine *e);
	/* Takes over the communicators that the instance's last daemon has left. The caller has
	 * attached all ports. Returns the number of communicators. The function is NULL if daemons
	 * leave no communicators in this mode. */
	int (*adopt)(struct inc_engine *e, struct inc_err *err);
	/* Fills out with the configuration of an adopted communicator, as far as the engine can
	 * read it back. The function is NULL if `adopt` is NULL. */
	void (*describe)(const struct inc_engine *e, uint32_t place, struct inc_comm_conf *out);
	/* Whether the communicator in a place has exactly the configuration conf. */
	bool (*is)(const struct inc_engine *e, uint32_t place, const struct inc_comm_conf *conf);

	/* Attaches a port to the engine. The interface exists, and the port is in the settings. */
	int (*attach_port)(struct inc_engine *e, const char *ifname, struct inc_err *err);
	/*
	 * Compares port i with what the kernel reports of the port now, repairs what has been lost,
	 * and follows changes. The port's interface is link; NULL: the interface is gone. Returns
	 * true if something was lost since the last call. The caller has set the condition and the
	 * reason in port as they follow from link. An engine that cannot use the port replaces
	 * them.
	 */
	bool (*check_port)(struct inc_engine *e, size_t i, const struct inc_link *link,
			   struct inc_engine_port *port);

	/*
	 * Creates a communicator, or changes nothing if that fails. Packets reach the communicator
	 * only after start_comm(). Returns -EEXIST, -ENODEV and so on if conf does not fit the
	 * switch. The numbers of the switch's own ends that conf leaves open are chosen and written
	 * to conf.
	 */
	int (*add_comm)(struct inc_engine *e, struct inc_comm_conf *conf, struct inc_err *err);
	int (*start_comm)(struct inc_engine *e, uint32_t communicator, struct inc_err *err);
	/* Sets the numbers of peers that conf left open in add_comm(). Returns -ENOENT if there is
	 * no such connection, and -EALREADY if the connection has its peer. */
	int (*connect_comm)(struct inc_engine *e, uint32_t communicator,
			    const struct inc_msg_peer *peer, uint32_t n, struct inc_err *err);
	/* Removes a communicator. When this returns 0, the engine does not use the communicator any
	 * more. When it fails, the communicator runs on as before. */
	int (*remove_comm)(struct inc_engine *e, uint32_t communicator, struct inc_err *err);

	void (*usage)(const struct inc_engine *e, struct inc_engine_usage *out);
	/* Returns the place of a communicator, or -ENOENT. */
	int (*find)(const struct inc_engine *e, uint32_t communicator);
	/* Fills out with the communicator in a place, or returns false if the place is empty. */
	bool (*comm)(const struct inc_engine *e, uint32_t place, struct inc_engine_comm *out);
	/* Fills out with connection i, 0..connections-1. This and the next function need a place
	 * that is not empty. They report the communicator's state at the last call of comm(), or a
	 * later state. */
	void (*conn)(const struct inc_engine *e, uint32_t place, uint32_t i,
		     struct inc_engine_conn *out);
	/* Fills out with the oldest incomplete chunk of the communicator in a place. Returns false
	 * if it has none. */
	bool (*waiting)(const struct inc_engine *e, uint32_t place, struct inc_engine_waiting *out);
	int (*counters)(const struct inc_engine *e, struct inc_engine_counters *out,
			struct inc_err *err);
	/* These three functions add what only this engine has to the answers to "status", "ports"
	 * and "metrics". */
	void (*tell_status)(const struct inc_engine *e, json_t *status);
	/* NULL if this engine adds nothing about a port. */
	void (*tell_port)(const struct inc_engine *e, size_t i, json_t *port);
	void (*tell_metrics)(const struct inc_engine *e, json_t *families);
	/* Logs one line of totals before the engine is closed. */
	void (*log_totals)(const struct inc_engine *e);
};

/* The engine of passthrough mode (xdp/xdp_engine.c). XDP programs are its data path, beside which a
 * slow path works on AF_XDP sockets. */
extern const struct inc_engine_ops inc_engine_xdp;
/* The engine of termination mode (term/term_engine.c). The switch ends the connections of its peers
 * itself, and reduces whole messages. */
extern const struct inc_engine_ops inc_engine_term;
/* xdp/xdp_engine.c: whether the engine attaches ports by libxdp, now or later, so that other
 * XDP programs can share them. That needs CAP_SYS_ADMIN as long as ports may be attached or
 * detached. */
bool inc_engine_shares_ports(enum inc_attach attach);

#endif

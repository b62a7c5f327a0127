/* SPDX-License-Identifier: BSD-2-Clause */
/* The switches of the topology, connected or absent (switch.c, switch_mode.c). */
#ifndef INC_CORE_SWITCH_H
#define INC_CORE_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "controller/core/core_timer.h"
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/messages.h"

#define CTL_MIN_QPN    0x100 /* real devices reserve the queue pair numbers below */
#define CTL_MAX_LISTED 4096  /* most communicators that a hello can list */
/* A communicator begins only while each of its switches has fewer requests under way. */
#define CTL_MAX_REQUESTS 64

struct inc_core;
struct inc_core_event;

/* A port of a switch in the topology, with its properties from the switch's hello. */
struct inc_core_port {
	unsigned int mtu; /* MTU of the port; that of the topology if the hello names none */
	bool lacking;     /* the hello has no such port, which is logged once */
	char down[INC_CONTROL_DOWN_LEN]; /* why the switch cannot use it; "": it can */
	bool has_mac;
	uint8_t mac[6];
	/* Largest packet and message in bytes that the port's endpoint of each kind accepts in
	 * termination mode. 0: the port has no endpoint of this kind. */
	unsigned int payload[INC_N_ENDPOINT_KINDS], message_bytes[INC_N_ENDPOINT_KINDS];
};

/* The properties of a switch in one mode, as its hello describes them. */
struct inc_core_engine {
	bool there; /* The switch supports the mode. */
	struct inc_msg_limits limits;
	bool probes;  /* it answers probes of hosts */
	bool reorder; /* the switch keeps contributions that arrive ahead of a gap */
	/* shortest time in ms after which the switch resends a packet; 0: unknown */
	uint32_t rto_min_ms;
	unsigned int cpus; /* CPUs that can serve different communicators at the same time */
	bool floats;       /* the switch adds all types of floats natively, with each operator */
	/* the switch knows settings of queue pairs in this mode (`verbs` of configure), which is
	 * the traffic class in passthrough mode */
	bool verbs;
};

struct inc_core_switch {
	struct inc_core *core;
	unsigned int index; /* index of the switch in the topology */
	bool connected;
	/* The reason why the controller closes the switch's connection: a message that the switch
	 * must have was lost. It is NULL if the connection stays. The switch connects again by
	 * itself, and its welcome lists the communicators to keep. */
	const char *to_drop;
	/* wall-clock time at which the switch became connected or absent */
	uint64_t since_at_ms;
	unsigned int asked; /* number of the core's requests that the switch has not answered */
	bool mode_set;      /* A tool has set the mode. */
	uint32_t mode;      /* enum inc_mode_of_switch, or INC_AUTO */
	/* the mode of the switch's own configuration, by its last hello */
	enum inc_mode_of_switch own_mode;
	/* The properties of the switch in each mode, by its last hello. */
	struct inc_core_engine engines[INC_N_MODES];
	/* the ports by the switch's last hello, at the same indexes as in the topology */
	struct inc_core_port *ports;
	/* The last hello of the switch and its ports, which are read again when the topology
	 * changes. NULL: there was none. */
	struct inc_msg_hello *hello;
	struct inc_msg_port *hello_ports;
	uint32_t n_hello_ports;
	uint32_t *qpns; /* queue pair numbers in use */
	size_t n_qpns, qpns_room;
	struct inc_core_timer avoided; /* runs while trees avoid the switch, because it was full */
	/* runs after the switch's machine has closed the connection, until the switch is back */
	struct inc_core_timer closed;
	bool lost; /* it was connected to this controller, and is not any more */
	/* The machine has closed the connection while the daemon's memory had communicators. The
	 * database has this, because a next controller must end them if the daemon is not back. */
	bool gone;
	bool awaited; /* a communicator waits until the switch has answered earlier requests */
};

/* ---- switch.c ---- */

int inc_switches_init(struct inc_core *core); /* Makes the switches. Returns 0 or -ENOMEM. */
void inc_switches_free(struct inc_core *core);
/* Makes the switch that will have this index in core->switches. Its ports are those of a topology.
 * Returns NULL if there is no memory. */
struct inc_core_switch *inc_switch_new(struct inc_core *core, unsigned int index,
				       unsigned int n_ports);
void inc_switch_free(struct inc_core_switch *sw);
/* Reads the switch's last hello again, because the topology is another one. */
void inc_switch_reread(struct inc_core_switch *sw);
/* These functions handle the events CORE_EVENT_HELLO, CORE_EVENT_SWITCH_LOST and
 * CORE_EVENT_ANSWER. */
void inc_switch_connects(struct inc_core_switch *sw, const struct inc_core_event *hello);
void inc_switch_lost(struct inc_core_switch *sw, bool peer_closed, bool renews);
/* Begins the time in which the daemon of a switch must be back. longer: it has the longer one,
 * because it has announced its return, or because an earlier controller has lost it. A daemon that
 * runs may have to find this controller first. */
void inc_switch_await(struct inc_core_switch *sw, bool longer);
void inc_switch_answers(struct inc_core_switch *sw, const struct inc_core_event *answer);
/* Lets communicators begin that wait for answers of switches, because one has stopped waiting for
 * the database (inc_comm.storing). Its requests count at its switches no longer. */
void inc_switches_go_on(struct inc_core *core);
const char *inc_switch_name(const struct inc_core_switch *sw);
/* Prints what a port of the topology lacks by the switch's last hello, and the remedy, in
 * INC_SWITCH_LACK bytes at most. */
#define INC_SWITCH_LACK (160 + INC_ADDR_TEXT)
void inc_switch_print_lack(const struct inc_core_switch *sw, unsigned int port, char *buf,
			   size_t size);
#define INC_DOWN_TEXT 200 /* size of the buffers for this text */
/* Prints the ports that connected switches cannot use, of those that lead to hosts for which
 * wanted() returns true, or "". At most two are named. */
void inc_switches_print_down(const struct inc_core *core,
			     bool (*wanted)(const void *arg, unsigned int host), const void *arg,
			     char *buf, size_t size);
/* Makes trees avoid the switch for a while if they can, because it is full and has refused a
 * communicator. */
void inc_switch_avoid(struct inc_core_switch *sw);
/* Allocates a queue pair number that no connection of the switch uses. Returns 0 or -errno. */
int inc_switch_qpn_get(struct inc_core_switch *sw, uint32_t *qpn);
void inc_switch_qpn_put(struct inc_core_switch *sw, uint32_t qpn);
/* Marks a queue pair number from the database as used. Returns 0 or -errno. */
int inc_switch_qpn_take(struct inc_core_switch *sw, uint32_t qpn);

/* ---- switch_mode.c ---- */

/* Returns the switch's mode for communicators that begin now, or INC_AUTO. It is what a tool has
 * set, or else what the topology has, or else the switch's own mode. */
uint32_t inc_switch_setting(const struct inc_core_switch *sw);
/* Checks whether the switch supports the mode by its last hello. Returns 0, or -EOPNOTSUPP with the
 * reason. */
int inc_switch_can(const struct inc_core_switch *sw, enum inc_mode_of_switch mode,
		   struct inc_err *err);
/* Sets the switch's mode or INC_AUTO for a tool, or takes it back with INC_MODE_DEFAULT. Returns 0,
 * or -EOPNOTSUPP if the switch does not support the mode. */
int inc_switch_set_mode(struct inc_core_switch *sw, uint32_t mode, struct inc_err *err);
/* Reads from a switch's hello which modes it supports. */
void inc_switch_take_engines(struct inc_core_switch *sw, const struct inc_msg_hello *said);
/* Passes the switch's limits in its mode to route.h, or reports that the switch is absent. */
void inc_switch_offer(struct inc_core_switch *sw);

#endif

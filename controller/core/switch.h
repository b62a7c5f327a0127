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

#define CTL_MIN_QPN      0x100 /* Lower queue pair numbers are reserved by real devices. */
#define CTL_MAX_LISTED   4096  /* communicators that a hello can list */
#define CTL_MAX_REQUESTS 64    /* under way at a switch when another communicator begins */

struct inc_core;
struct inc_core_event;

/* A port of the topology, as the switch's hello describes it. */
struct inc_core_port {
	unsigned int mtu; /* the topology's, if the hello names none */
	bool has_mac;
	uint8_t mac[6];
	/* In termination mode, by kind of endpoint, the largest packet and message in bytes. 0: the
	 * port has no endpoint of this kind. */
	unsigned int payload[INC_N_ENDPOINT_KINDS], message_bytes[INC_N_ENDPOINT_KINDS];
};

/* A mode of a switch. */
struct inc_core_engine {
	bool there; /* The switch supports the mode. */
	struct inc_msg_limits limits;
	bool floats; /* adds all types of floats natively, with each operator */
};

struct inc_core_switch {
	struct inc_core *core;
	unsigned int index; /* in the topology */
	bool connected;
	/* The reason why the controller closes its connection: a message that the switch must have
	 * was lost. NULL: the connection stays. The switch connects again by itself, and its
	 * welcome lists the communicators to keep. */
	const char *to_drop;
	uint64_t since_at_ms; /* connected or absent, by the clock */
	unsigned int asked;   /* requests of the core under way */
	bool mode_set;        /* A tool has set the mode. */
	enum inc_mode_of_switch mode;
	enum inc_mode_of_switch own_mode;            /* of the last hello */
	struct inc_core_engine engines[INC_N_MODES]; /* of the last hello, by mode */
	struct inc_core_port *ports; /* of the last hello, by the topology's ports */
	uint32_t *qpns;              /* queue pair numbers in use */
	size_t n_qpns, qpns_room;
	struct inc_core_timer avoided; /* runs while routes avoid the switch because it was full */
	bool awaited; /* A communicator waits until the switch has answered earlier requests. */
};

/* ---- switch.c ---- */

int inc_switches_init(struct inc_core *core); /* 0 or -ENOMEM */
void inc_switches_free(struct inc_core *core);
/* Handle the events CORE_EVENT_HELLO, CORE_EVENT_SWITCH_LOST and CORE_EVENT_ANSWER. */
void inc_switch_connects(struct inc_core_switch *sw, const struct inc_core_event *hello);
void inc_switch_lost(struct inc_core_switch *sw);
void inc_switch_answers(struct inc_core_switch *sw, const struct inc_core_event *answer);
/* A communicator does not wait for the database any more (inc_comm.storing), so communicators that
 * wait for answers of its switches may go on. */
void inc_switches_go_on(struct inc_core *core);
const char *inc_switch_name(const struct inc_core_switch *sw);
/* The switch has refused a communicator because it is full: for a while trees avoid it if they
 * can. */
void inc_switch_avoid(struct inc_core_switch *sw);
/* Allocates a queue pair number that no connection of the switch uses. 0 or -errno. */
int inc_switch_qpn_get(struct inc_core_switch *sw, uint32_t *qpn);
void inc_switch_qpn_put(struct inc_core_switch *sw, uint32_t qpn);
/* Marks a number from the database as used. 0 or -errno. */
int inc_switch_qpn_take(struct inc_core_switch *sw, uint32_t qpn);

/* ---- switch_mode.c ---- */

/* The mode for communicators that begin now: the one that a tool has set, or else that of the
 * topology, or else that of the switch. */
enum inc_mode_of_switch inc_switch_mode(const struct inc_core_switch *sw);
/* 0, or -EOPNOTSUPP with the reason: the last hello does not name the mode. */
int inc_switch_can(const struct inc_core_switch *sw, enum inc_mode_of_switch mode,
		   struct inc_err *err);
/* Sets the mode for a tool. 0, or -EOPNOTSUPP if the switch does not support the mode. */
int inc_switch_set_mode(struct inc_core_switch *sw, enum inc_mode_of_switch mode,
			struct inc_err *err);
/* Takes the supported modes from a hello. */
void inc_switch_take_engines(struct inc_core_switch *sw, const struct inc_msg_hello *said);
/* Gives route.h the switch's limits in its mode, or that the switch is absent. */
void inc_switch_offer(struct inc_core_switch *sw);

#endif

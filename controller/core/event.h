/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events: what happens to the core. inc_core_step() takes one, changes the core's state, and
 * appends the actions that follow to core->actions. Its caller carries these out before the next
 * step, because the core relies on that order. Everything runs on one thread.
 *
 * The caller owns all memory that an event points to, and may free it after the step.
 */
#ifndef INC_EVENT_H
#define INC_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include "controller/core/action.h"
#include "controller/core/core.h"
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"

enum inc_core_event_kind {
	/* events of a client */
	CORE_EVENT_JOIN,
	CORE_EVENT_RESUME,
	CORE_EVENT_ASK, /* C */
	CORE_EVENT_READY,
	CORE_EVENT_DESTROY, /* D */
	CORE_EVENT_REPORT,  /* failed */
	/* CORE_EVENT_LEFT is the last event of a client, because its connection is over */
	CORE_EVENT_LEFT,
	/* events of a switch */
	CORE_EVENT_HELLO,
	CORE_EVENT_SWITCH_LOST,
	CORE_EVENT_NOTICE, /* a switch's message "event" */
	/* a part of a switch's answer to ASKED_WAITING; CORE_EVENT_ANSWER follows the last part */
	CORE_EVENT_WAITING,
	CORE_EVENT_ANSWER,   /* the answer to ACTION_ASK */
	CORE_EVENT_SET_MODE, /* a tool sets the mode of a switch */
	/* event of the database */
	CORE_EVENT_STORED, /* the answer to ACTION_COMMIT */
	/* inc_core_renumber() has been called, so communicators that wait get a tree again */
	CORE_EVENT_RENUMBERED,
	/* A timer is due (inc_core_due_at_ns()). */
	CORE_EVENT_TIME,
	N_CORE_EVENTS
};

struct inc_core_event {
	enum inc_core_event_kind kind;
	union {
		struct inc_core_client *client;
		struct inc_core_switch *sw;
	};
	union {
		const struct inc_msg_join *join;
		const struct inc_msg_resume *resume;
		/* Members of CORE_EVENT_ASK and CORE_EVENT_REPORT. If only a part of the message
		 * was readable, wrong is -errno. */
		struct {
			union {
				const struct inc_msg_ask *ask;
				const struct inc_msg_report *report;
			};
			int wrong;
			struct inc_err *why;
		};
		/* the communicator's number, for CORE_EVENT_READY and CORE_EVENT_DESTROY */
		uint32_t number;
		struct { /* members of LEFT */
			/* the client has ended its connection in order, with a message bye */
			bool clean;
			/* time in ms for which the client has not answered; 0: its connection has
			 * ended */
			unsigned int silent_ms;
			const char *reason; /* the reason why the client left, for the log */
		};
		struct { /* members of HELLO */
			const struct inc_msg_hello *hello;
			const char *from; /* address and port of the switch, for the log */
			const struct inc_msg_port *ports;
			uint32_t n_ports;
			const uint32_t *listed; /* communicators that the switch has */
			uint32_t n_listed;
			/* number of entries of the hello's list that are no numbers */
			uint32_t n_wrong;
			/* Failures that the switch reports in its hello, because it had no
			 * controller when they occurred. */
			const struct inc_msg_event *failures;
			uint32_t n_failures;
			/* the switch's present notices; those of any other communicator are
			 * over */
			const struct inc_msg_notice *notices;
			uint32_t n_notices;
		};
		struct { /* members of SWITCH_LOST */
			/* the switch's machine has closed the connection, as when its daemon was
			 * killed */
			bool peer_closed;
			/* the switch has announced that it will connect again, because it has a
			 * new hello, or because it closes a connection that does not work */
			bool renews;
		};
		const struct inc_msg_event *notice;
		/* Members of CORE_EVENT_WAITING. The core sets *enough if it needs no further part
		 * of the switch's answer. */
		struct {
			const struct inc_msg_waiting *waiting;
			bool *enough;
		};
		struct { /* members of ANSWER */
			enum inc_asked asked;
			uint32_t of; /* number of the communicator */
			/* Result of the request: 0, or a positive errno if the switch has refused
			 * it or has not answered. */
			int code;
			bool unasked;     /* the request could not be sent to the switch */
			const char *text; /* the reason of the switch's error, if code is not 0 */
			/* The switch's answer. NULL: it was not readable, and text has the
			 * reason. */
			union {
				const struct inc_msg_configured *configured;
				const struct inc_msg_number *connected;
				/* results that the communicator has made; NULL: the switch has no
				 * such communicator */
				const struct inc_msg_tally *results;
			};
		};
		/* Members of CORE_EVENT_SET_MODE. The core sets *error to 0, or to -EOPNOTSUPP with
		 * the reason in *said. */
		struct {
			/* enum inc_mode_of_switch, INC_AUTO or INC_MODE_DEFAULT */
			uint32_t mode;
			int *error;
			struct inc_err *said;
		};
		/* members of CORE_EVENT_STORED; stored is 0, or -errno with the reason in *because
		 */
		struct {
			uint32_t group;
			uint32_t communicator;
			int stored;
			const struct inc_err *because;
		};
	};
};

/* Initialises the core and copies opt. The topology belongs to the caller and must outlive the
 * core. Returns 0, or -errno with the reason. */
int inc_core_init(struct inc_core *core, const struct inc_core_options *opt,
		  const struct inc_topology *topo, struct inc_core_now now, struct inc_err *err);
/* Frees all objects of the core, without a message to any member or switch. */
void inc_core_free(struct inc_core *core);

void inc_core_step(struct inc_core *core, const struct inc_core_event *event,
		   struct inc_core_now now);

/* Marks in map which hosts, switches and ports of the topology are in use: by members and by
 * communicators that have a tree, or by communicators that a switch has. */
void inc_core_mark_used(const struct inc_core *core, struct inc_topo_map *map);
/* Replaces the core's topology. map is that of inc_topology_merge() for topo and the core's own
 * topology, with the marks of inc_core_mark_used(). No switch that is gone may be connected. The
 * caller frees the old topology, and calls inc_core_step() with CORE_EVENT_RENUMBERED next. Returns
 * 0; or -ENOMEM, after which nothing has changed. */
int inc_core_renumber(struct inc_core *core, const struct inc_topology *topo,
		      const struct inc_topo_map *map);

/* Returns the time when the next timer is due; 0: no timer runs. */
uint64_t inc_core_due_at_ns(const struct inc_core *core);

#endif

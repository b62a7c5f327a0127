/* SPDX-License-Identifier: BSD-2-Clause */
/* Communicators as their members see them: a group's ranks ask for one, and use and destroy it
 * (comm.c, comm_report.c). comm_config.h has what switches make of it. */
#ifndef INC_CORE_COMM_H
#define INC_CORE_COMM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "controller/core/core_timer.h"
#include "controller/core/failure_report.h"
#include "controller/core/tree.h"
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/messages.h"

struct inc_core;
struct inc_core_switch;
struct inc_group;
struct inc_member;

enum inc_comm_phase {
	COMM_COLLECTING,  /* waits for the members' C */
	COMM_WAIT_SWITCH, /* waits for switches to connect, or to answer earlier requests */
	COMM_CONFIGURING, /* waits for the switches to make it */
	COMM_CONFIGURED,  /* waits for the members' ready */
	COMM_STARTED,
	COMM_FAILED,  /* the members have the error; stays visible to tools until they leave it */
	COMM_REFUSED, /* failed before it was made; stays until each rank has the error */
};

/* The state of a communicator on one of its switches. */
enum inc_config_state {
	CONFIG_NONE,
	CONFIG_ASKED,   /* configure was sent and is not answered */
	CONFIG_THERE,   /* the switch has the communicator */
	CONFIG_TOLD,    /* as THERE; connect, with its neighbours' numbers, is not answered */
	CONFIG_REFUSED, /* the switch does not have it */
};

struct inc_comm_member {
	bool asked; /* The member has sent C, so it gets the communicator's errors. */
	bool ready;
	bool destroyed;
	bool reported_failure; /* The member has reported the failure, so it needs no report. */
	char transport[INC_CONTROL_TRANSPORT_LEN];
	unsigned int payload;
	unsigned int message_packets; /* 0: the controller chooses by the tree */
	unsigned int window_messages; /* at most in flight */
	enum inc_byte_order byte_order;
	enum inc_float_form floats; /* that the member supports */
	struct inc_route_member route;
	bool has_endpoint; /* endpoint is in a list of the core's hash */
	LIST_ENTRY(inc_comm_member) endpoint;
};

struct inc_comm {
	struct inc_group *group;
	unsigned int index;        /* counts the group's communicators; the members choose it */
	uint32_t number;           /* 0 until CONFIGURING */
	uint32_t place;            /* ascends in the order of creation; pages of answers use it */
	enum inc_comm_phase phase; /* inc_comm_set_phase() */
	unsigned int payload;
	unsigned int slots;
	enum inc_byte_order byte_order;
	enum inc_tree_mode mode; /* the result of the negotiation in comm_mode.c */
	enum inc_float_form floats;
	unsigned int message_packets; /* 0: unknown, because an earlier controller chose it */
	unsigned int messages;        /* in flight at most; 0: each member chooses */
	int code;                     /* FAILED, REFUSED: the error */
	char reason[512];
	struct inc_core_timer timer;
	bool went_around;               /* A full switch has already made it try another tree. */
	struct inc_tree *tree;          /* from WAIT_SWITCH on */
	enum inc_config_state *configs; /* by node of the tree; inc_comm_set_config_state() */
	/* Waits for the database. Its switches count it as a request under way, because their
	 * requests are sent next. */
	bool storing;
	unsigned int pending; /* configure and connect requests that are not answered */
	/* CONFIGURING: the switches in termination mode have chosen their numbers. */
	bool chosen;
	uint64_t asked_at_ns; /* CONFIGURING: when the first configure was sent */
	unsigned int pass;    /* the last of inc_core.passes that has visited it */
	/* Failure reports about ranks that have not come back after a restart of the controller. */
	struct inc_failure_reports failure_reports;
	const struct inc_core_switch *ended; /* the first to which a neighbour reported the end */
	/* A rank that has destroyed it was reported silent, or has not come back. So its switches
	 * are asked whom they wait for, and asked again whenever they connect. */
	bool in_doubt;
	LIST_ENTRY(inc_comm) entry;
	struct inc_comm_member members[]; /* by rank */
};

/* ---- comm.c ---- */

/* Handles C, a member's request for a communicator. wrong: -errno, if only a part of the message
 * could be read; why: the reason. */
void inc_comm_ask(struct inc_member *member, const struct inc_msg_ask *said, int wrong,
		  struct inc_err *why);
void inc_comm_ready(struct inc_member *member, uint32_t number);
/* Handles D, a member's request to destroy a communicator. */
void inc_comm_destroy(struct inc_member *member, uint32_t number);
/* The communicator of this number, or NULL. */
struct inc_comm *inc_comm_find(struct inc_core *core, uint32_t number);
/* The group's communicator of this index. Makes it if there is none. NULL: out of memory. */
struct inc_comm *inc_comm_get_index(struct inc_group *group, unsigned int index);
/* Fails the communicator, and sends its members the error. rank: the rank to blame, or -1. Before
 * the members have the answer to C this may free the communicator. */
void inc_comm_fail(struct inc_comm *comm, int rank, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Sends the stored error to the member of rank "to". */
void inc_comm_tell_failed(const struct inc_comm *comm, unsigned int to, int rank);
/* All switches have made the communicator: sends the members the answer to C. */
void inc_comm_configured(struct inc_comm *comm);
/* Removes the communicator from its switches, and frees it. */
void inc_comm_end(struct inc_comm *comm);
/* Does the same if all members have destroyed it or are gone. */
void inc_comm_end_unused(struct inc_comm *comm);
/* A member has left: frees the REFUSED communicators whose error all other members have. */
void inc_comm_forget_refused(struct inc_group *group);

/* Makes a STARTED communicator of an earlier controller from a member's claim. sw: the member's
 * switch. NULL: out of memory. */
struct inc_comm *inc_comm_adopt(struct inc_group *group, const struct inc_msg_claim *said,
				struct inc_core_switch *sw);
/* Adds a switch to such a communicator. 0 or -ENOMEM. */
int inc_comm_adopt_switch(struct inc_comm *comm, struct inc_core_switch *sw);
/* A switch of such a communicator has connected: sets the mode of the switch's node. */
void inc_comm_adopt_mode(struct inc_comm *comm, const struct inc_core_switch *sw);
/* Makes a COLLECTING communicator for a row of the database. NULL: out of memory. */
struct inc_comm *inc_comm_restore(struct inc_group *group, unsigned int index);

/* ---- comm_report.c ---- */

/* Handles failed, a member's report of a failure; wrong and why as for inc_comm_ask(). */
void inc_comm_report(struct inc_member *member, const struct inc_msg_report *said, int wrong,
		     struct inc_err *why);

/* ---- state_machines.c ---- */

void inc_comm_set_phase(struct inc_comm *comm, enum inc_comm_phase to);
void inc_comm_set_config_state(struct inc_comm *comm, unsigned int node, enum inc_config_state to);
const char *inc_comm_state_name(const struct inc_comm *comm);
const char *inc_comm_phase_name(enum inc_comm_phase phase);

#endif

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
	COMM_COLLECTING,  /* waits for message C of each member, which asks for the communicator */
	COMM_WAIT_SWITCH, /* waits for switches to connect, or to answer earlier requests */
	COMM_CONFIGURING, /* waits for the switches to make the communicator */
	COMM_CONFIGURED,  /* waits for message ready of each member */
	COMM_STARTED,
	/* failed after it was made; stays visible to tools until the members leave it */
	COMM_FAILED,
	COMM_REFUSED, /* failed before it was made; stays until each rank has received the error */
};

/* The state of a communicator on one of its switches. */
enum inc_config_state {
	CONFIG_NONE,
	CONFIG_ASKED, /* message configure was sent to the switch, which has not answered */
	CONFIG_THERE, /* the switch has the communicator */
	/* like THERE, but the switch has not answered message connect yet, which has its
	 * neighbours' numbers */
	CONFIG_TOLD,
	CONFIG_REFUSED, /* the switch does not have the communicator */
};

struct inc_comm_member {
	bool asked; /* The member has sent C, so it gets the communicator's errors. */
	bool ready;
	bool destroyed;
	bool reported_failure; /* The member has reported the failure, so it needs no report. */
	char transport[INC_CONTROL_TRANSPORT_LEN];
	unsigned int payload; /* largest one in a tree with a switch in passthrough mode */
	unsigned int termination_payload; /* largest one in any other tree */
	/* packets of a message; 0: the controller chooses by the tree */
	unsigned int message_packets;
	unsigned int window_messages; /* most messages in flight */
	enum inc_byte_order byte_order;
	enum inc_float_form floats; /* form of floats that the member supports */
	unsigned int channels;      /* channels that it wants; 0: the controller chooses */
	bool reorder; /* the member takes results and sends contributions in any order */
	struct inc_route_member route;
	bool has_endpoint; /* the member is in the core's hash, by entry `endpoint` */
	LIST_ENTRY(inc_comm_member) endpoint;
};

struct inc_comm {
	struct inc_group *group;
	/* index of the communicator in its group, which the members choose; it has the number of
	 * the channel (inc_channel_of()) */
	unsigned int index;
	uint32_t number; /* number of the communicator, 0 before CONFIGURING */
	/* position in the order of creation, by which answers to tools are split into pages */
	uint32_t place;
	enum inc_comm_phase phase; /* set by inc_comm_set_phase() only */
	unsigned int payload;
	unsigned int slots;
	enum inc_byte_order byte_order;
	/* mode of the tree, the result of the negotiation in comm_mode.c */
	enum inc_tree_mode mode;
	enum inc_float_form floats;
	bool reorder; /* contributions are kept and results are sent in any order */
	/* packets of a message; 0: unknown, because an earlier controller chose it */
	unsigned int message_packets;
	unsigned int messages; /* most messages in flight; 0: each member chooses */
	/* of channel 0: channels that the members shall have, as the negotiation found them */
	unsigned int channels;
	int code; /* FAILED, REFUSED: errno of the failure */
	char reason[512];
	struct inc_core_timer timer;
	/* A full switch has refused the communicator, and another tree was tried. */
	bool went_around;
	struct inc_tree *tree; /* switches of the communicator; NULL before WAIT_SWITCH */
	/* state on each switch, by node of the tree; set by inc_comm_set_config_state() only */
	enum inc_config_state *configs;
	/* The communicator waits for the database. Its switches count it as a request under way,
	 * because the communicator's requests to them are sent next. */
	bool storing;
	unsigned int pending; /* number of configure and connect requests that are not answered */
	/* CONFIGURING: the switches in termination mode have chosen their numbers. */
	bool chosen;
	uint64_t asked_at_ns; /* CONFIGURING: time when the first configure was sent */
	/* the last pass of go_on() (inc_core.passes) that has visited the communicator */
	unsigned int pass;
	/* Failure reports about ranks that have not come back after a restart of the controller. */
	struct inc_failure_reports failure_reports;
	/* first switch to which a neighbour reported the communicator's end */
	const struct inc_core_switch *ended;
	/* A rank that has destroyed the communicator was reported silent, or has not come back. So
	 * the communicator's switches are asked for which ranks they wait, and asked again whenever
	 * they connect. */
	bool in_doubt;
	LIST_ENTRY(inc_comm) entry;
	struct inc_comm_member members[]; /* by rank */
};

/* ---- comm.c ---- */

/* Handles message C, a member's request for a communicator. If only a part of the message could be
 * read, wrong is -errno and why has the reason. */
void inc_comm_ask(struct inc_member *member, const struct inc_msg_ask *said, int wrong,
		  struct inc_err *why);
void inc_comm_ready(struct inc_member *member, uint32_t number);
/* Handles message D, a member's request to destroy a communicator. */
void inc_comm_destroy(struct inc_member *member, uint32_t number);
/* Finds the communicator of this number; NULL if there is none. */
struct inc_comm *inc_comm_find(struct inc_core *core, uint32_t number);
/* Finds the group's communicator of this index, and makes it if there is none. Returns NULL if
 * there is no memory. */
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
/* Does the same as inc_comm_end() if all members have destroyed the communicator or are gone. */
void inc_comm_end_unused(struct inc_comm *comm);
/* A member has left: frees the REFUSED communicators whose error all other members have
 * received. */
void inc_comm_forget_refused(struct inc_group *group);

/* Makes a STARTED communicator of an earlier controller from a member's claim. sw: the member's
 * switch. Returns NULL if there is no memory. */
struct inc_comm *inc_comm_adopt(struct inc_group *group, const struct inc_msg_claim *said,
				struct inc_core_switch *sw);
/* Adds a switch to a communicator that inc_comm_adopt() has made. Returns 0 or -ENOMEM. */
int inc_comm_adopt_switch(struct inc_comm *comm, struct inc_core_switch *sw);
/* A switch of a communicator that inc_comm_adopt() has made has connected: sets the mode of the
 * switch's node. */
void inc_comm_adopt_mode(struct inc_comm *comm, const struct inc_core_switch *sw);
/* Makes a COLLECTING communicator for a row of the database. Returns NULL if there is no memory. */
struct inc_comm *inc_comm_restore(struct inc_group *group, unsigned int index);

/* ---- comm_report.c ---- */

/* Counts the channels that the members' communicator has, this one included. */
unsigned int inc_comm_count_channels(const struct inc_comm *comm);
/* A channel that ran has failed, and its reason is stored: fails the other channels of the members'
 * communicator that run. */
void inc_comm_fail_channels(const struct inc_comm *comm, int rank);

/* Handles message failed, a member's report of a failure; wrong and why as for inc_comm_ask(). */
void inc_comm_report(struct inc_member *member, const struct inc_msg_report *said, int wrong,
		     struct inc_err *why);

/* ---- state_machines.c ---- */

void inc_comm_set_phase(struct inc_comm *comm, enum inc_comm_phase to);
void inc_comm_set_config_state(struct inc_comm *comm, unsigned int node, enum inc_config_state to);
const char *inc_comm_state_name(const struct inc_comm *comm);
const char *inc_comm_phase_name(enum inc_comm_phase phase);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Communicators as their members see them: a group's ranks ask for one, and use and destroy it
 * (comm.c, comm_report.c). comm_config.h has what switches make of it. */
#ifndef INC_CORE_COMM_H
#define INC_CORE_COMM_H

#include <stdbool.h>
#include <stddef.h>
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
	/* the communicator waits for message C of each member, which asks for it */
	COMM_COLLECTING,
	/* the communicator waits for switches to connect, or to answer earlier requests */
	COMM_WAIT_SWITCH,
	COMM_CONFIGURING, /* the communicator waits until all its switches have made it */
	COMM_CONFIGURED,  /* the communicator waits for message ready of each member */
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
	/* CONFIG_TOLD: the switch has the communicator, but has not answered message connect yet.
	 * That message has the numbers of the neighbours' connections. */
	CONFIG_TOLD,
	CONFIG_REFUSED, /* the switch does not have the communicator, and will not get it */
};

struct inc_comm_member {
	bool asked; /* The member has sent C, so it gets the communicator's errors. */
	bool ready;
	bool destroyed;
	/* the member has reported the communicator's failure, so it need not receive that
	 * failure */
	bool reported_failure;
	char transport[INC_CONTROL_TRANSPORT_LEN];
	/* largest payload of the member in a tree with a passthrough switch */
	unsigned int payload;
	unsigned int termination_payload; /* largest payload of the member in any other tree */
	/* packets of a message, as the member wants; 0: the controller chooses by the tree */
	unsigned int message_packets;
	unsigned int window_messages; /* most messages of the member that may be in flight */
	enum inc_byte_order byte_order;
	/* form of floats that the member supports: native, or only fixed point */
	enum inc_float_form floats;
	/* number of channels that the member wants; 0: the controller chooses */
	unsigned int channels;
	bool reorder; /* the member accepts results and sends contributions in any order */
	/* the member's use of the communicator; has_use is false if it has not named it */
	bool has_use;
	struct inc_msg_use use;
	uint32_t rails; /* the host's NICs that the member can use, a bit for each */
	struct inc_route_member route;
	bool has_endpoint; /* the member is in the hash of endpoints of the core */
	LIST_ENTRY(inc_comm_member) endpoint;
};

struct inc_comm {
	struct inc_group *group;
	/* index of the communicator in its group, which is the same on all members. It includes the
	 * number of the channel (inc_channel_of()). */
	unsigned int index;
	uint32_t number; /* the controller's number of the communicator; 0 before CONFIGURING */
	/* Position in the order of creation. The answers to tools are split into pages by it. */
	uint32_t place;
	enum inc_comm_phase phase; /* set by inc_comm_set_phase() only */
	unsigned int payload;
	unsigned int slots;
	enum inc_byte_order byte_order;
	/* the mode of the tree, which the negotiation in comm_mode.c determines */
	enum inc_tree_mode mode;
	/* why the controller has chosen this mode, for people; empty: it had no choice, or an
	 * earlier controller has chosen */
	char choice[INC_CONTROL_CHOICE_LEN];
	enum inc_float_form floats;
	/* a switch keeps contributions ahead of a gap and sends results in any order */
	bool reorder;
	/* packets of a message of the communicator; 0: unknown, because an earlier controller chose
	 * it */
	unsigned int message_packets;
	unsigned int messages; /* most messages of each member in flight; 0: each member chooses */
	/* The rails that all members can use, a bit for each. Channel 0 has them; 0: there is none,
	 * so each member has one NIC for all channels. */
	uint32_t rails;
	/* Number of channels that the members shall have, as comm_mode.c has negotiated it. Only
	 * channel 0 of a communicator has it. */
	unsigned int channels;
	int code; /* errno of the failure, in state FAILED or REFUSED */
	char reason[512];
	struct inc_core_timer timer;
	/* of the members, in a phase in which the communicator waits for other ranks or switches */
	struct inc_core_wait wait;
	/* A switch that was full has refused the communicator, and another tree was tried once. */
	bool went_around;
	/* tree of switches that the communicator uses; NULL before WAIT_SWITCH */
	struct inc_tree *tree;
	/* The state of the communicator on each switch of its tree, by node. Only
	 * inc_comm_set_config_state() sets it. */
	enum inc_config_state *configs;
	/* The communicator waits for the database. Its switches count it as a request under way,
	 * because the communicator's requests to them are sent next. */
	bool storing;
	/* number of configure and connect requests that the switches have not answered */
	unsigned int pending;
	/* All switches in termination mode have chosen the numbers of their connections. */
	bool chosen;
	uint64_t asked_at_ns; /* time when the first configure was sent to a switch */
	/* number of the last pass of go_on() over all communicators (inc_core.passes) that came to
	 * this one */
	unsigned int pass;
	/* Failure reports about ranks that have not come back after a restart of the controller. */
	struct inc_failure_reports failure_reports;
	struct inc_standings standings; /* the present notices of its switches */
	/* first switch that reported that a neighbour has ended the communicator; NULL: none */
	const struct inc_core_switch *ended;
	/* A rank that has destroyed the communicator was reported silent, or has not come back. So
	 * the communicator's switches are asked for which ranks they wait, and asked again whenever
	 * they connect. */
	bool in_doubt;
	LIST_ENTRY(inc_comm) entry;
	struct inc_comm_member members[]; /* by rank */
};

/* ---- comm.c ---- */

/* Handles message C, by which a member asks for a communicator. If the message was only partly
 * readable, wrong is -errno, and why has the reason. */
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
/* Fails the communicator, and sends its members the error. rank is the rank to blame, or -1. The
 * function may free the communicator before the members have received the answer to C. */
void inc_comm_fail(struct inc_comm *comm, int rank, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Sends the error of the failed communicator to the member of rank "to". */
void inc_comm_tell_failed(const struct inc_comm *comm, unsigned int to, int rank);
/* Sends the members the answer to message C, because all switches have made the communicator. */
void inc_comm_configured(struct inc_comm *comm);
/* Returns the port of the switch to which the rank's connection belongs. It may drain, and then the
 * rank's host is at another port by now. */
const struct inc_topo_port *inc_comm_host_port(const struct inc_comm *comm, unsigned int rank);
/* Removes the communicator from its switches, and frees it. */
void inc_comm_end(struct inc_comm *comm);
/* Does the same as inc_comm_end() if all members have destroyed the communicator or are gone. */
void inc_comm_end_unused(struct inc_comm *comm);
/* Frees the REFUSED communicators whose error all members that are left have received. Called when
 * a member has left, or has reported the failure of a refused communicator itself. */
void inc_comm_forget_refused(struct inc_group *group);

/* ---- rails.c ---- */

/* Reads from a message C which NIC of the member's host the connection has, and which ones the
 * member can use. Logs which ones it cannot use any more, or again. Returns 0, or -EADDRNOTAVAIL if
 * the host has no such NIC. */
int inc_rails_take(struct inc_member *member, const struct inc_msg_ask *ask,
		   struct inc_comm_member *m, struct inc_err *err);
/* Finds the rails of a communicator for which all members have asked. If one of them has asked by a
 * NIC of another rail than the first, it receives an error with the address from which it shall ask
 * again. Returns whether there is no such member, so that the communicator can be configured. */
bool inc_comm_find_rails(struct inc_comm *comm);
/* Fills in the addresses that the member's channels use in turn. */
void inc_comm_list_rails(const struct inc_comm *comm, const struct inc_member *member,
			 struct inc_msg_made *made);
/* Fills in the addresses of all NICs of the member's host, if it has several. */
void inc_rails_announce(const struct inc_member *member, struct inc_msg_joined *joined);

/* ---- comm.c ---- */

/* Makes a STARTED communicator of an earlier controller from a member's claim. sw: the member's
 * switch. Returns NULL if there is no memory. */
struct inc_comm *inc_comm_adopt(struct inc_group *group, const struct inc_msg_claim *said,
				struct inc_core_switch *sw);
/* Adds a switch to a communicator that inc_comm_adopt() has made. Returns 0 or -ENOMEM. */
int inc_comm_adopt_switch(struct inc_comm *comm, struct inc_core_switch *sw);
/* Sets the mode of a switch's node in a communicator that inc_comm_adopt() has made, because the
 * switch has connected. */
void inc_comm_adopt_mode(struct inc_comm *comm, const struct inc_core_switch *sw);
/* Makes a COLLECTING communicator for a row of the database. Returns NULL if there is no memory. */
struct inc_comm *inc_comm_restore(struct inc_group *group, unsigned int index);

/* ---- comm_report.c ---- */

/* Counts the channels that the members' communicator has, this one included. */
unsigned int inc_comm_count_channels(const struct inc_comm *comm);
/* Fails the other running channels of the members' communicator, because this channel ran and has
 * failed. They get the reason that this channel has stored. */
void inc_comm_fail_channels(const struct inc_comm *comm, int rank);

/* Records that the communicator has failed. The channels of a communicator that fail for one reason
 * have one record. */
void inc_comm_record_failure(const struct inc_comm *comm);

/* Function of the timer: the communicator's phase has reached its time limit. */
void inc_comm_on_timeout(void *comm);
/* Function of the wait's timer: reports to the members that wait which ranks are missing. */
void inc_comm_on_wait(void *comm);

/* Prints the ranks, or the switch, for which the communicator waits while it is created. Returns
 * false if it waits for none, or only for the answers of connected switches. */
bool inc_comm_describe_wait(const struct inc_comm *comm, char *buf, size_t size);
/* Prints which ports are down of those that lead to these ranks' hosts, or "". */
void inc_comm_print_down(const struct inc_comm *comm, char *buf, size_t size);

/* Handles message failed, by which a member reports a failure. wrong and why are the same as for
 * inc_comm_ask(). */
void inc_comm_report(struct inc_member *member, const struct inc_msg_report *said, int wrong,
		     struct inc_err *why);

/* ---- state_machines.c ---- */

void inc_comm_set_phase(struct inc_comm *comm, enum inc_comm_phase to);
void inc_comm_set_config_state(struct inc_comm *comm, unsigned int node, enum inc_config_state to);
const char *inc_comm_state_name(const struct inc_comm *comm);
const char *inc_comm_phase_name(enum inc_comm_phase phase);

#endif

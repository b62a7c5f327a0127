/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups and their members: all ranks of a job. group.c forms and ends groups, and resume.c takes
 * back the members of an earlier controller's groups. */
#ifndef INC_CORE_GROUP_H
#define INC_CORE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "controller/core/core.h"
#include "controller/core/core_timer.h"
#include "lib/base/err.h"
#include "lib/conf/messages.h"

struct inc_comm;
struct inc_group;
struct inc_tree;

struct inc_member {
	struct inc_group *group;
	/* client of the member; NULL: the member is not connected */
	struct inc_core_client *client;
	/* A client has taken this rank. In a group that has formed, this stays true after the
	 * member has left. */
	bool present;
	unsigned int rank;
	unsigned int host; /* index of the member's host in the topology */
	/* index of the NIC that the member uses unless it names another one of its host */
	unsigned int nic;
	bool ipv4_alone;         /* it named no IPv6 address, so its library may not know them */
	uint32_t rails_out;      /* the host's NICs that the member does not use, a bit for each */
	char node[CTL_NAME_MAX]; /* the host name that the member gives itself, shown by incctl */
	/* the machine of the member, and the place where its members can meet; "": not known */
	char machine[INC_CONTROL_MACHINE_LEN], meeting[INC_CONTROL_MEETING_LEN];
	/* The member can share memory also in a group that spans machines. */
	bool spans;
	/* The rank that has this member's connections to switches: the member's own one, or that of
	 * the machine's lowest rank, which leads the others. */
	unsigned int leader;
	/* how long the member was silent, if it is lost for that; else 0 */
	unsigned int silent_ms;
};

enum inc_group_phase {
	GROUP_FORMING,  /* the group waits until all ranks have joined */
	GROUP_RUNNING,  /* all ranks have joined */
	GROUP_RESTORED, /* restored from the database; runs again as soon as all ranks are back */
	/* GROUP_RETURNING: the ranks of an earlier controller's group come back. Nothing new begins
	 * in the group. */
	GROUP_RETURNING,
	/* GROUP_SETTLED: the ranks of an earlier controller's group can no longer come back.
	 * Nothing new begins in the group. */
	GROUP_SETTLED,
	GROUP_OVER, /* a rank was lost or has left, so nothing new begins in the group */
};

struct inc_group {
	struct inc_core *core;
	uint32_t number;
	char job[CTL_NAME_MAX];
	unsigned int world_size;
	unsigned int connected;     /* number of members that are connected */
	enum inc_group_phase phase; /* set by inc_group_set_phase() only */
	bool storing; /* all ranks have joined, and the group waits until the database has it */
	/* From GROUP_RETURNING on, the reason why nothing new can begin in the group. It names the
	 * first rank that was lost, or else the first one that has left. */
	char over[256];
	int over_code;
	uint64_t since_at_ms;
	uint32_t of; /* number of the group from which this one was derived; 0: unknown, or none */
	enum inc_derive_how how;
	/* The number of derivations from this group so far. derived[0] counts splits, duplicates
	 * and grows, and derived[1] shrinks (inc_derive_count()). */
	uint32_t derived[2];
	/* limit of the phases FORMING, RESTORED, RETURNING and SETTLED */
	struct inc_core_timer timer;
	struct inc_core_wait wait; /* of the members in phase FORMING for the other ranks */
	LIST_HEAD(comm_list, inc_comm) comms;
	unsigned int n_comms;   /* number of communicators in comms that are not REFUSED */
	unsigned int n_refused; /* number of communicators in comms that are REFUSED */
	LIST_ENTRY(inc_group) entry;
	struct inc_member members[]; /* by rank */
};

/* Whether another rank of the same machine has the rank's connections to switches. Then this rank
 * asks for no communicator. */
static inline bool inc_group_is_led(const struct inc_group *group, unsigned int rank)
{
	return group->members[rank].leader != rank;
}
static inline bool inc_group_formed(const struct inc_group *group)
{
	return group->phase != GROUP_FORMING;
}
/* Whether the group comes from an earlier controller and its ranks are not all back, so that
 * nothing new can begin in it. A group in phase RESTORED begins anew when all are back, so it does
 * not count. */
static inline bool inc_group_resumed(const struct inc_group *group)
{
	return group->phase == GROUP_RETURNING || group->phase == GROUP_SETTLED;
}
/* Whether nothing new can begin in the group. */
static inline bool inc_group_ended(const struct inc_group *group)
{
	return group->phase >= GROUP_RETURNING;
}

/* ---- group.c ---- */

/* Records for tools that a group has failed, or one of its communicators (0: none). */
void inc_group_record_failure(const struct inc_group *group, uint32_t communicator,
			      const char *reason);

/* The fields that the messages G and resume have in common, checked against the topology. */
struct inc_join {
	char job[CTL_NAME_MAX];
	char node[CTL_NAME_MAX];
	uint32_t rank;
	uint32_t world_size;
	unsigned int host, nic;
	bool spans, ipv4_alone;
	char machine[INC_CONTROL_MACHINE_LEN], meeting[INC_CONTROL_MEETING_LEN];
};
/* Reads the fields that messages G and resume have in common. Returns 0, or -errno with the reason
 * why they do not fit the topology. */
int inc_group_check_join(const struct inc_core *core, const struct inc_msg_join *said,
			 struct inc_join *join, struct inc_err *err);
/* Does the same for a member of a new group, for which the topology must have room, too. The ranks
 * of an earlier group had room. Some of them may be led there, which their resume does not show. */
int inc_group_check_newcomer(const struct inc_core *core, const struct inc_msg_join *said,
			     struct inc_join *join, struct inc_err *err);
/* Checks whether a newcomer may use its host. A host that drains takes no new job, but the ranks of
 * a job that uses it may still come. group is NULL if the job is new. Returns 0 or -EADDRNOTAVAIL.
 */
int inc_group_check_host(const struct inc_core *core, const struct inc_group *group,
			 unsigned int host, struct inc_err *err);
/* rails.c: finds the member's host and NIC in the topology, or else among what drains. Returns 0 or
 * -EADDRNOTAVAIL. */
int inc_rails_find_host(const struct inc_core *core, const struct inc_msg_join *said,
			struct inc_join *join, struct inc_err *err);
/* Handles message G, the request to join a job's group. */
void inc_group_join(struct inc_core_client *client, const struct inc_msg_join *said);
/* Makes a group in phase RETURNING, without members. An earlier controller has allocated its
 * number. Returns NULL if there is no memory. */
struct inc_group *inc_group_adopt(struct inc_core *core, const char *job, unsigned int world_size,
				  uint32_t number);
/* Makes a group from the database, in phase RESTORED and without members. Returns NULL if there is
 * no memory. */
struct inc_group *inc_group_restore(struct inc_core *core, const char *job, unsigned int world_size,
				    uint32_t number);
/* Makes a group that is derived from a parent group, without members. Returns NULL if there is no
 * memory. */
struct inc_group *inc_group_derive(const struct inc_group *parent, enum inc_derive_how how,
				   unsigned int world_size);
/* Finds the group of this number; NULL if there is none. */
struct inc_group *inc_group_find(const struct inc_core *core, uint32_t number);
/* Makes the client the member of the rank that join names. A new group forms when its last rank has
 * joined. */
void inc_group_enter(struct inc_group *group, struct inc_core_client *client,
		     const struct inc_join *join);
/* Sends a member the reason why its connection ends next: it has not answered for ms
 * milliseconds. */
void inc_group_silent(struct inc_member *member, unsigned int ms);
/* Handles that a member's connection is over. clean: the connection ended with a bye. reason: text
 * for the log. */
void inc_group_leave(struct inc_member *member, bool clean, const char *reason);
/* Handles the database's answer for a group that forms. stored is 0, or -errno with the reason in
 * because. */
void inc_group_stored(struct inc_core *core, uint32_t number, int stored,
		      const struct inc_err *because);
void inc_group_free(struct inc_group *group);
void inc_groups_free(struct inc_core *core);
/* Returns the state of a group as incctl shows it: IDLE, CREATING_GROUP, GROUP_READY, CREATING_COMM
 * or COMM_READY. */
const char *inc_group_state_name(const struct inc_group *group);
/* Returns a text that names a member, such as "rank 2 (h2, 10.77.2.1)". Each call overwrites the
 * text of the call before. */
const char *inc_member_name(const struct inc_member *member);
/* Whether two hosts have one address. A host that drains may have that of a host with another
 * name. */
bool inc_same_host(const struct inc_core *core, unsigned int one, unsigned int other);
/* Prints a list of ranks such as "rank 2 (h2, …), rank 5". It has the ranks below n for which
 * name() returns a text. */
void inc_list_ranks(unsigned int n, const char *(*name)(const void *arg, unsigned int rank),
		    const void *arg, char *buf, size_t size);
/* Prints the ranks of the group that have not joined. */
void inc_group_list_absent(const struct inc_group *group, char *buf, size_t size);
/* Prints which ports are down of those that lead to hosts without a rank of the group, or "". A
 * missing rank may be behind one. (comm_report.c) */
void inc_group_print_down(const struct inc_group *group, char *buf, size_t size);

/* ---- leader.c ---- */

/* Returns where the group's ranks meet, or "" if their machines differ or a segment of memory is
 * for fewer ranks. */
const char *inc_group_meeting(const struct inc_group *group);
/* Finds the leader of each rank in a group that spans machines. Returns the number of leaders. No
 * rank is led if one of the ranks cannot share memory, or if a machine has too many. */
unsigned int inc_group_find_leaders(struct inc_group *group);
/* Returns a text like inc_member_name(), which also names the ranks that the member leads, as in
 * "rank 2 (h2, 10.77.2.1), which leads ranks 2-3". Each call overwrites the text of the call
 * before. */
const char *inc_leader_name(const struct inc_member *member);
/* Fills in where the member meets the other ranks of its machine. */
void inc_group_announce(const struct inc_member *member, struct inc_msg_joined *joined);
/* Lists the NICs of a communicator's leaders, in the order of their ranks, and returns their
 * number. */
unsigned int inc_comm_leader_hosts(const struct inc_comm *comm, unsigned int *hosts);
/* Gives a tree of the group's leaders their ranks, and those of the ranks that they lead. Returns 0
 * or -ENOMEM. */
int inc_group_lead_tree(const struct inc_group *group, struct inc_tree *tree, struct inc_err *err);
/* Marks the led ranks as through with a new communicator, because they take no part in it. */
void inc_comm_mark_led(struct inc_comm *comm);

/* ---- resume.c ---- */

/* Handles message resume, the request of a member to come back to a group of an earlier
 * controller. */
void inc_group_resume(struct inc_core_client *client, const struct inc_msg_resume *said);
/* Whether the rank has not come back to an earlier controller's group, but still may. */
bool inc_group_awaits(const struct inc_group *group, unsigned int rank);
/* Handles that the group's ranks can no longer come back, because their time is over. May free the
 * group. */
void inc_group_settle(struct inc_group *group);
/* Called once a second for a SETTLED group: fails its communicators that wait for a rank that has
 * not come back. */
void inc_group_recheck(struct inc_group *group);

/* ---- state_machines.c ---- */

void inc_group_set_phase(struct inc_group *group, enum inc_group_phase to);
const char *inc_group_phase_name(enum inc_group_phase phase);

#endif

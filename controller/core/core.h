/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The controller's core: groups, communicators and what switches have of them. The core is values
 * only. An event goes in (inc_core_step()), and actions come out (action.h), which net/ and store/
 * carry out. So the core has no socket, no JSON, no database, no clock and no event loop, and a
 * test can drive it through any order of events.
 *
 *	client   a connection on the member port: a member of a group, or a tool
 *	member   a rank of a group; outlives its client by the group's reaction to the loss
 *	group    all ranks of a job
 *	derivation  ranks of a group that come together for groups made of it
 *	comm     a communicator of a group: collected, configured, ready, started, ended; or
 *	         refused, and kept until all ranks know why
 *	switch   a switch of the topology, connected or absent
 *	orphan   a communicator that a switch has and no member has claimed
 *
 * An answer names its object by number, not by pointer, because the object may be gone by then.
 */
#ifndef INC_CORE_H
#define INC_CORE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/queue.h>
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"
#include "controller/core/route.h"
#include "controller/core/tree.h"
#include "controller/core/action.h"
#include "controller/core/core_timer.h"
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/messages.h"
#include "lib/conf/ranks.h"
#include "lib/metric/metric.h"
#include "lib/topology/topology.h"

#define CTL_MAX_WORLD     INC_MAX_WORLD
#define CTL_MAX_COMMS     INC_MAX_GROUP_COMMS /* as many are remembered as refused */
#define CTL_NAME_MAX      INC_CONTROL_NAME_LEN
#define CTL_MIN_QPN       0x100 /* of a switch: leaves what real devices keep for themselves */
#define CTL_MAX_LISTED    4096  /* communicators that a switch can say it has */
#define CTL_MAX_REQUESTS  64    /* under way at a switch, when another communicator begins */
#define CTL_ENDPOINT_BITS 14    /* of a hash: a thousand communicators of 64 ranks */

struct inc_comm;
struct inc_core_switch;
struct inc_derivation;
struct inc_group;
struct inc_member;

/* Kinds of events that switches tell, and what each means for its communicator. The last one stands
 * for all that are not known. */
enum inc_event_kind {
	EVENT_MISMATCH,
	EVENT_CONNECTION_ERROR,
	EVENT_PEER_NAK,
	EVENT_UNRESPONSIVE,
	EVENT_PORT_LOST,
	EVENT_PORT_BACK,
	EVENT_ENDED,
	EVENT_STOPPED,
	EVENT_OTHER,
	EVENT_MAX
};
struct inc_event_info {
	const char *name;
	int code; /* 0: the communicator lives on */
};
extern const struct inc_event_info inc_event_info[EVENT_MAX];

/* What is in [first, next) and has not been skipped was given by this controller. */
struct inc_number_allocator {
	uint32_t first, next;
	uint32_t *skipped; /* ascending from first on */
	size_t n_skipped, skipped_room;
};

/* The options of the command line that the core reads. */
struct inc_core_options {
	unsigned int group_timeout_ms;
	unsigned int switch_timeout_ms;
	unsigned int member_timeout_ms; /* without an answer; 0: any time */
	unsigned int job_communicators;
	unsigned int job_slots; /* 0: any number */
};

#define INC_CORE_FIGURES(_, T)                                                           \
	_(T, configured, "", COUNTER, "communicators that all their switches have made") \
	_(T, refused, "", COUNTER, "communicators that were not made")                   \
	_(T, failed, "", COUNTER, "communicators that have failed after they were made") \
	_(T, configure_us, "microseconds", COUNTER,                                      \
	  "from the first configure to the last answer, of all communicators that were made")

struct inc_core_figures { /* since the start */
	INC_CORE_FIGURES(INC_METRIC_FIELD, inc_core_figures)
};

/* The time of an event. awake_ns is the time that the controller was awake (lib/base/awake.h), by
 * which all time limits run. clock_ms is the clock, for ages that tools are shown. */
struct inc_core_now {
	uint64_t awake_ns;
	uint64_t clock_ms;
};

struct inc_core {
	struct inc_core_options opt;
	const struct inc_topology *topo;
	struct inc_core_now now; /* of the last event */
	struct inc_core_timers timers;
	struct inc_actions actions; /* of the last event, not carried out yet */
	struct inc_routes *routes;
	struct inc_core_switch *switches; /* one per switch of the topology, same index */
	LIST_HEAD(group_list, inc_group) groups;
	LIST_HEAD(, inc_derivation) derivations;
	LIST_HEAD(, inc_orphan) orphans;
	uint32_t last_place;
	struct inc_number_allocator group_numbers, comm_numbers;
	/* where members receive: endpoint.c */
	LIST_HEAD(, inc_comm_member) endpoints[1 << CTL_ENDPOINT_BITS];
	/* Every communicator that this controller's switches have is in the database, or has ended.
	 */
	bool knows_all;
	struct inc_core_figures figures;
	uint64_t events[EVENT_MAX];
	/* passes of go_on() (comm_config.c); inc_comm.pass is the last that saw it */
	unsigned int passes;
};

/* The core's part of a connection on the member port. Its owner (net/member.c) fills in core,
 * address and peer, and frees it after the event that says that the connection is over. */
struct inc_core_client {
	struct inc_core *core;
	const char *address; /* of the peer, without its port */
	const char *peer;    /* the same with it, for the log */
	struct inc_member *member;
	struct inc_derivation *derivation; /* waits there, for a group that is made of another */
	unsigned int place;                /* its rank there */
	bool message_lost; /* A message for it was lost for want of memory, so its connection is to
			      end. */
};

struct inc_member {
	struct inc_group *group;
	struct inc_core_client *client; /* NULL: has left */
	bool present; /* a client has taken this rank; for good, once the group has formed */
	unsigned int rank;
	unsigned int host;       /* of the topology */
	char node[CTL_NAME_MAX]; /* the host name that the member gives itself, shown by incctl */
	unsigned int silent_ms; /* it is lost because it did not answer for so long; 0: it is not */
};

enum inc_group_phase {
	GROUP_FORMING,   /* waits for its ranks */
	GROUP_RUNNING,   /* all have come */
	GROUP_RESTORED,  /* of the database: the same, as soon as all ranks are back */
	GROUP_RETURNING, /* an earlier controller's: ranks come as they find this one */
	GROUP_SETTLED,   /* the same later: ranks that have not come are gone */
	GROUP_OVER,      /* a rank was lost, or has left */
};

struct inc_group {
	struct inc_core *core;
	uint32_t number;
	char job[CTL_NAME_MAX];
	unsigned int world_size;
	unsigned int connected;     /* members with a client */
	enum inc_group_phase phase; /* inc_group_set_phase() */
	bool storing;               /* it forms as soon as the database has it */
	/* from RETURNING on, why nothing new can begin: the first loss, or else who left first */
	char over[256];
	int over_code;
	uint64_t since_at_ms;
	uint32_t of; /* the group that it was made of; 0: none that is known */
	enum inc_derive_how how;
	/* rounds of what was made of it: splits, duplicates and grows, and shrinks */
	uint32_t derived[2];
	struct inc_core_timer timer; /* while FORMING, RESTORED or RETURNING */
	LIST_HEAD(comm_list, inc_comm) comms;
	unsigned int n_comms; /* those REFUSED apart */
	unsigned int n_refused;
	LIST_ENTRY(inc_group) entry;
	struct inc_member members[]; /* by rank */
};

enum inc_derive_phase {
	DERIVE_COLLECTING, /* waits for the ranks that must come */
	DERIVE_REFUSED,    /* comes to nothing; kept until every rank has heard why */
};

enum inc_comm_phase {
	COMM_COLLECTING,  /* waits for the members' C */
	COMM_WAIT_SWITCH, /* waits for switches to connect, or to answer for others first */
	COMM_CONFIGURING, /* waits for the switches' configured */
	COMM_CONFIGURED,  /* waits for the members' ready */
	COMM_STARTED,
	COMM_FAILED,  /* members were told; kept for inspection until they leave it */
	COMM_REFUSED, /* ended before it was configured; kept until every rank has heard why */
};

/* What a switch has of a communicator. */
enum inc_config_state {
	CONFIG_NONE,
	CONFIG_ASKED,   /* configure is on its way */
	CONFIG_THERE,   /* the switch has it */
	CONFIG_TOLD,    /* the same, and its neighbours' numbers are on their way to it */
	CONFIG_REFUSED, /* the switch does not have it */
};

struct inc_comm_member {
	bool asked;
	bool ready;
	bool destroyed;
	bool reported_failure; /* has said itself that it has failed */
	char transport[INC_CONTROL_TRANSPORT_LEN];
	unsigned int payload;
	unsigned int message_packets; /* 0: what suits the tree */
	unsigned int window_messages; /* under way at most */
	enum inc_byte_order byte_order;
	enum inc_float_form floats; /* what it can */
	struct inc_route_member route;
	bool has_endpoint; /* endpoint is in a list */
	LIST_ENTRY(inc_comm_member) endpoint;
};

/* What a switch has said before the members were back. */
struct inc_failure_report {
	int code;
	int rank;             /* that does not answer; -1: it fails for all in any case */
	bool is_own, stopped; /* no peer is to blame; it ended with the switch's daemon */
	const struct inc_core_switch *by; /* NULL: the text says it all */
	char text[320];
	LIST_ENTRY(inc_failure_report) entry;
};
LIST_HEAD(inc_failure_reports, inc_failure_report);

struct inc_comm {
	struct inc_group *group;
	unsigned int index;        /* the group's own count */
	uint32_t number;           /* 0 until configuring */
	uint32_t place;            /* where answers list it: in the order of beginning */
	enum inc_comm_phase phase; /* inc_comm_set_phase() */
	unsigned int payload;
	unsigned int slots;
	enum inc_byte_order byte_order;
	enum inc_tree_mode mode; /* what its switches and members have agreed on: comm_mode.c */
	enum inc_float_form floats;
	unsigned int message_packets; /* 0: not known, since an earlier controller */
	unsigned int messages;        /* 0: as many as each member likes */
	int code;                     /* FAILED, REFUSED: why */
	char reason[512];
	struct inc_core_timer timer;
	bool went_around;      /* a switch without room has made it look for another tree, once */
	struct inc_tree *tree; /* from WAIT_SWITCH on */
	enum inc_config_state *configs; /* by node of the tree; inc_comm_set_config_state() */
	/* The database does not have it yet; its switches are counted as asked, because they are
	 * asked next. */
	bool storing;
	unsigned int pending; /* configure and connect requests not answered */
	bool chosen; /* CONFIGURING: switches in termination mode have chosen their numbers */
	uint64_t asked_at_ns;                       /* CONFIGURING: since when */
	unsigned int pass;                          /* inc_core.passes */
	struct inc_failure_reports failure_reports; /* ranks that have not come back yet */
	const struct inc_core_switch *ended; /* the first whose neighbour told it of its end */
	/* a rank that has destroyed it was said to be silent, or has not come back: its switches
	 * are asked whom they wait for, and asked anew whenever they connect */
	bool in_doubt;
	LIST_ENTRY(inc_comm) entry;
	struct inc_comm_member members[]; /* by rank */
};

/* What a switch has said of a port of the topology. */
struct inc_core_port {
	unsigned int mtu; /* the topology's, where it has said nothing */
	bool has_mac;
	uint8_t mac[6];
	/* in termination mode, by kind of endpoints: bytes of a packet and of a message at most; 0:
	 * there are none */
	unsigned int payload[INC_N_ENDPOINT_KINDS], message_bytes[INC_N_ENDPOINT_KINDS];
};

/* What a switch can in a mode. */
struct inc_core_engine {
	bool there;
	struct inc_msg_limits limits;
	bool floats; /* it adds them as they are, whatever the operator and the type */
};

struct inc_core_switch {
	struct inc_core *core;
	unsigned int index;
	bool connected;
	/* The reason why the controller closes its connection: a message that the switch must have
	 * was lost. NULL: the connection stays. The switch connects again by itself, and its
	 * welcome lists the communicators to keep. */
	const char *to_drop;
	uint64_t since_at_ms; /* connected or absent, by the clock */
	unsigned int asked;   /* requests of the core under way */
	bool mode_set;        /* by a tool: */
	enum inc_mode_of_switch mode;
	enum inc_mode_of_switch own_mode;            /* of the last hello */
	struct inc_core_engine engines[INC_N_MODES]; /* by mode, likewise */
	struct inc_core_port *ports;                 /* the same by the topology's ports */
	uint32_t *qpns;                              /* in use */
	size_t n_qpns, qpns_room;
	struct inc_core_timer avoided; /* runs while it is avoided for want of room */
	bool awaited;                  /* a communicator waits until it has answered for others */
};

/* number_allocator.c */
int inc_number_allocator_init(struct inc_number_allocator *numbers, struct inc_err *err);
void inc_number_allocator_free(struct inc_number_allocator *numbers);
/* Whether somebody has this number, who cannot have it from this controller. */
typedef bool inc_number_in_use(struct inc_core *core, uint32_t number);
/* One that nobody has; 0: no memory. */
uint32_t inc_number_allocate(struct inc_number_allocator *numbers, inc_number_in_use *taken,
			     struct inc_core *core);
/* Whether this controller has given it to anybody, ever. */
bool inc_number_was_allocated(const struct inc_number_allocator *numbers, uint32_t number);

/* endpoint.c */
/* Whether another member receives there: 0 or -EADDRINUSE. */
int inc_endpoint_check(const struct inc_core *core, const struct inc_route_member *at,
		       struct inc_err *err);
/* The member receives where its route says, until it has destroyed its communicator or leaves. */
void inc_endpoint_take(struct inc_core *core, struct inc_comm_member *m);
void inc_endpoint_leave(struct inc_comm_member *m); /* nothing where it has none */

/* failure_report.c */
/* The first one of a rank by a switch is kept. False: no memory. */
bool inc_failure_report_add(struct inc_failure_reports *set,
			    const struct inc_failure_report *report);
void inc_failure_report_remove(struct inc_failure_report *report);
void inc_failure_reports_free(struct inc_failure_reports *set);

/* Both connect from the same address. */
bool inc_core_same_address(const struct inc_core_client *one, const struct inc_core_client *other);

/* group.c */
void inc_group_join(struct inc_core_client *client, const struct inc_msg_join *said); /* G */
struct inc_join {
	char job[CTL_NAME_MAX];
	char node[CTL_NAME_MAX];
	uint32_t rank;
	uint32_t world_size;
	unsigned int host;
};
/* What G and resume have in common: whether it fits the topology. */
int inc_group_check_join(const struct inc_core *core, const struct inc_msg_join *said,
			 struct inc_join *join, struct inc_err *err);
/* A group of an earlier controller, without members yet. NULL: no memory. */
struct inc_group *inc_group_adopt(struct inc_core *core, const char *job, unsigned int world_size,
				  uint32_t number);
/* The one of this number, or NULL. */
struct inc_group *inc_group_find(const struct inc_core *core, uint32_t number);
/* A group that is made of another one, without members yet. NULL: no memory. */
struct inc_group *inc_group_derive(const struct inc_group *parent, enum inc_derive_how how,
				   unsigned int world_size);
/* The client becomes the group's member; the last one of a new group forms it. */
void inc_group_enter(struct inc_group *group, struct inc_core_client *client,
		     const struct inc_join *join);
/* The member has not answered for so long, and is told so. Its connection ends next. */
void inc_group_silent(struct inc_member *member, unsigned int ms);
/* The member's connection is over; reason for the log, clean: after a bye. */
void inc_group_leave(struct inc_member *member, bool clean, const char *reason);
void inc_group_free(struct inc_group *group);
/* The database has a group that forms: 0, or -errno and why it has not. */
void inc_group_stored(struct inc_core *core, uint32_t number, int stored,
		      const struct inc_err *because);
void inc_groups_free(struct inc_core *core);
/* What tools are shown: IDLE, CREATING_GROUP, GROUP_READY, CREATING_COMM, COMM_READY. */
const char *inc_group_state_name(const struct inc_group *group);
/* "rank 2 (h2, 10.77.2.1)"; the same buffer on every call */
const char *inc_member_name(const struct inc_member *member);
/* "rank 2 (h2, …), rank 5" of n ranks, but for those that have no name (NULL) */
void inc_list_ranks(unsigned int n, const char *(*name)(const void *arg, unsigned int rank),
		    const void *arg, char *buf, size_t size);

/* derive.c */
/* G with derive, of a group's member or of a newcomer to a job that grows */
void inc_derive_join(struct inc_core_client *client, const struct inc_msg_join *said);
/* The connection that waits in a derivation is over. */
void inc_derive_leave(struct inc_core_client *client);
/* failed with derive: a member cannot come. */
void inc_derive_report(struct inc_member *member, const struct inc_msg_report *said);
/* A member of the group has left, or the ranks that have not come back are gone. */
void inc_derive_parent_changed(struct inc_group *group);
/* There will be nothing any more that something can be made of. */
void inc_derive_parent_ended(struct inc_group *group);
void inc_derivations_free(struct inc_core *core);

/* state_machines.c: the only places where these states change */
void inc_group_set_phase(struct inc_group *group, enum inc_group_phase to);
void inc_comm_set_phase(struct inc_comm *comm, enum inc_comm_phase to);
void inc_derivation_set_phase(struct inc_derivation *d, enum inc_derive_phase to);
void inc_comm_set_config_state(struct inc_comm *comm, unsigned int node, enum inc_config_state to);
const char *inc_comm_state_name(const struct inc_comm *comm);
const char *inc_comm_phase_name(enum inc_comm_phase phase);
const char *inc_group_phase_name(enum inc_group_phase phase);
static inline bool inc_group_formed(const struct inc_group *group)
{
	return group->phase != GROUP_FORMING;
}
static inline bool inc_group_resumed(const struct inc_group *group)
{
	return group->phase == GROUP_RETURNING || group->phase == GROUP_SETTLED;
}
/* Nothing new can begin in it. */
static inline bool inc_group_ended(const struct inc_group *group)
{
	return group->phase >= GROUP_RETURNING;
}

/* resume.c */
void inc_group_resume(struct inc_core_client *client, const struct inc_msg_resume *said);
/* A rank of an earlier controller's group may still come. */
bool inc_group_awaits(const struct inc_group *group, unsigned int rank);
void inc_group_settle(struct inc_group *group); /* may free it */
/* Now and then, of one that has settled: who waits for a rank that has not come back is told. */
void inc_group_recheck(struct inc_group *group);

/* comm.c */
/* C; wrong: -errno and why, where only part of it could be read */
void inc_comm_ask(struct inc_member *member, const struct inc_msg_ask *said, int wrong,
		  struct inc_err *why);
void inc_comm_ready(struct inc_member *member, uint32_t number);
void inc_comm_destroy(struct inc_member *member, uint32_t number); /* D */
struct inc_comm *inc_comm_find(struct inc_core *core, uint32_t number);
/* By the group's own count; begins it where it is not there. NULL: no memory. */
struct inc_comm *inc_comm_get_index(struct inc_group *group, unsigned int index);
/* Tells its members (rank: who is to blame, or -1). Before the answer to C this may free it:
 * when every rank has heard it. */
void inc_comm_fail(struct inc_comm *comm, int rank, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* What has been kept of its failure, to one member. */
void inc_comm_tell_failed(const struct inc_comm *comm, unsigned int to, int rank);
void inc_comm_configured(struct inc_comm *comm);
/* Removes it from the switches and frees it. */
void inc_comm_end(struct inc_comm *comm);
/* The same where no member has it any more. */
void inc_comm_end_unused(struct inc_comm *comm);
/* A communicator that runs since an earlier controller, on this switch, as a member says. NULL: no
 * memory. */
struct inc_comm *inc_comm_adopt(struct inc_group *group, const struct inc_msg_claim *said,
				struct inc_core_switch *sw);
/* Its switch, which is one of its tree's, has said in which mode it is. */
void inc_comm_adopt_mode(struct inc_comm *comm, const struct inc_core_switch *sw);
/* It runs on this one, too, and its tree is none that is counted. 0 or -ENOMEM. */
int inc_comm_adopt_switch(struct inc_comm *comm, struct inc_core_switch *sw);
/* A member is gone: forgets what was refused and has now been heard by all that are left. */
void inc_comm_forget_refused(struct inc_group *group);

/* admission.c */
void inc_switch_load(const struct inc_core_switch *sw, struct inc_load *load);
/* "; job A has most there: …" of a switch that has refused for want of room, or "". */
void inc_switch_holder(const struct inc_core_switch *sw, char *buf, size_t size);
#define INC_JOB_FIGURES(_, T)                                      \
	_(T, communicators, "", GAUGE, "communicators of the job") \
	_(T, slots, "", GAUGE, "slots of these, each counted once")

/* What a group has, or all groups of its job: what quotas speak of. */
struct inc_job_load {
	INC_JOB_FIGURES(INC_METRIC_FIELD, inc_job_load)
};
struct inc_job_load inc_group_load(const struct inc_group *group);
struct inc_job_load inc_job_load(const struct inc_group *group);
/* Whether the group may begin another communicator: 0 or -EDQUOT. */
int inc_group_admit(const struct inc_group *group, struct inc_err *err);
/* Whether a communicator of these slots may be configured, as far as its job goes: 0 or -EDQUOT. */
int inc_comm_admit(const struct inc_comm *comm, struct inc_err *err);
/* No tree has room for the communicator: which job holds most of what is in use there, behind what
 * err says. */
void inc_comm_name_holder(const struct inc_comm *comm, struct inc_err *err);

/* comm_report.c */
/* failed; wrong: -errno and why, where only part of it could be read */
void inc_comm_report(struct inc_member *member, const struct inc_msg_report *said, int wrong,
		     struct inc_err *why);

/* comm_event.c */
void inc_comm_event(struct inc_core_switch *sw, const struct inc_msg_event *said);
/* Whom a switch means by a rank of a communicator, -1: its parent. */
struct inc_peer {
	int rank;               /* a rank of its own; -1: another switch, or nobody */
	const char *sw;         /* the other switch; NULL: none, or it is not known which */
	int node;               /* a switch below: its node, -1 where it is not known; else -1 */
	struct inc_ranks below; /* the ranks there */
};
struct inc_peer inc_comm_peer(const struct inc_comm *comm, const struct inc_core_switch *sw,
			      int rank);
/* What a communicator waits for on a switch: fails it where that is a rank that has destroyed it,
 * and asks a switch below that is waited for. False: it tells nothing about it, ask on. */
bool inc_comm_handle_waiting(struct inc_core_switch *sw, const struct inc_msg_waiting *said);
/* Does what follows from comm's failure reports, where it is known by now whether the rank had
 * left. */
void inc_comm_apply_reports(struct inc_comm *comm);
/* A neighbour has told the switch that the communicator has ended there. The event of the switch
 * where that began says why, and fails it; where none comes within switch_timeout_ms it fails
 * without a reason. */
void inc_comm_wait_for_reason(struct inc_comm *comm, const struct inc_core_switch *sw);
/* Asks the switch whom its communicators wait for, where that is still to be known. */
void inc_comms_ask_waiting(struct inc_core_switch *sw);
/* Of a group without some of its ranks, which may have been through with it: asks whether anybody
 * waits for them, and fails it then. False: it runs without none, or not any more. */
bool inc_comm_check_missing(struct inc_comm *comm);
/* The switch has not answered in time: asks it again, if that is of any use. */
void inc_comm_retry_waiting(struct inc_core_switch *sw, uint32_t number);

/* switch.c */
struct inc_core_event;
int inc_switches_init(struct inc_core *core); /* 0 or -ENOMEM */
void inc_switches_free(struct inc_core *core);
/* CORE_EVENT_HELLO, CORE_EVENT_SWITCH_LOST and CORE_EVENT_ANSWER. */
void inc_switch_connects(struct inc_core_switch *sw, const struct inc_core_event *hello);
void inc_switch_lost(struct inc_core_switch *sw);
void inc_switch_answers(struct inc_core_switch *sw, const struct inc_core_event *answer);
/* A communicator is not counted as asked any more (inc_comm.storing), so others may go on. */
void inc_switches_go_on(struct inc_core *core);
const char *inc_switch_name(const struct inc_core_switch *sw);
/* It has refused for want of room: for a while trees go around it where they can. */
void inc_switch_avoid(struct inc_core_switch *sw);
/* A queue pair number that no live connection of the switch has. */
int inc_switch_qpn_get(struct inc_core_switch *sw, uint32_t *qpn);
void inc_switch_qpn_put(struct inc_core_switch *sw, uint32_t qpn);
/* The number is in use. 0 or -errno. */
int inc_switch_qpn_take(struct inc_core_switch *sw, uint32_t qpn);

/* switch_mode.c */
/* What it does with communicators that begin now: as a tool has said, else the topology, else the
 * switch itself. */
enum inc_mode_of_switch inc_switch_mode(const struct inc_core_switch *sw);
/* 0, or -EOPNOTSUPP with the reason: its last hello does not name the mode. */
int inc_switch_can(const struct inc_core_switch *sw, enum inc_mode_of_switch mode,
		   struct inc_err *err);
/* 0, or -EOPNOTSUPP where the switch has said that it cannot. */
int inc_switch_set_mode(struct inc_core_switch *sw, enum inc_mode_of_switch mode,
			struct inc_err *err);
/* Takes the switch's abilities from its hello. */
void inc_switch_take_engines(struct inc_core_switch *sw, const struct inc_msg_hello *said);
/* Gives the routes its limits in its mode, or the fact that it is absent. */
void inc_switch_offer(struct inc_core_switch *sw);

/* store/restore.c builds the core's objects with these. */
/* number_allocator.c: numbers before next have been given; some more are passed over, because the
 * last ones that were given may not be known. */
void inc_number_allocator_restore(struct inc_number_allocator *numbers, uint32_t first,
				  uint32_t next);
/* group.c: RESTORED, none of its ranks is back. NULL: no memory. */
struct inc_group *inc_group_restore(struct inc_core *core, const char *job, unsigned int world_size,
				    uint32_t number);
/* comm.c: COLLECTING, of no member yet. NULL: no memory. */
struct inc_comm *inc_comm_restore(struct inc_group *group, unsigned int index);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The controller's core as a whole. The core is values only: inc_core_step() (event.h) takes an
 * event, and leaves actions (action.h) that net/ and store/ carry out. So the core has no socket,
 * no JSON, no database, no clock and no event loop, and a test can drive it through any order of
 * events. All of it runs on the thread of the controller's loop.
 *
 *	client      core.h: a connection on the member port, of a member or of a tool
 *	member      group.h: a rank of a group; it outlives its client until the group has reacted
 *	            to the lost connection
 *	group       group.h: all ranks of a job
 *	derivation  derive.h: ranks of a group that wait for the groups made from it
 *	comm        comm.h: a communicator of a group
 *	switch      switch.h: a switch of the topology, connected or absent
 *	tree        tree.h: the switches of a communicator; route.h finds it
 *	orphan      orphan.h: a communicator that a switch has and that no member has claimed
 *
 * An answer names its object by number, not by pointer, because the object may be gone by then.
 */
#ifndef INC_CORE_H
#define INC_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "controller/core/action.h"
#include "controller/core/comm_event.h"
#include "controller/core/core_timer.h"
#include "controller/core/number_allocator.h"
#include "lib/conf/messages.h"
#include "lib/metric/metric.h"
#include "lib/topology/topology.h"

#define CTL_MAX_WORLD INC_MAX_WORLD
/* limit of communicators in a group, and of those that are REFUSED */
#define CTL_MAX_COMMS INC_MAX_GROUP_COMMS
#define CTL_NAME_MAX  INC_CONTROL_NAME_LEN
/* the hash of endpoints has 2^14 lists, for 1000 communicators of 64 ranks */
#define CTL_ENDPOINT_BITS 14

struct inc_comm_member;
struct inc_core_switch;
struct inc_derivation;
struct inc_group;
struct inc_member;
struct inc_orphan;
struct inc_routes;

/* The options of the command line that the core reads. */
struct inc_core_options {
	unsigned int group_timeout_ms;
	unsigned int switch_timeout_ms;
	/* time of silence after which a member is lost; 0: no limit */
	unsigned int member_timeout_ms;
	unsigned int job_communicators; /* quota of communicators */
	unsigned int job_slots;         /* limit of slots that a job may use; 0: no limit */
};

#define INC_CORE_FIGURES(_, T)                                                           \
	_(T, configured, "", COUNTER, "communicators that all their switches have made") \
	_(T, refused, "", COUNTER, "communicators that were not made")                   \
	_(T, failed, "", COUNTER, "communicators that have failed after they were made") \
	_(T, nics_left_out, "", COUNTER, "NICs that members have left out")              \
	_(T, configure_us, "microseconds", COUNTER,                                      \
	  "from the first configure to the last answer, of all communicators that were made")

struct inc_core_figures { /* counted since the controller's start */
	INC_CORE_FIGURES(INC_METRIC_FIELD, inc_core_figures)
};

/* Kinds of records: what the controller shows beside the switches' events (docs/control.md,
 * "events"). Each row has the kind and its name. */
#define INC_RECORD_KINDS(_)         \
	_(SWITCH_LOST, switch_lost) \
	_(SWITCH_BACK, switch_back) \
	_(FAILED, failed)           \
	_(NIC_OUT, nic_out)         \
	_(NIC_BACK, nic_back)       \
	_(LEADS, leads)             \
	_(RELOAD, reload)

enum inc_record_kind {
#define _(NAME, name) INC_RECORD_##NAME,
	INC_RECORD_KINDS(_)
#undef _
		INC_N_RECORD_KINDS
};
extern const char *const inc_record_kinds[];

#define INC_RECORDS 256 /* most records that are kept */

struct inc_record {
	uint64_t time_ns; /* of the wall clock */
	enum inc_record_kind kind;
	uint32_t communicator; /* 0: the record is about none */
	char message[320];
};

/* The last records, the newest at the end. */
struct inc_records {
	struct inc_record kept[INC_RECORDS];
	unsigned int n_kept;
	uint64_t n; /* number of records so far */
};

/* The time of an event. All time limits run on awake_ns, the time that the controller was awake
 * (lib/base/awake.h). The field clock_ms also runs while the controller stands still, because tools
 * show ages. The field wall_ns is the wall clock, because people compare times of several
 * machines. */
struct inc_core_now {
	uint64_t awake_ns;
	uint64_t clock_ms;
	uint64_t wall_ns;
};

struct inc_core {
	struct inc_core_options opt;
	const struct inc_topology *topo;
	struct inc_core_now now; /* time of the last event */
	struct inc_core_timers timers;
	/* actions that the last event has caused and that are not carried out yet */
	struct inc_actions actions;
	struct inc_routes *routes;
	/* the switches of the topology, at the same indexes as there */
	struct inc_core_switch **switches;
	LIST_HEAD(group_list, inc_group) groups;
	LIST_HEAD(, inc_derivation) derivations;
	LIST_HEAD(, inc_orphan) orphans;
	/* number of communicators made so far; the newest one has it as its place */
	uint32_t last_place;
	struct inc_number_allocator group_numbers, comm_numbers;
	/* Hash of the endpoints at which members receive (endpoint.c). */
	LIST_HEAD(, inc_comm_member) endpoints[1 << CTL_ENDPOINT_BITS];
	/* Whether the controller's database is older than this controller. If so, a switch's
	 * communicator that is not in it has ended. Otherwise such a communicator may still run. */
	bool knows_all;
	struct inc_core_figures figures;
	uint64_t events[INC_EVENT_KIND_MAX]; /* number of events that switches have sent, by kind */
	/* number of passes of go_on() in comm_config.c over all communicators */
	unsigned int passes;
	struct inc_records records;
};

/* Keeps a record for tools. Of many records the oldest of the most frequent kind is dropped, so a
 * job that fails again and again does not displace the others. */
void inc_core_record(struct inc_core *core, enum inc_record_kind kind, uint32_t communicator,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The part of a connection on the member port that the core uses. Its owner (net/member.c) fills in
 * core, address and peer, and frees it after the event that reports the connection's end. */
struct inc_core_client {
	struct inc_core *core;
	const char *address; /* IP address of the peer, without the port */
	const char *peer;    /* IP address and port of the client, for the log */
	/* member that uses the connection; NULL: the client is in no group */
	struct inc_member *member;
	/* derivation of a group in which the client waits; NULL: none */
	struct inc_derivation *derivation;
	unsigned int place; /* index of the client in the derivation's members */
	/* no memory was left for a message to the client, so its connection must end */
	bool message_lost;
};

/* Whether both clients connect from the same address. */
bool inc_core_same_address(const struct inc_core_client *one, const struct inc_core_client *other);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peers of the controller's core, held as plain values: three members on the hosts of two
 * switches, and a database in memory. Members behave as libinccl does, and switches as inc-switchd
 * does. A message of the core arrives at once. A message to the core waits in the queue of its
 * connection, and the test chooses the queue whose first message arrives next (peers_enabled(),
 * peers_do()).
 */
#ifndef SELFTESTS_FAKES_CORE_PEERS_H
#define SELFTESTS_FAKES_CORE_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include "controller/core/comm.h"
#include "controller/core/event.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "controller/store/rows.h"

#define PEERS_MEMBERS  3
#define PEERS_SWITCHES 2
#define PEERS_QUEUE    16

/* The state of a member. */
enum peers_member_state {
	MEMBER_JOINS,   /* the member waits for its group */
	MEMBER_ASKS,    /* the member waits for its communicator */
	MEMBER_READIES, /* the member waits for the start of its communicator */
	MEMBER_RUNS,    /* the member waits for the results of its job */
	/* the member waits for the results, and for the answer of a new controller */
	MEMBER_RESUMES,
	/* the member waits for the answer to its request to destroy the communicator */
	MEMBER_DESTROYS,
	MEMBER_LEAVES, /* the member has sent its last message */
	MEMBER_GONE,
};

/* Kinds of messages that wait to arrive at the core. */
enum peers_message {
	SAYS_JOIN,
	SAYS_ASK,
	SAYS_READY,
	SAYS_DESTROY,
	SAYS_RESUME,
	SAYS_BYE,
	SAYS_HELLO,
	SAYS_ANSWER
};
struct peers_said {
	enum peers_message kind;
	enum inc_asked asked; /* of a message of kind ANSWER: the request that is answered */
	uint32_t number;
};
struct peers_queue {
	unsigned int n;
	struct peers_said said[PEERS_QUEUE];
};

struct peers_member {
	struct inc_core_client client;
	enum peers_member_state state;
	/* dead: the member was killed; done: it has used its communicator to the end */
	bool dead, done;
	/* the member runs, and nothing that its job needs has died, so it must get its results */
	bool must;
	uint32_t group;
	struct inc_msg_made made;
	struct peers_queue queue;
};

struct peers_switch {
	bool connected;
	unsigned int n; /* number of the switch's communicators */
	uint32_t has[PEERS_QUEUE];
	struct peers_queue queue;
};

/* Kinds of events that can happen next. */
enum peers_what {
	PEERS_MEMBER, /* a message of a member arrives */
	PEERS_SWITCH, /* a message of a switch arrives */
	PEERS_FINISH, /* the job has its results */
	PEERS_KILL,   /* a member dies */
	PEERS_CUT,    /* the connection of a switch breaks */
	PEERS_CRASH,  /* a switch's daemon dies, and its communicators with it */
	PEERS_RENEW,  /* a switch replaces its connection, as it has announced */
	PEERS_TIME,   /* nothing arrives any more, and the next timer ends */
};
struct peers_event {
	enum peers_what what;
	unsigned int i;
};

struct core_peers {
	struct inc_core core;
	const struct inc_topology *topo;
	enum inc_mode_of_switch mode; /* the mode of both switches */
	struct peers_member members[PEERS_MEMBERS];
	struct peers_switch switches[PEERS_SWITCHES];
	struct inc_core_now now;
	struct inc_action_list unstored;
	bool database; /* controllers have a database */
	bool had_death, had_renewal, had_restart;
	/* a member or a daemon has died, so the job cannot go on; a lost connection alone does not
	 * end it */
	bool job_ends;
	/* the test's decision whether the controller dies now, before its next action is carried
	 * out */
	bool (*dies)(void);
};

/* Starts the core and its peers. mode: the mode of both switches. */
void peers_begin(struct core_peers *peers, enum inc_mode_of_switch mode, bool database,
		 bool (*dies)(void));
void peers_end(struct core_peers *peers);
/* Fills in the events that can happen, and returns their number. */
unsigned int peers_enabled(const struct core_peers *peers, struct peers_event events[]);
void peers_do(struct core_peers *peers, const struct peers_event *event);
/* A hash of the state of all. Equal states have equal hashes. It covers everything that can affect
 * later events. */
uint64_t peers_hash(const struct core_peers *peers);
/* Checks the state when no event can happen any more: no member waits, and nothing is left of the
 * job. */
void peers_check_end(const struct core_peers *peers);

/* core_messages.c: the first message in the queue of a member or switch arrives. */
void peers_member_says(struct core_peers *peers, unsigned int rank);
void peers_switch_says(struct core_peers *peers, unsigned int s);
/* Ends the member's connection. clean: the member has sent a bye before. */
void peers_lose(struct core_peers *peers, struct peers_member *m, bool clean);
/* Breaks the switch's connection, so that its requests are not answered, and it connects again.
 * how: PEERS_CUT, PEERS_CRASH or PEERS_RENEW. */
void peers_cut(struct core_peers *peers, unsigned int s, enum peers_what how);

/* Functions that only core_*.c use. */
void peers_step(struct core_peers *peers, const struct inc_core_event *event);
void peers_push(struct peers_queue *queue, struct peers_said said);
struct peers_said peers_pop(struct peers_queue *queue);
bool peers_has(const struct peers_switch *sw, uint32_t number);
/* Answers the member's request with an error. */
void peers_refused(struct peers_member *m);

/* core_database.c: the database, which survives a controller. */
void store_clear(void);
unsigned int store_rows(enum inc_kept_table table);
bool store_has(enum inc_kept_table table, uint32_t key);
uint64_t store_hash(uint64_t hash);

/* Records an event for the trace, which is printed if this order fails. */
void peers_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* If the condition is false, prints the notes since peers_begin() and ends the process. */
void peers_require(bool condition, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
uint64_t peers_mix(uint64_t hash, const void *bytes, size_t n);

#endif

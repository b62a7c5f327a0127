/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The world around the controller's core, held as plain values: three members on the hosts of two
 * switches, and a database in memory. Members behave as libinccl does, and switches as inc-switchd
 * does. A message of the core arrives at once. A message to the core waits in the queue of its
 * connection, and the test chooses the queue whose first message arrives next (world_enabled(),
 * world_do()).
 */
#ifndef CORE_WORLD_H
#define CORE_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include "controller/core/comm.h"
#include "controller/core/event.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "controller/store/rows.h"

#define WORLD_MEMBERS  3
#define WORLD_SWITCHES 2
#define WORLD_QUEUE    16

/* The state of a member. */
enum world_member_state {
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
enum world_message {
	SAYS_JOIN,
	SAYS_ASK,
	SAYS_READY,
	SAYS_DESTROY,
	SAYS_RESUME,
	SAYS_BYE,
	SAYS_HELLO,
	SAYS_ANSWER
};
struct world_said {
	enum world_message kind;
	enum inc_asked asked; /* of a message of kind ANSWER: the request that is answered */
	uint32_t number;
};
struct world_queue {
	unsigned int n;
	struct world_said said[WORLD_QUEUE];
};

struct world_member {
	struct inc_core_client client;
	enum world_member_state state;
	/* dead: the member was killed; done: it has used its communicator to the end */
	bool dead, done;
	/* the member runs, and nothing that its job needs has died, so it must get its results */
	bool must;
	uint32_t group;
	struct inc_msg_made made;
	struct world_queue queue;
};

struct world_switch {
	bool connected;
	unsigned int n; /* number of the switch's communicators */
	uint32_t has[WORLD_QUEUE];
	struct world_queue queue;
};

/* Kinds of events that can happen next. */
enum world_what {
	WORLD_MEMBER, /* a message of a member arrives */
	WORLD_SWITCH, /* a message of a switch arrives */
	WORLD_FINISH, /* the job has its results */
	WORLD_KILL,   /* a member dies */
	WORLD_CUT,    /* the connection of a switch breaks */
	WORLD_CRASH,  /* a switch's daemon dies, and its communicators with it */
	WORLD_TIME,   /* nothing arrives any more, and the next timer ends */
};
struct world_event {
	enum world_what what;
	unsigned int i;
};

struct world {
	struct inc_core core;
	const struct inc_topology *topo;
	enum inc_mode_of_switch mode; /* the mode of both switches */
	struct world_member members[WORLD_MEMBERS];
	struct world_switch switches[WORLD_SWITCHES];
	struct inc_core_now now;
	struct inc_action_list unstored;
	bool database; /* controllers have a database */
	bool had_death, had_restart;
	/* a member or a daemon has died, so the job cannot go on; a lost connection alone does not
	 * end it */
	bool job_ends;
	/* the test's decision whether the controller dies now, before its next action is carried
	 * out */
	bool (*dies)(void);
};

/* Starts a world. mode: the mode of both switches. */
void world_begin(struct world *w, enum inc_mode_of_switch mode, bool database, bool (*dies)(void));
void world_end(struct world *w);
/* Fills in the events that can happen, and returns their number. */
unsigned int world_enabled(const struct world *w, struct world_event events[]);
void world_do(struct world *w, const struct world_event *event);
/* A hash of the world's state. Equal states have equal hashes. It covers everything that can affect
 * later events. */
uint64_t world_hash(const struct world *w);
/* Checks the world when no event can happen any more: no member waits, and nothing is left of the
 * job. */
void world_check_end(const struct world *w);

/* core_says.c: the first message in the queue of a member or switch arrives. */
void world_member_says(struct world *w, unsigned int rank);
void world_switch_says(struct world *w, unsigned int s);
/* Ends the member's connection. clean: the member has sent a bye before. */
void world_lose(struct world *w, struct world_member *m, bool clean);
/* Breaks the switch's connection, so that its requests are not answered, and it connects again.
 * forgets: the switch has lost its communicators. */
void world_cut(struct world *w, unsigned int s, bool forgets);

/* Functions that only the files of the world use. */
void world_step(struct world *w, const struct inc_core_event *event);
void world_push(struct world_queue *queue, struct world_said said);
struct world_said world_pop(struct world_queue *queue);
bool world_has(const struct world_switch *sw, uint32_t number);
/* Answers the member's request with an error. */
void world_refused(struct world_member *m);

/* core_store.c: the database, which survives a controller. */
void store_clear(void);
unsigned int store_rows(enum inc_kept_table table);
bool store_has(enum inc_kept_table table, uint32_t key);
uint64_t store_hash(uint64_t hash);

/* Records an event for the trace, which is printed if this order fails. */
void world_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* If the condition is false, prints the notes since world_begin() and ends the process. */
void world_require(bool condition, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
uint64_t world_mix(uint64_t hash, const void *bytes, size_t n);

#endif

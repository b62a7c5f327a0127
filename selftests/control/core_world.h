/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The world around the controller's core, as values: three members on the hosts of two switches,
 * and a database in memory. Members behave as libinccl does, and switches as inc-switchd does. A
 * message of the core arrives at once. A message to the core waits in the queue of its
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

/* The step at which a member is. */
enum world_member_state {
	MEMBER_JOINS,    /* waits for its group */
	MEMBER_ASKS,     /* waits for its communicator */
	MEMBER_READIES,  /* waits for its start */
	MEMBER_RUNS,     /* waits for the results of its job */
	MEMBER_RESUMES,  /* the same, and the answer of a new controller */
	MEMBER_DESTROYS, /* waits for the answer to D */
	MEMBER_LEAVES,   /* has sent its last message */
	MEMBER_GONE,
};

/* Messages that wait to arrive at the core. */
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
	enum inc_asked asked; /* the answered request, for ANSWER */
	uint32_t number;
};
struct world_queue {
	unsigned int n;
	struct world_said said[WORLD_QUEUE];
};

struct world_member {
	struct inc_core_client client;
	enum world_member_state state;
	bool dead, done; /* killed; has used its communicator to the end */
	/* it runs, and no part that its job needs has died, so it must get its results */
	bool must;
	uint32_t group;
	struct inc_msg_made made;
	struct world_queue queue;
};

struct world_switch {
	bool connected;
	unsigned int n; /* its number of communicators */
	uint32_t has[WORLD_QUEUE];
	struct world_queue queue;
};

/* An event that can happen next. */
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
	bool job_ends; /* a member or a daemon has died, not just a connection */
	/* The test decides here whether the controller dies now, before its next action is carried
	 * out.
	 */
	bool (*dies)(void);
};

/* mode: of both switches. */
void world_begin(struct world *w, enum inc_mode_of_switch mode, bool database, bool (*dies)(void));
void world_end(struct world *w);
/* Fills in the events that can happen, and returns their number. */
unsigned int world_enabled(const struct world *w, struct world_event events[]);
void world_do(struct world *w, const struct world_event *event);
/* Equal states have equal values. Everything that can affect later events is included. */
uint64_t world_hash(const struct world *w);
/* Checks the end, when no event can happen any more: no member waits, and nothing is left. */
void world_check_end(const struct world *w);

/* core_says.c: the first message in the queue of a member or switch arrives. */
void world_member_says(struct world *w, unsigned int rank);
void world_switch_says(struct world *w, unsigned int s);
/* The member's connection ends; clean: after a bye. */
void world_lose(struct world *w, struct world_member *m, bool clean);
/* The switch's connection breaks, so its requests are not answered, and it connects again. forgets:
 * without its communicators. */
void world_cut(struct world *w, unsigned int s, bool forgets);

/* Shared by the files of the world. */
void world_step(struct world *w, const struct inc_core_event *event);
void world_push(struct world_queue *queue, struct world_said said);
struct world_said world_pop(struct world_queue *queue);
bool world_has(const struct world_switch *sw, uint32_t number);
/* The member's request is answered with an error. */
void world_refused(struct world_member *m);

/* core_store.c: the database, which outlives controllers. */
void store_clear(void);
unsigned int store_rows(enum inc_kept_table table);
bool store_has(enum inc_kept_table table, uint32_t key);
uint64_t store_hash(uint64_t hash);

/* Notes an event, for the trace of an order that fails. */
void world_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* If the condition is false, prints the notes since world_begin() and ends the process. */
void world_require(bool condition, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
uint64_t world_mix(uint64_t hash, const void *bytes, size_t n);

#endif

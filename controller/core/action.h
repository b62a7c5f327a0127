/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Actions: what the core wants done. inc_core_step() appends them to core->actions in the order in
 * which they have to be carried out. controller/net/carry.c carries them out, and a test reads
 * them.
 *
 * An action that stores something comes before the message that depends on it. The rows are made
 * from the core when the action is carried out, so they are never older than that message.
 *
 * If there is no memory for an action, the core marks the object that has lost it: a client
 * (message_lost), a switch (to_drop) or the database (rows_lost). controller/net/carry.c then ends
 * that connection, or stores everything.
 */
#ifndef INC_ACTION_H
#define INC_ACTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/messages.h"

struct inc_comm;
struct inc_core;
struct inc_core_client;
struct inc_core_switch;
struct inc_group;
struct inc_member;

enum inc_action_kind {
	ACTION_SEND, /* a message to a client */
	/* the client has no group any more, so the action starts its idle time limit */
	ACTION_IDLE,
	ACTION_REPLACE, /* the client's connection ends, because its member has connected again */
	ACTION_ASK,     /* a request to a switch, whose answer becomes CORE_EVENT_ANSWER */
	ACTION_WELCOME, /* the answer to a switch's hello: the communicators that it must keep */
	ACTION_STORE,   /* a row of the database changes, or is removed */
	/* all changes so far must be written; CORE_EVENT_STORED reports the result */
	ACTION_COMMIT,
};

/* Requests to a switch. */
enum inc_asked {
	ASKED_CONFIGURE, /* request to make a communicator */
	ASKED_CONNECT,   /* request that gives a communicator the numbers of neighbour switches */
	ASKED_REMOVE,    /* request to remove a communicator */
	ASKED_WAITING,   /* question for the ranks for whose packets a communicator waits */
	ASKED_RESULTS,   /* question for the number of results that a communicator has made */
};

enum inc_stored {
	STORED_GROUP,    /* the group's own row */
	STORED_RANK,     /* a rank of the group */
	STORED_RANKS,    /* all ranks of the group */
	STORED_COMM,     /* a communicator, with its tree and members */
	STORED_STATE,    /* a communicator's own row */
	STORED_NO_GROUP, /* the rows of the group and of its ranks are deleted */
	STORED_NO_COMM,  /* the rows of the communicator are deleted */
};

struct inc_action {
	enum inc_action_kind kind;
	union {
		struct { /* members of SEND, IDLE and REPLACE */
			struct inc_core_client *client;
			enum inc_message_id id;
		};
		struct { /* members of ASK and WELCOME */
			struct inc_core_switch *sw;
			enum inc_asked asked;
			uint32_t number; /* number of the communicator */
			uint32_t n_keep; /* how many communicator numbers the payload has */
		};
		struct { /* members of STORE */
			enum inc_stored stored;
			uint32_t of; /* number of the group or communicator whose row changes */
			unsigned int rank;
		};
		struct { /* members of COMMIT, which name the object that waits for the database */
			uint32_t group;
			/* number of the communicator; 0: the group itself waits */
			uint32_t communicator;
		};
	};
	TAILQ_ENTRY(inc_action) entry;
	/* The payload is the struct of the message or of the request, or the communicator numbers
	 * to keep. has_payload is false if the action needs none. */
	bool has_payload;
	_Alignas(max_align_t) unsigned char payload[];
};

struct inc_actions {
	TAILQ_HEAD(inc_action_list, inc_action) list;
	bool stores;    /* the core appends STORE actions; false without a database */
	bool rows_lost; /* a STORE was lost for want of memory */
	/* a message to a client was lost for want of memory; the client is marked */
	bool messages_lost;
};

/* Removes the first action from the core's list and returns it. The caller frees it. NULL: the list
 * is empty. */
struct inc_action *inc_action_next(struct inc_core *core);
/* Frees all actions of the list. */
void inc_actions_free(struct inc_action_list *list);

/* ---- for the core ---- */

#define inc_act_send(client, id, message) \
	inc_act_send_bytes(client, id, message, sizeof(*(message)))
void inc_act_send_bytes(struct inc_core_client *client, enum inc_message_id id, const void *message,
			size_t size);
/* Sends the client an error. about: the fields that name the request, or NULL. */
void inc_act_refuse(struct inc_core_client *client, int code, const struct inc_msg_error *about,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void inc_act_idle(struct inc_core_client *client);
void inc_act_replaced(struct inc_core_client *client);

/* Append a request to a switch. Return 0. After -ENOTCONN or -ENOMEM no answer comes. */
int inc_act_configure(struct inc_core_switch *sw, const struct inc_comm_conf *conf);
int inc_act_connect(struct inc_core_switch *sw, const struct inc_msg_connect *peers);
int inc_act_ask_waiting(struct inc_core_switch *sw, uint32_t number);
int inc_act_ask_results(struct inc_core_switch *sw, uint32_t number);
/* If the switch is not connected, the welcome after its next hello tells it not to keep the
 * communicator. */
void inc_act_remove(struct inc_core_switch *sw, uint32_t number);
/* Appends the answer to the switch's hello. Returns 0 or -ENOMEM. */
int inc_act_welcome(struct inc_core_switch *sw, const uint32_t *keep, uint32_t n);

/* Append a STORE for rows that have changed. */
/* the group's row without those of its ranks */
void inc_act_store_group(const struct inc_group *group);
void inc_act_store_rank(const struct inc_member *member);
void inc_act_store_ranks(const struct inc_group *group);
void inc_act_store_comm(const struct inc_comm *comm);
void inc_act_store_state(const struct inc_comm *comm);
/* The group or communicator ends, and no later controller shall restore it. */
void inc_act_delete_group(const struct inc_group *group);
void inc_act_delete_comm(const struct inc_comm *comm);
/* Appends a COMMIT: the group or communicator begins as soon as the database has it. Returns 0, or
 * -ENOMEM if it must not begin. */
int inc_act_commit(struct inc_core *core, uint32_t group, uint32_t communicator);

#endif

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
	ACTION_SEND,    /* a message to a client */
	ACTION_IDLE,    /* the client has no group any more, so its idle time limit begins */
	ACTION_REPLACE, /* the client's connection ends, because its member has connected again */
	ACTION_ASK,     /* a request to a switch; CORE_EVENT_ANSWER answers */
	ACTION_WELCOME, /* the answer to a switch's hello: the communicators that it must keep */
	ACTION_STORE,   /* a row of the database changes, or is removed */
	ACTION_COMMIT,  /* all changes so far must be written; CORE_EVENT_STORED answers */
};

/* Requests to a switch. */
enum inc_asked {
	ASKED_CONFIGURE, /* to make a communicator */
	ASKED_CONNECT,   /* to give it the numbers of neighbour switches */
	ASKED_REMOVE,    /* to remove it */
	ASKED_WAITING,   /* for the ranks for whose packets it waits */
	ASKED_RESULTS,   /* for the number of results it has made */
};

enum inc_stored {
	STORED_GROUP,    /* the group's own row */
	STORED_RANK,     /* a rank of the group */
	STORED_RANKS,    /* all ranks of the group */
	STORED_COMM,     /* a communicator, with its tree and members */
	STORED_STATE,    /* a communicator's own row */
	STORED_NO_GROUP, /* the group and its ranks are removed */
	STORED_NO_COMM,  /* the communicator is removed */
};

struct inc_action {
	enum inc_action_kind kind;
	union {
		struct { /* SEND, IDLE, REPLACE */
			struct inc_core_client *client;
			enum inc_message_id id;
		};
		struct { /* ASK, WELCOME */
			struct inc_core_switch *sw;
			enum inc_asked asked;
			uint32_t number; /* of the communicator */
			uint32_t n_keep; /* numbers in the payload */
		};
		struct { /* STORE */
			enum inc_stored stored;
			uint32_t of; /* the number of the group or communicator */
			unsigned int rank;
		};
		struct { /* COMMIT: the object that waits for the database */
			uint32_t group;
			uint32_t communicator; /* 0: the group itself */
		};
	};
	TAILQ_ENTRY(inc_action) entry;
	/* The struct of the message or of the request, or the numbers to keep. has_payload is false
	 * if the action needs none. */
	bool has_payload;
	_Alignas(max_align_t) unsigned char payload[];
};

struct inc_actions {
	TAILQ_HEAD(inc_action_list, inc_action) list;
	bool stores;        /* Changes are stored. Without a database there are no such actions. */
	bool rows_lost;     /* There was no memory for a STORE. */
	bool messages_lost; /* There was no memory for a message to a client, which is marked. */
};

/* Takes the first action from the list. The caller frees it. NULL: the list is empty. */
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

/* Append a request. 0; -ENOTCONN or -ENOMEM: no answer comes. */
int inc_act_configure(struct inc_core_switch *sw, const struct inc_comm_conf *conf);
int inc_act_connect(struct inc_core_switch *sw, const struct inc_msg_connect *peers);
int inc_act_ask_waiting(struct inc_core_switch *sw, uint32_t number);
int inc_act_ask_results(struct inc_core_switch *sw, uint32_t number);
/* If the switch is not connected, the welcome after its next hello tells it not to keep the
 * communicator. */
void inc_act_remove(struct inc_core_switch *sw, uint32_t number);
/* 0 or -ENOMEM. */
int inc_act_welcome(struct inc_core_switch *sw, const uint32_t *keep, uint32_t n);

/* Append a STORE for rows that have changed. */
void inc_act_store_group(const struct inc_group *group); /* without its ranks */
void inc_act_store_rank(const struct inc_member *member);
void inc_act_store_ranks(const struct inc_group *group);
void inc_act_store_comm(const struct inc_comm *comm);
void inc_act_store_state(const struct inc_comm *comm);
/* The object ends, and no later controller shall restore it. */
void inc_act_delete_group(const struct inc_group *group);
void inc_act_delete_comm(const struct inc_comm *comm);
/* The object begins as soon as the database has it. 0, or -ENOMEM: it must not begin. */
int inc_act_commit(struct inc_core *core, uint32_t group, uint32_t communicator);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Actions: what the core wants done. inc_core_step() appends them to core->actions in the order in
 * which they are to be carried out. controller/net/carry.c carries them out, and a test reads them.
 *
 * An action that stores something comes before the message that depends on it. The rows are made
 * from the core when the action is carried out, so they are never older than that message.
 *
 * If there is no memory for an action, the core marks what has lost it: a client (message_lost), a
 * switch (to_drop) or the database (rows_lost). controller/net/carry.c then ends that connection,
 * or stores everything.
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
	ACTION_IDLE,    /* a client has no group any more, so it may be silent for a while only */
	ACTION_REPLACE, /* a client's connection ends, because its member has come by another one */
	ACTION_ASK,     /* a request to a switch, whose answer is an event */
	ACTION_WELCOME, /* the answer to a switch's hello: the communicators that it shall keep */
	ACTION_STORE,   /* something is written to the database, or removed from it */
	ACTION_COMMIT,  /* all that is stored must be on the disk: CORE_EVENT_STORED answers */
};

/* Requests to a switch. */
enum inc_asked {
	ASKED_CONFIGURE, /* to make a communicator */
	ASKED_CONNECT,   /* to connect it to other switches, whose numbers are known now */
	ASKED_REMOVE,    /* to forget it */
	ASKED_WAITING,   /* for the ranks whose packets it waits for */
	ASKED_RESULTS,   /* for the number of results that it has made */
};

enum inc_stored {
	STORED_GROUP,    /* the group, its ranks apart */
	STORED_RANK,     /* a rank of it */
	STORED_RANKS,    /* all of its ranks */
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
		struct { /* COMMIT: the object that begins */
			uint32_t group;
			uint32_t communicator; /* 0: the group itself */
		};
	};
	TAILQ_ENTRY(inc_action) entry;
	/* The struct of the message, of the request, or the numbers; none: has_payload is false. */
	bool has_payload;
	_Alignas(max_align_t) unsigned char payload[];
};

struct inc_actions {
	TAILQ_HEAD(inc_action_list, inc_action) list;
	bool stores;        /* Changes are stored. Without a database there are no such actions. */
	bool rows_lost;     /* A STORE was lost for want of memory. */
	bool messages_lost; /* A client has lost a message for want of memory, and is marked. */
};

/* The first action, which is the caller's to free; NULL: there is none. */
struct inc_action *inc_action_next(struct inc_core *core);
/* Frees the actions of a list, which is empty then. */
void inc_actions_free(struct inc_action_list *list);

/* ---- for the core ---- */

#define inc_act_send(client, id, message) \
	inc_act_send_bytes(client, id, message, sizeof(*(message)))
void inc_act_send_bytes(struct inc_core_client *client, enum inc_message_id id, const void *message,
			size_t size);
/* Refuses a request of the client. about: the request, as the error names it, or NULL. */
void inc_act_refuse(struct inc_core_client *client, int code, const struct inc_msg_error *about,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void inc_act_idle(struct inc_core_client *client);
void inc_act_replaced(struct inc_core_client *client);

/* Requests: 0, or -ENOTCONN or -ENOMEM, and then no answer comes. */
int inc_act_configure(struct inc_core_switch *sw, const struct inc_comm_conf *conf);
int inc_act_connect(struct inc_core_switch *sw, const struct inc_msg_connect *peers);
int inc_act_ask_waiting(struct inc_core_switch *sw, uint32_t number);
int inc_act_ask_results(struct inc_core_switch *sw, uint32_t number);
/* A switch that cannot be asked learns it by the welcome after its next hello. */
void inc_act_remove(struct inc_core_switch *sw, uint32_t number);
/* 0 or -ENOMEM. */
int inc_act_welcome(struct inc_core_switch *sw, const uint32_t *keep, uint32_t n);

void inc_act_store_group(const struct inc_group *group); /* without its ranks */
void inc_act_store_rank(const struct inc_member *member);
void inc_act_store_ranks(const struct inc_group *group);
void inc_act_store_comm(const struct inc_comm *comm);
void inc_act_store_state(const struct inc_comm *comm);
/* It ends, and no later controller shall find it. */
void inc_act_delete_group(const struct inc_group *group);
void inc_act_delete_comm(const struct inc_comm *comm);
/* Something begins as soon as the database has it. 0, or -ENOMEM: it must not begin. */
int inc_act_commit(struct inc_core *core, uint32_t group, uint32_t communicator);

#endif

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
	/* ACTION_IDLE starts a client's idle time limit, because the client has no group any
	 * more */
	ACTION_IDLE,
	/* ends a client's connection, because its member has connected again by another one */
	ACTION_REPLACE,
	/* sends a request to a switch; the core receives the answer as CORE_EVENT_ANSWER */
	ACTION_ASK,
	/* the answer to a switch's hello, with the communicators that the switch must keep */
	ACTION_WELCOME,
	ACTION_STORE, /* writes a changed row of the database, or removes a row */
	/* ACTION_COMMIT writes all changes so far; CORE_EVENT_STORED reports the result */
	ACTION_COMMIT,
};

/* Requests to a switch. */
enum inc_asked {
	ASKED_CONFIGURE, /* request to make a communicator */
	/* request that tells a switch's communicator the numbers of its neighbours' connections */
	ASKED_CONNECT,
	ASKED_REMOVE, /* request to remove a communicator */
	/* question to a switch: for packets of which ranks does a communicator wait? */
	ASKED_WAITING,
	ASKED_RESULTS, /* question to a switch: how many results has a communicator made? */
};

enum inc_stored {
	STORED_GROUP,    /* the group's own row */
	STORED_RANK,     /* a rank of the group */
	STORED_RANKS,    /* all ranks of the group */
	STORED_COMM,     /* a communicator, with its tree and members */
	STORED_STATE,    /* a communicator's own row */
	STORED_NO_GROUP, /* the rows of the group and of its ranks are deleted */
	STORED_NO_COMM,  /* the rows of the communicator are deleted */
	/* STORED_SWITCH: the mode that a tool has set for a switch, and whether its daemon may have
	 * ended */
	STORED_SWITCH,
};

struct inc_action {
	enum inc_action_kind kind;
	union {
		struct { /* ACTION_SEND, ACTION_IDLE and ACTION_REPLACE have these members */
			struct inc_core_client *client;
			enum inc_message_id id;
		};
		struct { /* members of ASK and WELCOME */
			struct inc_core_switch *sw;
			enum inc_asked asked;
			uint32_t number; /* number of the communicator */
			/* number of communicators in the payload of ACTION_WELCOME */
			uint32_t n_keep;
		};
		struct { /* members of STORE */
			enum inc_stored stored;
			/* number of the group or communicator whose row ACTION_STORE writes */
			uint32_t of;
			unsigned int rank;
		};
		/* members of ACTION_COMMIT, which name the object that waits for the database */
		struct {
			uint32_t group;
			/* number of the communicator that waits for the database; 0: its group
			 * waits itself */
			uint32_t communicator;
		};
	};
	TAILQ_ENTRY(inc_action) entry;
	/* The payload is the struct of the message or of the request, or the communicator numbers
	 * to keep. To store a switch it is the name, because the index may change before that.
	 * has_payload is false if the action needs none. */
	bool has_payload;
	_Alignas(max_align_t) unsigned char payload[];
};

struct inc_actions {
	TAILQ_HEAD(inc_action_list, inc_action) list;
	bool stores;    /* the core appends ACTION_STORE; false if the controller has no database */
	bool rows_lost; /* no memory for an ACTION_STORE, so the database lacks a change */
	/* There was no memory for a message to a client, so the client has message_lost set. */
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
/* Sends an error to the client. about names the request that has failed; it may be NULL. */
void inc_act_refuse(struct inc_core_client *client, int code, const struct inc_msg_error *about,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Reports to a member for which ranks it waits. */
void inc_act_absent(struct inc_core_client *client, const char *text);
void inc_act_idle(struct inc_core_client *client);
void inc_act_replaced(struct inc_core_client *client);

/* Each of these functions appends a request to a switch. It returns 0, or -ENOTCONN or -ENOMEM,
 * after which no answer comes. */
int inc_act_configure(struct inc_core_switch *sw, const struct inc_comm_conf *conf);
int inc_act_connect(struct inc_core_switch *sw, const struct inc_msg_connect *peers);
int inc_act_ask_waiting(struct inc_core_switch *sw, uint32_t number);
int inc_act_ask_results(struct inc_core_switch *sw, uint32_t number);
/* Asks a switch to remove the communicator. A switch that is not connected learns from the welcome
 * after its next hello that it must not keep the communicator. */
void inc_act_remove(struct inc_core_switch *sw, uint32_t number);
/* Appends the answer to the switch's hello. Returns 0 or -ENOMEM. */
int inc_act_welcome(struct inc_core_switch *sw, const uint32_t *keep, uint32_t n);

/* These functions append an ACTION_STORE for rows that have changed. */
/* stores the group's own row without the rows of its ranks */
void inc_act_store_group(const struct inc_group *group);
void inc_act_store_rank(const struct inc_member *member);
void inc_act_store_ranks(const struct inc_group *group);
void inc_act_store_comm(const struct inc_comm *comm);
void inc_act_store_state(const struct inc_comm *comm);
/* These functions remove the rows of a group or communicator that ends, so that no later controller
 * restores it. */
void inc_act_delete_group(const struct inc_group *group);
void inc_act_delete_comm(const struct inc_comm *comm);
void inc_act_store_switch(const struct inc_core_switch *sw);
/* Appends an ACTION_COMMIT. The group or communicator begins as soon as it is in the database.
 * Returns 0, or -ENOMEM if it must not begin. */
int inc_act_commit(struct inc_core *core, uint32_t group, uint32_t communicator);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Derivations: ranks of a parent group that wait until the groups made from it can form. derive.c
 * keeps derivations and makes the groups. derive_ask.c checks whether a rank may ask for one.
 */
#ifndef INC_CTL_DERIVE_H
#define INC_CTL_DERIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "controller/core/core.h"
#include "controller/core/core_timer.h"
#include "controller/core/group.h"
#include "lib/base/err.h"
#include "lib/conf/messages.h"

enum inc_derive_phase {
	DERIVE_COLLECTING, /* the derivation waits for the ranks that must take part */
	/* the derivation has failed; it stays until each rank has received the error */
	DERIVE_REFUSED,
};

struct inc_derive_member {
	/* client of a rank that waits in the derivation; NULL: none */
	struct inc_core_client *client;
	/* the rank has received the derivation's error, or has reported that it cannot come */
	bool answered;
	struct inc_join join;
	bool has_color;
	uint32_t color;
	int32_t key;
};

struct inc_derivation {
	struct inc_core *core;
	char job[CTL_NAME_MAX];
	/* Group from which the new groups are made. NULL: the job shall grow, and so far only
	 * newcomers wait for that. */
	struct inc_group *parent;
	enum inc_derive_how how;
	uint32_t round;
	enum inc_derive_phase phase; /* set by inc_derivation_set_phase() only */
	int code;                    /* REFUSED: errno of the failure */
	char reason[512];
	struct inc_core_timer timer; /* runs while COLLECTING */
	struct inc_core_wait wait;   /* of the clients, while COLLECTING */
	LIST_ENTRY(inc_derivation) entry;
	unsigned int world_size; /* number of ranks of the new group, if a job grows */
	/* the ranks of the parent group, followed by the newcomers */
	struct inc_derive_member members[];
};

/* Returns the index in inc_group.derived of the counter for derivations of this kind. */
static inline unsigned int inc_derive_count(enum inc_derive_how how)
{
	return how == INC_DERIVE_SHRINK;
}

/* ---- derive_ask.c ---- */

/* Handles message G with field derive, from a group's member or from a newcomer to a job that
 * grows. */
void inc_derive_join(struct inc_core_client *client, const struct inc_msg_join *said);
/* Handles message failed with field derive: a member cannot take part in a derivation. */
void inc_derive_report(struct inc_member *member, const struct inc_msg_report *said);

/* ---- derive.c ---- */

/* Handles that the connection of a client that waits in a derivation is over. */
void inc_derive_leave(struct inc_core_client *client);
/* Handles that a member of the parent group has left, or that the time for its ranks to come back
 * is over. */
void inc_derive_parent_changed(struct inc_group *group);
/* Handles that the parent group is about to be freed. */
void inc_derive_parent_ended(struct inc_group *group);
void inc_derivations_free(struct inc_core *core);

/* Makes a derivation. parent is NULL if a newcomer asks before any member of the group that grows.
 * Returns NULL if there is no memory. */
struct inc_derivation *inc_derivation_new(struct inc_core *core, struct inc_group *parent,
					  const char *job, const struct inc_msg_derive *said,
					  unsigned int world_size);
/* Returns a text that names a rank of the derivation, such as "rank 1 (h1, 10.77.1.1)". Each call
 * overwrites the text of the call before. */
const char *inc_derivation_name(const struct inc_derivation *d, unsigned int rank);
/* Makes the new groups and frees the derivation if all ranks that must take part have asked. */
void inc_derivation_make_if_complete(struct inc_derivation *d);
/* Fails the derivation for the clients that wait, and for the ranks that ask later. May free the
 * derivation. */
void inc_derivation_fail(struct inc_derivation *d, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Sends the error of a REFUSED derivation to a client that asks for it. May free the derivation. */
void inc_derivation_answer_refused(struct inc_derivation *d, unsigned int rank,
				   struct inc_core_client *client);
/* Sends the error to the rank's client, which leaves the derivation. */
void inc_derivation_reject_client(struct inc_derivation *d, unsigned int rank, int code,
				  const struct inc_err *why);

/* ---- state_machines.c ---- */

void inc_derivation_set_phase(struct inc_derivation *d, enum inc_derive_phase to);

#endif

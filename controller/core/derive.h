/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What derive.c, which keeps derivations and makes of them what they are for, and derive_ask.c,
 * which knows who may ask for what, have in common.
 */
#ifndef INC_CTL_DERIVE_H
#define INC_CTL_DERIVE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "controller/core/core.h"
#include "controller/core/core_timer.h"
#include "lib/conf/messages.h"

struct inc_derive_member {
	struct inc_core_client *client; /* NULL: is not waiting */
	bool answered; /* what this came to, or has said itself that it cannot come */
	struct inc_join join;
	bool has_color;
	uint32_t color;
	int32_t key;
};

struct inc_derivation {
	struct inc_core *core;
	char job[CTL_NAME_MAX];
	struct inc_group *parent; /* NULL: so far newcomers alone wait for the job to grow */
	enum inc_derive_how how;
	uint32_t round;
	enum inc_derive_phase phase; /* inc_derivation_set_phase() */
	int code;                    /* REFUSED: why */
	char reason[512];
	struct inc_core_timer timer; /* while COLLECTING */
	LIST_ENTRY(inc_derivation) entry;
	unsigned int world_size;            /* of a grow: the new one */
	struct inc_derive_member members[]; /* by rank; newcomers behind the parent's */
};

/* Which of a group's counts of rounds it belongs to. */
static inline unsigned int inc_derive_count(enum inc_derive_how how)
{
	return how == INC_DERIVE_SHRINK;
}

/* parent: NULL where a newcomer is the first. NULL: no memory. */
struct inc_derivation *inc_derivation_new(struct inc_core *core, struct inc_group *parent,
					  const char *job, const struct inc_msg_derive *said,
					  unsigned int world_size);
/* "rank 1 (h1, 10.77.1.1)"; the same buffer on every call */
const char *inc_derivation_name(const struct inc_derivation *d, unsigned int rank);
/* Makes the groups where all have come that must, and frees it. */
void inc_derivation_make_if_complete(struct inc_derivation *d);
/* For all who wait, and all who come later. May free it. */
void inc_derivation_fail(struct inc_derivation *d, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* One that has been refused, to a client that asks for it now. May free it. */
void inc_derivation_answer_refused(struct inc_derivation *d, unsigned int rank,
				   struct inc_core_client *client);
/* The rank's client waits no longer, for this reason. */
void inc_derivation_reject_client(struct inc_derivation *d, unsigned int rank, int code,
				  const struct inc_err *why);

#endif

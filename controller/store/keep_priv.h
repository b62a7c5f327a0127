/* SPDX-License-Identifier: BSD-2-Clause */
/* What keep.c, which knows when something is written, kept.c, which makes rows of objects, and
 * restore.c, which makes objects of rows, share. */
#ifndef INC_KEEP_PRIV_H
#define INC_KEEP_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "controller/ctl.h"
#include "controller/store/rows.h"
#include "controller/store/store.h"
#include "lib/base/err.h"

struct inc_kept_gone {
	enum inc_kept_table table;
	uint32_t number;
};

struct inc_keep {
	struct inc_ctl *ctl;
	struct inc_store *store;
	bool fresh; /* the file held nothing: there may be an earlier controller's communicators */
	bool changed; /* since the last transaction */
	bool behind;  /* the file is not what it should be: all of it has to be written */
	bool failing; /* the last transaction has failed, which has been said */
	struct inc_kept_gone *gone;
	size_t n_gone, gone_room;
	uint32_t next[INC_N_KEPT_KINDS]; /* as the file has them */
	struct event *timer;             /* when there is something to write, or to try again */
};

/* kept.c: 0 or -errno. Nothing is written of what is still to begin. all: its ranks too, or its
 * switches and members; else those ranks that have changed. */
int inc_kept_put_group(struct inc_store *store, struct inc_group *group, bool all,
		       struct inc_err *err);
int inc_kept_put_comm(struct inc_store *store, const struct inc_comm *comm, bool all,
		      struct inc_err *err);

/* restore.c: makes the groups and communicators that the file holds. What the topology has no more
 * is logged and left out. 0, or -errno where the file cannot be right. */
int inc_restore(struct inc_ctl *ctl, struct inc_store *store, struct inc_err *err);

#endif

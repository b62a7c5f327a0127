/* SPDX-License-Identifier: BSD-2-Clause */
/* What keep.c, which knows when something is written, kept.c, which makes rows of objects, and
 * restore.c, which makes objects of rows, share. */
#ifndef INC_PERSIST_PRIV_H
#define INC_PERSIST_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "controller/core/core.h"
#include "controller/store/rows.h"
#include "controller/store/store.h"
#include "lib/base/err.h"

/* kept.c: write rows of objects as they are now. 0 or -errno. Nothing is written of what is still
 * to begin. */
/* Writes the row that an ACTION_STORE names, or removes it. */
int inc_rows_write_change(struct inc_store *store, struct inc_core *core,
			  const struct inc_action *change, struct inc_err *err);
/* Everything, in the place of what the store holds; the numbers apart. */
int inc_rows_write_all(struct inc_store *store, const struct inc_core *core, struct inc_err *err);
int inc_rows_write_numbers(struct inc_store *store, const struct inc_core *core,
			   struct inc_err *err);

/* restore.c: makes the groups and communicators that the file holds. What the topology has no more
 * is logged and left out. 0, or -errno where the file cannot be right. */
int inc_restore(struct inc_core *core, const char *path, struct inc_store *store,
		struct inc_err *err);

#endif

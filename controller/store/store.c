/* SPDX-License-Identifier: BSD-2-Clause */
/* Passes the calls of store.h to the kind of database that is open. */
#include <stdlib.h>
#include "controller/store/store_priv.h"

void inc_store_close(struct inc_store *store)
{
	char *path = store ? store->path : NULL;

	if (store)
		store->ops->close(store);
	free(path);
}

int inc_store_begin(struct inc_store *store, struct inc_err *err)
{
	return store->ops->begin(store, err);
}

int inc_store_commit(struct inc_store *store, struct inc_err *err)
{
	return store->ops->commit(store, err);
}

void inc_store_rollback(struct inc_store *store)
{
	store->ops->rollback(store);
}

int inc_store_put(struct inc_store *store, enum inc_kept_table table, const void *row,
		  struct inc_err *err)
{
	return store->ops->put(store, table, row, err);
}

int inc_store_drop(struct inc_store *store, enum inc_kept_table table, const void *key,
		   struct inc_err *err)
{
	return store->ops->drop(store, table, key, err);
}

int inc_store_clear(struct inc_store *store, struct inc_err *err)
{
	return store->ops->clear(store, err);
}

int inc_store_each(struct inc_store *store, enum inc_kept_table table, inc_store_row fn, void *arg,
		   struct inc_err *err)
{
	return store->ops->each(store, table, fn, arg, err);
}

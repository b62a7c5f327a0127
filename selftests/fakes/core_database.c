// SPDX-License-Identifier: BSD-2-Clause
/* The controller's database, held in memory (core_peers.h), with the rows of
 * controller/store/rows.h. */
#include <stdlib.h>
#include <string.h>
#include "controller/store/store.h"
#include "selftests/fakes/core_peers.h"

#define MOST 64

static struct {
	unsigned char *rows[MOST];
	unsigned int n;
} tables[INC_N_KEPT_TABLES];

static const void *key_of(enum inc_kept_table table, const void *row, unsigned int key)
{
	return (const char *)row + inc_kept_layouts[table].columns[key].offset;
}

static bool same_key(enum inc_kept_table table, unsigned int key, const void *a, const void *b)
{
	const struct inc_kept_column *column = &inc_kept_layouts[table].columns[key];

	return column->kind == INC_KEPT_TEXT ? !strcmp(a, b) : !memcmp(a, b, sizeof(uint32_t));
}

static bool same(enum inc_kept_table table, const void *a, const void *b)
{
	for (unsigned int k = 0; k < inc_kept_layouts[table].n_keys; k++) {
		if (!same_key(table, k, key_of(table, a, k), key_of(table, b, k)))
			return false;
	}
	return true;
}

static void drop(enum inc_kept_table table, unsigned int i)
{
	free(tables[table].rows[i]);
	tables[table].n--;
	/* rows are in the order of their keys, as in a database */
	memmove(&tables[table].rows[i], &tables[table].rows[i + 1],
		(tables[table].n - i) * sizeof(tables[table].rows[0]));
}

int inc_store_put(struct inc_store *store, enum inc_kept_table table, const void *row,
		  struct inc_err *err)
{
	const size_t size = inc_kept_layouts[table].row_size;
	unsigned int i = 0;

	while (i < tables[table].n && !same(table, tables[table].rows[i], row))
		i++;
	if (i == tables[table].n) {
		peers_require(i < MOST, "the database has too many rows");
		tables[table].rows[tables[table].n++] = malloc(size);
	}
	memcpy(tables[table].rows[i], row, size);
	return 0;
}

int inc_store_drop(struct inc_store *store, enum inc_kept_table table, const void *key,
		   struct inc_err *err)
{
	for (unsigned int i = tables[table].n; i-- > 0;) {
		if (same_key(table, 0, key_of(table, tables[table].rows[i], 0), key))
			drop(table, i);
	}
	return 0;
}

int inc_store_clear(struct inc_store *store, struct inc_err *err)
{
	for (unsigned int t = 0; t < INC_N_KEPT_TABLES; t++) {
		while (tables[t].n)
			drop(t, tables[t].n - 1);
	}
	return 0;
}

int inc_store_each(struct inc_store *store, enum inc_kept_table table, inc_store_row fn, void *arg,
		   struct inc_err *err)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < tables[table].n; i++)
		ret = fn(tables[table].rows[i], arg, err);
	return ret;
}

void store_clear(void)
{
	inc_store_clear(NULL, NULL);
}

unsigned int store_rows(enum inc_kept_table table)
{
	return tables[table].n;
}

bool store_has(enum inc_kept_table table, uint32_t key)
{
	for (unsigned int i = 0; i < tables[table].n; i++) {
		if (same_key(table, 0, key_of(table, tables[table].rows[i], 0), &key))
			return true;
	}
	return false;
}

/* Is this a column with random numbers or counters, or one with texts of errors, which contain such
 * numbers? */
static bool is_drawn(const struct inc_kept_column *column)
{
	static const char *const drawn[] = {"number", "of",   "first", "next",
					    "place",  "over", "reason"};
	const char *name = column->name, *part = strrchr(name, '_');

	for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
		if (strcmp(name, drawn[i]) == 0)
			return true;
	}
	return part && (!strcmp(part, "_qpn") || !strcmp(part, "_psn") || !strcmp(part, "_given"));
}

uint64_t store_hash(uint64_t hash)
{
	for (unsigned int t = 0; t < INC_N_KEPT_TABLES; t++) {
		const struct inc_kept_layout *layout = &inc_kept_layouts[t];

		hash = peers_mix(hash, &tables[t].n, sizeof(tables[t].n));
		for (unsigned int i = 0; i < tables[t].n * layout->n; i++) {
			const struct inc_kept_column *column = &layout->columns[i % layout->n];

			if (!is_drawn(column))
				hash = peers_mix(hash,
						 tables[t].rows[i / layout->n] + column->offset,
						 column->size);
		}
	}
	return hash;
}

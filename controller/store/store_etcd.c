/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The controller's database in etcd. The names of all keys begin with the prefix of --database.
 * docs/control.md ("The database") lists them. The value of a key PREFIX/rows/TABLE/KEY is an
 * object with all rows of the table that have this first key.
 *
 * This process has a copy of all rows. A commit sends the keys that differ, as one transaction that
 * only the leader can make (inc_lease_transact()).
 *
 * A change with too many keys or bytes is first written in parts, and becomes valid by the one
 * transaction that writes PREFIX/change/parts. Then the parts are carried out. The next leader
 * carries out what is left.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/opt.h"
#include "controller/store/lease.h"
#include "controller/store/store_priv.h"

#define READ_MS 2000 /* time limit for each page of the rows */
/* Limits of one transaction. etcd's own are 128 operations, and 1.5 MiB with keys and values before
 * they are written in base64. A part is the value of a key itself, so it is in base64 twice. */
#define OPS_MAX        100
#define BYTES_MAX      (600u << 10)
#define PAGE_KEYS      100 /* keys of one answer when all are read */
#define PATH_MAX_BYTES 90

#define VERSION INC_STR(INC_STORE_VERSION)
#define PARTS   "change/parts"

struct etcd_store {
	struct inc_store base;
	struct inc_lease *lease;
	struct inc_etcd *etcd;
	/* The rows of each table: an object for each first key, with a list of values for each
	 * second key. A table with one key column has the second key "0". */
	json_t *tables[INC_N_KEPT_TABLES];
	json_t *before; /* "TABLE/KEY": the object as it was at begin; null: there was none */
};

static struct etcd_store *etcd_of(struct inc_store *base)
{
	return (struct etcd_store *)base;
}

static int no_memory(struct inc_err *err)
{
	return inc_err_set(err, ENOMEM, "out of memory");
}

/* --- rows in memory --- */

/* Stores the object of a first key as it is before its first change in this transaction. Returns 0
 * or -ENOMEM. */
static int remember(struct etcd_store *s, enum inc_kept_table table, const char *key)
{
	const json_t *now = json_object_get(s->tables[table], key);
	char name[PATH_MAX_BYTES];

	snprintf(name, sizeof(name), "%s/%s", inc_kept_layouts[table].name, key);
	if (!s->before || json_object_get(s->before, name))
		return s->before ? 0 : -ENOMEM;
	return json_object_set_new(s->before, name, now ? json_deep_copy(now) : json_null())
		       ? -ENOMEM
		       : 0;
}

static int etcd_put(struct inc_store *base, enum inc_kept_table table, const void *row,
		    struct inc_err *err)
{
	const struct inc_kept_layout *layout = &inc_kept_layouts[table];
	struct etcd_store *s = etcd_of(base);
	char key[2][INC_KEPT_KEY_BYTES] = {"", "0"};
	json_t *rows;

	for (unsigned int i = 0; i < layout->n_keys; i++)
		inc_kept_key_text(&layout->columns[i],
				  (const char *)row + layout->columns[i].offset, key[i]);
	if (remember(s, table, key[0]))
		return no_memory(err);
	rows = json_object_get(s->tables[table], key[0]);
	if (!rows) {
		json_object_set_new(s->tables[table], key[0], json_object());
		rows = json_object_get(s->tables[table], key[0]);
	}
	return json_object_set_new(rows, key[1], inc_kept_row_json(table, row)) ? no_memory(err)
										: 0;
}

static int etcd_drop(struct inc_store *base, enum inc_kept_table table, const void *key,
		     struct inc_err *err)
{
	struct etcd_store *s = etcd_of(base);
	char text[INC_KEPT_KEY_BYTES];

	inc_kept_key_text(&inc_kept_layouts[table].columns[0], key, text);
	if (remember(s, table, text))
		return no_memory(err);
	json_object_del(s->tables[table], text);
	return 0;
}

static int etcd_clear(struct inc_store *base, struct inc_err *err)
{
	struct etcd_store *s = etcd_of(base);
	const char *key;
	json_t *rows;
	void *next;

	for (unsigned int t = 0; t < INC_N_KEPT_TABLES; t++) {
		json_object_foreach_safe(s->tables[t], next, key, rows)
		{
			if (remember(s, t, key))
				return no_memory(err);
			json_object_del(s->tables[t], key);
		}
	}
	return 0;
}

struct row_place {
	unsigned long first, second;
	const json_t *values;
};

static int compare_places(const void *a, const void *b)
{
	const struct row_place *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return x->second < y->second ? -1 : x->second > y->second;
}

/* Lists the rows of a table in the order of their keys. Returns their number; the caller frees
 * *out. */
static size_t list_rows(const json_t *table, struct row_place **out)
{
	struct row_place *places;
	const char *first, *second;
	json_t *rows, *values;
	size_t n = 0;

	json_object_foreach ((json_t *)table, first, rows)
		n += json_object_size(rows);
	*out = places = calloc(n + 1, sizeof(*places));
	if (!places)
		return 0;
	n = 0;
	json_object_foreach ((json_t *)table, first, rows) {
		json_object_foreach (rows, second, values)
			places[n++] = (struct row_place){strtoul(first, NULL, 10),
							 strtoul(second, NULL, 10), values};
	}
	qsort(places, n, sizeof(*places), compare_places);
	return n;
}

static int etcd_each(struct inc_store *base, enum inc_kept_table table, inc_store_row fn, void *arg,
		     struct inc_err *err)
{
	struct etcd_store *s = etcd_of(base);
	void *row = malloc(inc_kept_layouts[table].row_size);
	struct row_place *places = NULL;
	const size_t n = list_rows(s->tables[table], &places);
	int ret = row && places ? 0 : no_memory(err);

	for (size_t i = 0; !ret && i < n; i++)
		ret = inc_kept_row_take(table, places[i].values, row, s->base.path, err)
			      ?: fn(row, arg, err);
	free(places);
	free(row);
	return ret;
}

/* --- transactions of the database --- */

static int etcd_begin(struct inc_store *base, struct inc_err *err)
{
	struct etcd_store *s = etcd_of(base);

	json_decref(s->before);
	s->before = json_object();
	return s->before ? 0 : no_memory(err);
}

/* Splits "TABLE/KEY". Returns the table and its key; INC_N_KEPT_TABLES: there is none of this name.
 */
static enum inc_kept_table table_of(const char *name, const char **key)
{
	const char *slash = strchr(name, '/');
	unsigned int t;

	for (t = 0; slash && t < INC_N_KEPT_TABLES; t++) {
		const char *table = inc_kept_layouts[t].name;

		*key = slash + 1;
		if (strncmp(table, name, slash - name) == 0 && !table[slash - name])
			return t;
	}
	return INC_N_KEPT_TABLES;
}

static void etcd_rollback(struct inc_store *base)
{
	struct etcd_store *s = etcd_of(base);
	const char *name, *key = NULL;
	json_t *was;

	json_object_foreach (s->before, name, was) {
		json_t *table = s->tables[table_of(name, &key)];

		if (json_is_null(was))
			json_object_del(table, key);
		else
			json_object_set(table, key, was);
	}
	json_decref(s->before);
	s->before = NULL;
}

/* Makes the value of a key with these rows. Returns NULL if there is no memory; the caller frees
 * the text. */
static char *rows_text(enum inc_kept_table table, const json_t *rows)
{
	const struct inc_kept_layout *layout = &inc_kept_layouts[table];
	json_t *list = json_array(), *columns = json_array(), *object, *values;
	const char *second;
	char *text;

	for (unsigned int i = 0; i < layout->n; i++)
		json_array_append_new(columns, json_string(layout->columns[i].name));
	json_object_foreach ((json_t *)rows, second, values)
		json_array_append(list, values);
	object = json_pack("{s:o, s:o}", "columns", columns, "rows", list);
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

/* Makes the operation that writes or deletes the key of these rows. rows NULL: there are none. */
static json_t *op_rows(const struct etcd_store *s, const char *name, const json_t *rows)
{
	char path[PATH_MAX_BYTES + 8];
	const char *key;
	json_t *op;
	char *text;

	snprintf(path, sizeof(path), "rows/%s", name);
	if (!rows)
		return inc_etcd_delete(s->etcd, path);
	text = rows_text(table_of(name, &key), rows);
	op = text ? inc_etcd_put(s->etcd, path, text, strlen(text)) : NULL;
	free(text);
	return op;
}

/* Lists the operations for all keys that differ from begin. Returns NULL if there is no memory. */
static json_t *list_ops(const struct etcd_store *s)
{
	json_t *ops = json_array(), *was;
	const char *name, *key = NULL;

	json_object_foreach (s->before, name, was) {
		const json_t *table = s->tables[table_of(name, &key)];
		const json_t *now = json_object_get(table, key);

		if (now ? json_equal(now, was) : json_is_null(was))
			continue;
		if (json_array_append_new(ops, op_rows(s, name, now))) {
			json_decref(ops);
			return NULL;
		}
	}
	return ops;
}

static size_t bytes_of(const json_t *op)
{
	const json_t *put = json_object_get(op, "request_put");

	return 200 + json_string_length(json_object_get(put, "value"));
}

/* Moves operations from `ops`, beginning with number *at, into a list that is small enough for one
 * transaction. Returns NULL if there is no memory. */
static json_t *take_part(const json_t *ops, size_t *at)
{
	json_t *part = json_array();
	size_t bytes = 0;

	while (part && *at < json_array_size(ops) && json_array_size(part) < OPS_MAX) {
		json_t *op = json_array_get(ops, *at);

		bytes += bytes_of(op);
		if (json_array_size(part) && bytes > BYTES_MAX)
			break;
		if (json_array_append(part, op)) {
			json_decref(part);
			return NULL;
		}
		++*at;
	}
	return part;
}

static int write_key(struct etcd_store *s, const char *path, const char *value, struct inc_err *err)
{
	return inc_lease_transact(
		s->lease, json_pack("[o]", inc_etcd_put(s->etcd, path, value, strlen(value))), err);
}

static int delete_change(struct etcd_store *s, struct inc_err *err)
{
	return inc_lease_transact(s->lease,
				  json_pack("[o]", inc_etcd_delete_all(s->etcd, "change/")), err);
}

static int write_part(struct etcd_store *s, unsigned int i, json_t *part, struct inc_err *err)
{
	json_t *object = json_pack("{s:o}", "ops", part);
	char *text = json_dumps(object, JSON_COMPACT);
	char path[40];
	int ret;

	snprintf(path, sizeof(path), "change/part/%u", i);
	ret = text ? write_key(s, path, text, err) : no_memory(err);
	free(text);
	json_decref(object);
	return ret;
}

/* Carries out a change that is too large for one transaction. */
static int commit_large(struct etcd_store *s, const json_t *ops, struct inc_err *err)
{
	unsigned int n = 0;
	char text[20];
	int ret = 0;

	for (size_t at = 0; !ret && at < json_array_size(ops); n++)
		ret = write_part(s, n, take_part(ops, &at), err);
	snprintf(text, sizeof(text), "%u", n);
	ret = ret ?: write_key(s, PARTS, text, err);
	for (size_t at = 0; !ret && at < json_array_size(ops);)
		ret = inc_lease_transact(s->lease, take_part(ops, &at), err);
	return ret ?: delete_change(s, err);
}

static int etcd_commit(struct inc_store *base, struct inc_err *err)
{
	struct etcd_store *s = etcd_of(base);
	json_t *ops = list_ops(s), *part;
	size_t at = 0;
	int ret = 0;

	if (!ops)
		return no_memory(err);
	if (json_array_size(ops)) {
		part = take_part(ops, &at);
		if (at == json_array_size(ops)) {
			ret = inc_lease_transact(s->lease, part, err);
		} else {
			json_decref(part);
			ret = commit_large(s, ops, err);
		}
	}
	json_decref(ops);
	return ret;
}

static void etcd_close(struct inc_store *base)
{
	struct etcd_store *s = etcd_of(base);

	for (unsigned int t = 0; t < INC_N_KEPT_TABLES; t++)
		json_decref(s->tables[t]);
	json_decref(s->before);
	free(s);
}

static const struct inc_store_ops etcd_ops = {
	.close = etcd_close,
	.begin = etcd_begin,
	.commit = etcd_commit,
	.rollback = etcd_rollback,
	.put = etcd_put,
	.drop = etcd_drop,
	.clear = etcd_clear,
	.each = etcd_each,
};

/* --- opening --- */

/* The keys that are found when the database is opened. */
struct reading {
	struct etcd_store *s;
	bool any;           /* there are keys of an earlier controller */
	char version[20];   /* "": there is none */
	bool change;        /* there are keys of a change in parts */
	unsigned int parts; /* number of parts of a change that is valid; 0: none */
	json_t *part;       /* the parts by their numbers */
};

static int wrong_key(const struct reading *r, const char *key, const char *why, struct inc_err *err)
{
	return inc_err_set(err, EIO, "database %s: key %.100s: %s", r->s->base.path, key, why);
}

/* Takes the rows of a table's first key. */
static int take_rows(struct reading *r, const char *name, const json_t *object, struct inc_err *err)
{
	const char *key = NULL;
	const enum inc_kept_table table = table_of(name, &key);
	json_t *rows = json_object_get(object, "rows"), *values, *kept;
	size_t i;

	if (table == INC_N_KEPT_TABLES || !json_is_array(rows))
		return wrong_key(r, name, "its value is not that of a table's rows", err);
	kept = json_object();
	json_array_foreach (rows, i, values) {
		char second[20] = "0";

		if (inc_kept_layouts[table].n_keys > 1)
			snprintf(second, sizeof(second), "%lld",
				 (long long)json_integer_value(json_array_get(values, 1)));
		json_object_set(kept, second, values);
	}
	return json_object_set_new(r->s->tables[table], key, kept) ? no_memory(err) : 0;
}

static int take_key(struct reading *r, const char *path, const char *value, size_t n,
		    struct inc_err *err)
{
	json_t *object;
	int ret = 0;

	if (strcmp(path, INC_LEASE_KEY) == 0 || strcmp(path, INC_LEASE_ALIVE_KEY) == 0)
		return 0;
	r->any = true;
	if (strcmp(path, "version") == 0) {
		snprintf(r->version, sizeof(r->version), "%s", value);
		return 0;
	}
	r->change = r->change || strncmp(path, "change/", 7) == 0;
	if (strcmp(path, PARTS) == 0)
		r->parts = strtoul(value, NULL, 10);
	else if (strncmp(path, "rows/", 5) == 0 || strncmp(path, "change/part/", 12) == 0) {
		object = inc_etcd_parse(value, n);
		if (!object)
			ret = wrong_key(r, path, "its value is damaged", err);
		else if (*path == 'c')
			ret = json_object_set(r->part, path + 12, object) ? no_memory(err) : 0;
		else
			ret = take_rows(r, path + 5, object, err);
		json_decref(object);
	} else if (strcmp(path, "sequence") != 0) {
		ret = wrong_key(r, path, "it is another program's, not a controller's", err);
	}
	return ret;
}

/* Takes one page of keys. *from becomes the key behind the last one; NULL: there are no more. */
static int take_page(struct reading *r, const json_t *answer, json_t **from, struct inc_err *err)
{
	const json_t *kv;
	int ret = 0;
	size_t i;

	json_decref(*from);
	*from = NULL;
	json_array_foreach (json_object_get(answer, "kvs"), i, kv) {
		size_t key_n, n;
		char *key = inc_etcd_bytes(json_object_get(kv, "key"), &key_n);
		const json_t *text = json_object_get(kv, "value");
		char *value = text ? inc_etcd_bytes(text, &n) : NULL;
		const char *path = key ? inc_etcd_path(r->s->etcd, key) : NULL;

		ret = path && value ? take_key(r, path, value, n, err)
				    : wrong_key(r, key ?: "?", "it cannot be read", err);
		json_decref(*from);
		*from = key ? inc_etcd_text(key, key_n + 1) : NULL;
		free(key);
		free(value);
		if (ret)
			break;
	}
	if (ret || !json_is_true(json_object_get(answer, "more"))) {
		json_decref(*from);
		*from = NULL;
	}
	return ret;
}

static int read_all(struct reading *r, struct inc_err *err)
{
	struct inc_etcd *etcd = r->s->etcd;
	json_t *from = inc_etcd_key(etcd, ""), *answer;
	int ret = from ? 0 : no_memory(err);

	while (!ret && from) {
		inc_lease_keep(r->s->lease);
		ret = inc_etcd_call(etcd, "kv/range",
				    json_pack("{s:O, s:o, s:i}", "key", from, "range_end",
					      inc_etcd_key_end(etcd, ""), "limit", PAGE_KEYS),
				    inc_boot_ns() + READ_MS * INC_NSEC_PER_MSEC, &answer, err);
		if (!ret)
			ret = take_page(r, answer, &from, err);
		json_decref(answer);
	}
	json_decref(from);
	return ret;
}

/* Completes a change in parts that is valid, or removes the parts of one that is not. */
static int complete(struct reading *r, struct inc_err *err)
{
	char number[20];
	int ret = 0;

	for (unsigned int i = 0; !ret && i < r->parts; i++) {
		json_t *ops;

		inc_lease_keep(r->s->lease);
		snprintf(number, sizeof(number), "%u", i);
		ops = json_object_get(json_object_get(r->part, number), "ops");
		ret = json_is_array(ops)
			      ? inc_lease_transact(r->s->lease, json_copy(ops), err)
			      : wrong_key(r, PARTS, "a part of the change is missing", err);
	}
	return ret ?: delete_change(r->s, err);
}

/* Checks that this controller understands the keys. Version 4, the first one in an etcd, only lacks
 * the table of switches, so nothing has to be converted. */
static int check_version(const struct reading *r, struct inc_err *err)
{
	if (!r->any || strcmp(r->version, VERSION) == 0 || strcmp(r->version, "4") == 0)
		return 0;
	if (!*r->version)
		return wrong_key(r, "version", "it is missing, so the keys are another program's",
				 err);
	return inc_err_set(err, EPROTONOSUPPORT,
			   "database %s has schema version %s, this controller knows " VERSION
			   " at most: a newer one has written it",
			   r->s->base.path, r->version);
}

static int load(struct etcd_store *s, bool *fresh, struct inc_err *err)
{
	struct reading r = {.s = s, .part = json_object()};
	int ret = read_all(&r, err) ?: check_version(&r, err);

	*fresh = !r.any;
	if (!ret && r.change) {
		ret = complete(&r, err);
		for (unsigned int t = 0; t < INC_N_KEPT_TABLES; t++)
			json_object_clear(s->tables[t]);
		r.change = false;
		ret = ret ?: read_all(&r, err);
	}
	if (!ret && strcmp(r.version, VERSION) != 0)
		ret = write_key(s, "version", VERSION, err);
	json_decref(r.part);
	return ret;
}

int inc_store_open_etcd(struct inc_lease *lease, struct inc_store **out, bool *fresh,
			struct inc_err *err)
{
	struct etcd_store *s = calloc(1, sizeof(*s));
	int ret = 0;

	if (!s)
		return no_memory(err);
	s->base.ops = &etcd_ops;
	s->lease = lease;
	s->etcd = inc_lease_etcd(lease);
	s->base.path = strdup(inc_etcd_name(s->etcd));
	for (unsigned int t = 0; t < INC_N_KEPT_TABLES; t++) {
		s->tables[t] = json_object();
		ret = ret ?: s->tables[t] ? 0 : no_memory(err);
	}
	ret = ret ?: s->base.path ? 0 : no_memory(err);
	ret = ret ?: load(s, fresh, err);
	if (ret)
		inc_store_close(&s->base);
	else
		*out = &s->base;
	return ret;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The columns of the controller's database (rows.h). Read by store_sqlite.c and
 * store_etcd.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"
#include "controller/store/rows.h"
#include "controller/store/store.h"

static const char *const kinds[] = {
	[INC_KEPT_GROUP_NUMBERS] = "group", [INC_KEPT_COMM_NUMBERS] = "communicator", NULL};

/* Describes where a number or word is in a row's struct, by its offset and size. The macro compiles
 * only if the member has one of these types. */
#define AT(s, f)                                                                             \
	.offset = offsetof(struct s, f) +                                                    \
		  0 * _Generic(((struct s *)0)->f, uint8_t : 1, uint16_t : 1, uint32_t : 1), \
	.size = sizeof(((struct s *)0)->f)
#define NUMBER(s, f, most)                                                   \
	{                                                                    \
		.name = #f, .kind = INC_KEPT_NUMBER, AT(s, f), .max = (most) \
	}
#define WORD(s, f, list)                                                     \
	{                                                                    \
		.name = #f, .kind = INC_KEPT_WORD, AT(s, f), .words = (list) \
	}
#define TEXT(s, f)                                                                  \
	{                                                                           \
		.name = #f, .kind = INC_KEPT_TEXT, .offset = offsetof(struct s, f), \
		.size = sizeof(((struct s *)0)->f)                                  \
	}
/* The columns of one end: a number for each field that messages have, and the kind as a word. The
 * topology has the address. */
/* clang-format off */
#define END_SENT(s, e, f, most) \
	{.name = #e "_" #f, .kind = INC_KEPT_NUMBER, AT(s, e.end.f), .max = (most)},
#define END_KEPT(s, e, f, most)
#define END_RESERVED(s, e, f, most)
#define END_FIELD(type, f, at, most, travel, s, e) END_##travel(s, e, f, most)
#define END(s, e) \
	INC_RC_END_FIELDS(END_FIELD, s, e) \
	{.name = #e "_kind", .kind = INC_KEPT_WORD, AT(s, e.end.kind), .words = inc_endpoint_kinds}, \
	{.name = #e "_given", .kind = INC_KEPT_NUMBER, AT(s, e.given), .max = INC_QPN_MASK}
/* clang-format on */

static const struct inc_kept_column numbers[] = {
	WORD(inc_kept_numbers, kind, kinds),
	NUMBER(inc_kept_numbers, first, UINT32_MAX),
	NUMBER(inc_kept_numbers, next, UINT32_MAX),
};

static const struct inc_kept_column groups[] = {
	NUMBER(inc_kept_group, number, UINT32_MAX),
	TEXT(inc_kept_group, job),
	NUMBER(inc_kept_group, world_size, INC_MAX_WORLD),
	TEXT(inc_kept_group, state),
	NUMBER(inc_kept_group, over_code, INT32_MAX),
	TEXT(inc_kept_group, over),
	NUMBER(inc_kept_group, of, UINT32_MAX),
	WORD(inc_kept_group, how, inc_derive_hows),
	NUMBER(inc_kept_group, derived, UINT32_MAX),
	NUMBER(inc_kept_group, shrunk, UINT32_MAX),
};

static const struct inc_kept_column ranks[] = {
	NUMBER(inc_kept_rank, number, UINT32_MAX),
	NUMBER(inc_kept_rank, rank, INC_MAX_WORLD - 1),
	TEXT(inc_kept_rank, host),
	TEXT(inc_kept_rank, node),
	NUMBER(inc_kept_rank, gone, 1),
	NUMBER(inc_kept_rank, leader, INC_MAX_WORLD - 1),
};

static const struct inc_kept_column comms[] = {
	NUMBER(inc_kept_comm, number, UINT32_MAX),
	NUMBER(inc_kept_comm, of, UINT32_MAX),
	NUMBER(inc_kept_comm, comm, UINT32_MAX),
	NUMBER(inc_kept_comm, place, UINT32_MAX),
	TEXT(inc_kept_comm, state),
	NUMBER(inc_kept_comm, code, INT32_MAX),
	TEXT(inc_kept_comm, reason),
	NUMBER(inc_kept_comm, payload, INC_MAX_RC_PAYLOAD),
	NUMBER(inc_kept_comm, slots, INC_MAX_SLOTS),
	WORD(inc_kept_comm, byte_order, inc_byte_orders),
	WORD(inc_kept_comm, mode, inc_tree_modes),
	WORD(inc_kept_comm, floats, inc_float_forms),
	NUMBER(inc_kept_comm, message_packets, UINT16_MAX),
	NUMBER(inc_kept_comm, messages, UINT16_MAX),
	NUMBER(inc_kept_comm, counted, 1),
};

static const struct inc_kept_column nodes[] = {
	NUMBER(inc_kept_node, number, UINT32_MAX),
	NUMBER(inc_kept_node, node, INC_TOPO_MAX_SWITCHES - 1),
	TEXT(inc_kept_node, sw),
	WORD(inc_kept_node, mode, inc_modes_of_switch),
	NUMBER(inc_kept_node, parent, INC_TOPO_MAX_SWITCHES),
	TEXT(inc_kept_node, up_port),
	TEXT(inc_kept_node, down_port),
	NUMBER(inc_kept_node, first_rank, INC_MAX_WORLD - 1),
	END(inc_kept_node, own),
	END(inc_kept_node, peer),
};

static const struct inc_kept_column members[] = {
	NUMBER(inc_kept_member, number, UINT32_MAX),
	NUMBER(inc_kept_member, rank, INC_MAX_WORLD - 1),
	TEXT(inc_kept_member, transport),
	NUMBER(inc_kept_member, pkey, UINT16_MAX),
	NUMBER(inc_kept_member, udp_csum, 1),
	END(inc_kept_member, own),
	END(inc_kept_member, peer),
	NUMBER(inc_kept_member, rail, INC_MAX_RAILS - 1),
};

static const struct inc_kept_column switches[] = {
	TEXT(inc_kept_switch, name),
	NUMBER(inc_kept_switch, mode_set, 1),
	WORD(inc_kept_switch, mode, inc_mode_settings),
	NUMBER(inc_kept_switch, gone, 1),
};

#define LAYOUT(table, row, keys)                                                          \
	{                                                                                 \
#table, sizeof(struct row), keys, sizeof(table) / sizeof(table[0]), table \
	}

const struct inc_kept_layout inc_kept_layouts[INC_N_KEPT_TABLES] = {
	[INC_KEPT_NUMBERS] = LAYOUT(numbers, inc_kept_numbers, 1),
	[INC_KEPT_GROUPS] = LAYOUT(groups, inc_kept_group, 1),
	[INC_KEPT_RANKS] = LAYOUT(ranks, inc_kept_rank, 2),
	[INC_KEPT_COMMS] = {"communicators", sizeof(struct inc_kept_comm), 1,
			    sizeof(comms) / sizeof(comms[0]), comms},
	[INC_KEPT_NODES] = LAYOUT(nodes, inc_kept_node, 2),
	[INC_KEPT_MEMBERS] = LAYOUT(members, inc_kept_member, 2),
	[INC_KEPT_SWITCHES] = LAYOUT(switches, inc_kept_switch, 1),
};

uint32_t inc_kept_load(const struct inc_kept_column *column, const void *at)
{
	switch (column->size) {
	case 1:
		return *(const uint8_t *)at;
	case 2:
		return *(const uint16_t *)at;
	default:
		return *(const uint32_t *)at;
	}
}

void inc_kept_set(const struct inc_kept_column *column, void *at, uint32_t value)
{
	switch (column->size) {
	case 1:
		*(uint8_t *)at = value;
		break;
	case 2:
		*(uint16_t *)at = value;
		break;
	default:
		*(uint32_t *)at = value;
	}
}

void inc_kept_key_text(const struct inc_kept_column *c, const void *at,
		       char text[INC_KEPT_KEY_BYTES])
{
	if (c->kind == INC_KEPT_TEXT)
		snprintf(text, INC_KEPT_KEY_BYTES, "%s", (const char *)at);
	else if (c->kind == INC_KEPT_WORD)
		snprintf(text, INC_KEPT_KEY_BYTES, "%s", c->words[inc_kept_load(c, at)]);
	else
		snprintf(text, INC_KEPT_KEY_BYTES, "%u", inc_kept_load(c, at));
}

static json_t *value_of(const struct inc_kept_column *c, const void *row)
{
	const void *at = (const char *)row + c->offset;

	if (c->kind == INC_KEPT_TEXT)
		return json_string(at);
	if (c->kind == INC_KEPT_WORD)
		return json_string(c->words[inc_kept_load(c, at)]);
	return json_integer(inc_kept_load(c, at));
}

json_t *inc_kept_row_json(enum inc_kept_table table, const void *row)
{
	const struct inc_kept_layout *layout = &inc_kept_layouts[table];
	json_t *values = json_array();
	int ret = 0;

	for (unsigned int i = 0; i < layout->n; i++)
		ret |= json_array_append_new(values, value_of(&layout->columns[i], row));
	if (!ret)
		return values;
	json_decref(values);
	return NULL;
}

/* Takes a value into its field of the row. Returns false if the column must not have it. */
static bool take_value(const struct inc_kept_column *c, const json_t *value, void *row)
{
	const char *text = json_string_value(value);
	const json_int_t number = json_integer_value(value);
	void *at = (char *)row + c->offset;

	if (c->kind == INC_KEPT_NUMBER) {
		if (!json_is_integer(value) || number < 0 || number > c->max)
			return false;
		inc_kept_set(c, at, number);
		return true;
	}
	if (!text || json_string_length(value) != strlen(text))
		return false;
	if (c->kind == INC_KEPT_TEXT) {
		if (strlen(text) < c->size)
			strcpy(at, text);
		return strlen(text) < c->size;
	}
	for (uint32_t k = 0; c->words[k]; k++) {
		if (strcmp(c->words[k], text) != 0)
			continue;
		inc_kept_set(c, at, k);
		return true;
	}
	return false;
}

int inc_kept_row_take(enum inc_kept_table table, const json_t *values, void *row,
		      const char *database, struct inc_err *err)
{
	const struct inc_kept_layout *layout = &inc_kept_layouts[table];

	memset(row, 0, layout->row_size);
	if (json_array_size(values) != layout->n)
		return inc_err_set(err, EIO, "database %s: a row of %s has %zu columns and not %u",
				   database, layout->name, json_array_size(values), layout->n);
	for (unsigned int i = 0; i < layout->n; i++) {
		char *text;

		if (take_value(&layout->columns[i], json_array_get(values, i), row))
			continue;
		text = json_dumps(json_array_get(values, i), JSON_ENCODE_ANY);
		inc_err_set(err, EIO, "database %s: %s.%s cannot be '%.64s'", database,
			    layout->name, layout->columns[i].name, text ?: "?");
		free(text);
		return -EIO;
	}
	return 0;
}

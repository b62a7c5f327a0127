/* SPDX-License-Identifier: BSD-2-Clause */
/* The columns of the controller's database (rows.h). Read by store.c. */
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
};

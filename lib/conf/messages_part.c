/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of messages: those of a hello, and elements of lists that their owners read one by one. */
#include "lib/conf/messages_priv.h"

/* clang-format off */
#define LIMITS_FIELDS \
	{"children", INC_UINT, INC_DEFAULT, INC_AT(struct inc_msg_limits, children), .min = 1, \
	 .max = UINT32_MAX, .def = INC_MAX_CHILDREN, .text = "of a communicator"}, \
	{"slots", INC_UINT, INC_DEFAULT, INC_AT(struct inc_msg_limits, slots), .min = 1, \
	 .max = UINT32_MAX, .def = INC_MAX_SLOTS, .text = "of a communicator"}, \
	{"rows", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_limits, rows), .max = UINT32_MAX, \
	 .text = "of packets kept: connections times slots, of all communicators"}, \
	{"connections", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_limits, connections), \
	 .max = UINT32_MAX, .text = "of all communicators"}, \
	{"groups", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_limits, communicators), \
	 .max = UINT32_MAX, .text = "communicators"}
/* clang-format on */

static const struct inc_field limits_fields[] = {LIMITS_FIELDS};
const struct inc_schema inc_limits_schema = INC_SCHEMA(struct inc_msg_limits, limits_fields);

static const struct inc_field engine_limits_fields[] = {
	LIMITS_FIELDS,
	{"message_bytes", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_limits, message_bytes),
	 .min = 1, .max = UINT32_MAX, .empty = true, .text = "of a message (in termination mode)"},
	{"window_bytes", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_limits, window_bytes),
	 .min = 1, .max = UINT32_MAX, .empty = true,
	 .text = "of messages under way on a connection (in termination mode)"},
};
static const struct inc_schema engine_limits_schema =
	INC_SCHEMA(struct inc_msg_limits, engine_limits_fields);

static const struct inc_field offer_fields[] = {
	{"port", INC_WORD, INC_REQUIRED, INC_AT(struct inc_msg_offer, port), .text = "its name"},
	{"kind", INC_CHOICE, INC_REQUIRED, INC_AT(struct inc_msg_offer, kind),
	 .names = inc_endpoint_kinds, .text = "what connections end at"},
	{"device", INC_LINE, INC_OPTIONAL, INC_AT(struct inc_msg_offer, device),
	 .text = "which, for people"},
	{"payload", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_offer, payload),
	 .min = INC_MIN_PAYLOAD, .max = UINT16_MAX, .text = "of a packet at most"},
	{"message_bytes", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_offer, message_bytes),
	 .min = 1, .max = UINT32_MAX, .text = "of a message at most"},
};
static const struct inc_schema offer_schema = INC_SCHEMA(struct inc_msg_offer, offer_fields);

#define WORD(NAME, name, ...) [INC_DTYPE_##NAME] = #name,
const char *const inc_dtype_names[] = {INC_WIRE_DTYPES(WORD) NULL};
#undef WORD
#define WORD(NAME, name) [INC_OPERATOR_##NAME] = #name,
const char *const inc_operator_names[] = {INC_OPERATORS(WORD) NULL};
#undef WORD

static const struct inc_field dtype_field[] = {
	{NULL, INC_CHOICE, .size = sizeof(uint32_t), .names = inc_dtype_names},
};
static const struct inc_schema dtype_schema = {
	.fields = dtype_field, .n = 1, .size = sizeof(uint32_t)};

static const struct inc_field kernel_fields[] = {
	{"operator", INC_CHOICE, INC_REQUIRED, INC_AT(struct inc_msg_kernel, op),
	 .names = inc_operator_names, .text = "what is made of the numbers"},
	{"types", .need = INC_REQUIRED,
	 INC_LIST_AT(struct inc_msg_kernel, types, n_types, &dtype_schema),
	 .text = "which numbers; floats are added as they are"},
};
static const struct inc_schema kernel_schema = INC_SCHEMA(struct inc_msg_kernel, kernel_fields);

static const struct inc_field engine_fields[] = {
	{"mode", INC_CHOICE, INC_REQUIRED, INC_AT(struct inc_msg_engine, mode),
	 .names = inc_modes_of_switch, .text = "which one this is"},
	{"limits", INC_MAP, INC_OPTIONAL, INC_AT(struct inc_msg_engine, limits),
	 .of = &engine_limits_schema, .given = offsetof(struct inc_msg_engine, has_limits),
	 .text = "what it can hold in this mode"},
	{"endpoints", .need = INC_OPTIONAL,
	 INC_LIST_AT(struct inc_msg_engine, endpoints, n_endpoints, &offer_schema),
	 .text = "where connections can end"},
	{"kernels", .need = INC_OPTIONAL,
	 INC_LIST_AT(struct inc_msg_engine, kernels, n_kernels, &kernel_schema),
	 .text = "what it can add up (of termination mode)"},
	{"set", INC_WORD, INC_OPTIONAL, INC_AT(struct inc_msg_engine, set), .empty = true,
	 .text = "the instructions by which, for people"},
};
const struct inc_schema inc_engine_schema = INC_SCHEMA(struct inc_msg_engine, engine_fields);

static const struct inc_field missing_fields[] = {
	{"rank", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_missing, rank),
	 .max = INC_MAX_WORLD - 1, .given = offsetof(struct inc_msg_missing, has_rank)},
	{"up", INC_BOOL, INC_HINT, INC_AT(struct inc_msg_missing, up)},
};
static const struct inc_schema missing_schema = INC_SCHEMA(struct inc_msg_missing, missing_fields);

static const struct inc_field waiting_fields[] = {
	{"communicator", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_waiting, communicator),
	 .max = UINT32_MAX},
	{"chunk", INC_UINT, INC_HINT, INC_AT(struct inc_msg_waiting, chunk), .max = INT64_MAX,
	 .given = offsetof(struct inc_msg_waiting, has_chunk)},
	{"missing", .need = INC_OPTIONAL,
	 INC_LIST_AT(struct inc_msg_waiting, missing, n_missing, &missing_schema)},
};
const struct inc_schema inc_waiting_schema = INC_SCHEMA(struct inc_msg_waiting, waiting_fields);

static const struct inc_field tally_fields[] = {
	{"communicator", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_tally, communicator),
	 .max = UINT32_MAX},
	{"results", INC_UINT, INC_REQUIRED, INC_AT(struct inc_msg_tally, results),
	 .max = INT64_MAX},
};
const struct inc_schema inc_tally_schema = INC_SCHEMA(struct inc_msg_tally, tally_fields);

static const struct inc_field port_fields[] = {
	{"name", INC_WORD, INC_REQUIRED, INC_AT(struct inc_msg_port, name)},
	{"ip", INC_LINE, INC_OPTIONAL, INC_AT(struct inc_msg_port, ip)},
	{"mac", INC_MAC, INC_HINT, INC_AT(struct inc_msg_port, mac),
	 .given = offsetof(struct inc_msg_port, has_mac)},
	{"mtu", INC_UINT, INC_OPTIONAL, INC_AT(struct inc_msg_port, mtu), .min = INC_MIN_MTU,
	 .max = INC_MAX_MTU},
};
const struct inc_schema inc_port_schema = INC_SCHEMA(struct inc_msg_port, port_fields);

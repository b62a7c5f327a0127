/* SPDX-License-Identifier: BSD-2-Clause */
#include <jansson.h>
#include <string.h>
#include "lib/conf/messages.h"

#define WORD(NAME, name, ...) [INC_DTYPE_##NAME] = #name,
const char *const inc_dtype_names[] = {INC_WIRE_DTYPES(WORD) NULL};
#undef WORD
#define WORD(NAME, name, ...) [INC_OPERATOR_##NAME] = #name,
const char *const inc_operator_names[] = {INC_WIRE_OPERATORS(WORD) NULL};
#undef WORD

/* clang-format off */
/* The tables of messages: S_fields and inc_S_schema of each STRUCT(S) and TABLE(S, ...), and the
 * names of each ENUM. */
#define ENUM(TAG, NAMES) const char *const NAMES[] = {
#define NAME(VALUE, TEXT) [VALUE] = TEXT,
#define END_ENUM NULL};
#define BEGIN(T, S) \
	typedef struct inc_msg_##S struct_of_##T; \
	static const struct inc_field T##_fields[] = {
#define ROW(S, MEMBER, KEY, NEED, TYPE, TEXT) \
	{KEY, INC_AT(struct inc_msg_##S, MEMBER), .text = TEXT, TYPE, NEED(S, MEMBER)},
#define LIST(S, MEMBER, COUNT, KEY, NEED, E, MIN, MAX, TEXT) \
	{KEY, INC_LIST_AT(struct inc_msg_##S, MEMBER, COUNT, &inc_##E##_schema), .min = MIN, \
	 .text = TEXT, INC_NEED_##NEED(S, MEMBER)},
#define VALUES(S, MEMBER, COUNT, KEY, NEED, TYPE, MIN, MAX, TEXT) \
	{KEY, INC_LIST_AT(struct inc_msg_##S, MEMBER, COUNT, \
			  ONE(sizeof(((struct inc_msg_##S *)0)->MEMBER[0]), INC_TYPE_##TYPE)), \
	 .min = MIN, .text = TEXT, INC_NEED_##NEED(S, MEMBER)},
/* schema of the elements of a list that has plain values, such as numbers, instead of structs */
#define ONE(bytes, ...) \
	&(const struct inc_schema){&(const struct inc_field){.size = bytes, __VA_ARGS__}, 1, bytes}
#define OTHER(KEY, NEED, VALUE, TEXT) \
	{KEY, INC_OTHER, .what = VALUE, .text = TEXT, INC_NEED_##NEED(, )},
#define PART(S, TYPE, MEMBER, ...) __VA_ARGS__
#define RC_END(S, MEMBER, PORT, PORT_TEXT, QP_TEXT, PSN, PSN_TEXT, ...) \
	INC_END_FIELDS(struct inc_msg_##S, MEMBER, \
		       OF_END(INC_NEED_##PORT(S, MEMBER), PORT_TEXT), \
		       OF_END(INC_NEED_REQUIRED(S, MEMBER), QP_TEXT), \
		       OF_END(INC_NEED_##PSN(S, MEMBER), PSN_TEXT)), __VA_ARGS__
#define OF_END(NEED, TEXT) NEED, .text = TEXT
#define END(T) }; const struct inc_schema inc_##T##_schema = INC_SCHEMA(struct_of_##T, T##_fields);
#define STRUCT(S) BEGIN(S, S)
#define TABLE(T, S, ...) BEGIN(T, S) __VA_ARGS__ END(T)
#define INC_TYPE(TYPE, ...) __VA_ARGS__
/* The word NEED of a row in messages.def is a macro with two results. FLAG is called with the (S,
 * MEMBER) that follows NEED there. */
#define INC_NEED(FLAG, ...) __VA_ARGS__, FLAG
#define INC_FLAG_NO(S, MEMBER) .given = 0
#define INC_FLAG_HAS(S, MEMBER) .given = offsetof(struct inc_msg_##S, has_##MEMBER)
#include "lib/conf/messages.def"
#undef BEGIN
#undef ONE
#undef OF_END

/* A check by the compiler that each field names the struct in which it stands. Otherwise the
 * field's row would have the offset of another struct's member. Each STRUCT(S) becomes a function
 * that no code calls. Its fields use the parameter S, so a field with another name does not
 * compile. */
#define ENUM(TAG, NAMES)
#define NAME(VALUE, TEXT)
#define END_ENUM
#define BEGIN(T, S) static inline void check_##T(const struct inc_msg_##S *S) {
#define ROW(S, MEMBER, KEY, NEED, TYPE, TEXT) (void)S->MEMBER;
#define LIST(S, MEMBER, COUNT, KEY, NEED, E, MIN, MAX, TEXT) (void)S->MEMBER;
#define VALUES(S, MEMBER, COUNT, KEY, NEED, TYPE, MIN, MAX, TEXT) (void)S->MEMBER;
#define OTHER(KEY, NEED, VALUE, TEXT)
#define PART(S, TYPE, MEMBER, ...) __VA_ARGS__
#define RC_END(S, MEMBER, PORT, PORT_TEXT, QP_TEXT, PSN, PSN_TEXT, ...) \
	(void)S->MEMBER; __VA_ARGS__
#define END(T) }
#define STRUCT(S) BEGIN(S, S)
#define TABLE(T, S, ...) BEGIN(T, S) __VA_ARGS__ END(T)
#include "lib/conf/messages.def"
#undef BEGIN
/* clang-format on */

const struct inc_message inc_messages[INC_MSG_MAX] = {
#define MESSAGE(ID, KEY, FROM, TO, S, TEXT) \
	[INC_MSG_##ID] = {KEY, FROM, TO, INC_SCHEMA(struct_of_##S, S##_fields), TEXT},
#include "lib/conf/messages.def"
};

const char *inc_message_type(const json_t *object)
{
	return json_string_value(json_object_get(object, "type")) ?: "";
}

bool inc_message_is(const char *type, enum inc_message_id id)
{
	return strcmp(type, inc_messages[id].type) == 0;
}

int inc_message_read(enum inc_message_id id, const json_t *object, void *out, struct inc_err *err)
{
	return inc_schema_read_json(&inc_messages[id].schema, object, out, err);
}

json_t *inc_message_print(const struct inc_message *message, const void *in)
{
	json_t *fields = inc_schema_print(&message->schema, INC_MESSAGE_ONLY, in);
	json_t *object = json_pack("{s:s}", "type", message->type);

	if (!fields || !object || json_object_update(object, fields)) {
		json_decref(object);
		object = NULL;
	}
	json_decref(fields);
	return object;
}

json_t *inc_message_new(enum inc_message_id id, const void *in)
{
	return inc_message_print(&inc_messages[id], in);
}

#define PART_AT(member) INC_AT(struct inc_msg_neighbour, member)
static const struct inc_field neighbour_fields[] = {
	{"ip", .kind = INC_IPV4, .need = INC_REQUIRED, PART_AT(ip)},
	{"mac", .kind = INC_MAC, .need = INC_REQUIRED, PART_AT(mac)},
	{"stale", .kind = INC_BOOL, .need = INC_DEFAULT, PART_AT(stale)},
};
const struct inc_schema inc_neighbour_schema =
	INC_SCHEMA(struct inc_msg_neighbour, neighbour_fields);
#undef PART_AT

#define PART_AT(member) INC_AT(struct inc_msg_introduced, member)
static const struct inc_field introduced_fields[] = {
	{"mac", .kind = INC_MAC, .need = INC_REQUIRED, PART_AT(mac)},
	{"chassis", .kind = INC_LINE, .need = INC_HINT, PART_AT(chassis)},
	{"port", .kind = INC_LINE, .need = INC_HINT, PART_AT(port)},
	{"name", .kind = INC_LINE, .need = INC_OPTIONAL, .empty = true, PART_AT(name)},
	{"address", .kind = INC_IPV4, .need = INC_HINT, PART_AT(address),
	 .given = offsetof(struct inc_msg_introduced, has_address)},
};
const struct inc_schema inc_introduced_schema =
	INC_SCHEMA(struct inc_msg_introduced, introduced_fields);
#undef PART_AT

#define PART_AT(member) INC_AT(struct inc_msg_place, member)
static const struct inc_field place_fields[] = {
	{"name", .kind = INC_WORD, .need = INC_REQUIRED, PART_AT(name)},
	{"ip", .kind = INC_IPV4, .need = INC_HINT, PART_AT(ip),
	 .given = offsetof(struct inc_msg_place, has_ip)},
	{"prefix", .kind = INC_UINT, .need = INC_HINT, .max = 32, PART_AT(prefix)},
	{"mac", .kind = INC_MAC, .need = INC_HINT, PART_AT(mac),
	 .given = offsetof(struct inc_msg_place, has_mac)},
	{"mtu", .kind = INC_UINT, .need = INC_HINT, .min = INC_MIN_MTU, .max = INC_MAX_MTU,
	 PART_AT(mtu)},
	{"speed_mbit", .kind = INC_UINT, .need = INC_HINT, .min = 1, .max = UINT32_MAX,
	 PART_AT(speed_mbit)},
	{"lldp", .kind = INC_BOOL, .need = INC_HINT, PART_AT(lldp)},
};
const struct inc_schema inc_place_schema = INC_SCHEMA(struct inc_msg_place, place_fields);
#undef PART_AT

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fields of files and of messages, as tables. One table serves three purposes. It reads YAML, with
 * errors such as "star.yaml:12: connections[1].own_qp: 1 is not between 2 and 16777214"
 * (schema_yaml.h). It reads JSON, with the same errors without file and line. It prints JSON,
 * which yaml.h prints as YAML. The values are in a C struct, in which each field has an offset.
 *
 * inc-switchd uses tables for its file and the controller's messages, the controller for a
 * topology and the messages of members and switches. inc-lab uses them for topologies, and
 * libinccl for the controller's messages. Any thread may call these functions, because the calls
 * share no data.
 */
#ifndef INC_SCHEMA_H
#define INC_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"

struct json_t; /* a JSON value of the library jansson */

enum inc_field_kind {
	INC_UINT,   /* unsigned integer of 1, 2, 4 or 8 bytes, from min to max */
	INC_INT,    /* int32_t with any value */
	INC_REAL,   /* double, from min to max */
	INC_BOOL,   /* bool: true or false; also 0 or 1, which programs in C write */
	INC_IPV4,   /* struct in_addr: the address of one host */
	INC_MAC,    /* uint8_t[6]: a MAC address */
	INC_RANKS,  /* struct inc_ranks: ranks such as "0-3,8" */
	INC_WORD,   /* char[]: a word of printable ASCII without blanks, 1 to size - 1 characters */
	INC_LINE,   /* char[]: a line for people; made printable ASCII, and cut to what fits */
	INC_CHOICE, /* unsigned integer: the index of the text in names */
	INC_ERRNO,  /* int: the number behind an error's symbolic name */
	INC_MAP,    /* struct, whose schema is in the member of */
	/* array of such structs. The uint32_t at count has their number, and max is its limit */
	INC_LIST,
	/* the table has only the field's name, because its owner reads and prints the value */
	INC_OTHER,
};

enum inc_field_need {
	INC_REQUIRED,
	INC_OPTIONAL, /* if the field is absent, the struct keeps its value */
	INC_DEFAULT,  /* if the field is absent, the value is def */
	/* a file may omit the field, and the log then reports the default; a message must have
	 * it */
	INC_TOLD,
	/* the need is INC_TOLD in a file, and INC_OPTIONAL in a message, because the value may come
	 * later */
	INC_LATER,
	/* the need is INC_OPTIONAL, but a value that cannot be read counts as absent, because the
	 * message takes effect without it */
	INC_HINT,
};

/* Where a field may stand: in files, in messages, or in both. Elsewhere it is neither read nor
 * printed. */
enum inc_field_form {
	INC_EVERYWHERE,
	INC_FILE_ONLY,
	INC_MESSAGE_ONLY,
};

struct inc_schema;

struct inc_field {
	/* name of the field; NULL: the only field of a schema whose elements are plain values */
	const char *name;
	enum inc_field_kind kind;
	enum inc_field_need need;
	enum inc_field_form form;
	size_t offset; /* offset of the field's member in the struct */
	size_t size;   /* size of the member */
	uint64_t min, max;
	uint64_t def;
	/* check of a UINT value besides min and max; the text what describes the check */
	bool (*good)(uint64_t value);
	/* values that a WORD, or a UINT with good, accepts, such as "an interface name" */
	const char *what;
	const char *const *names; /* names of a CHOICE, with a NULL after the last */
	/* name that is printed for the index of the NULL in names. Any word that is not in names is
	 * read as that index. NULL: such a word is an error */
	const char *other;
	const struct inc_schema *of;
	size_t count; /* offset of the uint32_t with the number of elements of a LIST */
	/* offset of a bool that is set if the field was present. The bool must not be the struct's
	 * first member, because 0 means that there is none */
	size_t given;
	/* the empty text of a WORD or IPV4 counts as absent; so does 0 of a UINT, which is not
	 * printed */
	bool empty;
	const char *alias; /* another name of the field in files; NULL: none */
	const char *text;
};

struct inc_schema {
	const struct inc_field *fields;
	size_t n;
	size_t size; /* size of the struct that the schema fills */
};

/* The offset and size of a member, for the initializer of a field. */
#define INC_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
/* The offsets of an array and of the uint32_t with the number of its elements. */
#define INC_LIST_AT(type, member, number, schema)                                            \
	.kind = INC_LIST, .offset = offsetof(type, member),                                  \
	.max = sizeof(((type *)0)->member) / sizeof(((type *)0)->member[0]), .of = (schema), \
	.count = offsetof(type, number)
/* A table has at most INC_MAX_FIELDS rows, because struct inc_absent
 * (userspace/config_default.h) has a counter for each. A longer table does not compile, because
 * it makes an array of negative size. */
#define INC_MAX_FIELDS 24
#define INC_SCHEMA(type, table)                                                                   \
	{                                                                                         \
		.fields = (table),                                                                \
		.n = sizeof(table) / sizeof((table)[0]) +                                         \
		     0 * sizeof(char[sizeof(table) <= INC_MAX_FIELDS * sizeof((table)[0]) ? 1     \
											  : -1]), \
		.size = sizeof(type)                                                              \
	}

/* Reads a message, or a part of one. Members that are not in the schema are ignored. Fields that
 * are absent and have no default keep their values in out. Returns 0, or -EINVAL with a message. */
int inc_schema_read_json(const struct inc_schema *schema, const struct json_t *object, void *out,
			 struct inc_err *err);

/* Makes the JSON object from the struct. form: INC_FILE_ONLY or INC_MESSAGE_ONLY. A field with
 * given is printed only if that bool is set. Returns NULL if there is no memory. */
struct json_t *inc_schema_print(const struct inc_schema *schema, enum inc_field_form form,
				const void *in);

/* Describes the values that a field accepts, for documents: "a number from 1 to 32". Fills and
 * returns buf. */
const char *inc_field_domain(const struct inc_field *field, char *buf, size_t size);

#endif

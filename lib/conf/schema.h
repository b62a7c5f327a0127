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

struct json_t; /* of jansson */

enum inc_field_kind {
	INC_UINT,   /* an unsigned integer of 1, 2, 4 or 8 bytes, from min to max */
	INC_INT,    /* int32_t, any */
	INC_REAL,   /* a double, from min to max */
	INC_BOOL,   /* true or false; also 0 or 1, which programs in C write */
	INC_IPV4,   /* struct in_addr: the address of one host */
	INC_MAC,    /* uint8_t[6] */
	INC_RANKS,  /* struct inc_ranks: "0-3,8" */
	INC_WORD,   /* char[]: printable ASCII without blanks, 1 to size - 1 */
	INC_LINE,   /* char[]: a line for people; made printable ASCII, and cut to what fits */
	INC_CHOICE, /* an unsigned integer: the index of the text in names */
	INC_ERRNO,  /* int: the number behind an error's symbolic name */
	INC_MAP,    /* a struct, whose schema is in of */
	INC_LIST,   /* an array of such structs; their number is in the uint32_t at count, and
		     * max is its limit */
	INC_OTHER,  /* only the name is in the table: its owner reads and prints it */
};

enum inc_field_need {
	INC_REQUIRED,
	INC_OPTIONAL, /* if it is absent, the struct keeps its value */
	INC_DEFAULT,  /* if it is absent, the value is def */
	INC_TOLD,     /* a file may omit it, and the log then reports the default; a message may
		       * not */
	INC_LATER,    /* in a file like INC_TOLD; in a message like INC_OPTIONAL, because it may
		       * come later */
	INC_HINT,     /* like INC_OPTIONAL, and a value that cannot be read counts as absent,
		       * because the message takes effect without it */
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
	const char *name; /* NULL: the only field of a schema whose elements are plain values */
	enum inc_field_kind kind;
	enum inc_field_need need;
	enum inc_field_form form;
	size_t offset; /* in the struct */
	size_t size;   /* of the member */
	uint64_t min, max;
	uint64_t def;
	/* UINT: a check of the value besides min and max; its rule stands in what */
	bool (*good)(uint64_t value);
	const char *what;         /* WORD, UINT with good: "an interface name" */
	const char *const *names; /* CHOICE: NULL behind the last */
	const char *other;        /* CHOICE: printed for the index of that NULL, as which any other
				   * word is read. NULL: another word is an error */
	const struct inc_schema *of;
	size_t count;      /* LIST: offset */
	size_t given;      /* offset of a bool that is set if the field was present; it is not the
			    * struct's first member. 0: there is none */
	bool empty;        /* WORD, IPV4: the empty text counts as absent. UINT: so does 0, which is
			    * not printed */
	const char *alias; /* another name of the field in files; NULL: none */
	const char *text;
};

struct inc_schema {
	const struct inc_field *fields;
	size_t n;
	size_t size; /* of the struct */
};

/* The offset and size of a member, for a field's initializer. */
#define INC_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
/* The places of an array and of the uint32_t with the number of its elements. */
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
 * given is printed only if that bool is set. NULL: no memory. */
struct json_t *inc_schema_print(const struct inc_schema *schema, enum inc_field_form form,
				const void *in);

/* Describes the values that a field accepts, for documents: "a number from 1 to 32". Fills and
 * returns buf. */
const char *inc_field_domain(const struct inc_field *field, char *buf, size_t size);

#endif

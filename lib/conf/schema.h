/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fields of files and of messages, as tables. One table serves three purposes. It reads YAML, with
 * errors such as "star.yaml:12: connections[1].own_qp: 1 is not between 2 and 16777214"
 * (inc_schema_read_yaml()). It reads JSON, with the same errors without file and line. It prints
 * JSON, which yaml.h prints as YAML. The values are in a C struct, in which each field has an
 * offset.
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

struct json_t; /* a JSON value; the library jansson defines this struct */

enum inc_field_kind {
	INC_UINT,   /* unsigned integer of 1, 2, 4 or 8 bytes, from min to max */
	INC_INT,    /* int32_t with any value */
	INC_REAL,   /* double, from min to max */
	INC_BOOL,   /* bool: true or false; also 0 or 1, which programs in C write */
	INC_IPV4,   /* struct in_addr: the IPv4 address of one host */
	INC_ADDR,   /* struct inc_addr: the address of one host, of either family */
	INC_MAC,    /* uint8_t[6]: a MAC address */
	INC_RANKS,  /* struct inc_ranks: ranks such as "0-3,8" */
	INC_WORD,   /* char[]: a word of printable ASCII without blanks, 1 to size - 1 characters */
	INC_LINE,   /* char[]: a line for people; made printable ASCII, and cut to what fits */
	INC_CHOICE, /* unsigned integer: the index of the text in names */
	INC_ERRNO,  /* int: an errno, whose text is its symbolic name, such as "EINVAL" */
	INC_MAP,    /* a struct, whose own schema is the member `of` of struct inc_field */
	/* array of such structs; the uint32_t at offset `count` has their number, and its limit is
	 * max */
	INC_LIST,
	/* value of any form, which the owner of the table reads and prints; the table has only the
	 * field's name */
	INC_OTHER,
};

enum inc_field_need {
	INC_REQUIRED,
	INC_OPTIONAL, /* if the field is absent, the struct keeps its value */
	INC_DEFAULT,  /* if the field is absent, the struct gets the value def */
	/* optional in a file, which gets the default and a line about it in the log; required in a
	 * message */
	INC_TOLD,
	/* like INC_TOLD in a file, but optional in a message, because another message may bring the
	 * value later */
	INC_LATER,
	/* optional, and a value that cannot be read counts as absent, because the message takes
	 * effect without it */
	INC_HINT,
};

/* Where a field may stand: in files, in messages, or in both. In the other form of a table's data
 * the field is neither read nor printed. */
enum inc_field_form {
	INC_EVERYWHERE,
	INC_FILE_ONLY,
	INC_MESSAGE_ONLY,
};

struct inc_schema;

struct inc_field {
	/* name of the field; NULL: the schema describes plain values, so it has only this field */
	const char *name;
	enum inc_field_kind kind;
	enum inc_field_need need;
	enum inc_field_form form;
	size_t offset; /* offset of the field's member in the struct */
	size_t size;   /* size of the member */
	uint64_t min, max;
	uint64_t def;
	/* for UINT: a further check of the value, besides min and max; the member `what` describes
	 * it */
	bool (*good)(uint64_t value);
	/* for error messages: what a WORD, or a UINT with a check, must be, such as "an interface
	 * name" */
	const char *what;
	const char *const *names; /* names of a CHOICE, with a NULL after the last */
	/* for CHOICE: text for the index of the NULL in names. Any word that is not in names is
	 * read as that index, which is printed as this text. NULL: such a word is an error */
	const char *other;
	const struct inc_schema *of;
	size_t count; /* for LIST: offset of the uint32_t with the number of elements */
	/* offset of a bool that is set if the field was present; 0: there is none, so the bool must
	 * not be the struct's first member */
	size_t given;
	/* an empty text of a WORD, IPV4 or ADDR field counts as absent; a UINT of 0, too, which is
	 * not printed */
	bool empty;
	const char *alias; /* another name of the field in files; NULL: none */
	const char *text;
};

struct inc_schema {
	const struct inc_field *fields;
	size_t n;
	size_t size; /* size of the struct that the schema fills */
};

/* Initializes the offset and the size of a field's row from the member of a struct. */
#define INC_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
/* Initializes the row of a list from the array in a struct, and from the uint32_t with the number
 * of the array's elements. */
#define INC_LIST_AT(type, member, number, schema)                                            \
	.kind = INC_LIST, .offset = offsetof(type, member),                                  \
	.max = sizeof(((type *)0)->member) / sizeof(((type *)0)->member[0]), .of = (schema), \
	.count = offsetof(type, number)
/* A table has at most INC_MAX_FIELDS rows, because struct inc_absent
 * (userspace/config.h) has a counter for each. A longer table does not compile, because
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

/* Makes the JSON object from the struct `in`. form: INC_FILE_ONLY or INC_MESSAGE_ONLY. If a field's
 * row has `given`, the field is printed only if the bool at that offset is set. Returns NULL if
 * there is no memory. */
struct json_t *inc_schema_print(const struct inc_schema *schema, enum inc_field_form form,
				const void *in);

/* Describes the values that a field accepts, such as "a number from 1 to 32", for the documents.
 * Fills and returns buf. */
const char *inc_field_domain(const struct inc_field *field, char *buf, size_t size);

struct inc_yaml_node;

/*
 * Reads a mapping of a file. Keys that are not in the schema are errors. Fields that are absent
 * and have no default keep their values in out. Returns 0, or -EINVAL with a message. A program
 * that calls this links libyaml.
 */
int inc_schema_read_yaml(const struct inc_schema *schema, const struct inc_yaml_node *map,
			 void *out, struct inc_err *err);

#endif

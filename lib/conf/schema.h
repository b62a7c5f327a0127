/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fields of files and of messages, as tables. One table reads YAML ("star.yaml:12:
 * connections[1].my_qp: 1 is not between 2 and 16777214", schema_yaml.h), reads JSON (the same
 * without file and line), and prints JSON, which yaml.h prints as YAML. The values stand in a C
 * struct, where each field says its place.
 *
 * Who reads and prints: inc-switchd its file and the controller's messages, the controller a
 * topology and the messages of members and switches, inc-lab topologies, libinccl the controller's
 * messages. Nothing here is shared between calls, so any thread may.
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
	INC_BOOL,   /* true or false; also 0 or 1, as programs written in C say it */
	INC_IPV4,   /* struct in_addr: the address of one host */
	INC_MAC,    /* uint8_t[6] */
	INC_RANKS,  /* struct inc_ranks: "0-3,8" */
	INC_WORD,   /* char[]: printable ASCII without blanks, 1 to size - 1 */
	INC_LINE,   /* char[]: a line for people; made printable ASCII, and cut to what fits */
	INC_CHOICE, /* an unsigned integer: the place of the text among names */
	INC_ERRNO,  /* int: the number behind an error's symbolic name */
	INC_MAP,    /* the struct of the schema of */
	INC_LIST,   /* an array of them; how many stands in the uint32_t at count, max at most */
	INC_OTHER,  /* known here by its name alone: its owner reads and prints it */
};

enum inc_field_need {
	INC_REQUIRED,
	INC_OPTIONAL, /* where it is absent, the struct keeps what it has */
	INC_DEFAULT,  /* where it is absent, def */
	INC_TOLD,     /* a file may leave it out, which the log then says; a message may not */
	INC_LATER,    /* as INC_TOLD in a file; in a message as INC_OPTIONAL: it may come later */
	INC_HINT,     /* as INC_OPTIONAL, and what cannot be read counts as absent: a message takes
		       * effect without it, too */
};

/* Where a field is known. Elsewhere it is neither read nor printed. */
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
	/* UINT: whether the value will do, beyond min and max; what it must be stands in what */
	bool (*good)(uint64_t value);
	const char *what;         /* WORD, UINT with good: "an interface name" */
	const char *const *names; /* CHOICE: NULL behind the last */
	const struct inc_schema *of;
	size_t count; /* LIST: offset */
	size_t given; /* offset of a bool, which is not the struct's first member: whether the field
		       * was there; 0: nobody asks */
	bool empty;   /* WORD, IPV4: the empty text is as good as none; UINT: so is 0, which is not
		       * printed */
	const char *alias; /* another name that files may call it by; NULL: none */
	const char *text;
};

struct inc_schema {
	const struct inc_field *fields;
	size_t n;
	size_t size; /* of the struct */
};

/* The place of a member, for a field's initializer. */
#define INC_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
/* The places of an array and of the uint32_t that counts what is in it. */
#define INC_LIST_AT(type, member, number, schema)                                            \
	.kind = INC_LIST, .offset = offsetof(type, member),                                  \
	.max = sizeof(((type *)0)->member) / sizeof(((type *)0)->member[0]), .of = (schema), \
	.count = offsetof(type, number)
/* A table has INC_MAX_FIELDS rows at most, as struct inc_absent (userspace/config_default.h) has a
 * counter for each: a longer one is an array of negative size here. */
#define INC_MAX_FIELDS 24
#define INC_SCHEMA(type, table)                                                                   \
	{                                                                                         \
		.fields = (table),                                                                \
		.n = sizeof(table) / sizeof((table)[0]) +                                         \
		     0 * sizeof(char[sizeof(table) <= INC_MAX_FIELDS * sizeof((table)[0]) ? 1     \
											  : -1]), \
		.size = sizeof(type)                                                              \
	}

/* Reads a message, or part of one: members that the schema does not have are ignored. out keeps
 * what the message does not say and the schema has no default for. 0 or -EINVAL with a message. */
int inc_schema_read_json(const struct inc_schema *schema, const struct json_t *object, void *out,
			 struct inc_err *err);

/* The same for the other direction; form: INC_FILE_ONLY or INC_MESSAGE_ONLY. Fields with given are
 * printed where that says so. NULL: no memory. */
struct json_t *inc_schema_print(const struct inc_schema *schema, enum inc_field_form form,
				const void *in);

/* What a field's value must be, for documents: "a number from 1 to 32". The same buffer is filled
 * and returned. */
const char *inc_field_domain(const struct inc_field *field, char *buf, size_t size);

#endif

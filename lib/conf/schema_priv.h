/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface between the reader of tables (schema.c) and its two formats, schema_json.c and
 * schema_yaml.c. A program links only the formats that it calls.
 */
#ifndef INC_SCHEMA_PRIV_H
#define INC_SCHEMA_PRIV_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include "lib/base/err.h"
#include "lib/conf/schema.h"

/* A value that a table's reader reads, from a YAML file or from a JSON message. */
struct inc_source {
	const struct inc_source_form *form;
	const void *value; /* the value in the type of the format's library */
	/* the mapping or list that contains the value, for error messages; NULL: no other value
	 * contains it */
	const struct inc_source *in;
	/* key of the value in the mapping `in`; NULL: the value is element number index of the list
	 * `in` */
	const char *name;
	size_t index;
	char buf[32]; /* room for the text that text() returns */
};

struct inc_source_form {
	enum inc_field_form is;
	/* checks that the value is a mapping which the schema allows. Returns 0, or -EINVAL with a
	 * message */
	int (*map)(const struct inc_source *at, const struct inc_schema *schema,
		   struct inc_err *err);
	/* returns the value of a key; NULL: the mapping lacks the key */
	const void *(*member)(const struct inc_source *map, const char *key);
	/* returns whether the value is a list, and sets n to its length */
	bool (*list)(const struct inc_source *at, size_t *n);
	const void *(*element)(const struct inc_source *list, size_t i);
	/* returns the text of a scalar; NULL: the value is no scalar, or cannot be of the field's
	 * kind */
	const char *(*text)(struct inc_source *at, const struct inc_field *field);
	/* fills err with the place of the value and the formatted text; returns -EINVAL */
	int (*wrong)(const struct inc_source *at, struct inc_err *err, const char *fmt, va_list ap);
};

static inline bool inc_field_in(const struct inc_field *field, enum inc_field_form form)
{
	return field->form == INC_EVERYWHERE || field->form == form;
}

/* Reads a mapping by its table. Returns 0, or -EINVAL with a message. */
int inc_schema_read(const struct inc_schema *schema, const struct inc_source *map, void *out,
		    struct inc_err *err);
int inc_source_wrong(const struct inc_source *at, struct inc_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif

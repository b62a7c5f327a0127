/* SPDX-License-Identifier: BSD-2-Clause */
/* What the reader of tables (schema.c) knows of the forms that it reads: schema_json.c and
 * schema_yaml.c, of which a program links what it calls. */
#ifndef INC_SCHEMA_PRIV_H
#define INC_SCHEMA_PRIV_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include "lib/base/err.h"
#include "lib/conf/schema.h"

/* A value of a file or of a message. */
struct inc_source {
	const struct inc_source_form *form;
	const void *value;           /* the form's */
	const struct inc_source *in; /* where it stands, for errors; NULL: nowhere */
	const char *name;            /* there; NULL: element index of a list */
	size_t index;
	char buf[32]; /* for text() */
};

struct inc_source_form {
	enum inc_field_form is;
	/* 0, or -EINVAL with a message where the value is no mapping that the schema allows */
	int (*map)(const struct inc_source *at, const struct inc_schema *schema,
		   struct inc_err *err);
	/* NULL: there is none */
	const void *(*member)(const struct inc_source *map, const char *key);
	/* Whether the value is a list; how long it is */
	bool (*list)(const struct inc_source *at, size_t *n);
	const void *(*element)(const struct inc_source *list, size_t i);
	/* The text of a scalar. NULL: it is none, or cannot be one of the field's kind. */
	const char *(*text)(struct inc_source *at, const struct inc_field *field);
	/* Says where the value is and what is wrong with it; -EINVAL */
	int (*wrong)(const struct inc_source *at, struct inc_err *err, const char *fmt, va_list ap);
};

static inline bool inc_field_in(const struct inc_field *field, enum inc_field_form form)
{
	return field->form == INC_EVERYWHERE || field->form == form;
}

/* Reads a mapping by its table; 0 or -EINVAL with a message. */
int inc_schema_read(const struct inc_schema *schema, const struct inc_source *map, void *out,
		    struct inc_err *err);
int inc_source_wrong(const struct inc_source *at, struct inc_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif

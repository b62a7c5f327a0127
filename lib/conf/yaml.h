/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * YAML files read through libyaml's document API, with errors that name the file,
 * the line and the field ("star4.yaml:12: hosts[1].ip: '10.0.0.300' is not an IPv4
 * address"). Nodes belong to the document and live as long as it does.
 */
#ifndef INC_YAML_H
#define INC_YAML_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>
#include "lib/base/err.h"

struct inc_yaml;      /* a YAML document */
struct inc_yaml_node; /* a node of a document: a mapping, a sequence or a scalar */

/* Reads a YAML file into *doc. Returns 0 or -errno. Anchors are allowed, but duplicate keys and
 * files over 16 MiB are errors. */
int inc_yaml_load(const char *path, struct inc_yaml **doc, struct inc_err *err);
/* Does the same as inc_yaml_load(), with a text in memory. name stands for the path in error
 * messages. */
int inc_yaml_parse(const char *name, const char *text, size_t len, struct inc_yaml **doc,
		   struct inc_err *err);
void inc_yaml_free(struct inc_yaml *doc);
const struct inc_yaml_node *inc_yaml_root(const struct inc_yaml *doc);

/* Fills err with "file:line: field: text" for this node, and returns -EINVAL. If node is NULL, err
 * has the text alone. */
int inc_yaml_error(const struct inc_yaml_node *node, struct inc_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Does the same as inc_yaml_error(), with a va_list. */
int inc_yaml_verror(const struct inc_yaml_node *node, struct inc_err *err, const char *fmt,
		    va_list ap) __attribute__((format(printf, 3, 0)));

/* Returns the value of a key; NULL: the mapping lacks the key. */
const struct inc_yaml_node *inc_yaml_get(const struct inc_yaml_node *map, const char *key);
/* Returns the number of elements of a sequence; 0 if seq is NULL. */
size_t inc_yaml_len(const struct inc_yaml_node *seq);
const struct inc_yaml_node *inc_yaml_at(const struct inc_yaml_node *seq, size_t i);
/* Returns the text of a scalar, and NULL for any other node. */
const char *inc_yaml_text(const struct inc_yaml_node *node);

/* These two check that node is a mapping, or a sequence. They return 0, or -EINVAL with a
 * message. */
int inc_yaml_want_map(const struct inc_yaml_node *node, struct inc_err *err);
int inc_yaml_want_seq(const struct inc_yaml_node *node, struct inc_err *err);
/* Checks the keys of a mapping. Returns -EINVAL with a message if the mapping has a key that is not
 * in the NULL-terminated list. */
int inc_yaml_check_keys(const struct inc_yaml_node *map, const char *const *known,
			struct inc_err *err);

/* Reads the text of a key that must be present. Returns 0, or -EINVAL with a message. Mappings
 * whose fields have types and bounds are read by a table (schema.h) instead. */
int inc_yaml_get_str(const struct inc_yaml_node *map, const char *key, const char **out,
		     struct inc_err *err);

/* Prints a JSON value as YAML that inc_yaml_load() reads as the same value. */
void inc_yaml_write(FILE *out, const json_t *value);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Checked fields of JSON objects: 0 or -EINVAL with a message that names the field. */
#ifndef INC_FIELD_H
#define INC_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "lib/base/err.h"

/* required: absence is an error; otherwise *out keeps the value it had. */
int inc_field_u64(const json_t *object, const char *key, bool required, uint64_t min, uint64_t max,
		  uint64_t *out, struct inc_err *err);
int inc_field_u32(const json_t *object, const char *key, bool required, uint32_t min, uint32_t max,
		  uint32_t *out, struct inc_err *err);
int inc_field_bool(const json_t *object, const char *key, bool *out, struct inc_err *err);
/* 1 to size - 1 printable ASCII characters without blanks */
int inc_field_word(const json_t *object, const char *key, bool required, char *out, size_t size,
		   struct inc_err *err);
/* A line for people, required: what is not printable ASCII becomes '?', control characters
 * blanks, and what is too long is cut. It may be passed on to anybody. */
int inc_field_line(const json_t *object, const char *key, char *out, size_t size,
		   struct inc_err *err);
/* The number behind a symbolic name, required; unknown names are an error. */
int inc_field_errno(const json_t *object, const char *key, int *out, struct inc_err *err);
/* The text of a field, "" where it is absent or no text. */
const char *inc_field_text(const json_t *object, const char *key);

#endif

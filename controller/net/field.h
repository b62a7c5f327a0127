/* SPDX-License-Identifier: BSD-2-Clause */
/* Single fields of answers, whose shape hangs on the question. Messages have tables. */
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
/* The text of a field, "" where it is absent or no text. */
const char *inc_field_text(const json_t *object, const char *key);

#endif

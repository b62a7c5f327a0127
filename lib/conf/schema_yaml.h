/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads files by tables of fields (schema.h). A program that includes this links libyaml. */
#ifndef INC_SCHEMA_YAML_H
#define INC_SCHEMA_YAML_H

#include "lib/base/err.h"
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"

/*
 * Reads a mapping of a file. Keys that are not in the schema are errors. Fields that are absent
 * and have no default keep their values in out. Returns 0, or -EINVAL with a message.
 */
int inc_schema_read_yaml(const struct inc_schema *schema, const struct inc_yaml_node *map,
			 void *out, struct inc_err *err);

#endif

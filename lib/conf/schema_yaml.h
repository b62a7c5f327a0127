/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of fields (schema.h) read from files. Who includes this links libyaml. */
#ifndef INC_SCHEMA_YAML_H
#define INC_SCHEMA_YAML_H

#include "lib/base/err.h"
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"

/*
 * Reads a mapping of a file: keys that the schema does not have are errors. out keeps what the
 * mapping does not say and the schema has no default for. 0 or -EINVAL with a message.
 */
int inc_schema_read_yaml(const struct inc_schema *schema, const struct inc_yaml_node *map,
			 void *out, struct inc_err *err);

#endif

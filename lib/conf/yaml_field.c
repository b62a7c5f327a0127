/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads single nodes; mappings are read by tables (schema.h). */
#include "lib/conf/yaml_priv.h"

const char *inc_yaml_text(const struct inc_yaml_node *node)
{
	if (!node || node->node->type != YAML_SCALAR_NODE)
		return NULL;
	return (const char *)node->node->data.scalar.value;
}

int inc_yaml_want_map(const struct inc_yaml_node *node, struct inc_err *err)
{
	if (node && node->node->type == YAML_MAPPING_NODE)
		return 0;
	return inc_yaml_error(node, err, node ? "is not a mapping" : "a mapping is missing");
}

int inc_yaml_want_seq(const struct inc_yaml_node *node, struct inc_err *err)
{
	if (node && node->node->type == YAML_SEQUENCE_NODE)
		return 0;
	return inc_yaml_error(node, err, node ? "is not a sequence" : "a sequence is missing");
}

int inc_yaml_get_str(const struct inc_yaml_node *map, const char *key, const char **out,
		     struct inc_err *err)
{
	const struct inc_yaml_node *node;
	int ret = inc_yaml_want_map(map, err);

	if (ret)
		return ret;
	node = inc_yaml_get(map, key);
	if (!node)
		return inc_yaml_error(map, err, "'%s' is missing", key);
	*out = inc_yaml_text(node);
	if (!*out)
		return inc_yaml_error(node, err, "is not a single value");
	return **out ? 0 : inc_yaml_error(node, err, "is empty");
}

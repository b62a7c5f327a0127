/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files which read YAML share. */
#ifndef INC_YAML_PRIV_H
#define INC_YAML_PRIV_H

#include <stddef.h>
#include <yaml.h>
#include "lib/conf/yaml.h"

/* One for each node of the libyaml document, with the same index. */
struct inc_yaml_node {
	const struct inc_yaml *doc;
	const yaml_node_t *node;
	/* The node that contains this one, for messages. If aliases repeat a node, its parent is
	 * where the node stands first. A parent's index is always below its child's, so there is
	 * no cycle. */
	const struct inc_yaml_node *parent;
	const char *key; /* in a mapping; NULL: element number index of a sequence */
	size_t index;
};

#endif

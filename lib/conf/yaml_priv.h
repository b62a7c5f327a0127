/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files which read YAML share. */
#ifndef INC_YAML_PRIV_H
#define INC_YAML_PRIV_H

#include <stddef.h>
#include <yaml.h>
#include "lib/conf/yaml.h"

/* Data of one node of the libyaml document. The array of them has the same indexes as the nodes. */
struct inc_yaml_node {
	const struct inc_yaml *doc;
	const yaml_node_t *node;
	/* Index of the node that contains this one, for messages. If aliases repeat a node, this is
	 * the node that contains its first occurrence. A parent's index is always below its
	 * child's, so there is no cycle. */
	const struct inc_yaml_node *parent;
	/* key of the node in a mapping; NULL: the node is element number index of a sequence */
	const char *key;
	size_t index;
};

#endif

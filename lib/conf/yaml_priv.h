/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that read YAML share. */
#ifndef INC_YAML_PRIV_H
#define INC_YAML_PRIV_H

#include <stddef.h>
#include <yaml.h>
#include "lib/conf/yaml.h"

/* One per node of the libyaml document, same index. */
struct inc_yaml_node {
	const struct inc_yaml *doc;
	const yaml_node_t *node;
	/* Where the node hangs, for messages. A node that aliases repeat hangs where it is
	 * met first; a parent always stands before its child, so there is no cycle. */
	const struct inc_yaml_node *parent;
	const char *key; /* in a mapping; NULL: element number index of a sequence */
	size_t index;
};

#endif

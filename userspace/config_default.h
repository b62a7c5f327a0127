/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a file leaves out and the switch fills in: the original documents' files have no names, no
 * PSNs and no communicators. For config.c, while it reads a file.
 */
#ifndef INC_CONFIG_DEFAULT_H
#define INC_CONFIG_DEFAULT_H

#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"
#include "userspace/config.h"

/* How often each field of a table was left out. */
struct inc_absent {
	const struct inc_schema *schema;
	const char *what; /* what the table describes, "connections" */
	uint32_t times[INC_MAX_FIELDS];
	uint32_t of; /* so many mappings */
};

/* Counts the fields that the mapping leaves out and the log shall name (INC_TOLD). */
void inc_absent_count(struct inc_absent *absent, const struct inc_yaml_node *map);
/* One line for each of them: its name and the value it got. */
void inc_absent_log(const struct inc_absent *absent, const char *path,
		    const struct inc_switch_conf *conf);

/* The port of a connection that does not name it: the interface with its address. */
int inc_default_port(const struct inc_yaml_node *node, struct inc_conn_conf *c,
		     struct inc_err *err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Defaults for what a switch's file leaves out. Files in the form of the original documents have no
 * names, no PSNs and no communicators. config.c calls these functions while it reads a file.
 */
#ifndef INC_CONFIG_DEFAULT_H
#define INC_CONFIG_DEFAULT_H

#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"
#include "userspace/config.h"

/* For each field of a table, the number of the file's mappings that lack the field. */
struct inc_absent {
	const struct inc_schema *schema;
	/* plural of the objects that the table describes, such as "connections" */
	const char *what;
	uint32_t times[INC_MAX_FIELDS];
	uint32_t of; /* number of mappings that were checked */
};

/* Counts the fields that a mapping of the file lacks, if the log shall name them (INC_TOLD,
 * INC_LATER). */
void inc_absent_count(struct inc_absent *absent, const struct inc_yaml_node *map);
/* Logs one line for each field that some mapping lacked, with the value that it got. */
void inc_absent_log(const struct inc_absent *absent, const char *path,
		    const struct inc_switch_conf *conf);

/* Chooses the port of a connection that does not name one: the interface that has the connection's
 * own address. */
int inc_default_port(const struct inc_yaml_node *node, struct inc_conn_conf *c,
		     struct inc_err *err);

#endif

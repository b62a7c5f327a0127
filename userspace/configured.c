/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The switch's configuration in the form of its file. The daemon stores the configuration of each
 * communicator, and a query prints the configurations with the schemas that read files (config.h,
 * lib/conf/comm_conf.h).
 */
#include <jansson.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "userspace/switchd.h"

struct inc_configured {
	struct inc_comm_conf conf;
	LIST_ENTRY(inc_configured) entry;
};

static struct inc_configured *find(const struct inc_daemon *d, uint32_t communicator)
{
	struct inc_configured *c;

	LIST_FOREACH (c, &d->configured, entry)
		if (c->conf.communicator == communicator)
			break;
	return c;
}

int inc_configured_add(struct inc_daemon *d, const struct inc_comm_conf *conf)
{
	struct inc_configured *c = malloc(sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->conf = *conf;
	LIST_INSERT_HEAD(&d->configured, c, entry);
	return 0;
}

void inc_configured_connect(struct inc_daemon *d, uint32_t communicator,
			    const struct inc_msg_peer *peer, uint32_t n)
{
	struct inc_comm_conf *conf = &find(d, communicator)->conf;
	uint32_t i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < conf->n_conns; k++) {
			struct inc_conn_conf *c = &conf->conn[k];

			if (c->up != peer[i].up || (!c->up && c->rank != peer[i].rank))
				continue;
			inc_rc_end_update(&c->peer, &peer[i].peer);
			c->has_peer_psn = true;
		}
}

void inc_configured_remove(struct inc_daemon *d, uint32_t communicator)
{
	struct inc_configured *c = find(d, communicator);

	if (!c)
		return;
	LIST_REMOVE(c, entry);
	free(c);
}

void inc_configured_free(struct inc_daemon *d)
{
	while (!LIST_EMPTY(&d->configured))
		inc_configured_remove(d, LIST_FIRST(&d->configured)->conf.communicator);
}

static void rename_conns(struct inc_comm_conf *conf, char old[][IF_NAMESIZE],
			 char now[][IF_NAMESIZE], uint32_t n)
{
	uint32_t c, i;

	for (c = 0; c < conf->n_conns; c++) {
		for (i = 0; i < n && strcmp(conf->conn[c].port, old[i]) != 0; i++)
			;
		if (i < n)
			strcpy(conf->conn[c].port, now[i]);
	}
}

void inc_configured_rename(struct inc_daemon *d)
{
	struct inc_settings *s = &d->conf.settings;
	char old[INC_MAX_PORTS][IF_NAMESIZE];
	struct inc_configured *c;
	bool changed = false;
	uint32_t i;

	memcpy(old, s->port, sizeof(old));
	for (i = 0; i < d->n_ports; i++) {
		changed |= strcmp(d->port[i].name, old[i]) != 0;
		strcpy(s->port[i], d->port[i].name);
	}
	if (!changed)
		return;
	LIST_FOREACH (c, &d->configured, entry)
		rename_conns(&c->conf, old, s->port, s->n_ports);
}

const char *inc_configured_role(const struct inc_daemon *d, uint32_t communicator)
{
	const struct inc_comm_conf *conf = &find(d, communicator)->conf;
	uint32_t i;

	if (conf->root)
		return "root";
	for (i = 0; i < conf->n_conns; i++)
		if (!conf->conn[i].up && inc_conn_to_switch(&conf->conn[i]))
			return "spine";
	return "leaf";
}

/* Whether the switch is the root of all its communicators, which is the field `root` of a switch's
 * file. */
static bool is_root(const struct inc_daemon *d)
{
	const struct inc_configured *c;

	LIST_FOREACH (c, &d->configured, entry)
		if (!c->conf.root)
			return false;
	return true;
}

json_t *inc_configured_switch(const struct inc_daemon *d)
{
	struct inc_switch_conf shown = d->conf;
	json_t *sw;

	shown.root = is_root(d);
	sw = inc_schema_print(&inc_switch_schema, INC_FILE_ONLY, &shown);
	json_object_set_new(sw, "communicators", json_array());
	json_object_set_new(sw, "connections", json_array());
	return sw;
}

void inc_configured_append(const struct inc_daemon *d, uint32_t communicator, json_t *sw)
{
	const struct inc_comm_conf *conf = &find(d, communicator)->conf;
	json_t *list = json_object_get(sw, "connections");
	struct inc_conn_conf c;
	uint32_t i;

	json_array_append_new(json_object_get(sw, "communicators"),
			      inc_schema_print(&inc_comm_schema, INC_FILE_ONLY, conf));
	for (i = 0; i < conf->n_conns; i++) {
		c = conf->conn[i];
		c.communicator = conf->communicator;
		json_array_append_new(list, inc_schema_print(&inc_conn_schema, INC_FILE_ONLY, &c));
	}
}

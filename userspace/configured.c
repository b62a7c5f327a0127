/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the switch has, in the form that its file has: the daemon keeps what each communicator was
 * made from, and a query prints it with the tables that read it (config.h, lib/conf/comm.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "userspace/switchd.h"

int inc_configured_init(struct inc_daemon *d)
{
	d->comms = calloc(inc_switch_get_opts(d->sw)->max_comms, sizeof(d->comms[0]));
	return d->comms ? 0 : -ENOMEM;
}

void inc_configured_free(struct inc_daemon *d)
{
	uint32_t comm;

	for (comm = 0; d->comms && comm < inc_switch_get_opts(d->sw)->max_comms; comm++)
		free(d->comms[comm]);
	free(d->comms);
}

int inc_configured_add(struct inc_daemon *d, uint32_t comm, const struct inc_comm_conf *conf)
{
	d->comms[comm] = malloc(sizeof(*conf));
	if (!d->comms[comm])
		return -ENOMEM;
	*d->comms[comm] = *conf;
	return 0;
}

void inc_configured_remove(struct inc_daemon *d, uint32_t comm)
{
	free(d->comms[comm]);
	d->comms[comm] = NULL;
}

json_t *inc_configured_switch(const struct inc_daemon *d)
{
	const struct inc_switch_opts *o = inc_switch_get_opts(d->sw);
	struct inc_switch_conf shown = d->conf;
	struct inc_settings *s = &shown.settings;
	json_t *sw;

	shown.root = true;
	s->mode_given = true;
	s->max_comms = o->max_comms;
	s->max_connections = o->max_connections;
	s->max_rows = o->max_rows;
	s->rto_min_ms = s->rto_min_ms ?: INC_DEF_RTO_MIN_MS;
	s->rto_max_ms = s->rto_max_ms ?: INC_DEF_RTO_MAX_MS;
	s->ack_delay_ms = s->ack_delay_ms ?: INC_DEF_ACK_DELAY_MS;
	sw = inc_schema_print(&inc_switch_schema, INC_FILE_ONLY, &shown);
	json_object_set_new(sw, "communicators", json_array());
	json_object_set_new(sw, "connections", json_array());
	return sw;
}

void inc_configured_append(const struct inc_daemon *d, uint32_t comm, json_t *sw)
{
	const struct inc_comm_conf *conf = d->comms[comm];
	json_t *list = json_object_get(sw, "connections");
	struct inc_conn_conf c;
	uint32_t i;

	if (!conf)
		return;
	json_array_append_new(json_object_get(sw, "communicators"),
			      inc_schema_print(&inc_comm_schema, INC_FILE_ONLY, conf));
	for (i = 0; i < conf->n_conns; i++) {
		c = conf->conn[i];
		c.communicator = conf->communicator;
		json_array_append_new(list, inc_schema_print(&inc_conn_schema, INC_FILE_ONLY, &c));
	}
}

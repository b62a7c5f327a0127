/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings of a switch (config.h): checks them, merges those of the command line with the file's,
 * and fills in defaults. */
#include <errno.h>
#include <string.h>
#include "lib/base/spin.h"
#include "userspace/config.h"

bool inc_settings_has_port(const struct inc_settings *s, const char *ifname)
{
	uint32_t i;

	for (i = 0; i < s->n_ports; i++)
		if (!strcmp(s->port[i], ifname))
			return true;
	return false;
}

int inc_settings_check_timers(const struct inc_settings *s, struct inc_err *err)
{
	struct inc_settings all = *s;

	inc_settings_complete(&all);
	if (all.rto_max_ms >= all.rto_min_ms)
		return 0;
	return inc_err_set(err, EINVAL, "rto_max_ms, %u ms, is below rto_min_ms, %u ms",
			   all.rto_max_ms, all.rto_min_ms);
}

bool inc_settings_add_port(struct inc_settings *s, const char *ifname)
{
	if (inc_settings_has_port(s, ifname))
		return true;
	if (s->n_ports == INC_MAX_PORTS)
		return false;
	strncpy(s->port[s->n_ports++], ifname, IF_NAMESIZE - 1);
	return true;
}

void inc_settings_merge(struct inc_settings *s, const struct inc_settings *more)
{
	if (!s->mode_given) {
		s->mode_given = more->mode_given;
		s->mode = more->mode;
	}
	if (!s->xdp_given) {
		s->xdp_given = more->xdp_given;
		s->generic = more->generic;
	}
	if (!s->steering_given) {
		s->steering_given = more->steering_given;
		s->steering = more->steering;
	}
	if (!s->n_ports) {
		memcpy(s->port, more->port, sizeof(s->port));
		s->n_ports = more->n_ports;
	}
	s->max_comms = s->max_comms ?: more->max_comms;
	s->max_connections = s->max_connections ?: more->max_connections;
	s->max_rows = s->max_rows ?: more->max_rows;
	s->rto_min_ms = s->rto_min_ms ?: more->rto_min_ms;
	s->rto_max_ms = s->rto_max_ms ?: more->rto_max_ms;
	s->ack_delay_ms = s->ack_delay_ms ?: more->ack_delay_ms;
	s->threads = s->threads ?: more->threads;
	if (!s->metrics_given) {
		s->metrics_given = more->metrics_given;
		strcpy(s->metrics, more->metrics);
	}
	inc_verbs_conf_complete(&s->verbs, &more->verbs);
	s->verbs_given |= more->verbs_given;
}

void inc_settings_complete(struct inc_settings *s)
{
	s->mode_given = true;
	s->xdp_given = true;
	s->steering_given = true;
	s->max_comms = s->max_comms ?: INC_DEF_COMMS;
	s->max_connections = s->max_connections ?: INC_DEF_CONNS;
	s->max_rows = s->max_rows ?: INC_DEF_ROWS;
	s->rto_min_ms = s->rto_min_ms ?: INC_DEF_RTO_MIN_MS;
	s->rto_max_ms = s->rto_max_ms ?: INC_DEF_RTO_MAX_MS;
	s->ack_delay_ms = s->ack_delay_ms ?: INC_DEF_ACK_DELAY_MS;
	s->threads = s->threads ?: INC_DEF_THREADS;
	if (!s->poll_given)
		s->poll_us = INC_SPIN_DEF_US;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoints at which members receive: host, UDP port and queue pair number. Two members whose
 * endpoints are in use must not name the same one. Otherwise the results of one communicator would
 * be sent to a member of the other, and accepted as soon as their PSNs match. A NIC has one space
 * of queue pair numbers for all its users, and one port (4791), so its endpoints are compared in
 * the same way as those of sockets. Called by comm.c and resume.c. A hash finds them, because each
 * of a thousand communicators has many ranks.
 */
#include <errno.h>
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/endpoint.h"

static struct inc_addr address(const struct inc_core *core, const struct inc_route_member *at)
{
	return core->topo->hosts[at->host].ip;
}

/* The host counts by its address, because a new topology may give it another name and index. */
static unsigned int hash(const struct inc_core *core, const struct inc_route_member *at)
{
	const uint64_t end = (uint64_t)at->own.end.udp_port << 24 | at->own.end.qpn;
	const uint64_t key = inc_addr_hash(address(core, at)) ^ end;

	return key * 0x9e3779b97f4a7c15 >> (64 - CTL_ENDPOINT_BITS);
}

static bool same(const struct inc_core *core, const struct inc_route_member *a,
		 const struct inc_route_member *b)
{
	return inc_addr_same(address(core, a), address(core, b)) &&
	       a->own.end.udp_port == b->own.end.udp_port && a->own.end.qpn == b->own.end.qpn;
}

int inc_endpoint_check(const struct inc_core *core, const struct inc_route_member *at,
		       struct inc_err *err)
{
	const struct inc_comm_member *m;

	LIST_FOREACH (m, &core->endpoints[hash(core, at)], endpoint) {
		if (!m->destroyed && same(core, &m->route, at))
			return inc_err_set(err, EADDRINUSE,
					   "queue pair %u at port %u of %s is another "
					   "communicator's (see incctl communicators)",
					   at->own.end.qpn, at->own.end.udp_port,
					   core->topo->hosts[at->host].name);
	}
	return 0;
}

void inc_endpoint_take(struct inc_core *core, struct inc_comm_member *m)
{
	LIST_INSERT_HEAD(&core->endpoints[hash(core, &m->route)], m, endpoint);
	m->has_endpoint = true;
}

void inc_endpoint_leave(struct inc_comm_member *m)
{
	if (!m->has_endpoint)
		return;
	LIST_REMOVE(m, endpoint);
	m->has_endpoint = false;
}

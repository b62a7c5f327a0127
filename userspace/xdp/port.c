/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow path's ports: their AF_XDP sockets, and the reports of lost ports. While a port is lost,
 * peers behind it are not reported for their silence; the port is reported instead. All functions
 * are called on the daemon's only thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <bpf/bpf.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "userspace/xdp/slowpath_priv.h"

void sp_close_port(struct sp_port *port)
{
	uint32_t q;

	for (q = 0; q < port->queues; q++)
		inc_xsk_close(port->xsk[q]);
	port->queues = 0;
}

int inc_slowpath_add_port(struct inc_slowpath *sp, const struct inc_switch_port *port,
			  struct inc_err *err)
{
	int ret, fd;
	struct sp_port *p = &sp->port[port->index];
	uint32_t queues = inc_rx_queues(port->device), key;

	if (queues > INC_PORT_QUEUES) {
		inc_warn(
			"port %s: NAKs that arrive on its queues %d to %u will be dropped (ethtool "
			"-L %s combined %d)",
			port->name, INC_PORT_QUEUES, queues - 1, port->device, INC_PORT_QUEUES);
		queues = INC_PORT_QUEUES;
	}
	p->ifindex = port->ifindex;
	while (p->queues < queues) {
		ret = inc_xsk_open(sp->base, port->device, p->queues, sp_on_frame, sp,
				   &p->xsk[p->queues], err);
		if (ret)
			goto fail;
		key = port->index * INC_PORT_QUEUES + p->queues;
		fd = inc_xsk_fd(p->xsk[p->queues++]);
		ret = inc_switch_map_set(sp->sw, INC_MAP_XSK, &key, &fd, BPF_ANY, err);
		if (ret)
			goto fail;
	}
	return 0;

fail:
	sp_close_port(p);
	return ret;
}

uint32_t inc_slowpath_queues(const struct inc_slowpath *sp, const struct inc_switch_port *port)
{
	return sp->port[port->index].queues;
}

static bool all_live(const struct sp_port *p)
{
	uint32_t q;

	for (q = 0; q < p->queues; q++)
		if (!inc_xsk_lives(p->xsk[q]))
			return false;
	return p->queues;
}

int inc_slowpath_check_port(struct inc_slowpath *sp, const struct inc_switch_port *port,
			    struct inc_err *err)
{
	struct sp_port *p = &sp->port[port->index];
	struct inc_err why = {};
	int ret;

	if (p->ifindex == port->ifindex && all_live(p))
		return 0;
	sp_close_port(p);
	ret = inc_slowpath_add_port(sp, port, &why);
	if (ret)
		return inc_err_set(err, -ret,
				   "port %s: its AF_XDP sockets are dead and cannot be opened "
				   "again: %s",
				   port->name, why.msg);
	inc_warn("port %s: its AF_XDP sockets were dead: opened again", port->name);
	return 1;
}

/* Called when a port is up again. Packets that were outstanding while it was not are not late, so
 * this resets their timers and retransmits them at once. */
static void forgive(struct inc_slowpath *sp, const struct sp_port *port, uint64_t now)
{
	uint32_t i, c;

	for (i = 0; i < sp->max_comms; i++) {
		struct sp_comm *cm = sp->comm[i];

		for (c = 0; cm && c < cm->n_conns; c++) {
			struct sp_conn *conn = &cm->conn[c];

			if (sp_port_of(sp, conn) != port)
				continue;
			conn->progress_at_ns = now;
			inc_rto_heard(&conn->rto);
			sp_go_back(sp, cm, c);
		}
	}
	sp_hurry(sp);
}

void inc_slowpath_port_is(struct inc_slowpath *sp, const struct inc_switch_port *port,
			  enum inc_port_condition now_is, const char *why)
{
	struct sp_port *p = &sp->port[port->index];
	const bool was_up = p->condition == INC_PORT_UP;

	p->condition = now_is;
	snprintf(p->why, sizeof(p->why), "%s", why);
	if (was_up && now_is != INC_PORT_UP)
		p->lost_at_ns = sp_now(sp);
	else if (!was_up && now_is == INC_PORT_UP)
		forgive(sp, p, sp_now(sp));
}

struct sp_port *sp_port_of(struct inc_slowpath *sp, const struct sp_conn *c)
{
	const uint32_t ifindex = conn_cfg(sp, c)->ifindex;
	uint32_t i;

	for (i = 0; i < INC_MAX_PORTS; i++)
		if (sp->port[i].ifindex == ifindex)
			return &sp->port[i];
	return NULL;
}

bool sp_port_is_away(struct inc_slowpath *sp, const struct sp_conn *c)
{
	const struct sp_port *port = sp_port_of(sp, c);

	return port && port->condition != INC_PORT_UP;
}

/* Whether the communicator may need this connection: a chunk is incomplete, or a packet to the peer
 * is not acknowledged. */
static bool is_needed(const struct sp_comm *cm, const struct sp_conn *c)
{
	return cm->wait_at_ns || c->outstanding;
}

static bool has_all_ports(struct inc_slowpath *sp, const struct sp_comm *cm)
{
	uint32_t c;

	for (c = 0; c < cm->n_conns; c++)
		if (sp_port_is_away(sp, &cm->conn[c]))
			return false;
	return true;
}

void sp_watch_ports(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	uint32_t c;

	if (cm->phase != SP_COMM_RUNNING)
		return;
	cm->port_told = cm->port_told && !has_all_ports(sp, cm);
	for (c = 0; !cm->port_told && c < cm->n_conns; c++) {
		const struct sp_port *port = sp_port_of(sp, &cm->conn[c]);

		if (!port || port->condition == INC_PORT_UP ||
		    now - port->lost_at_ns < INC_PORT_LOST_S * INC_NSEC_PER_SEC ||
		    /* do not report a port that is only down before a connection there is needed,
		     * because the operator may set it up again */
		    (port->condition == INC_PORT_DOWN && !is_needed(cm, &cm->conn[c])))
			continue;
		cm->port_told = true;
		sp->notice(sp->arg, INC_EVENT_KIND_PORT_LOST, cm->index, 0,
			   comm_state(sp, cm).tx_next, port->why);
	}
}

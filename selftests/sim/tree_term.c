// SPDX-License-Identifier: BSD-2-Clause
/*
 * A switch in termination mode: a worker of its unchanged engine (userspace/term), with soft
 * endpoints. A task of the switch's process runs the worker. Communicators are made and removed
 * between two turns of the worker, as in a worker without its own thread.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include "lib/roce/rto.h"
#include "sim.h"
#include "tree_priv.h"
#include "userspace/config.h"
#include "userspace/interface.h"
#include "lib/channel/channel.h"
#include "userspace/term/worker.h"

static const struct inc_channel_ops *const kinds[INC_N_ENDPOINT_KINDS] = {
	[INC_ENDPOINT_SOFT] = &inc_channel_soft,
};

/* The switch for which a communicator is being made, outside of its task. */
static const struct tree_switch *making;

unsigned int __wrap_if_nametoindex(const char *name);
unsigned int __wrap_if_nametoindex(const char *name)
{
	sim_fail("the number of %s is asked for by its name", name);
}

static const struct tree_switch *asking(void)
{
	unsigned int i;

	for (i = 0; !making && i < tree.n_switches; i++)
		if (task_process() == &tree.sw[i].daemon.process)
			return &tree.sw[i];
	sim_require(making, "a process that is no switch asks for an interface");
	return making;
}

/* Replaces the function with which a soft endpoint finds its port's interface, so that it rejects
 * frames that arrive at another port. */
int __wrap_inc_interface_at(unsigned int ifindex, struct inc_interface_place *out);
int __wrap_inc_interface_at(unsigned int ifindex, struct inc_interface_place *out)
{
	const struct tree_switch *sw = asking();
	const unsigned int port = ifindex ? xdp_place(ifindex) : 0;

	*out = (struct inc_interface_place){.ifindex = ifindex};
	return ifindex && sw->host[port].ifindex == ifindex && sw->port_is[port] != INC_PORT_LOST
		       ? 0
		       : -ENODEV;
}

int __wrap_inc_interface_find(const char *ifname, struct inc_interface_place *out);
int __wrap_inc_interface_find(const char *ifname, struct inc_interface_place *out)
{
	return __wrap_inc_interface_at(asking()->host[ifname[1] - '0'].ifindex, out);
}

static void on_notice(void *arg, const struct inc_msg_event *event)
{
	const struct tree_switch *sw = arg;
	const char *name = inc_event_info[event->kind].name;

	if (sim_tracing())
		printf("%12s     %-6s notice %s: %s\n", "", sw->daemon.process.name, name,
		       event->message);
	sim_note(sw->daemon.process.name, name, event->communicator, event->r, 0);
	/* a switch that loses a neighbour may learn the end of the communicator from another
	 * neighbour */
	if (event->kind != INC_EVENT_KIND_ENDED ||
	    !tree.life[tree_life_of(event->communicator)].struck)
		tree_check_notice(arg, event->kind, event->message);
}

static void make_turns(void *arg)
{
	const struct tree_switch *sw = arg;

	for (;;)
		inc_term_worker_turn(sw->worker, UINT64_MAX);
}

void tree_term_start(struct tree_switch *sw)
{
	const struct inc_term_worker_opts opts = {
		.kinds = kinds,
		.rto_min_ns = INC_DEF_RTO_MIN_MS * INC_NSEC_PER_MSEC,
		.rto_max_ns = INC_DEF_RTO_MAX_MS * INC_NSEC_PER_MSEC,
		.notice = on_notice,
		.arg = sw,
	};
	struct inc_err err = {""};
	unsigned int i;

	for (i = 0; i < XDP_PORTS; i++)
		sw->host[i].given_elsewhere = sw->host[i].given_strange = 0;
	sim_require(!inc_term_worker_new(&opts, &sw->worker, &err), "%s cannot start: %s",
		    sw->daemon.process.name, err.msg);
	task_new(&sw->daemon.process, make_turns, sw);
}

void tree_term_add(struct tree_switch *sw, unsigned int life, struct inc_comm_conf *conf)
{
	struct inc_term_comm **comm = &sw->term_comm[life % tree.n_comms];
	struct inc_err err = {""};
	int ret;

	making = sw;
	ret = inc_term_worker_add(sw->worker, conf, comm, &err);
	making = NULL;
	ret = ret ?: inc_term_worker_start_comm(sw->worker, *comm, &err);
	sw->life[life % tree.n_comms] = life;
	sim_require(!ret, "%s: no communicator: %s", sw->daemon.process.name, err.msg);
	tree_look_at_ports(sw);
}

void tree_term_look(struct tree_switch *sw, unsigned int port, const char *why)
{
	static struct inc_term_view view;
	unsigned int i;
	uint32_t c;

	for (i = 0; i < tree.n_comms; i++) {
		if (!sw->term_comm[i])
			continue;
		inc_term_worker_view(sw->worker, sw->term_comm[i], &view);
		for (c = 0; c < view.comm.connections; c++)
			if (view.conn[c].port[1] - '0' == (int)port)
				inc_term_worker_port(sw->worker, sw->term_comm[i], c,
						     sw->port_is[port], why);
	}
}

void tree_term_remove(struct tree_switch *sw, unsigned int life)
{
	const unsigned int c = life % tree.n_comms;

	if (sw->term_comm[c] && sw->life[c] == life) {
		tree_forge_check(sw);
		inc_term_worker_remove(sw->worker, sw->term_comm[c]);
		sw->term_comm[c] = NULL;
	}
}

void tree_term_stop(struct tree_switch *sw)
{
	unsigned int i;

	for (i = 0; i < tree.n_comms; i++)
		tree_term_remove(sw, sw->life[i]);
	inc_term_worker_free(sw->worker);
	sw->worker = NULL;
	for (i = 0; i < sw->daemon.ports; i++)
		sim_require(!host_sockets(&sw->host[i]), "%s: port %u: a socket is left",
			    sw->daemon.process.name, i);
}

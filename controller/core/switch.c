/* SPDX-License-Identifier: BSD-2-Clause */
/* Switches of the topology, connected or absent: their ports, queue pair numbers and answers
 * (switch.h). Called by core.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "controller/core/comm.h"
#include "controller/core/comm_config.h"
#include "controller/core/comm_event.h"
#include "controller/core/core.h"
#include "controller/core/event.h"
#include "controller/core/orphan.h"
#include "controller/core/route.h"
#include "controller/core/switch.h"
#include "lib/base/log.h"
#include "lib/base/random.h"

#define AVOID_MS 10000 /* time in ms for which trees avoid a switch that was full */
/* Time in ms for a switch that has closed its connection to be back. A daemon that runs announces
 * that it will connect again, and then tries every second. One that announces nothing was killed,
 * or a device on the way has reset the connection. */
#define CLOSED_MS    2000
#define ANNOUNCED_MS 5000

const char *inc_switch_name(const struct inc_core_switch *sw)
{
	return sw->core->topo->switches[sw->index].name;
}

/* Sets the properties of all ports to those in the topology. They hold until a hello of the switch
 * names others. */
static void clear_ports(struct inc_core_switch *sw)
{
	const struct inc_topology *topo = sw->core->topo;
	const struct inc_topo_switch *own = &topo->switches[sw->index];

	for (unsigned int p = 0; p < own->n_ports; p++)
		sw->ports[p] = (struct inc_core_port){
			.mtu = topo->links[own->ports[p].link].mtu,
			.lacking = sw->ports[p].lacking,
		};
}

static void on_avoided(void *arg)
{
	const struct inc_core_switch *sw = arg;

	inc_routes_avoid(sw->core->routes, sw->index, false);
}

static void on_closed(void *arg)
{
	inc_comms_end_with_daemon(arg);
}

void inc_switch_avoid(struct inc_core_switch *sw)
{
	inc_routes_avoid(sw->core->routes, sw->index, true);
	inc_core_timer_arm(&sw->avoided, AVOID_MS);
}

struct inc_core_switch *inc_switch_new(struct inc_core *core, unsigned int index,
				       unsigned int n_ports)
{
	struct inc_core_switch *sw = calloc(1, sizeof(*sw));

	if (!sw)
		return NULL;
	sw->core = core;
	sw->index = index;
	sw->since_at_ms = core->now.clock_ms;
	inc_core_timer_init(&sw->avoided, core, on_avoided, sw);
	inc_core_timer_init(&sw->closed, core, on_closed, sw);
	sw->ports = calloc(n_ports + 1, sizeof(*sw->ports));
	if (sw->ports)
		return sw;
	free(sw);
	return NULL;
}

void inc_switch_free(struct inc_core_switch *sw)
{
	if (!sw)
		return;
	inc_core_timer_stop(&sw->avoided);
	inc_core_timer_stop(&sw->closed);
	free(sw->qpns);
	free(sw->ports);
	free(sw->hello);
	free(sw->hello_ports);
	free(sw);
}

int inc_switches_init(struct inc_core *core)
{
	core->routes = inc_routes_new(core->topo);
	core->switches = calloc(core->topo->n_switches, sizeof(*core->switches));
	if (!core->routes || !core->switches)
		return -ENOMEM;
	for (unsigned int i = 0; i < core->topo->n_switches; i++) {
		core->switches[i] = inc_switch_new(core, i, core->topo->switches[i].n_ports);
		if (!core->switches[i])
			return -ENOMEM;
		clear_ports(core->switches[i]);
		inc_switch_offer(core->switches[i]);
	}
	return 0;
}

void inc_switches_free(struct inc_core *core)
{
	for (unsigned int i = 0; core->switches && i < core->topo->n_switches; i++)
		inc_switch_free(core->switches[i]);
	free(core->switches);
	inc_routes_free(core->routes);
}

/* Makes room for one more queue pair number in the list of those that the switch uses. Returns 0 or
 * -errno. */
static int make_qpn_room(struct inc_core_switch *sw)
{
	size_t room = sw->qpns_room ? sw->qpns_room * 2 : 64;
	uint32_t *more;

	if (sw->n_qpns < sw->qpns_room)
		return 0;
	/* most numbers stay free, so that a random number is nearly always a free one */
	if (room > INC_QPN_MASK / 16)
		return -ENOSPC;
	more = realloc(sw->qpns, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	sw->qpns = more;
	sw->qpns_room = room;
	return 0;
}

int inc_switch_qpn_take(struct inc_core_switch *sw, uint32_t qpn)
{
	int ret = make_qpn_room(sw);

	if (!ret)
		sw->qpns[sw->n_qpns++] = qpn;
	return ret;
}

int inc_switch_qpn_get(struct inc_core_switch *sw, uint32_t *out)
{
	int ret = make_qpn_room(sw);
	uint32_t qpn;
	size_t i;

	if (ret)
		return ret;
	do {
		ret = inc_random_qpn(CTL_MIN_QPN, &qpn, NULL);
		if (ret)
			return ret;
		for (i = 0; i < sw->n_qpns && sw->qpns[i] != qpn; i++)
			;
	} while (i < sw->n_qpns);
	sw->qpns[sw->n_qpns++] = qpn;
	*out = qpn;
	return 0;
}

void inc_switch_qpn_put(struct inc_core_switch *sw, uint32_t qpn)
{
	for (size_t i = 0; i < sw->n_qpns; i++) {
		if (sw->qpns[i] != qpn)
			continue;
		sw->qpns[i] = sw->qpns[--sw->n_qpns];
		return;
	}
}

/* Whether the hello gives the port this address. An interface may have several, mostly of IPv6. */
static bool has_address(const struct inc_msg_port *said, struct inc_addr ip)
{
	char text[INC_ADDR_TEXT];

	for (uint32_t i = 0; i < said->n_ips; i++) {
		if (inc_addr_same(said->ips[i], ip))
			return true;
	}
	return strcmp(said->ip, inc_addr_text(ip, text)) == 0;
}

/* Reads the description of a port of the topology from the switch's hello. Returns false if the
 * hello has no port of that name and address. */
static bool take_port(struct inc_core_switch *sw, unsigned int p)
{
	const struct inc_topo_port *port = &sw->core->topo->switches[sw->index].ports[p];
	struct inc_core_port *has = &sw->ports[p];
	bool found = false;

	for (uint32_t i = 0; i < sw->n_hello_ports; i++) {
		const struct inc_msg_port *said = &sw->hello_ports[i];

		if (strcmp(said->name, port->name) != 0)
			continue;
		has->mtu = said->mtu ?: has->mtu; /* a hello without an MTU has 0 here */
		has->has_mac = said->has_mac;
		memcpy(has->mac, said->mac, sizeof(has->mac));
		memcpy(has->down, said->reason, sizeof(has->down));
		found = has_address(said, port->ip);
	}
	return found;
}

void inc_switch_print_lack(const struct inc_core_switch *sw, unsigned int p, char *buf, size_t size)
{
	const struct inc_topology *topo = sw->core->topo;
	const struct inc_topo_port *port = &topo->switches[sw->index].ports[p];
	const struct inc_msg_port *said = NULL;
	char ip[INC_ADDR_TEXT];

	for (uint32_t i = 0; i < sw->n_hello_ports; i++) {
		if (!strcmp(sw->hello_ports[i].name, port->name))
			said = &sw->hello_ports[i];
	}
	inc_addr_text(port->ip, ip);
	if (!said)
		snprintf(buf, size, "inc-switchd does not use the port: start it with --port %s",
			 port->name);
	else if (!has_address(said, port->ip))
		snprintf(buf, size, "it has %s instead of %s (ip addr add %s/%u dev %s)",
			 *said->ip ? said->ip : "no address", ip, ip,
			 inc_topology_prefix(topo, port->ip), port->name);
	else
		snprintf(buf, size, "incctl ports and the log of inc-switchd have the reason");
}

/* Returns the first wanted host behind a port, or -1. The hosts of a subnet may not exist, so they
 * are not wanted. A port leads to a NIC, and callers know a host by its first NIC. */
static int wanted_behind(const struct inc_topology *topo, const struct inc_topo_port *port,
			 bool (*wanted)(const void *arg, unsigned int host), const void *arg)
{
	for (unsigned int k = 0; k < port->n_peers; k++) {
		if (!port->peers[k].to_switch && wanted(arg, topo->hosts[port->peers[k].index].of))
			return port->peers[k].index;
	}
	return -1;
}

void inc_switches_print_down(const struct inc_core *core,
			     bool (*wanted)(const void *arg, unsigned int host), const void *arg,
			     char *buf, size_t size)
{
	unsigned int n = 0;
	size_t used = 0;

	*buf = '\0';
	for (unsigned int s = 0; s < core->topo->n_switches; s++) {
		const struct inc_core_switch *sw = core->switches[s];
		const struct inc_topo_switch *topo = &core->topo->switches[s];

		for (unsigned int p = 0; sw->connected && p < topo->n_ports; p++) {
			const int host =
				*sw->ports[p].down
					? wanted_behind(core->topo, &topo->ports[p], wanted, arg)
					: -1;

			if (host < 0 || used >= size || n == 2)
				continue;
			used += snprintf(buf + used, size - used,
					 "%sswitch %s: %s, and %s is behind it", used ? "; " : "",
					 topo->name, sw->ports[p].down,
					 core->topo->hosts[host].name);
			n++;
		}
	}
}

/* Reads the ports of a switch from its hello, and logs the ports of the topology's file that the
 * hello lacks. Jobs that need such a port will fail. */
static void take_ports(struct inc_core_switch *sw)
{
	const struct inc_topo_switch *topo = &sw->core->topo->switches[sw->index];
	char ip[INC_ADDR_TEXT], lack[INC_SWITCH_LACK];

	clear_ports(sw);
	for (unsigned int p = 0; p < topo->n_ports; p++) {
		if (take_port(sw, p) || p >= topo->n_live_ports || sw->ports[p].lacking)
			continue;
		sw->ports[p].lacking = true;
		inc_addr_text(topo->ports[p].ip, ip);
		inc_switch_print_lack(sw, p, lack, sizeof(lack));
		inc_warn("switch %s: has no port %s with address %s: %s", inc_switch_name(sw),
			 topo->ports[p].name, ip, lack);
	}
}

/* Keeps copies of a hello and its ports. Returns 0 or -ENOMEM. */
static int keep_hello(struct inc_core_switch *sw, const struct inc_core_event *hello)
{
	struct inc_msg_hello *said = malloc(sizeof(*said));
	struct inc_msg_port *ports = calloc(hello->n_ports + 1, sizeof(*ports));

	if (!said || !ports) {
		free(said);
		free(ports);
		return -ENOMEM;
	}
	*said = *hello->hello;
	if (hello->n_ports)
		memcpy(ports, hello->ports, hello->n_ports * sizeof(*ports));
	for (unsigned int p = 0; p < sw->core->topo->switches[sw->index].n_ports; p++)
		sw->ports[p].lacking = false;
	free(sw->hello);
	free(sw->hello_ports);
	sw->hello = said;
	sw->hello_ports = ports;
	sw->n_hello_ports = hello->n_ports;
	return 0;
}

void inc_switch_reread(struct inc_core_switch *sw)
{
	if (sw->hello) {
		take_ports(sw);
		inc_switch_take_engines(sw, sw->hello);
	} else {
		clear_ports(sw);
	}
	inc_switch_offer(sw);
	if (sw->avoided.runs)
		inc_routes_avoid(sw->core->routes, sw->index, true);
}

/* Whether the switch shall keep a communicator that its hello lists. If neither this controller nor
 * an earlier one with its database has allocated the number, another controller has, so the
 * communicator may run. */
static bool shall_keep(struct inc_core_switch *sw, uint32_t number)
{
	struct inc_comm *comm = inc_comm_find(sw->core, number);

	if (comm)
		return inc_comm_takes(comm, sw);
	if (inc_number_was_allocated(&sw->core->comm_numbers, number) || sw->core->knows_all)
		return false;
	return inc_orphan_add(sw, number);
}

/* Sends a switch the list of the communicators that it shall keep, and records that it is back.
 * Returns 0 or -ENOMEM. */
static int welcome(struct inc_core_switch *sw, const struct inc_core_event *hello)
{
	uint32_t *keep = calloc(hello->n_listed + 1, sizeof(*keep)), n = 0;
	int ret;

	if (!keep)
		return -ENOMEM;
	for (uint32_t i = 0; i < hello->n_listed; i++) {
		if (shall_keep(sw, hello->listed[i]))
			keep[n++] = hello->listed[i];
	}
	inc_info("switch %s is connected from %s: keeps %u of %u communicators",
		 inc_switch_name(sw), hello->from, n, hello->n_listed + hello->n_wrong);
	if (sw->lost)
		inc_core_record(sw->core, INC_RECORD_SWITCH_BACK, 0,
				"switch %s is connected again, from %s: keeps %u of %u "
				"communicators",
				inc_switch_name(sw), hello->from, n,
				hello->n_listed + hello->n_wrong);
	sw->lost = false;
	ret = inc_act_welcome(sw, keep, n);
	free(keep);
	return ret;
}

void inc_switch_connects(struct inc_core_switch *sw, const struct inc_core_event *hello)
{
	inc_core_timer_stop(&sw->closed);
	if (sw->gone) {
		sw->gone = false;
		inc_act_store_switch(sw);
	}
	sw->connected = true;
	sw->to_drop = NULL;
	sw->since_at_ms = sw->core->now.clock_ms;
	if (keep_hello(sw, hello)) {
		sw->to_drop = "no memory for its hello";
		return;
	}
	take_ports(sw);
	inc_switch_take_engines(sw, hello->hello);
	inc_switch_offer(sw);
	if (welcome(sw, hello)) {
		sw->to_drop = "no memory for its welcome";
		return;
	}
	inc_comm_check_kept(sw, hello->listed, hello->n_listed);
	for (uint32_t i = 0; i < hello->n_failures; i++)
		inc_comm_event(sw, &hello->failures[i]);
	inc_comms_set_notices(sw, hello->notices, hello->n_notices);
	inc_comms_ask_waiting(sw);
	inc_comms_retry(sw->core);
}

void inc_switch_await(struct inc_core_switch *sw, bool longer)
{
	inc_comms_note_closed(sw);
	inc_core_timer_arm(&sw->closed, longer ? ANNOUNCED_MS : CLOSED_MS);
}

void inc_switch_lost(struct inc_core_switch *sw, bool peer_closed, bool renews)
{
	inc_comms_await_switch(sw);
	inc_comms_record_lost(sw, peer_closed);
	sw->connected = false;
	sw->lost = true;
	sw->to_drop = NULL;
	sw->since_at_ms = sw->core->now.clock_ms;
	inc_switch_offer(sw);
	inc_orphans_forget(sw);
	if (renews)
		inc_comms_begin_again(sw);
	else
		inc_comms_end_unmade(sw);
	if (!peer_closed)
		return;
	sw->gone = inc_comms_live_in_daemon(sw);
	if (sw->gone)
		inc_act_store_switch(sw);
	inc_switch_await(sw, renews);
}

static void on_removed(struct inc_core_switch *sw, const struct inc_core_event *answer)
{
	/* A lost switch needs no second request to remove the communicator, because its next
	 * welcome lists the communicators to keep. */
	if (!answer->code || answer->code == ECONNRESET ||
	    (answer->unasked && answer->code == ENOTCONN))
		return;
	inc_warn("switch %s %s communicator %u: %s", inc_switch_name(sw),
		 answer->unasked ? "cannot be asked to remove" : "does not remove", answer->of,
		 answer->text);
	/* The controller does not know any more whether the switch has the communicator, so it
	 * closes the connection. The switch connects again, and its hello lists its
	 * communicators. */
	if (answer->unasked)
		sw->to_drop = "a request to it could not be sent";
	else if (answer->code == ETIMEDOUT)
		sw->to_drop = "did not answer remove";
}

static void on_waiting(struct inc_core_switch *sw, const struct inc_core_event *answer)
{
	if (!answer->code)
		return;
	inc_warn("switch %s does not report what communicator %u waits for: %s",
		 inc_switch_name(sw), answer->of, answer->text);
	/* a switch whose connection is lost is asked when it connects again */
	if (answer->code == ETIMEDOUT)
		inc_comm_retry_waiting(sw, answer->of);
}

/* Lets communicators go on that wait until the switch has answered earlier requests. They go on
 * only when half of the requests are answered, because to look for them after every answer would be
 * too much work. */
static void go_on(struct inc_core_switch *sw)
{
	if (!sw->awaited || !sw->connected || sw->to_drop || sw->asked > CTL_MAX_REQUESTS / 2)
		return;
	sw->awaited = false;
	inc_comm_switch_answered(sw);
}

void inc_switches_go_on(struct inc_core *core)
{
	for (unsigned int i = 0; i < core->topo->n_switches; i++)
		go_on(core->switches[i]);
}

void inc_switch_answers(struct inc_core_switch *sw, const struct inc_core_event *answer)
{
	if (sw->asked)
		sw->asked--;
	switch (answer->asked) {
	case ASKED_CONFIGURE:
		inc_comm_answered(sw, answer->of, answer->code, answer->text, answer->configured);
		break;
	case ASKED_CONNECT:
		inc_comm_connected(sw, answer->of, answer->code, answer->text,
				   answer->connected ? answer->connected->communicator : 0);
		break;
	case ASKED_REMOVE:
		on_removed(sw, answer);
		break;
	case ASKED_WAITING:
		on_waiting(sw, answer);
		break;
	case ASKED_RESULTS:
		inc_orphan_take_results(sw, answer->of, answer->code, answer->text, answer->results,
					answer->results ? answer->results->results : 0);
		break;
	default:
		break;
	}
	go_on(sw);
}

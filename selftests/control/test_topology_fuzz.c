// SPDX-License-Identifier: BSD-2-Clause
/*
 * Topology files with random damage, the same on every run: the reader must return, with a
 * topology whose indexes are all in range or with a message. Built with the sanitizers.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/topology/topology.h"
#include "selftests/control/damage.h"

#define ROUNDS     60000
#define MAX_TIME_S 20

static const char base[] =
	"name: fuzz\n"
	"hosts:\n  - {name: h0, ip: 10.77.0.1}\n  - {name: h1, ip: 10.77.1.1}\n"
	"  - {name: h2, ip: 10.77.2.1}\n  - {name: h3, ip: 10.79.0.9}\n"
	"switches:\n"
	"  - name: s0\n    root: true\n    ports:\n"
	"      - {name: p0, ip: 10.77.0.254, peer: h0}\n"
	"      - {name: p1, ip: 10.77.1.254, peer: h1}\n"
	"      - {name: t, ip: 10.78.0.1, peer: s1}\n"
	"  - name: s1\n    ports:\n"
	"      - {name: p0, ip: 10.77.2.254, peer: h2}\n"
	"      - {name: t, ip: 10.78.0.2, peer: s0}\n"
	"  - name: s2\n    ports: [{name: p, ip: 10.79.0.1, peers: [h3, s3], bridge: b0}]\n"
	"  - name: s3\n    root: true\n    ports: [{name: p, ip: 10.79.0.2, bridge: b0, peers: "
	"[s2]}]\n"
	"bridges: [{name: b0}]\n"
	"links:\n"
	"  - between: [h0, s0]\n    mtu: 1500\n"
	"    wire: {rate_mbit: 1000, loss: 0.001, duplicate: 0, corrupt: 0, reorder: 0, seed: 1}\n"
	"  - {between: [s1, s0], mtu: 2200, rate_mbit: 10}\n  - {between: [h3, b0], mtu: 1400}\n"
	"defaults: {prefix: 24, mtu: 2200, rate_mbit: 100000}\n";

static bool has_peer(const struct inc_topo_port *port, bool to_switch, unsigned int index)
{
	for (unsigned int i = 0; i < port->n_peers; i++) {
		if (port->peers[i].to_switch == to_switch && port->peers[i].index == index)
			return true;
	}
	return false;
}

static bool host_in_range(const struct inc_topology *t, unsigned int h)
{
	const struct inc_topo_host *host = &t->hosts[h];

	return host->sw < t->n_switches && host->link < t->n_links &&
	       host->port < t->switches[host->sw].n_ports &&
	       has_peer(&t->switches[host->sw].ports[host->port], false, h);
}

static bool port_in_range(const struct inc_topology *t, unsigned int s,
			  const struct inc_topo_port *port)
{
	if (port->link >= t->n_links || port->bridge < -1 || port->bridge >= (int)t->n_bridges ||
	    !port->n_peers || (port->n_peers > 1 && port->bridge < 0))
		return false;
	for (unsigned int i = 0; i < port->n_peers; i++) {
		const struct inc_topo_peer *peer = &port->peers[i];

		if (peer->index >= (peer->to_switch ? t->n_switches : t->n_hosts))
			return false;
		if (peer->to_switch &&
		    (peer->port >= t->switches[peer->index].n_ports ||
		     !has_peer(&t->switches[peer->index].ports[peer->port], true, s)))
			return false;
	}
	return true;
}

static bool link_in_range(const struct inc_topology *t, const struct inc_topo_link *link)
{
	for (int e = 0; e < 2; e++) {
		const struct inc_topo_end *end = &link->end[e];
		const unsigned int most[] = {t->n_hosts, t->n_switches, t->n_bridges};

		if (end->index >= most[end->kind] ||
		    (end->kind == INC_TOPO_SWITCH && end->port >= t->switches[end->index].n_ports))
			return false;
	}
	return link->rate_mbit > 0;
}

static bool in_range(const struct inc_topology *t)
{
	for (unsigned int h = 0; h < t->n_hosts; h++) {
		if (!host_in_range(t, h))
			return false;
	}
	for (unsigned int s = 0; s < t->n_switches; s++) {
		for (unsigned int p = 0; p < t->switches[s].n_ports; p++) {
			if (!port_in_range(t, s, &t->switches[s].ports[p]))
				return false;
		}
	}
	for (unsigned int l = 0; l < t->n_links; l++) {
		if (!link_in_range(t, &t->links[l]))
			return false;
	}
	return t->n_hosts && t->n_switches;
}

int main(void)
{
	unsigned int rounds, good = 0;
	time_t start = inc_now_s();

	for (rounds = 0; rounds < ROUNDS && inc_now_s() - start < MAX_TIME_S; rounds++) {
		struct inc_topology *topo = NULL;
		struct inc_err err = {""};
		size_t len;
		char *exact = damage(base, sizeof(base) - 1, &len);

		if (inc_topology_parse("f", exact, len, &topo, &err) == 0) {
			good++;
			if (!in_range(topo)) {
				printf("not ok topology fuzz: index out of range in round %u\n",
				       rounds);
				return 1;
			}
			inc_topology_free(topo);
		} else if (!err.msg[0] || strchr(err.msg, '\n')) {
			printf("not ok topology fuzz: no one-line message in round %u\n", rounds);
			return 1;
		}
		free(exact);
	}
	if (rounds < 1000 || !good || good == rounds) {
		printf("not ok topology fuzz: %u rounds, %u of them accepted\n", rounds, good);
		return 1;
	}
	printf("ok topology fuzz (%u damaged files, %u still valid)\n", rounds, good);
	return 0;
}

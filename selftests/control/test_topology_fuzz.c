// SPDX-License-Identifier: BSD-2-Clause
/*
 * Topology files with random damage, the same on every run: the reader must return, with a
 * topology whose indexes are all in range or with a message. Built with the sanitizers.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "lib/topology/topology.h"
#include "selftests/control/damage.h"

#define ROUNDS     60000
#define MAX_TIME_S 20

static const char base[] =
	"name: fuzz\n"
	"hosts:\n  - {name: h0, ip: 10.77.0.1}\n  - {name: h1, ip: 10.77.1.1}\n"
	"  - {name: h2, ip: 10.77.2.1}\n"
	"switches:\n"
	"  - name: s0\n    root: true\n    ports:\n"
	"      - {name: p0, ip: 10.77.0.254, peer: h0}\n"
	"      - {name: p1, ip: 10.77.1.254, peer: h1}\n"
	"      - {name: t, ip: 10.78.0.1, peer: s1}\n"
	"  - name: s1\n    ports:\n"
	"      - {name: p0, ip: 10.77.2.254, peer: h2}\n"
	"      - {name: t, ip: 10.78.0.2, peer: s0}\n"
	"links:\n"
	"  - between: [h0, s0]\n    mtu: 1500\n"
	"    wire: {rate_mbit: 1000, loss: 0.001, duplicate: 0, corrupt: 0, reorder: 0, seed: 1}\n"
	"  - {between: [s1, s0], mtu: 2200}\n"
	"defaults: {prefix: 24, mtu: 2200}\n";

static bool in_range(const struct inc_topology *t)
{
	for (unsigned int h = 0; h < t->n_hosts; h++) {
		const struct inc_topo_host *host = &t->hosts[h];

		if (host->sw >= t->n_switches || host->link >= t->n_links ||
		    host->port >= t->switches[host->sw].n_ports ||
		    t->switches[host->sw].ports[host->port].peer != h)
			return false;
	}
	for (unsigned int s = 0; s < t->n_switches; s++) {
		for (unsigned int p = 0; p < t->switches[s].n_ports; p++) {
			const struct inc_topo_port *port = &t->switches[s].ports[p];

			if (port->link >= t->n_links ||
			    port->peer >= (port->to_switch ? t->n_switches : t->n_hosts))
				return false;
			if (port->to_switch &&
			    (port->peer_port >= t->switches[port->peer].n_ports ||
			     t->switches[port->peer].ports[port->peer_port].peer != s))
				return false;
		}
	}
	return t->n_hosts && t->n_switches;
}

int main(void)
{
	unsigned int rounds, good = 0;
	time_t start = time(NULL);

	for (rounds = 0; rounds < ROUNDS && time(NULL) - start < MAX_TIME_S; rounds++) {
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

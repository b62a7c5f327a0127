// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 15000
 *
 * Target: topology files. All indexes of an accepted topology are in range. The error of a rejected
 * file names file and place.
 */
#include <string.h>
#include "lib/topology/topology.h"
#include "selftests/fuzz/fuzz.h"

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

static bool verbs_in_range(const struct inc_verbs_conf *verbs)
{
	bool in = true;

#define _(name, least, most, text) \
	in &= !verbs->has_##name || (verbs->name + 1ull > (least) && verbs->name <= (most));
	INC_VERBS_SWITCH_KEYS(_)
#undef _
	return in;
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
			if (!port_in_range(t, s, &t->switches[s].ports[p]) ||
			    !verbs_in_range(&t->switches[s].ports[p].verbs))
				return false;
		}
	}
	for (unsigned int l = 0; l < t->n_links; l++) {
		if (!link_in_range(t, &t->links[l]))
			return false;
	}
	return t->n_hosts && t->n_switches;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct inc_topology *topo = NULL;
	struct inc_err err = {""};

	if (inc_topology_parse("f.yaml", (const char *)data, size, &topo, &err)) {
		fuzz_require(!topo, "refused, and yet there is one");
		fuzz_check_file_refusal(&err, "f.yaml");
		return 0;
	}
	fuzz_require(in_range(topo), "an index out of range");
	inc_topology_free(topo);
	return 0;
}

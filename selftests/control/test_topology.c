// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* Topology files: errors with their lines, links, bridges, and ports with a subnet of hosts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>
#include "lib/topology/topology.h"

/* Topology files with one error each. */
#define HOSTS    "hosts:\n  - {name: h0, ip: 10.77.0.1}\n  - {name: h1, ip: 10.77.1.1}\n"
#define SWITCHES "switches:\n  - name: s0\n    root: true\n    ports:\n"
#define PORTS                                             \
	"      - {name: p0, ip: 10.77.0.254, peer: h0}\n" \
	"      - {name: p1, ip: 10.77.1.254, peer: h1}\n"
#define SUBNET(subnet) \
	"switches: [{name: s0, ports: [{name: p0, ip: 10.1.0.254, hosts: " subnet "}]}]\n"

static const struct {
	const char *text;
	const char *message;
} topology_cases[] = {
	{HOSTS, "t:1: 'switches' is missing"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peer: h0}\n",
	 "t:3: hosts[1]: no switch has a port whose peer is h1"},
	{HOSTS SWITCHES PORTS "    colour: red\n", "t:10: switches[0]: unknown key 'colour'"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peer: h7}\n",
	 "t:8: switches[0].ports[0].peer: there is no host or switch 'h7'"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.9.254, peer: h0}\n",
	 "t:8: switches[0].ports[0].peer: h0 has an address outside this port's /24 network"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.1, peer: h0}\n",
	 "t:8: switches[0].ports[0].ip: 10.77.0.1 is given twice"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.255, peer: h0}\n",
	 "t:8: switches[0].ports[0].ip: 10.77.0.255 is the first or last address of a /24 network"},
	{"hosts:\n  - {name: h0, ip: 10.77.0.0}\n" SWITCHES PORTS,
	 "t:2: hosts[0].ip: 10.77.0.0 is the first or last"},
	{"hosts:\n  - {name: h0, ips: [10.77.0.1, 10.77.1.255]}\n" SWITCHES PORTS,
	 "t:2: hosts[0].ips[1]: 10.77.1.255 is the first or last address of a /24 network"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peer: h0}\n"
			"      - {name: p0, ip: 10.77.1.254, peer: h1}\n",
	 "t:9: switches[0].ports[1].name: 'p0' is given twice"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peer: s0}\n",
	 "t:8: switches[0].ports[0].peer: s0 is this switch itself"},
	{HOSTS SWITCHES "      - {name: a_name_of_16_chr, ip: 10.77.0.254, peer: h0}\n",
	 "t:8: switches[0].ports[0].name: 'a_name_of_16_chr' is not a name of letters, digits, -, "
	 "_ "
	 "and dots (1 to 15 characters without blanks)"},
	{HOSTS SWITCHES "      - {name: .5, ip: 10.77.0.254, peer: h0}\n",
	 "t:8: switches[0].ports[0].name: '.5' is not a name of letters, digits, -, _ and dots"},
	{"hosts: [{name: h.0, ip: 10.77.0.1}]\n" SWITCHES PORTS,
	 "t:1: hosts[0].name: 'h.0' is not a name of letters, digits, - and _"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peer: h0, vlan: 0}\n",
	 "t:8: switches[0].ports[0].vlan: 0 is not between 1 and 4094"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peer: h0, vlan: 4095}\n",
	 "t:8: switches[0].ports[0].vlan: 4095 is not between 1 and 4094"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peer: h0, vlan: p0.5}\n",
	 "t:8: switches[0].ports[0].vlan: 'p0.5' is not"},
	{HOSTS SWITCHES PORTS "      - {name: p2, ip: 10.78.0.1, peer: s1, vlan: 5}\n"
			      "  - name: s1\n    ports: [{name: q, ip: 10.78.0.2, peer: s0}]\n",
	 "t:10: switches[0].ports[2].peer: s1's port q is not in the same 'vlan'"},
	{HOSTS SWITCHES PORTS "  - name: s1\n    ports: [{name: q0, ip: 10.77.2.1, peer: s0}]\n",
	 "t:11: switches[1].ports[0].peer: s0 has no port whose peer is s1"},
	{HOSTS SWITCHES PORTS "links:\n  - between: [h0, h1]\n",
	 "t:11: links[0].between: no port connects these two"},
	{HOSTS SWITCHES PORTS "links:\n  - between: [h0, s0]\n    wire: {loss: 1.5}\n",
	 "t:12: links[0].wire.loss: 1.5 is not between 0 and 1"},
	{HOSTS SWITCHES PORTS "defaults: {prefix: 33}\n",
	 "t:10: defaults.prefix: 33 is not between"},
	{"hosts: 3\nswitches: []\n", "t:1: hosts: is not a sequence"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254}\n",
	 "t:8: switches[0].ports[0]: 'peer' is missing"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peer: h0, peers: [h1]}\n",
	 "t:8: switches[0].ports[0]: 'peer' and 'peers' exclude each other"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peers: [h0, h1]}\n",
	 "t:8: switches[0].ports[0].peers: several peers need a 'bridge' between"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peers: [h0], bridge: h1}\n",
	 "t:8: switches[0].ports[0].bridge: there is no bridge 'h1'"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peers: [h0], bridge: b0}\n"
			"      - {name: p1, ip: 10.77.1.254, peers: [h1], bridge: b0}\n"
			"bridges: [{name: b0}]\n",
	 "t:9: switches[0].ports[1].ip: another port of bridge b0 is outside this /24 network"},
	{HOSTS SWITCHES PORTS "bridges: [{name: b0}]\n",
	 "t:10: bridges[0]: no port is on bridge b0"},
	{HOSTS SWITCHES PORTS "bridges: [{name: h0}]\n",
	 "t:10: bridges[0].name: 'h0' is given twice"},
	{HOSTS SWITCHES PORTS "      - {name: p2, ip: 10.78.0.1, peer: s1}\n"
			      "      - {name: p3, ip: 10.78.1.1, peer: s1}\n"
			      "  - name: s1\n    ports: [{name: q, ip: 10.78.0.2, peer: s0}]\n",
	 "t:11: switches[0].ports[3].peer: a second link to s1"},
	{HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peer: h0}\n"
			"      - {name: p1, ip: 10.77.0.253, peer: h0}\n",
	 "t:9: switches[0].ports[1].peer: h0 is attached already, to s0"},
	{HOSTS SWITCHES PORTS "  - name: s1\n    ports: [{name: q, ip: 10.78.0.1, peer: s2}]\n"
			      "  - name: s2\n    ports: [{name: q, ip: 10.78.0.2, peer: s1}]\n",
	 "t:10: switches[1]: s1 cannot be reached from any root"},
	{"switches: [{name: s0, ports: [{name: p0, ip: 10.1.0.254, bridge: b0}]}]\n"
	 "bridges: [{name: b0}]\n",
	 "t:1: 'hosts' is missing, and no port has 'hosts'"},
	{"hosts: [{name: h0}]\n" SWITCHES PORTS, "t:1: hosts[0]: 'ip' is missing"},
	{"hosts: [{name: h0, ip: 10.77.0.1, ips: [10.78.0.1]}]\n" SWITCHES PORTS,
	 "t:1: hosts[0]: 'ip' and 'ips' exclude each other"},
	{"hosts: [{name: h0, ips: 10.77.0.1}]\n" SWITCHES PORTS,
	 "t:1: hosts[0].ips: is not a sequence"},
	{"hosts: [{name: h0, ips: []}]\n" SWITCHES PORTS,
	 "t:1: hosts[0].ips: 0 addresses, not 1 to 8"},
	{"hosts: [{name: h0, ips: [10.77.0.1, 10.77.0.1]}]\n" SWITCHES PORTS,
	 "t:1: hosts[0].ips[1]: 10.77.0.1 is given twice"},
	{"hosts: [{name: h0, ips: [10.77.0.1, 10.78.0]}]\n" SWITCHES PORTS,
	 "t:1: hosts[0].ips[1]: '10.78.0' is not an IPv4 or IPv6 address"},
	{"hosts: [{name: h0, ips: [224.0.0.1]}]\n" SWITCHES PORTS,
	 "t:1: hosts[0].ips[0]: 224.0.0.1 is not a unicast address"},
	{"hosts: [{name: h0, ips: ['fe80::1']}]\n" SWITCHES PORTS,
	 "t:1: hosts[0].ips[0]: fe80::1 is link-local, and only an address that other links know "
	 "serves"},
	{"hosts: [{name: h0, ips: [10.77.0.1, 10.78.0.1]}]\n" SWITCHES
	 "      - {name: p0, ip: 10.77.0.254, peer: h0}\n",
	 "t:1: hosts[0]: no switch has a port whose peer is h0 in the network of 10.78.0.1"},
	{"hosts: [{name: h0, ips: [10.77.0.1, 10.78.0.1]}]\n" SWITCHES
	 "      - {name: p0, ip: 10.79.0.254, peer: h0}\n",
	 "t:6: switches[0].ports[0].peer: h0 has no address inside this port's /24 network"},
	{"hosts: [{name: h0, ips: [10.77.0.1, 10.78.0.1]}]\n" SWITCHES
	 "      - {name: p0, ip: 10.77.0.254, peer: h0}\n"
	 "      - {name: p1, ip: 10.77.0.253, peer: h0}\n",
	 "t:7: switches[0].ports[1].peer: h0 is attached already, to s0"},
	{"hosts: [{name: h0, ips: [10.77.0.1, 10.78.0.1]}]\n" SWITCHES
	 "      - {name: p0, ip: 10.77.0.254, peer: h0}\n"
	 "      - {name: p1, ip: 10.78.0.254, peer: h0}\n"
	 "links: [{between: [h0, s0]}, {between: [h0, s0]}, {between: [h0, s0]}]\n",
	 "t:8: links[2].between: this link is given twice"},
	{SUBNET("10.1.0.0"), "t:1: switches[0].ports[0].hosts: '10.1.0.0' is no subnet"},
	{SUBNET("10.1.0/24"), "t:1: switches[0].ports[0].hosts: '10.1.0/24' is no subnet"},
	{SUBNET("10.1.0.0/33"), "t:1: switches[0].ports[0].hosts: '10.1.0.0/33' is no subnet"},
	{SUBNET("10.1.0.0/24x"), "t:1: switches[0].ports[0].hosts: '10.1.0.0/24x' is no subnet"},
	{SUBNET("[10.1.0.0/24]"), "t:1: switches[0].ports[0].hosts: '' is no subnet"},
	{SUBNET("10.1.0.1/24"),
	 "t:1: switches[0].ports[0].hosts: 10.1.0.1 is not the first address of a /24"},
	{SUBNET("10.1.0.0/23"), "t:1: switches[0].ports[0].hosts: is larger than the port's /24"},
	{SUBNET("'fd00::/120'"), "t:1: switches[0].ports[0].hosts: is outside this port's /24"},
	{SUBNET("'fd00::/129'"), "t:1: switches[0].ports[0].hosts: 'fd00::/129' is no subnet"},
	{SUBNET("'fd00::1/120'"),
	 "t:1: switches[0].ports[0].hosts: fd00::1 is not the first address of a /120"},
	{SUBNET("'fd00::/64'"), "t:1: switches[0].ports[0].hosts: has more than 1024 addresses"},
	{SUBNET("'fd00::/56'"), "t:1: switches[0].ports[0].hosts: is larger than the port's /64"},
	{SUBNET("10.2.0.0/24"), "t:1: switches[0].ports[0].hosts: is outside this port's /24"},
	{"switches: [{name: s0, ports: [{name: p0, ip: 10.1.0.254, hosts: 10.1.0.0/25},\n"
	 " {name: p1, ip: 10.1.0.253, hosts: 10.1.0.0/24}]}]\n",
	 "t:2: switches[0].ports[1].hosts: another subnet has 10.1.0.0"},
	{"switches: [{name: s0, ports: [{name: p0, ip: 10.1.0.254, hosts: 10.1.0.0/24},\n"
	 " {name: p1, ip: 10.1.0.253, hosts: 10.1.0.128/25}]}]\n",
	 "t:2: switches[0].ports[1].hosts: has no address that is left for a host"},
	{SUBNET("10.1.0.254/32"),
	 "t:1: switches[0].ports[0].hosts: has no address that is left for a host"},
	{SUBNET("10.1.0.0/24") "defaults: {prefix: 8}\nhosts: [{name: h0, ip: 10.2.0.1}]\n",
	 "t:3: hosts[0]: no switch has a port whose peer is h0"},
	{"switches: [{name: s0, ports: [{name: p0, ip: 10.1.0.254, hosts: 10.1.0.0/21}]}]\n"
	 "defaults: {prefix: 16}\n",
	 "t:1: switches[0].ports[0].hosts: has more than 1024 addresses"},
};

/* Hosts with several NICs: each NIC is at the port in its network, and has a cable of its own. */
static void topology_rails(void **state)
{
	static const char text[] =
		"hosts:\n  - {name: h0, ips: [10.77.0.1, 10.78.0.1, 10.79.0.1]}\n"
		"  - {name: h1, ip: 10.77.1.1}\n  - {name: h2, ips: [10.77.2.1, 10.77.2.2]}\n"
		"switches:\n  - name: s0\n    root: true\n    ports:\n"
		"      - {name: p0, ip: 10.77.0.254, peer: h0}\n"
		"      - {name: p1, ip: 10.77.1.254, peer: h1}\n"
		"      - {name: p2, ip: 10.77.2.254, peer: h2}\n"
		"      - {name: p3, ip: 10.77.2.253, peer: h2}\n"
		"  - name: s1\n    root: true\n    ports:\n"
		"      - {name: p0, ip: 10.79.0.254, peer: h0}\n"
		"      - {name: p1, ip: 10.78.0.254, peer: h0}\n"
		"      - {name: p2, ip: 10.80.0.254, hosts: 10.80.0.0/30}\n"
		"links: [{between: [h0, s1], rate_mbit: 78}, {between: [s1, h0], rate_mbit: 79},\n"
		"  {between: [h2, s0], rate_mbit: 2}, {between: [h2, s0], rate_mbit: 3}]\n";
	/* the NIC's host, number, switch and port, and the rate of its cable */
	static const unsigned int want[][5] = {
		{0, 0, 0, 0, 10000}, {1, 0, 0, 1, 10000}, {2, 0, 0, 2, 2},    {0, 1, 1, 1, 78},
		{0, 2, 1, 0, 79},    {2, 1, 0, 3, 3},     {6, 0, 1, 2, 10000}};
	struct inc_topology *topo;
	struct inc_err err = {""};
	struct inc_addr ip;

	if (inc_topology_parse("t", text, sizeof(text) - 1, &topo, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(topo->n_listed_hosts, 3);
	assert_int_equal(topo->n_nics, 3);
	assert_int_equal(topo->n_leaves, 2);
	assert_true(topo->n_hosts > 6);
	for (unsigned int i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		const struct inc_topo_host *nic = &topo->hosts[i];
		const struct inc_topo_link *link = &topo->links[nic->link];

		assert_int_equal(nic->of, want[i][0]);
		assert_int_equal(nic->rail, want[i][1]);
		assert_int_equal(nic->sw, want[i][2]);
		assert_int_equal(nic->port, want[i][3]);
		assert_int_equal(topo->switches[nic->sw].ports[nic->port].peers[0].index, i);
		assert_true(link->rate_mbit == want[i][4]);
		assert_int_equal(link->end[0].index, i);
		assert_int_equal(inc_topology_nic(topo, nic->of, nic->rail), i);
		assert_string_equal(nic->name, topo->hosts[nic->of].name);
	}
	assert_int_equal(inc_topology_host_by_name(topo, "h0"), 0);
	assert_int_equal(inc_topology_nic(topo, 0, 3), -1);
	assert_int_equal(inc_topology_nic(topo, 1, 1), -1);
	inc_addr_parse("10.79.0.1", &ip);
	assert_int_equal(inc_topology_host_by_ip(topo, ip), 4);
	inc_topology_free(topo);
}

/* A port with a subnet: all addresses of it become hosts, but those that mean something else. */
static void topology_subnet(void **state)
{
	static const char text[] =
		"hosts: [{name: h0, ip: 10.1.0.7}, {name: h1, ip: 10.9.0.1}]\n"
		"switches:\n"
		"  - name: s0\n    root: true\n    ports:\n"
		"      - {name: p0, ip: 10.1.0.254, hosts: 10.1.0.0/24, peers: [h0, s1], bridge: "
		"b0}\n"
		"      - {name: p1, ip: 10.9.0.254, peer: h1}\n"
		"      - {name: p2, ip: 10.8.0.1, hosts: 10.8.0.0/30}\n"
		"  - {name: s1, ports: [{name: p, ip: 10.1.0.253, peer: s0, bridge: b0}]}\n"
		"bridges: [{name: b0}]\n"
		"links: [{between: [10.8.0.2, 10.8.0.0], rate_mbit: 100}]\n";
	const struct inc_topo_port *port;
	struct inc_topology *topo;
	struct inc_err err = {""};
	struct inc_addr ip;
	int h;

	if (inc_topology_parse("t", text, sizeof(text) - 1, &topo, &err))
		fail_msg("%s", err.msg);
	/* 256 addresses without .0, .255, both switches and h0; and 10.8.0.2 and 10.8.0.3 */
	assert_int_equal(topo->n_listed_hosts, 2);
	assert_int_equal(topo->n_hosts, 2 + 251 + 2);
	port = &topo->switches[0].ports[0];
	assert_int_equal(port->n_peers, 253);
	assert_int_equal(port->bridge, 0);
	inc_addr_parse("10.1.0.33", &ip);
	h = inc_topology_host_by_ip(topo, ip);
	assert_true(h >= 2 && h == inc_topology_host_by_name(topo, "10.1.0.33"));
	assert_int_equal(topo->hosts[h].sw, 0);
	assert_int_equal(topo->hosts[h].port, 0);
	assert_int_equal(inc_topology_host_by_name(topo, "10.1.0.255"), -1);
	assert_int_equal(inc_topology_host_by_name(topo, "10.1.0.253"), -1);
	assert_int_equal(inc_topology_host_by_name(topo, "10.1.0.7"), -1);
	h = inc_topology_host_by_name(topo, "10.8.0.2");
	assert_true(topo->links[topo->hosts[h].link].rate_mbit == 100);
	assert_int_equal(topo->switches[0].ports[2].bridge, 1);
	assert_int_equal(topo->n_leaves, 1);
	inc_topology_free(topo);
}

/* Links of both families, a host with a NIC of each, and a subnet of IPv6. */
static void topology_ipv6(void **state)
{
	static const char text[] = "hosts:\n"
				   "  - {name: h0, ip: 10.1.0.1}\n"
				   "  - {name: h1, ips: ['fd00:2::1', 10.2.0.1]}\n"
				   "switches:\n"
				   "  - name: s0\n"
				   "    ports:\n"
				   "      - {name: p0, ip: 'fd00:1::fe', hosts: 'fd00:1::/122'}\n"
				   "      - {name: p1, ip: 10.1.0.254, peer: h0}\n"
				   "      - {name: p2, ip: 10.2.0.254, peer: h1}\n"
				   "      - {name: p3, ip: 'FD00:2:0::00fe', peer: h1}\n"
				   "defaults: {prefix_ipv6: 80}\n";
	char doubt[INC_TOPO_DOUBT_TEXT];
	struct inc_topology *topo;
	struct inc_err err = {""};
	struct inc_addr ip;
	int h;

	if (inc_topology_parse("t", text, sizeof(text) - 1, &topo, &err))
		fail_msg("%s", err.msg);
	/* the subnet has 64 addresses, of which the first one is its bridge */
	assert_int_equal(topo->n_hosts, 3 + 63);
	assert_string_equal(inc_topology_doubt(topo, doubt), "");
	inc_addr_parse("fd00:1::21", &ip);
	h = inc_topology_host_by_ip(topo, ip);
	assert_true(h >= 3 && h == inc_topology_host_by_name(topo, "fd00:1::21"));
	assert_int_equal(topo->hosts[h].port, 0);
	inc_addr_parse("fd00:2::1", &ip);
	assert_int_equal(inc_topology_host_by_ip(topo, ip), 1);
	assert_int_equal(topo->hosts[1].port, 3);
	inc_addr_parse("10.2.0.1", &ip);
	assert_int_equal(inc_topology_host_by_ip(topo, ip), 2);
	assert_int_equal(topo->hosts[2].port, 2);
	assert_int_equal(inc_topology_nic_by_ip(topo, 1, ip), 2);
	/* the same last 32 bits, and the address of a port */
	inc_addr_parse("fd00:2::a02:1", &ip);
	assert_int_equal(inc_topology_host_by_ip(topo, ip), -1);
	inc_addr_parse("fd00:2::fe", &ip);
	assert_int_equal(inc_topology_host_by_ip(topo, ip), -1);
	inc_topology_free(topo);
}

static void topology_errors(void **state)
{
	for (size_t i = 0; i < sizeof(topology_cases) / sizeof(topology_cases[0]); i++) {
		const char *text = topology_cases[i].text, *want = topology_cases[i].message;
		struct inc_topology *topo;
		struct inc_err err = {""};

		assert_int_equal(inc_topology_parse("t", text, strlen(text), &topo, &err), -EINVAL);
		if (strncmp(err.msg, want, strlen(want)) != 0)
			fail_msg("'%s' is not '%s'", err.msg, want);
	}
}

static void topology_links(void **state)
{
	static const char text[] = "name: two\n" HOSTS "switches:\n"
				   "  - name: s0\n    ports:\n"
				   "      - {name: p0, ip: 10.77.0.254, peer: h0}\n"
				   "      - {name: up, ip: 10.78.0.1, peer: s1}\n"
				   "  - name: s1\n    root: true\n    ports:\n"
				   "      - {name: p0, ip: 10.77.1.254, peer: h1}\n"
				   "      - {name: p1, ip: 10.78.0.2, peer: s0}\n"
				   "links:\n  - {between: [s1, s0], mtu: 1400}\n"
				   "  - {between: [s0, h0], wire: {loss: 0.25, seed: 9}}\n"
				   "defaults: {prefix: 24, mtu: 2200}\n";
	struct inc_topology *topo;
	struct inc_err err = {""};
	const struct inc_topo_link *link;

	assert_int_equal(inc_topology_parse("t", text, sizeof(text) - 1, &topo, &err), 0);
	assert_int_equal(topo->n_links, 3);
	link = &topo->links[topo->hosts[0].link];
	assert_int_equal(link->end[0].kind, INC_TOPO_HOST);
	assert_int_equal(link->end[0].index, 0);
	assert_int_equal(link->mtu, 2200);
	assert_true(link->has_wire && link->wire.loss == 0.25 && link->wire.seed == 9);
	assert_false(topo->links[topo->hosts[1].link].has_wire);
	assert_int_equal(topo->switches[0].ports[1].link, topo->switches[1].ports[1].link);
	link = &topo->links[topo->switches[0].ports[1].link];
	assert_int_equal(link->end[0].kind, INC_TOPO_SWITCH);
	assert_int_equal(link->mtu, 1400);
	assert_int_equal(link->end[1].index, 0);
	assert_int_equal(link->end[1].port, 1);
	assert_int_equal(link->end[0].index, 1);
	assert_int_equal(link->end[0].port, 1);
	inc_topology_free(topo);
}

/* A switch with a single port, which leads through an ordinary switch to its parent and its
 * hosts. */
static void topology_bridge(void **state)
{
	static const char text[] =
		"hosts:\n  - {name: h0, ip: 10.77.0.1}\n  - {name: h1, ip: 10.77.0.2}\n"
		"  - {name: h2, ip: 10.77.0.3}\n"
		"switches:\n"
		"  - name: r\n    root: true\n"
		"    ports: [{name: d, ip: 10.77.0.254, peers: [a, h2], bridge: b0}]\n"
		"  - name: a\n"
		"    ports: [{name: p, ip: 10.77.0.253, peers: [h0, r, h1], bridge: b0}]\n"
		"bridges: [{name: b0}]\n"
		"links:\n  - {between: [b0, a], rate_mbit: 25000}\n"
		"  - {between: [h1, b0], wire: {rate_mbit: 100}}\n";
	const struct inc_topo_port *port;
	const struct inc_topo_link *link;
	struct inc_topology *topo;
	struct inc_err err = {""};

	assert_int_equal(inc_topology_parse("t", text, sizeof(text) - 1, &topo, &err), 0);
	assert_int_equal(topo->n_links, 5); /* each link has its own cable */
	assert_int_equal(topo->n_leaves, 2);
	port = &topo->switches[1].ports[0];
	assert_int_equal(port->n_peers, 3);
	assert_true(port->peers[1].to_switch);
	assert_int_equal(port->peers[1].index, 0);
	link = &topo->links[port->link];
	assert_int_equal(link->end[0].kind, INC_TOPO_SWITCH);
	assert_int_equal(link->end[1].kind, INC_TOPO_BRIDGE);
	assert_true(link->rate_mbit == 25000);
	link = &topo->links[topo->hosts[1].link];
	assert_true(link->rate_mbit == 100 && link->has_wire);
	assert_int_equal(topo->hosts[1].sw, 1);
	assert_true(topo->links[topo->hosts[2].link].rate_mbit == INC_TOPO_DEF_RATE);
	inc_topology_free(topo);
}

/* Ports of one switch that share a network are doubtful. Those of different switches are the two
 * ends of a cable. */
static void topology_shared_network(void **state)
{
	static const struct {
		const char *prefix, *doubt;
	} cases[] = {
		{"24", ""},
		{"16",
		 "switch s0: ports p0 and p1 are in one /16 network, so its kernel sends what is "
		 "for the peer of p1 by p0: give each port a network of its own, or correct "
		 "defaults.prefix"},
		{"15", "switch s0: ports p0 and p1 are in one /15 network"},
	};
	static const char ipv6[] = "hosts:\n  - {name: h0, ip: \"fd00::1\"}\n"
				   "  - {name: h1, ip: \"fd00::2\"}\nswitches:\n"
				   "  - name: s0\n    root: true\n    ports:\n"
				   "      - {name: p0, ip: \"fd00::3\", peer: h0}\n"
				   "      - {name: p1, ip: \"fd00::4\", peer: h1}\n";
	char file[1000], text[INC_TOPO_DOUBT_TEXT];
	struct inc_topology *topo;
	struct inc_err err = {""};

	assert_int_equal(inc_topology_parse("t", ipv6, strlen(ipv6), &topo, &err), 0);
	assert_non_null(strstr(inc_topology_doubt(topo, text), "correct defaults.prefix_ipv6"));
	inc_topology_free(topo);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(file, sizeof(file),
			 HOSTS
			 "  - {name: h2, ip: 10.79.0.1}\n" SWITCHES PORTS
			 "      - {name: d0, ip: 10.78.0.1, peer: s1}\n  - name: s1\n    ports:\n"
			 "      - {name: u0, ip: 10.78.0.2, peer: s0}\n"
			 "      - {name: p0, ip: 10.79.0.254, peer: h2}\ndefaults: {prefix: %s}\n",
			 cases[i].prefix);
		assert_int_equal(inc_topology_parse("t", file, strlen(file), &topo, &err), 0);
		inc_topology_doubt(topo, text);
		if (strncmp(text, cases[i].doubt, strlen(cases[i].doubt)) != 0 ||
		    !*text != !*cases[i].doubt)
			fail_msg("prefix %s: '%s'", cases[i].prefix, text);
		inc_topology_free(topo);
	}
}

/* The bounds of each setting of queue pairs. */
static const struct {
	const char *key;
	unsigned int least, most;
} verbs_bounds[] = {
	{"gid_index", 0, 255},
	{"pkey_index", 0, 65535},
	{"timeout", 1, 31},
	{"retry_cnt", 0, 7},
	{"rnr_retry", 0, 7},
	{"min_rnr_timer", 0, 31},
	{"sl", 0, 15},
	{"traffic_class", 0, 254},
	{"hop_limit", 1, 255},
	{"flow_label", 0, 1048575},
	{"rate_limit", 0, 2147483647},
	{"max_rd_atomic", 0, 255},
};

/* Whether the setting has values between its bounds that are refused. */
static bool is_class(size_t i)
{
	return !strcmp(verbs_bounds[i].key, "traffic_class");
}

/* The place of a setting of queue pairs in a topology. */
enum verbs_of { OF_FILE, OF_SWITCH, OF_PORT, N_VERBS_OF };

/* Reads a topology with one setting, of a port, a switch or the whole topology. Expects it to be
 * accepted, or refused with the line, the field and the bounds. */
static void try_verbs(size_t i, enum verbs_of of, const char *value, bool accepted)
{
	static const struct {
		const char *indent, *field;
		int line;
	} at[] = {[OF_FILE] = {"", "", 13},
		  [OF_SWITCH] = {"    ", "switches[0].", 13},
		  [OF_PORT] = {"        ", "switches[0].ports[0].", 12}};
	char file[1000], setting[80], want[200];
	struct inc_topology *topo;
	struct inc_err err = {""};

	snprintf(setting, sizeof(setting), "%sverbs:\n%s  %s: %s\n", at[of].indent, at[of].indent,
		 verbs_bounds[i].key, value);
	snprintf(file, sizeof(file),
		 HOSTS SWITCHES "      - name: p0\n        ip: 10.77.0.254\n        peer: h0\n"
				"%s      - {name: p1, ip: 10.77.1.254, peer: h1}\n%s",
		 of == OF_PORT ? setting : "", of == OF_PORT ? "" : setting);
	snprintf(want, sizeof(want), "t:%d: %sverbs.%s: ", at[of].line, at[of].field,
		 verbs_bounds[i].key);
	if (inc_topology_parse("t", file, strlen(file), &topo, &err) == 0) {
		inc_topology_free(topo);
		assert_true(accepted);
		return;
	}
	if (accepted || strncmp(err.msg, want, strlen(want)) != 0)
		fail_msg("'%s' is not '%s'", err.msg, want);
	if (value[0] < '0' || value[0] > '9')
		return;
	snprintf(want, sizeof(want), "%s is not between %u and %u", value, verbs_bounds[i].least,
		 verbs_bounds[i].most);
	/* the error of a number beyond 64 bits names the bounds */
	if (is_class(i) && strlen(value) < 20)
		snprintf(want, sizeof(want), "%s is not " INC_TRAFFIC_CLASS_TEXT, value);
	assert_non_null(strstr(err.msg, want));
}

static void topology_verbs_bounds(void **state)
{
	const size_t n = sizeof(verbs_bounds) / sizeof(verbs_bounds[0]);
	char value[24];

	assert_int_equal(inc_verbs_schema.n, n);
	for (size_t k = 0; k < N_VERBS_OF * n; k++) {
		const enum verbs_of of = k % N_VERBS_OF;
		const size_t i = k / N_VERBS_OF;

		snprintf(value, sizeof(value), "%u", verbs_bounds[i].least);
		try_verbs(i, of, value, true);
		snprintf(value, sizeof(value), "%u", verbs_bounds[i].most);
		try_verbs(i, of, value, true);
		snprintf(value, sizeof(value), "%u", verbs_bounds[i].most + 1);
		try_verbs(i, of, value, false);
		if (verbs_bounds[i].least)
			try_verbs(i, of, "0", false);
		if (is_class(i))
			try_verbs(i, of, "107", false);
		try_verbs(i, of, "-1", false);
		try_verbs(i, of, "18446744073709551616", false);
		try_verbs(i, of, "fast", false);
	}
}

static void count_change(void *arg, enum inc_topo_change change, const char *text)
{
	if (change == INC_TOPO_CHANGED)
		snprintf(arg, 400, "%s", text);
}

/* A port has its own settings, and otherwise those of its switch, and otherwise those of the
 * topology. A reload reports what has changed. */
static void topology_verbs(void **state)
{
	static const char *const files[] = {
		HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peer: h0, verbs: {sl: 3, "
			       "timeout: 14}}\n"
			       "      - {name: p1, ip: 10.77.1.254, peer: h1}\n"
			       "verbs: {traffic_class: 104, timeout: 18}\n",
		HOSTS SWITCHES PORTS,
		HOSTS SWITCHES "      - {name: p0, ip: 10.77.0.254, peer: h0, verbs: {sl: 3}}\n"
			       "      - {name: p1, ip: 10.77.1.254, peer: h1}\n"
			       "    verbs: {traffic_class: 40, sl: 2}\n"
			       "verbs: {traffic_class: 104, timeout: 18}\n",
	};
	struct inc_topology *topo[3];
	char text[INC_VERBS_CONF_TEXT], changed[400] = "";
	struct inc_err err = {""};

	for (int i = 0; i < 3; i++)
		if (inc_topology_parse("t", files[i], strlen(files[i]), &topo[i], &err))
			fail_msg("%s", err.msg);
	assert_string_equal(inc_verbs_conf_text(&topo[0]->switches[0].ports[0].verbs, text),
			    "timeout=14,sl=3,traffic_class=104");
	assert_string_equal(inc_verbs_conf_text(&topo[0]->switches[0].ports[1].verbs, text),
			    "timeout=18,traffic_class=104");
	assert_string_equal(inc_verbs_conf_text(&topo[1]->switches[0].ports[1].verbs, text),
			    "none");
	assert_string_equal(inc_verbs_conf_text(&topo[2]->switches[0].ports[0].verbs, text),
			    "timeout=18,sl=3,traffic_class=40");
	assert_string_equal(inc_verbs_conf_text(&topo[2]->switches[0].ports[1].verbs, text),
			    "timeout=18,sl=2,traffic_class=40");
	inc_topology_compare(topo[0], topo[1], count_change, changed);
	assert_string_equal(changed, "port p1 of s0 had verbs timeout=18,traffic_class=104 and has "
				     "now none");
	changed[0] = '\0';
	inc_topology_compare(topo[1], topo[1], count_change, changed);
	assert_string_equal(changed, "");
	inc_topology_free(topo[0]);
	inc_topology_free(topo[1]);
	inc_topology_free(topo[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(topology_errors),         cmocka_unit_test(topology_ipv6),
		cmocka_unit_test(topology_links),          cmocka_unit_test(topology_bridge),
		cmocka_unit_test(topology_rails),          cmocka_unit_test(topology_subnet),
		cmocka_unit_test(topology_shared_network), cmocka_unit_test(topology_verbs),
		cmocka_unit_test(topology_verbs_bounds),
	};

	return cmocka_run_group_tests_name("topology", tests, NULL, NULL) ? 1 : 0;
}

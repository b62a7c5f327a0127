/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel says of a network interface. */
#ifndef INC_INTERFACE_H
#define INC_INTERFACE_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include <netinet/in.h>
#include "lib/metric/metric.h"

struct ifaddrs;

#define INC_INTERFACE_FIGURES(_, T)                                            \
	_(T, rx_packets, "packets", COUNTER, "packets that the port received") \
	_(T, rx_bytes, "bytes", COUNTER, "bytes that the port received")       \
	_(T, tx_packets, "packets", COUNTER, "packets that the port sent")     \
	_(T, tx_bytes, "bytes", COUNTER, "bytes that the port sent")

struct inc_interface_stats {
	INC_INTERFACE_FIGURES(INC_METRIC_FIELD, inc_interface_stats)
};

/* All 0 where there is no such interface in the network namespace of this thread. */
void inc_interface_read_stats(const char *ifname, struct inc_interface_stats *out);

/* Name, IPv4 address ("" for none), MAC address and MTU, as in "hello"; the last two "" and 0 where
 * no entry of addrs, which are all there are, is the interface's. */
json_t *inc_interface_json(const char *ifname, const struct ifaddrs *addrs);

/* Logs what keeps hosts from reaching a port: it is down, or has no carrier. */
void inc_interface_warn_down(const char *ifname);
/* 0 where the interface's MTU cannot be read. */
unsigned int inc_interface_mtu(const char *ifname);
struct inc_interface_place {
	unsigned int ifindex;
	unsigned int master; /* of the bridge, bond or team that it is a member of; 0: of none */
};
/* Asks the kernel by netlink, which loads no module for a name that is missing. 0; -ENODEV: no
 * interface of this network namespace has the name; another -errno: the kernel did not answer. */
int inc_interface_find(const char *ifname, struct inc_interface_place *out);
/* The same for the interface that has a number. */
int inc_interface_at(unsigned int ifindex, struct inc_interface_place *out);
/* Whether any interface has the address; true where that cannot be read. */
bool inc_interface_has(struct in_addr ip);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties of a switch's ports that the switch reports, read from the kernel. */
#ifndef INC_SWITCH_INTERFACE_H
#define INC_SWITCH_INTERFACE_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include "lib/base/addr.h"
#include "lib/metric/metric.h"
#include "lib/net/netdev.h"

struct ifaddrs;

#define INC_INTERFACE_FIGURES(_, T)                                            \
	_(T, rx_packets, "packets", COUNTER, "packets that the port received") \
	_(T, rx_bytes, "bytes", COUNTER, "bytes that the port received")       \
	_(T, tx_packets, "packets", COUNTER, "packets that the port sent")     \
	_(T, tx_bytes, "bytes", COUNTER, "bytes that the port sent")

struct inc_interface_stats {
	INC_INTERFACE_FIGURES(INC_METRIC_FIELD, inc_interface_stats)
};

/* Reads the interface's counters. Sets all to 0 if this thread's network namespace has no such
 * interface. */
void inc_interface_read_stats(const char *ifname, struct inc_interface_stats *out);

/* Returns a JSON object that describes an interface as in "hello": name, first address ("" for
 * none), MAC address, MTU and all addresses. addrs: the list of getifaddrs(). If it lacks the
 * interface, the MAC address is "" and the MTU 0. */
json_t *inc_interface_json(const char *ifname, const struct ifaddrs *addrs);
/* Returns how many bits of the interface's first IPv4 address name its network; 0: it has no
 * address. addrs: the list of getifaddrs(). */
unsigned int inc_interface_prefix(const char *ifname, const struct ifaddrs *addrs);

/* Returns the interface's first IPv4 address, otherwise its first IPv6 address that is not
 * link-local; zeros: it has none. addrs: the list of getifaddrs() */
struct inc_addr inc_interface_first_address(const char *ifname, const struct ifaddrs *addrs);

/* Writes the name of the interface's driver to out, or "" if it is not known. */
#define INC_INTERFACE_DRIVER 32
void inc_interface_driver(const char *ifname, char out[INC_INTERFACE_DRIVER]);

/* Returns the speed of the interface's link in Mbit/s, or 0 if it is not known. */
unsigned int inc_interface_speed_mbit(const char *ifname);

/* Logs a warning if hosts cannot reach the port, because it is down or has no carrier. */
void inc_interface_warn_down(const char *ifname);
/* Reads all addresses of this machine into *out, which the caller frees. Returns their number,
 * or -errno. */
int inc_interface_addresses(struct inc_addr **out);

#endif

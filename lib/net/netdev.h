/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties of a network interface of this thread's network namespace, read from the kernel. Any
 * thread may call the functions. */
#ifndef INC_INTERFACE_H
#define INC_INTERFACE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the MTU of the interface, or 0 if it cannot be read. */
unsigned int inc_interface_mtu(const char *ifname);
/* Reads the flags (IFF_*) of the interface. Returns 0, or -1 if there is no such interface. */
int inc_interface_flags(const char *ifname, unsigned int *flags);
struct inc_interface_place {
	unsigned int ifindex;
	/* index of the bridge, bond or team that the interface belongs to; 0: none */
	unsigned int master;
	bool has_xdp; /* an XDP program is attached */
};
/* Finds an interface by name. Asks the kernel by netlink, because an ioctl() makes it load a module
 * for a missing name. Returns -ENODEV if no interface of this network namespace has the name, or
 * another -errno if the kernel did not answer. */
int inc_interface_find(const char *ifname, struct inc_interface_place *out);
/* Does the same as inc_interface_find(), for the interface with this index. */
int inc_interface_at(unsigned int ifindex, struct inc_interface_place *out);
/* Reads the MAC address of the interface with this index. Returns -ENODEV if it is no Ethernet
 * interface, or another -errno. */
int inc_interface_mac(unsigned int ifindex, uint8_t mac[6]);
/* Asks the interface's driver. question is a struct of linux/ethtool.h, whose first member is the
 * command, and receives the answer. Returns 0, or -1 if there is no such interface, or its driver
 * does not answer. */
int inc_interface_ask_driver(const char *ifname, void *question);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties of a network interface of this thread's network namespace, read from the kernel. Any
 * thread. */
#ifndef INC_INTERFACE_H
#define INC_INTERFACE_H

/* Returns 0 if the interface's MTU cannot be read. */
unsigned int inc_interface_mtu(const char *ifname);
/* Reads the flags (IFF_*). Returns 0, or -1 if there is no such interface. */
int inc_interface_flags(const char *ifname, unsigned int *flags);
struct inc_interface_place {
	unsigned int ifindex;
	unsigned int master; /* index of the bridge, bond or team that it belongs to; 0: none */
};
/* Finds an interface by name. Asks the kernel by netlink, because an ioctl() makes it load a module
 * for a missing name. Returns -ENODEV if no interface of this network namespace has the name, or
 * another -errno if the kernel did not answer. */
int inc_interface_find(const char *ifname, struct inc_interface_place *out);
/* The same for the interface with this index. */
int inc_interface_at(unsigned int ifindex, struct inc_interface_place *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties of a network interface of this thread's network namespace, read from the kernel, and
 * the frames by which interfaces introduce themselves to each other (LLDP). Any thread may call the
 * functions. */
#ifndef INC_INTERFACE_H
#define INC_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <net/if.h>
#include <netinet/in.h>
#include "lib/base/addr.h"
#include "lib/base/err.h"

/* Checks whether a text can name an interface, by its form alone. Returns 0, or -EINVAL and a
 * sentence that quotes the text, as option tables need it (lib/base/opt.h). */
int inc_ifname_check(const char *text, struct inc_err *err);

/* Finds the interface that has the address. Returns 0; -EADDRNOTAVAIL if none has it; or another
 * -errno. */
int inc_interface_with(struct inc_addr addr, char name[IF_NAMESIZE]);
/* Returns the MTU of the interface, or 0 if it cannot be read. */
unsigned int inc_interface_mtu(const char *ifname);
/* Reads the flags (IFF_*) of the interface. Returns 0, or -1 if there is no such interface. */
int inc_interface_flags(const char *ifname, unsigned int *flags);
struct inc_interface_place {
	unsigned int ifindex;
	/* index of the bridge, bond or team that the interface belongs to; 0: none */
	unsigned int master;
	bool has_xdp;    /* an XDP program is attached */
	uint32_t xdp_id; /* id of that program; 0: none */
	bool is_vlan;    /* it is a VLAN device; the next three fields are of such devices */
	uint16_t vlan;   /* its VLAN */
	/* index of the interface below it, whose frames of this VLAN it receives; 0: that one is in
	 * another network namespace */
	unsigned int below;
	bool service_tag; /* its frames have the tag of IEEE 802.1ad */
};
/* Finds an interface by name. Asks the kernel by netlink, because an ioctl() makes it load a module
 * for a missing name. Returns -ENODEV if no interface of this network namespace has the name, or
 * another -errno if the kernel did not answer. */
int inc_interface_find(const char *ifname, struct inc_interface_place *out);
/* Does the same as inc_interface_find(), for the interface with this index. */
int inc_interface_at(unsigned int ifindex, struct inc_interface_place *out);
/* Finds the name of the interface that has the driver: the interface itself, or that below a VLAN
 * device. Returns 0 or -errno. */
int inc_interface_device(const char *ifname, char device[IF_NAMESIZE]);
/* Reads the MAC address of the interface with this index. Returns -ENODEV if it is no Ethernet
 * interface, or another -errno. */
int inc_interface_mac(unsigned int ifindex, uint8_t mac[6]);
/* Asks the interface's driver. question is a struct of linux/ethtool.h, whose first member is the
 * command, and receives the answer. Returns 0, or -1 if there is no such interface, or its driver
 * does not answer. */
int inc_interface_ask_driver(const char *ifname, void *question);

/* ---- LLDP (IEEE 802.1AB): neighbours on a cable introduce themselves ---- */

#define INC_LLDP_ETHERTYPE 0x88cc
#define INC_LLDP_TEXT      64 /* room for a name, with the final 0 */
/* Room for a frame of inc_lldp_write(): headers, three TLVs with a text each, and the fixed ones.
 */
#define INC_LLDP_FRAME_BYTES (14 + 3 * (INC_LLDP_TEXT + 3) + 4 + 2)
#define INC_LLDP_FRAME_MIN   60 /* least length of an Ethernet frame without its checksum */

/* The sender of a frame, as it describes itself. Frames come from strangers, so the texts are made
 * printable ASCII. */
struct inc_lldp {
	char chassis[INC_LLDP_TEXT]; /* identifies the sender */
	char port[INC_LLDP_TEXT];    /* identifies the sender's port */
	char name[INC_LLDP_TEXT];    /* the sender's name; "": it has none */
	uint16_t ttl_s;              /* how long that is valid; 0: no longer */
	bool has_address;
	struct in_addr address; /* an address for management */
};

/* Reads the bytes behind the Ethernet header of a frame. Returns 0, or -EBADMSG for a frame that
 * the standard forbids. */
int inc_lldp_parse(const uint8_t *at, size_t len, struct inc_lldp *out);
/* Writes a frame, with its Ethernet header, that introduces a port of a sender with this name.
 * Returns the frame's length. */
size_t inc_lldp_write(uint8_t at[INC_LLDP_FRAME_BYTES], const uint8_t mac[6], const char *name,
		      const char *port, uint16_t ttl_s);

#endif

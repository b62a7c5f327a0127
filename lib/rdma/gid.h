/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds a GID of a port. Its index must be looked up each time, because it depends on the order in
 * which addresses were added, and changes when addresses are removed. No device is accessed,
 * because this searches a description (info.h).
 */
#ifndef INC_RDMA_GID_H
#define INC_RDMA_GID_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include "lib/rdma/info.h"

/* size of a text such as "::ffff:10.0.0.1", with the final 0 */
#define INC_RDMA_GID_TEXT_SIZE INET6_ADDRSTRLEN

/* The properties that a GID must have to be found. A member that is zero (the index: below 0)
 * demands nothing. */
struct inc_rdma_gid_wish {
	/* the GID must have this type, which is compared even if it is 0 */
	enum inc_rdma_gid_type type;
	const uint8_t *raw; /* the GID must equal these 16 bytes */
	/* the GID must be an address of this interface in our network namespace */
	const char *own_ifname;
	/* the GID must be neither zero nor link-local, and belong to an interface of ours */
	bool global;
	int index; /* the GID must be at this index of the port's table */
};

/*
 * Finds the port's first GID that has the properties in wish. Returns NULL if there is none. It
 * skips a GID if its interface is not the interface of our network namespace that has the address,
 * because packets from it would leave by an interface of another namespace. The result is part of
 * the port's description.
 */
const struct inc_rdma_gid *inc_rdma_gid_find(const struct inc_rdma_port_info *port,
					     const struct inc_rdma_gid_wish *wish);

/* Makes the GID of an IPv4 address in network order: ::ffff:a.b.c.d. */
void inc_rdma_gid_of_ipv4(uint32_t addr, uint8_t raw[16]);
/* Prints a GID as an IPv6 address; returns buf. */
const char *inc_rdma_gid_print(const uint8_t raw[16], char buf[INC_RDMA_GID_TEXT_SIZE]);
/* Reads a GID from such a text. Returns 0, or -EINVAL if the text is no IPv6 address. */
int inc_rdma_gid_parse(const char *text, uint8_t raw[16]);

#endif

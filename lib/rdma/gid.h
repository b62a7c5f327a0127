/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which GID of a port. Its index is looked up, never assumed: it depends on the order in which
 * addresses came, and moves when they go. Pure: descriptions in, one of their entries out.
 */
#ifndef INC_RDMA_GID_H
#define INC_RDMA_GID_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include "lib/rdma/info.h"

#define INC_RDMA_GID_TEXT_SIZE INET6_ADDRSTRLEN /* "::ffff:10.0.0.1" */

/* What is asked of a GID; what is zero (index: below 0) is not asked. */
struct inc_rdma_gid_wish {
	enum inc_rdma_gid_type type; /* always asked */
	const uint8_t *raw;          /* this address, 16 bytes */
	const char *own_ifname;      /* of this interface of our network namespace */
	bool global;                 /* neither zero nor link-local, of an interface of ours */
	int index;                   /* at this place of the table */
};

/*
 * The first of the port's GIDs that is as wished; NULL where none is. One whose interface is not
 * that of our network namespace which has the address is passed over: what is sent from it
 * would leave by another namespace's interface. The answer is part of the port's description.
 */
const struct inc_rdma_gid *inc_rdma_gid_find(const struct inc_rdma_port_info *port,
					     const struct inc_rdma_gid_wish *wish);

/* The GID of an IPv4 address in network order: ::ffff:a.b.c.d. */
void inc_rdma_gid_of_ipv4(uint32_t addr, uint8_t raw[16]);
/* As an IPv6 address; returns buf. */
const char *inc_rdma_gid_print(const uint8_t raw[16], char buf[INC_RDMA_GID_TEXT_SIZE]);
/* The reverse: 0, or -EINVAL where the text is no IPv6 address. */
int inc_rdma_gid_parse(const char *text, uint8_t raw[16]);

#endif

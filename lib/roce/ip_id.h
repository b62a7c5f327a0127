/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The IP IDs that a receiver tries for a packet. The ICRC covers the ID, but a UDP socket does not
 * show it. The kernel numbers the packets of a send that it segments (UDP_SEGMENT) 0, 1, 2, ...,
 * and gives a single packet the ID 0. XDP switches give the ID 0 to all packets. So a packet has
 * the ID 0, or the ID after that of the packet before it, and only these two of 2^32 CRCs are
 * accepted. A packet behind a gap, or a repeated one, is rejected. But its CRC shows its position
 * in its send, so that the packets behind it are accepted. These show the gap, and no other packet
 * of the send is lost.
 *
 * An RDMA device may choose any ID. With such a peer the difference of the CRCs must be one that
 * some ID makes (the CRC is linear), so 16 of its 32 bits still check the packet.
 *
 * Each connection has one such struct, which the connection's receiver uses.
 */
#ifndef INC_ROCE_IP_ID_H
#define INC_ROCE_IP_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/roce/wire.h"

/* The number of packet sizes that are usual at the same time: full packets, the last of a
 * message, ACKs. */
#define INC_IP_ID_SIZES 4

/* The changes that IDs can make to the CRC of packets of one size: all XOR sums of the basis. */
struct inc_ip_id_span {
	size_t size;
	/* changes of the CRC, each with a highest bit that all later ones lack; 0: end of the
	 * basis */
	uint32_t basis[16];
	uint16_t id[16]; /* ID that makes each change in basis */
};

struct inc_ip_ids {
	uint16_t next; /* the ID that follows the ID of the last packet */
	/* Which guess was right the last time, for the first packet of a datagram and for the
	 * others. true: the next ID; false: 0. The receiver tries this guess first. */
	bool counts[2];
	/* changes for [INC_IP_ID_SIZES] sizes if the peer is an RDMA device; NULL: any other
	 * peer */
	struct inc_ip_id_span *span;
	unsigned int next_span;
	struct inc_ip_id_span gap; /* changes for rejected packets of a peer that is no device */
	struct inc_icrc_usual usual;
};

/* Initializes the struct. any: the peer is an RDMA device, so any ID is possible. Returns 0 or
 * -ENOMEM. */
int inc_ip_ids_init(struct inc_ip_ids *ids, bool any);
void inc_ip_ids_free(struct inc_ip_ids *ids);
/* Makes the check of full packets on this path quicker. It changes nothing if the peer is a device,
 * because that chooses a source port for each connection. */
void inc_ip_ids_expect(struct inc_ip_ids *ids, const struct inc_roce_path *path, size_t payload);

/* Whether the ICRC of a packet is right. The UDP payload is data, with a size of at least
 * INC_BTH_LEN + INC_ICRC_LEN. The flag first marks the first packet of a datagram, which GRO may
 * have made of many packets. The path has the addresses and ports of the packet as it was sent.
 * The packet's payload is copied as `copy` describes, even if the ICRC is wrong. */
bool inc_ip_ids_check(struct inc_ip_ids *ids, const struct inc_roce_path *path, bool first,
		      const uint8_t *data, size_t size, const struct inc_payload_copy *copy);

#endif

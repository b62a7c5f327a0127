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
 * An IPv6 packet has no ID, so only one CRC is accepted.
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

/* The number of packet sizes that are stored at the same time: full packets, the last packets of
 * messages, and ACKs are usual. */
#define INC_IP_ID_SIZES 4

/* All changes that IP IDs can make to the CRC of packets of one size. Each is an XOR sum of
 * elements of the basis. */
struct inc_ip_id_span {
	size_t size;
	/* changes of the CRC, each with a highest bit that all later ones lack; 0: end of the
	 * basis */
	uint32_t basis[16];
	uint16_t id[16]; /* id[i]: the ID that makes the change basis[i] */
};

struct inc_ip_ids {
	bool any;      /* the peer is an RDMA device */
	bool none;     /* the packets are of IPv6, and have no ID */
	uint16_t next; /* the ID after that of the last packet, which the next packet may have */
	/* Whether the packet had the ID `next` (true) or 0 (false) the last time, because this
	 * guess is tried first. [1] is for the first packet of a datagram, [0] for the others. */
	bool counts[2];
	/* the changes for the last INC_IP_ID_SIZES packet sizes, if the peer is an RDMA device that
	 * sends IPv4; otherwise NULL */
	struct inc_ip_id_span *span;
	unsigned int next_span;
	/* the changes by which the ID of a rejected packet is found, if the peer is no RDMA
	 * device */
	struct inc_ip_id_span gap;
	struct inc_icrc_usual usual;
};

/* Initializes the state for one connection. path: that of the peer's packets. any: the peer is an
 * RDMA device, so its IPv4 packets may have any ID. Returns 0 or -ENOMEM. */
int inc_ip_ids_init(struct inc_ip_ids *ids, const struct inc_udp_path *path, bool any);
void inc_ip_ids_free(struct inc_ip_ids *ids);
/* Makes the check of full packets on this path quicker. It changes nothing if the peer is a device,
 * because that chooses a source port for each connection. */
void inc_ip_ids_expect(struct inc_ip_ids *ids, const struct inc_udp_path *path, size_t payload);

/* Whether the ICRC of a packet is right. The UDP payload is data, with a size of at least
 * INC_BTH_LEN + INC_ICRC_LEN. The flag first marks the first packet of a datagram, which GRO may
 * have made of many packets. The path has the addresses and ports of the packet as it was sent.
 * The packet's payload is copied as `copy` describes, even if the ICRC is wrong. */
bool inc_ip_ids_check(struct inc_ip_ids *ids, const struct inc_udp_path *path, bool first,
		      const uint8_t *data, size_t size, const struct inc_payload_copy *copy);

#endif

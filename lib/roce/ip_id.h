/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which IP IDs a receiver believes that has none before it: the ICRC covers the ID, a UDP socket
 * does not show it. A kernel numbers the packets of a send that it cuts (UDP_SEGMENT) 0, 1, 2, ...,
 * and gives a packet alone the ID 0; so do XDP switches with all of theirs. So a packet has the ID
 * 0, or the one after that of the packet before it, and nothing else is accepted: two values of
 * 2^32. One behind a gap, or one that comes twice, is not accepted, but shows where its send is, so
 * that those behind it are: they tell of the gap, and nothing else of the send is lost. An RDMA
 * device counts as it likes; with such a peer the CRC's difference must be one that some ID makes
 * (it is linear), and 16 of its 32 bits still check.
 *
 * One for each connection, in its receiver's hands.
 */
#ifndef INC_ROCE_IP_ID_H
#define INC_ROCE_IP_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/roce/wire.h"

/* Packets of so many sizes are there at once, mostly: full ones, the last of a message, ACKs. */
#define INC_IP_ID_SIZES 4

/* What IDs can make of the CRC of packets of one size: all sums of these. */
struct inc_ip_id_span {
	size_t size;
	uint32_t basis[16]; /* each has a bit, its highest, that those after it lack; 0: no more */
	uint16_t id[16];    /* that makes it */
};

struct inc_ip_ids {
	uint16_t next; /* the ID after that of the last packet */
	/* The guess that came true the last time, for the first packet of a datagram and for the
	 * others: the next ID, or else 0. It is tried first. */
	bool counts[2];
	struct inc_ip_id_span *span; /* [INC_IP_ID_SIZES] of a device; NULL: any other peer */
	unsigned int next_span;
	struct inc_ip_id_span gap; /* of a peer that is no device, for what is not believed */
	struct inc_icrc_usual usual;
};

/* any: the peer is an RDMA device. -ENOMEM. */
int inc_ip_ids_init(struct inc_ip_ids *ids, bool any);
void inc_ip_ids_free(struct inc_ip_ids *ids);
/* Makes the check of full packets quicker, on the path that will be named; not a device's. */
void inc_ip_ids_expect(struct inc_ip_ids *ids, const struct inc_roce_path *path, size_t payload);

/* Whether the ICRC of a packet is good. data, size: the UDP payload, of INC_BTH_LEN + INC_ICRC_LEN
 * at least; first: of a datagram, which GRO may have put together of many packets. path: as the
 * packet went. */
bool inc_ip_ids_check(struct inc_ip_ids *ids, const struct inc_roce_path *path, bool first,
		      const uint8_t *data, size_t size);

#endif

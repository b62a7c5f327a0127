/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of the slow path: results and partial sums sent again, ACKs and NAKs, and what peers
 * answer. They are built as the XDP path builds them (docs/protocol.md, "Headers of results").
 */
#ifndef INC_PACKET_H
#define INC_PACKET_H

#include <stddef.h>
#include <stdint.h>
#include "lib/proto/peer_frame.h"
#include "lib/proto/maps.h"

#define INC_FRAME_MAX (INC_ETH_LEN + INC_MAX_OVERHEAD + INC_MAX_PAYLOAD)

/* Both return the frame's length; frame has room for INC_FRAME_MAX. peer: where it goes. len:
 * payload bytes. */
size_t inc_frame_result(uint8_t *frame, const struct inc_conn_cfg *cfg, union inc_mac peer,
			const struct inc_mirror *m, uint32_t psn, const void *payload, size_t len);
size_t inc_frame_ack(uint8_t *frame, const struct inc_conn_cfg *cfg, union inc_mac peer,
		     uint8_t syndrome, uint32_t psn, uint32_t msn);

/* An ACK or NAK of a peer. */
struct inc_aeth_frame {
	struct inc_conn_key key;
	uint32_t psn;
	uint8_t syndrome;
};

/* 0, or -EBADMSG for what is not a whole ACK packet over plain IPv4. */
int inc_frame_parse_aeth(const uint8_t *frame, size_t size, struct inc_aeth_frame *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of the slow path. These functions build retransmitted results and partial sums, ACKs and
 * NAKs, and parse ACKs and NAKs of peers. They build frames as the XDP path builds them
 * (docs/protocol.md, "Headers of results").
 */
#ifndef INC_PACKET_H
#define INC_PACKET_H

#include <stddef.h>
#include <stdint.h>
#include "lib/proto/peer_frame.h"
#include "lib/proto/maps.h"

#define INC_FRAME_MAX (INC_ETH_LEN + INC_TAG_LEN + INC_MAX_OVERHEAD + INC_MAX_PAYLOAD)

/* These two functions build a frame with a result or partial sum, or with an ACK or NAK, and return
 * its length. The buffer frame has room for INC_FRAME_MAX. The MAC address peer is that to which
 * the frame is sent, tos is the TOS byte, and len is the length of the payload. */
size_t inc_frame_result(uint8_t *frame, const struct inc_conn_cfg *cfg, union inc_mac peer,
			uint8_t tos, const struct inc_mirror *m, uint32_t psn, const void *payload,
			size_t len);
size_t inc_frame_ack(uint8_t *frame, const struct inc_conn_cfg *cfg, union inc_mac peer,
		     uint8_t tos, uint8_t syndrome, uint32_t psn, uint32_t msn);

/* Adds a tag (lib/proto/frame.h) to a frame of len bytes, unless it is 0. Returns the new length.
 */
size_t inc_frame_tag(uint8_t *frame, size_t len, uint16_t tag);

/* The fields of a received ACK or NAK. */
struct inc_aeth_frame {
	struct inc_conn_key key;
	uint32_t psn;
	uint32_t msn;
	uint8_t syndrome;
};

/* Parses an ACK or NAK. Returns 0, or -EBADMSG if the frame is not a complete ACK packet over IPv4
 * without options. */
int inc_frame_parse_aeth(const uint8_t *frame, size_t size, struct inc_aeth_frame *out);

#endif

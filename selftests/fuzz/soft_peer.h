/* SPDX-License-Identifier: BSD-2-Clause */
/* The fuzz targets of soft endpoints use these functions. Each does what the next bytes of an input
 * describe. */
#ifndef FUZZ_SOFT_PEER_H
#define FUZZ_SOFT_PEER_H

#include <stdint.h>
#include "lib/base/clock.h"
#include "selftests/fakes/memory_os.h"
#include "selftests/fakes/rc_peer.h"
#include "selftests/fuzz/fuzz.h"

/* Sends an ACK packet of any kind for a packet near start_psn. */
static inline void fuzz_send_ack(struct rc_peer *peer, struct fuzz_bytes *bytes, uint32_t start_psn)
{
	const uint32_t aeth = fuzz_take32(bytes);

	rc_peer_send(peer,
		     &(struct rc_packet){.opcode = INC_OP_ACK,
					 .psn = start_psn + (uint32_t)(int8_t)fuzz_take8(bytes),
					 .imm = aeth});
}

/* Sends a datagram of any bytes. */
static inline void fuzz_send_garbage(struct rc_peer *peer, struct fuzz_bytes *bytes)
{
	size_t n = fuzz_take8(bytes);

	if (n > bytes->size)
		n = bytes->size;
	rc_peer_send_bytes(peer, bytes->data, n);
	bytes->data += n;
	bytes->size -= n;
}

static inline void fuzz_pass_time(struct fuzz_bytes *bytes)
{
	memory_os_pass_ns((uint64_t)fuzz_take8(bytes) * INC_NSEC_PER_MSEC);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Until hostlib/nccl/protocol.c is there. */
#include <arpa/inet.h>
#include <endian.h>
#include "hostlib/nccl/protocol.h"

void ha_slot_encode(const struct ha_slot *slot, struct ha_slot_wire *wire)
{
	*wire = (struct ha_slot_wire){
		.address = htobe64(slot->address),
		.rkey = htonl(slot->rkey),
		.bytes = htonl(slot->bytes),
		.tag = htonl(slot->tag),
		.epoch = htonl(slot->epoch),
		.index = slot->index,
		.slots = slot->slots,
		.sequence = htonl(slot->sequence),
	};
}

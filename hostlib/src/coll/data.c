/* SPDX-License-Identifier: BSD-2-Clause */
/* The passes over the caller's data before a collective and after it: copies and byte order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"

#define SWAP(bits)                                                         \
	static void swap##bits(void *to, const void *from, uint64_t bytes) \
	{                                                                  \
		const uint##bits##_t *in = from;                           \
		uint##bits##_t *out = to;                                  \
                                                                           \
		for (uint64_t i = 0; i < bytes / sizeof(*out); i++)        \
			out[i] = __builtin_bswap##bits(in[i]);             \
	}

SWAP(16)
SWAP(32)
SWAP(64)

/* From one byte order into the other; to may be from. */
static void swap_elements(void *to, const void *from, uint64_t bytes, size_t element_bytes)
{
	switch (element_bytes) {
	case 8:
		swap64(to, from, bytes);
		break;
	case 4:
		swap32(to, from, bytes);
		break;
	case 2:
		swap16(to, from, bytes);
		break;
	default:
		if (to != from)
			memcpy(to, from, bytes);
	}
}

int inccl_data_prepare(struct inccl_request *req, const struct inccl_plan *plan, bool foreign)
{
	const struct inccl_shape *shape = &plan->shape;
	uint8_t *place = req->recv;

	req->element_bytes = plan->element_bytes;
	req->foreign = foreign;
	if (!req->send_bytes || !(shape->copied || foreign))
		return 0;
	if (shape->recv_blocks > 1) {
		place += shape->own_block * plan->block_bytes;
	} else if (shape->recv_blocks < shape->send_blocks) {
		/* recv, which is ours until the end, does not hold it */
		place = req->scratch = malloc(req->send_bytes);
		if (!place)
			return -ENOMEM;
	}
	if (foreign)
		swap_elements(place, req->send, req->send_bytes, plan->element_bytes);
	else if (place != req->send)
		memcpy(place, req->send, req->send_bytes);
	req->send = place;
	return 0;
}

void inccl_data_finish(struct inccl_request *req)
{
	if (req->foreign)
		swap_elements(req->recv, req->recv, req->recv_bytes, req->element_bytes);
}

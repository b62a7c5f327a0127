/* SPDX-License-Identifier: BSD-2-Clause */
/* Work on the caller's buffers before and after a collective: copies this rank's own block to its
 * place in recv, and divides the result of AVG, which the switches only add up. */
#include <string.h>
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"
#include "lib/reduce/operate.h"

void inccl_data_prepare(struct inccl_request *req, const struct inccl_plan *plan)
{
	const struct inccl_shape *shape = &plan->shape;
	uint8_t *place = req->recv;

	req->element_bytes = plan->element_bytes;
	req->divisor = plan->call->op == INCCL_AVG ? req->comm->group->world_size : 0;
	if (!req->send_bytes || !shape->copied)
		return;
	if (shape->recv_blocks > 1)
		place += shape->own_block * plan->block_bytes;
	if (place != req->send)
		memcpy(place, req->send, req->send_bytes);
	req->send = place;
}

void inccl_data_finish(struct inccl_request *req)
{
	const enum inc_dtype dtype = INC_DESC_DTYPE(req->desc);
	size_t count;

	if (!req->divisor)
		return;
	count = req->recv_bytes / req->element_bytes;
	if (inccl_is_float((enum inccl_dtype)dtype))
		inc_float_divide((enum inc_float)(dtype - INC_DTYPE_FLOAT32), req->recv, req->recv,
				 count, req->divisor);
	else
		inc_reduce_divide(dtype, req->recv, req->recv, count, req->divisor);
}

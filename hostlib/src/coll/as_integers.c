/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floats that are reduced: a request of theirs goes over the wire as integers (docs/floats.md,
 * lib/reduce/floats.h). MIN and MAX are one collective, whose elements are turned into integers of
 * their order message by message as they are posted. SUM and AVG are up to three, one after the
 * other:
 *
 *	agreeing	MAX of uint8: the parameters, which must be the same everywhere, and the
 *			blocks' heads
 *	kinds		OR of uint8, one an element; only where a head says that some are special
 *	elements	SUM of int32, one an element
 *
 * All have the sequence number of the request. What comes next is known to each rank from the
 * same result, and nothing of a later request is posted before the last one's last message: so
 * the order of everything on the wire follows from the calls alone, whenever they are made. In one
 * pass, with an exponent of the caller's, there are no heads, and the elements do not wait.
 *
 * Called by collective.c in the caller's thread, and by progress.c under the communicator's lock.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/reduce/floats.h"
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"

/* Elements whose range is looked at in one go. */
#define LOOK 1024

enum phase {
	AGREEING,
	KINDS,
	ELEMENTS,
};

/* The MAX of both halves over all ranks is still each other's inverse where, and only where, all
 * ranks have said the same. */
struct parameters {
	struct said {
		uint8_t type;
		uint8_t op;
		uint8_t scaled;
		uint8_t exponent; /* above INC_FIXED_MIN_EXPONENT */
		uint8_t block[4];
	} said;
	uint8_t inverse[sizeof(struct said)];
};

struct inccl_floats {
	struct inccl_call call; /* the caller's */
	struct inccl_shape shape;
	enum inc_float type;
	bool ordered; /* MIN, MAX: else fixed point */
	bool scaled;  /* in one pass, with this: */
	int exponent;
	struct inc_fixed fixed;
	enum phase phase;
	uint64_t filled; /* messages of the phase that have their integers */
	size_t count;    /* elements that this rank gives */
	/* Of its own memory, all that is not the elements: */
	struct parameters *parameters;
	struct inc_fixed_head *heads;
	size_t blocks;  /* of them; 0 where scaled */
	uint8_t *kinds; /* NULL where scaled */
	size_t own_bytes;
	struct inccl_region own_map;
	bool own_mapped;
	bool special; /* a head says so */
	/* The elements as they go over the wire, of this length each, and what comes of them. */
	size_t wire_bytes;
	uint8_t *integers;
	uint8_t *sums; /* NULL: this rank gets none */
	const struct inccl_region *integers_region;
};

bool inccl_floats_are_reduced(const struct inccl_call *call)
{
	return inccl_is_float(call->dtype) &&
	       (call->collective == INCCL_ALLREDUCE || call->collective == INCCL_REDUCE ||
		call->collective == INCCL_REDUCE_SCATTER);
}

/* The collective that comes next on the wire. */
static void cut(struct inccl_request *req, const struct inccl_call *wire,
		const struct inccl_shape *shape)
{
	const size_t size = inccl_dtype_size(wire->dtype);
	const uint64_t bytes = wire->count * size;
	const struct inccl_plan plan = {
		.call = wire,
		.shape = *shape,
		.element_bytes = size,
		.block_bytes = bytes,
		.send_bytes = shape->send_blocks * bytes,
		.recv_bytes = shape->recv_blocks * bytes,
	};

	inccl_cut_request(req, &plan);
	req->posted = 0;
	req->floats->filled = 0;
}

static void begin_agreeing(struct inccl_request *req)
{
	static const struct inccl_shape whole = {.blocks = 1, .send_blocks = 1, .recv_blocks = 1};
	struct inccl_floats *f = req->floats;
	const struct inccl_call wire = {
		.collective = INCCL_ALLREDUCE,
		.send = f->parameters,
		.recv = f->parameters,
		.count = sizeof(*f->parameters) + f->blocks * INC_FIXED_HEAD_BYTES,
		.dtype = INCCL_UINT8,
		.op = INCCL_MAX,
	};

	f->phase = AGREEING;
	cut(req, &wire, &whole);
	req->send_region = req->recv_region = &f->own_map;
}

/* Where this rank's block is in a vector of all that it gives. */
static size_t own_first(const struct inccl_floats *f)
{
	return f->shape.send_blocks > 1 ? f->shape.own_block * f->call.count : 0;
}

static void begin_kinds(struct inccl_request *req)
{
	struct inccl_floats *f = req->floats;
	struct inccl_call wire = f->call;

	wire.send = f->kinds;
	wire.recv = f->kinds + own_first(f);
	wire.dtype = INCCL_UINT8;
	wire.op = INCCL_OR;
	f->phase = KINDS;
	cut(req, &wire, &f->shape);
	req->send_region = req->recv_region = &f->own_map;
}

static void begin_elements(struct inccl_request *req)
{
	struct inccl_floats *f = req->floats;
	struct inccl_call wire = f->call;

	wire.send = f->integers;
	wire.recv = f->sums;
	if (!f->ordered) {
		wire.dtype = INCCL_INT32;
		wire.op = INCCL_SUM;
	}
	f->phase = ELEMENTS;
	cut(req, &wire, &f->shape);
	req->send_region = f->integers_region;
	req->recv_region = &req->recv_map;
}

static void say_parameters(const struct inccl_floats *f)
{
	const struct said said = {
		.type = f->type,
		.op = f->call.op,
		.scaled = f->scaled,
		.exponent = f->exponent - INC_FIXED_MIN_EXPONENT,
		.block = {f->fixed.block, f->fixed.block >> 8, f->fixed.block >> 16,
			  f->fixed.block >> 24},
	};
	const uint8_t *p = (const uint8_t *)&said;

	f->parameters->said = said;
	for (size_t i = 0; i < sizeof(said); i++)
		f->parameters->inverse[i] = ~p[i];
}

/* All ranks find the same. */
static int compare_parameters(const struct inccl_floats *f, struct inc_err *err)
{
	const uint8_t *p = (const uint8_t *)&f->parameters->said;

	for (size_t i = 0; i < sizeof(f->parameters->said); i++)
		if ((p[i] ^ f->parameters->inverse[i]) != UINT8_MAX)
			return inc_err_set(err, EREMOTEIO,
					   "%s of %s: not every rank has called it with the same "
					   "type, operator, float_block and float_exponent",
					   inccl_collective_name(f->call.collective),
					   inccl_dtype_name(f->call.dtype));
	return 0;
}

static int read_opts(struct inccl_floats *f, const struct inccl_collective_opts *opts, int world,
		     struct inc_err *err)
{
	f->scaled = opts->float_exponent;
	if (f->scaled)
		f->exponent = *opts->float_exponent;
	if (f->scaled &&
	    (f->exponent < INC_FIXED_MIN_EXPONENT || f->exponent > INC_FIXED_MAX_EXPONENT))
		return inc_err_set(err, EINVAL, "float_exponent %d: want %d to %d", f->exponent,
				   INC_FIXED_MIN_EXPONENT, INC_FIXED_MAX_EXPONENT);
	return inc_fixed_init(&f->fixed, f->type, opts->float_block ?: INC_FIXED_BLOCK, world, err);
}

/* Before anything is sent, and with nothing changed. */
static int check_range(const struct inccl_floats *f, struct inc_err *err)
{
	const uint8_t *values = f->call.send;
	int32_t unused[LOOK];
	size_t first, n;
	int ret;

	for (first = 0; first < f->count; first += n) {
		n = f->count - first < LOOK ? f->count - first : LOOK;
		ret = inc_fixed_put_scaled(&f->fixed, unused,
					   values + first * inc_float_size(f->type), f->exponent,
					   first, n, err);
		if (ret)
			return ret;
	}
	return 0;
}

/* The memory that is neither the caller's nor for the elements. */
static int make_own(struct inccl_floats *f)
{
	uint8_t *own;

	f->blocks = f->scaled ? 0 : inc_fixed_blocks(&f->fixed, f->count);
	f->own_bytes = sizeof(*f->parameters) + f->blocks * INC_FIXED_HEAD_BYTES +
		       (f->scaled ? 0 : f->count);
	own = malloc(f->own_bytes);
	if (!own)
		return -ENOMEM;
	f->parameters = (struct parameters *)own;
	f->heads = (struct inc_fixed_head *)(f->parameters + 1);
	f->kinds = f->scaled ? NULL : (uint8_t *)(f->heads + f->blocks);
	say_parameters(f);
	if (!f->scaled)
		inc_fixed_heads(&f->fixed, f->heads, f->call.send, f->count);
	return 0;
}

/* Where the integers are: in recv, which is ours until the end, if it holds them. */
static int make_room(struct inccl_request *req)
{
	struct inccl_floats *f = req->floats;
	const bool fits = f->wire_bytes == inc_float_size(f->type);

	if (fits && f->shape.recv_blocks >= f->shape.send_blocks) {
		f->integers = f->sums = f->call.recv;
		return 0;
	}
	f->integers = req->scratch = malloc(f->count * f->wire_bytes);
	if (!f->integers)
		return -ENOMEM;
	if (f->shape.recv_blocks)
		f->sums = fits ? f->call.recv : f->integers + own_first(f) * f->wire_bytes;
	return 0;
}

int inccl_floats_prepare(struct inccl_request *req, const struct inccl_plan *plan,
			 const struct inccl_collective_opts *opts, bool foreign,
			 struct inc_err *err)
{
	struct inccl_floats *f = calloc(1, sizeof(*f));
	int ret = -ENOMEM;

	if (!f)
		goto no_memory;
	req->floats = f;
	req->foreign = foreign;
	f->call = *plan->call;
	f->shape = plan->shape;
	f->type = (enum inc_float)(f->call.dtype - INCCL_FLOAT32);
	f->ordered = f->call.op == INCCL_MIN || f->call.op == INCCL_MAX;
	f->count = f->shape.send_blocks * f->call.count;
	f->wire_bytes = f->ordered ? inc_float_size(f->type) : sizeof(int32_t);
	ret = f->ordered ? 0 : read_opts(f, opts, req->comm->group->world_size, err);
	if (!ret && f->scaled)
		ret = check_range(f, err);
	if (ret)
		return ret;
	if (!f->count) {
		inccl_floats_free(f); /* nothing is sent: it is like any other */
		req->floats = NULL;
		return 0;
	}
	ret = f->ordered ? 0 : make_own(f);
	if (!ret)
		ret = make_room(req);
	if (!ret)
		begin_elements(req); /* whose buffers are those that are registered */
no_memory:
	return ret ? inc_err_set(err, -ret, "no memory for %zu elements as integers",
				 plan->call->count)
		   : 0;
}

void inccl_floats_free(struct inccl_floats *f)
{
	if (f)
		free(f->parameters);
	free(f);
}

int inccl_floats_map(struct inccl_request *req)
{
	struct inccl_endpoint *ep = req->comm->ep;
	struct inccl_floats *f = req->floats;
	int ret;

	f->integers_region = req->send_region;
	if (!f->own_bytes)
		return 0;
	ret = ep->ops->map(ep, f->parameters, f->own_bytes, true, &f->own_map);
	f->own_mapped = !ret;
	return ret;
}

void inccl_floats_unmap(struct inccl_request *req)
{
	struct inccl_endpoint *ep = req->comm->ep;

	if (req->floats->own_mapped)
		ep->ops->unmap(ep, &req->floats->own_map);
}

void inccl_floats_begin(struct inccl_request *req)
{
	if (!req->floats->ordered && req->messages)
		begin_agreeing(req);
}

static int put_elements(const struct inccl_request *req, void *to, size_t first, size_t count,
			struct inc_err *err)
{
	const struct inccl_floats *f = req->floats;
	const uint8_t *values = (const uint8_t *)f->call.send + first * inc_float_size(f->type);
	int ret = 0;

	if (f->ordered)
		inc_float_to_order(f->type,
				   f->call.op == INCCL_MIN ? INC_OPERATOR_MIN : INC_OPERATOR_MAX,
				   to, values, count);
	else if (f->scaled)
		ret = inc_fixed_put_scaled(&f->fixed, to, values, f->exponent, first, count, err);
	else
		ret = inc_fixed_put(&f->fixed, to, values, f->heads, first, count, err);
	if (!ret && req->foreign)
		inccl_swap_elements(to, to, count * f->wire_bytes, f->wire_bytes);
	return ret;
}

int inccl_floats_fill(struct inccl_request *req, const struct inccl_message *msg,
		      struct inc_err *err)
{
	struct inccl_floats *f = req->floats;
	uint8_t *to = (uint8_t *)msg->send;
	size_t first;

	/* the endpoint may have had no room for it: in place, the values are gone by now */
	if (f->filled > req->posted)
		return 0;
	f->filled = req->posted + 1;
	if (f->phase == KINDS) {
		first = to - f->kinds;
		inc_fixed_kinds(&f->fixed, to,
				(const uint8_t *)f->call.send + first * inc_float_size(f->type),
				msg->send_len);
	} else if (f->phase == ELEMENTS) {
		first = (to - f->integers) / f->wire_bytes;
		return put_elements(req, to, first, msg->send_len / f->wire_bytes, err);
	}
	return 0;
}

bool inccl_floats_posted(struct inccl_request *req)
{
	struct inccl_floats *f = req->floats;

	if (f->phase == AGREEING && f->scaled)
		begin_elements(req);
	else
		return f->phase == ELEMENTS;
	return false;
}

int inccl_floats_next(struct inccl_request *req, struct inc_err *err)
{
	struct inccl_floats *f = req->floats;
	int ret = 0;

	if (!f->ordered && (f->phase == AGREEING || f->scaled))
		ret = compare_parameters(f, err);
	if (ret || f->phase == ELEMENTS)
		return ret;
	if (f->phase == AGREEING)
		f->special = inc_fixed_special(f->heads, f->blocks);
	if (f->phase == AGREEING && f->special)
		begin_kinds(req);
	else
		begin_elements(req);
	return 1;
}

void inccl_floats_finish(struct inccl_request *req)
{
	const struct inccl_floats *f = req->floats;
	const uint32_t divisor = f->call.op == INCCL_AVG ? f->fixed.world : 1;
	const size_t count = f->shape.recv_blocks * f->call.count, first = own_first(f);

	if (!f->sums)
		return;
	if (req->foreign)
		inccl_swap_elements(f->sums, f->sums, count * f->wire_bytes, f->wire_bytes);
	if (f->ordered)
		inc_float_from_order(f->type, f->call.recv, f->sums, count);
	else if (f->scaled)
		inc_fixed_get_scaled(&f->fixed, f->call.recv, f->sums, f->exponent, count, divisor);
	else
		inc_fixed_get(&f->fixed, f->call.recv, f->sums, f->heads,
			      f->special ? f->kinds + first : NULL, first, count, divisor);
}

unsigned int inccl_floats_describe(const struct inccl_request *req, char *text, size_t size)
{
	const struct inccl_floats *f = req->floats;
	size_t len;

	len = snprintf(text, size, ", for %s of %s, ", inccl_op_name(f->call.op),
		       inccl_dtype_name(f->call.dtype));
	if (f->ordered)
		snprintf(text + len, size - len, "as integers in their order");
	else if (f->scaled)
		snprintf(text + len, size - len, "in units of 2^%d, in one pass",
			 f->exponent - (int)f->fixed.bits);
	else
		snprintf(text + len, size - len,
			 "in fixed point of %u bits, an exponent for %u elements agreed on first",
			 f->fixed.bits, f->fixed.block);
	return f->ordered ? 1 : f->scaled ? 2 : 3;
}

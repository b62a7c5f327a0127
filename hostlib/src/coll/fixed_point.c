/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floats that are reduced by switches that add integers: a request of theirs goes over the wire as
 * such (docs/floats.md, lib/reduce/floats.h). MIN and MAX are one collective, of integers of the
 * floats' order. SUM and AVG are up to three:
 *
 *	agreeing	MAX of bytes: the parameters, which must be the same everywhere, and the
 *			blocks' heads
 *	kinds		OR of bytes, one an element; only where a head says that some are special
 *	elements	SUM of int32, one an element
 *
 * A message's integers are made on the stage (bounce.c) as it is posted, and floats of what has
 *come there as soon as it has. What is known beside them must not grow with the vector either, so
 *it is agreed on in sections: whole blocks of INCCL_FLOATS_PIECE elements at most, or one larger
 * block, whose kinds then come in pieces of so many. A section is agreed on before the elements of
 * the one before are posted, so that nobody waits for it:
 *
 *	agree 0, agree 1, elements 0, agree 2, elements 1, agree 3, elements 2, ...
 *
 * As results come in the order of posting, those of agree 2 find elements 0 done and can take the
 * place of agree 0; and kinds that of the kinds before.
 *
 * All have the sequence number of the request. What comes next is known to each rank from the
 * same results, and nothing of a later request is posted before the last one's last message: so
 * the order of everything on the wire follows from the calls alone, whenever they are made. In one
 * pass, with an exponent of the caller's, there are no heads, and the elements do not wait.
 *
 * Called by collective.c in the caller's thread, and by progress.c and bounce.c under the
 * communicator's lock.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/reduce/floats.h"
#include "lib/reduce/operate.h"
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
 * ranks have said the same. Whether the caller gave an exponent is not said: heads follow where
 * not, so that what is agreed on has another length, and the switch finds that out. */
struct parameters {
	struct parameter_values {
		uint8_t type;
		uint8_t op;
		uint8_t exponent; /* above INC_FIXED_MIN_EXPONENT */
		uint8_t block[4];
	} values;
	uint8_t inverse[sizeof(struct parameter_values)];
};

/* What is agreed on for a section. */
struct agreement {
	struct parameters parameters;
	struct inc_fixed_head heads[];
};

struct inccl_floats {
	struct inccl_call call; /* the caller's */
	struct inccl_shape shape;
	enum inc_float type;
	bool ordered; /* MIN, MAX: else fixed point */
	bool scaled;  /* in one pass, with this: */
	int exponent;
	struct inc_fixed fixed;
	size_t count;      /* elements that this rank gives */
	size_t wire_bytes; /* of an element on the wire */
	size_t section;    /* elements: whole blocks, or all where there are none */
	size_t piece;      /* of a section: elements whose kinds are there at a time */
	size_t sections;
	struct parameters own;
	/* What is posted now: elements, or heads of section asked - 1. */
	enum phase phase;
	size_t first, end; /* elements of the run: a run is in one block of the shape */
	size_t piece_end;
	size_t asked; /* sections whose agreement is posted */
	/* What has come: */
	size_t agreed;                  /* sections */
	struct agreement *agreement[2]; /* of sections by turns; NULL where ordered */
	bool special[2];                /* a head of theirs says so */
	uint8_t *kinds;                 /* of a piece; NULL where scaled or ordered */
};

static size_t section_count(const struct inccl_floats *f, size_t s)
{
	const size_t left = f->count - s * f->section;

	return left < f->section ? left : f->section;
}

static size_t section_blocks(const struct inccl_floats *f, size_t s)
{
	return f->scaled ? 0 : inc_fixed_blocks(&f->fixed, section_count(f, s));
}

static size_t agreement_bytes(const struct inccl_floats *f, size_t s)
{
	return sizeof(struct agreement) + section_blocks(f, s) * INC_FIXED_HEAD_BYTES;
}

/* Where an element is in its piece. */
static size_t piece_place(const struct inccl_floats *f, size_t i)
{
	return i % f->section % f->piece;
}

/* The collective that comes next on the wire; what its messages hold is made on the stage. */
static void segment_collective(struct inccl_request *req, const struct inccl_call *wire,
			       enum inc_dtype dtype)
{
	const size_t size = inc_element_bytes(INC_DESC(0, 0, dtype, 0, 0));
	const struct inccl_plan plan = {
		.call = wire,
		.shape = {.blocks = 1},
		.wire_dtype = dtype,
		.element_bytes = size,
		.block_bytes = wire->count * size,
	};

	inccl_segment_request(req, &plan);
	req->posted = 0;
}

/* The request's next collective is of this kind. */
static void set_phase(struct inccl_floats *f, enum phase phase)
{
	f->phase = phase;
}

static void begin_agreeing(struct inccl_request *req)
{
	struct inccl_floats *f = req->floats;
	const struct inccl_call wire = {
		.collective = INCCL_ALLREDUCE,
		.count = agreement_bytes(f, f->asked),
		.op = INCCL_MAX,
	};

	set_phase(f, AGREEING);
	f->asked++;
	segment_collective(req, &wire, INC_DTYPE_AGREED);
}

/* From first on, as far as the piece and the block of the shape go. */
static void begin_run(struct inccl_request *req, enum phase phase, size_t first)
{
	struct inccl_floats *f = req->floats;
	const size_t block = first / f->call.count, block_end = (block + 1) * f->call.count;
	enum inc_dtype dtype = f->ordered ? (enum inc_dtype)f->call.dtype : INC_DTYPE_FIXED;
	struct inccl_call wire = f->call;

	set_phase(f, phase);
	f->first = first;
	f->end = block_end < f->piece_end ? block_end : f->piece_end;
	wire.count = f->end - first;
	wire.root += block;
	if (phase == KINDS) {
		dtype = INC_DTYPE_AGREED;
		wire.op = INCCL_OR;
	}
	segment_collective(req, &wire, dtype);
}

/* What comes first of the elements from at on: 1: it is begun; -EAGAIN: the results of what is
 * posted have to come first. */
static int begin_piece(struct inccl_request *req, size_t at)
{
	struct inccl_floats *f = req->floats;
	const size_t s = at / f->section, left = section_count(f, s) - at % f->section;

	f->first = f->end = at;
	if (!f->ordered && f->asked < f->sections && f->asked <= s + 1) {
		begin_agreeing(req);
		return 1;
	}
	if (!f->ordered && !f->scaled && f->agreed <= s)
		return -EAGAIN;
	f->piece_end = at + (left < f->piece ? left : f->piece);
	begin_run(req, f->special[s % 2] ? KINDS : ELEMENTS, at);
	return 1;
}

int inccl_floats_advance(struct inccl_request *req)
{
	struct inccl_floats *f = req->floats;

	if (f->phase != AGREEING && f->end < f->piece_end)
		begin_run(req, f->phase, f->end);
	else if (f->phase == KINDS)
		begin_run(req, ELEMENTS, f->piece_end - piece_place(f, f->piece_end - 1) - 1);
	else if (f->end == f->count)
		return 0;
	else
		return begin_piece(req, f->end);
	return 1;
}

bool inccl_floats_must_wait(const struct inccl_request *req)
{
	const struct inccl_floats *f = req->floats;

	return f->phase == AGREEING || (f->phase == ELEMENTS && f->end == f->count);
}

void inccl_floats_begin(struct inccl_request *req)
{
	if (req->messages)
		begin_piece(req, 0);
}

static void set_parameters(struct inccl_floats *f)
{
	const struct parameter_values values = {
		.type = f->type,
		.op = f->call.op,
		.exponent = f->exponent - INC_FIXED_MIN_EXPONENT,
		.block = {f->fixed.block, f->fixed.block >> 8, f->fixed.block >> 16,
			  f->fixed.block >> 24},
	};
	const uint8_t *p = (const uint8_t *)&values;

	f->own.values = values;
	for (size_t i = 0; i < sizeof(values); i++)
		f->own.inverse[i] = ~p[i];
}

/* All ranks find the same. */
static int compare_parameters(const struct inccl_floats *f, const struct parameters *all,
			      struct inc_err *err)
{
	const uint8_t *p = (const uint8_t *)&all->values;

	for (size_t i = 0; i < sizeof(all->values); i++)
		if ((p[i] ^ all->inverse[i]) != UINT8_MAX)
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

static void cut_sections(struct inccl_floats *f)
{
	const size_t block = f->fixed.block;

	f->section = f->piece = f->count;
	if (!f->ordered && !f->scaled && block <= INCCL_FLOATS_PIECE)
		f->section = f->piece = INCCL_FLOATS_PIECE / block * block;
	else if (!f->ordered && !f->scaled) {
		f->section = block;
		f->piece = INCCL_FLOATS_PIECE;
	}
	f->sections = (f->count - 1) / f->section + 1;
}

/* The memory for what is agreed on: that of two sections and of a piece. */
static int make_own(struct inccl_floats *f)
{
	const size_t bytes = agreement_bytes(f, 0), agreements = f->sections > 1 ? 2 : 1;
	uint8_t *own;

	own = malloc(agreements * bytes + (f->scaled             ? 0
					   : f->count < f->piece ? f->count
								 : f->piece));
	if (!own)
		return -ENOMEM;
	for (size_t i = 0; i < agreements; i++)
		f->agreement[i] = (struct agreement *)(own + i * bytes);
	f->kinds = f->scaled ? NULL : own + agreements * bytes;
	set_parameters(f);
	return 0;
}

int inccl_floats_prepare(struct inccl_request *req, const struct inccl_plan *plan,
			 const struct inccl_collective_opts *opts, struct inc_err *err)
{
	struct inccl_floats *f = calloc(1, sizeof(*f));
	int ret;

	if (!f)
		return inc_err_set(err, ENOMEM, "no memory");
	req->floats = f;
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
	cut_sections(f);
	if (!f->ordered && make_own(f))
		return inc_err_set(err, ENOMEM, "no memory for what is agreed on first");
	return 0;
}

void inccl_floats_free(struct inccl_floats *f)
{
	if (f)
		free(f->agreement[0]);
	free(f);
}

static const uint8_t *values_at(const struct inccl_floats *f, size_t i)
{
	return (const uint8_t *)f->call.send + i * inc_float_size(f->type);
}

/* Bytes from offset on of what this rank says of the section. */
static void fill_agreement(const struct inccl_floats *f, uint8_t *to, size_t offset, size_t len)
{
	const size_t s = f->asked - 1, count = section_count(f, s);
	size_t block, from, n;

	if (!offset) { /* a packet holds more than that */
		memcpy(to, &f->own, sizeof(f->own));
		to += sizeof(f->own);
		offset += sizeof(f->own);
		len -= sizeof(f->own);
	}
	block = (offset - sizeof(f->own)) / INC_FIXED_HEAD_BYTES;
	from = block * f->fixed.block;
	n = len / INC_FIXED_HEAD_BYTES * f->fixed.block;
	if (n)
		inc_fixed_heads(&f->fixed, (struct inc_fixed_head *)to,
				values_at(f, s * f->section + from),
				n < count - from ? n : count - from);
}

static int fill_elements(const struct inccl_request *req, void *to, size_t first, size_t count,
			 struct inc_err *err)
{
	const struct inccl_floats *f = req->floats;
	const size_t s = first / f->section, begin = s * f->section;
	const uint8_t *values = values_at(f, first);
	struct inc_err why = {""};
	int ret = 0;

	if (f->ordered)
		inc_float_to_order(f->type,
				   f->call.op == INCCL_MIN ? INC_OPERATOR_MIN : INC_OPERATOR_MAX,
				   to, values, count);
	else if (f->scaled)
		ret = inc_fixed_put_scaled(&f->fixed, to, values, f->exponent, first, count, &why);
	else
		ret = inc_fixed_put(&f->fixed, to, values, f->agreement[s % 2]->heads,
				    first - begin, count, &why);
	if (ret && begin)
		return inc_err_set(err, -ret, "counted from element %zu on: %s", begin, why.msg);
	if (ret)
		return inc_err_set(err, -ret, "%s", why.msg);
	if (req->foreign)
		inc_reduce_swap(to, to, count, f->wire_bytes);
	return 0;
}

int inccl_floats_fill(struct inccl_request *req, struct inccl_bounce_slot *msg, size_t len,
		      struct inc_err *err)
{
	const struct inccl_floats *f = req->floats;
	const uint64_t offset = inccl_segment_offset(req, req->posted);

	msg->phase = f->phase;
	switch (f->phase) {
	case AGREEING:
		msg->first = offset;
		fill_agreement(f, msg->data, offset, len);
		return 0;
	case KINDS:
		msg->first = f->first + offset;
		inc_fixed_kinds(&f->fixed, msg->data, values_at(f, msg->first), len);
		return 0;
	default:
		msg->first = f->first + offset / f->wire_bytes;
		return fill_elements(req, msg->data, msg->first, len / f->wire_bytes, err);
	}
}

static int collect_agreement(struct inccl_floats *f, const struct inccl_bounce_slot *msg,
			     struct inc_err *err)
{
	const size_t s = f->agreed;
	struct agreement *agreement = f->agreement[s % 2];

	memcpy((uint8_t *)agreement + msg->first, msg->data, msg->recv_len);
	if (msg->first + msg->recv_len < agreement_bytes(f, s))
		return 0;
	f->special[s % 2] = inc_fixed_special(agreement->heads, section_blocks(f, s));
	f->agreed++;
	return compare_parameters(f, &agreement->parameters, err);
}

static void collect_elements(const struct inccl_request *req, const struct inccl_bounce_slot *msg)
{
	const struct inccl_floats *f = req->floats;
	const uint32_t divisor = f->call.op == INCCL_AVG ? f->fixed.world : 1;
	const size_t count = msg->recv_len / f->wire_bytes, s = msg->first / f->section;
	/* where this rank's block is in a vector of all that it gives */
	const size_t own = f->shape.send_blocks > 1 ? f->shape.own_block * f->call.count : 0;
	uint8_t *to = (uint8_t *)f->call.recv + (msg->first - own) * inc_float_size(f->type);

	if (req->foreign)
		inc_reduce_swap(msg->data, msg->data, count, f->wire_bytes);
	if (f->ordered)
		inc_float_from_order(f->type, to, msg->data, count);
	else if (f->scaled)
		inc_fixed_get_scaled(&f->fixed, to, msg->data, f->exponent, count, divisor);
	else
		inc_fixed_get(&f->fixed, to, msg->data, f->agreement[s % 2]->heads,
			      f->special[s % 2] ? f->kinds + piece_place(f, msg->first) : NULL,
			      msg->first % f->section, count, divisor);
}

int inccl_floats_collect(struct inccl_request *req, const struct inccl_bounce_slot *msg,
			 struct inc_err *err)
{
	struct inccl_floats *f = req->floats;

	switch (msg->phase) {
	case AGREEING:
		return collect_agreement(f, msg, err);
	case KINDS:
		memcpy(f->kinds + piece_place(f, msg->first), msg->data, msg->recv_len);
		return 0;
	default:
		collect_elements(req, msg);
		return 0;
	}
}

unsigned int inccl_floats_describe(const struct inccl_request *req, char *text, size_t size)
{
	const struct inccl_floats *f = req->floats;

	if (f->ordered)
		snprintf(text, size, ", as integers in their order");
	else if (f->scaled)
		snprintf(text, size, ", in units of 2^%d, in one pass",
			 f->exponent - (int)f->fixed.bits);
	else
		snprintf(text, size,
			 ", in fixed point of %u bits, an exponent for %u elements agreed on first",
			 f->fixed.bits, f->fixed.block);
	return f->ordered ? 1 : f->scaled ? 2 : 3;
}

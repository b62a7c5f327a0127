/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reduces floats with switches that add integers (docs/floats.md, lib/reduce/floats.h). MIN and MAX
 * are one collective on the wire, of integers in the order of the floats. SUM and AVG are up to
 * three collectives:
 *
 *	agreement	MAX of bytes: the parameters, which must be the same on every rank, and
 *			the exponents of the blocks (heads)
 *	kinds		OR of bytes, one for each element; only if a head reports infinities or NaN
 *	elements	SUM of int32, one for each element; of int64 for float64
 *
 * The integers of a message are made in the bounce buffer (bounce.c) when it is posted. Its result
 * is converted back to floats as soon as it arrives. So that the memory for heads and kinds does
 * not grow with the vector either, ranks agree section by section. A section is whole blocks of at
 * most INCCL_FLOATS_PIECE elements, or one larger block, whose kinds are then sent in pieces of
 * that size. The agreement on a section is posted before the elements of the section before it, so
 * that it costs no waiting:
 *
 *	agree 0, agree 1, elements 0, agree 2, elements 1, agree 3, elements 2, ...
 *
 * Results arrive in the order of posting. When those of agree 2 arrive, elements 0 are complete, so
 * agree 2 can reuse the memory of agree 0. The same holds for kinds.
 *
 * All these collectives have the sequence number of the request. Each rank derives the next
 * collective from the same results, and no message of a later request is posted before the last
 * message of this request. So the order of all messages on the wire depends only on the order of
 * the calls. If the caller gives an exponent, there are no heads and the elements do not wait.
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

/* Number of elements that check_range() checks at a time against the caller's exponent. */
#define CHECK_ELEMENTS 1024

enum phase {
	AGREEING,
	KINDS,
	ELEMENTS,
};

/* The parameters of a call that all ranks must have in common, followed by their bitwise inverse.
 * After a MAX over all ranks the two halves are still each other's inverse only if all ranks have
 * sent the same values. Whether the caller gave an exponent is not a parameter. Without one, heads
 * follow, so the lengths differ and the switch detects that. */
struct parameters {
	struct parameter_values {
		uint8_t type;
		uint8_t op;
		uint8_t exponent[2]; /* the given exponent minus inc_fixed_min_exponent() */
		uint8_t block[4];
	} values;
	uint8_t inverse[sizeof(struct parameter_values)];
};

/* The message in which the ranks agree on a section: parameters, and the heads of its blocks. */
struct agreement {
	struct parameters parameters;
	struct inc_fixed_head heads[];
};

struct inccl_floats {
	struct inccl_call call; /* copy of the caller's call */
	struct inccl_shape shape;
	size_t offset; /* for texts of errors: index in the caller's buffers of the first element */
	enum inc_float type;
	bool ordered; /* the operator is MIN or MAX, which needs no fixed point */
	bool scaled;  /* the caller gave `exponent`, so the ranks need not agree on heads */
	int exponent;
	struct inc_fixed fixed;
	size_t count;      /* number of elements that this rank gives to the collective */
	size_t wire_bytes; /* size in bytes of an element on the wire */
	/* Number of elements in a section: whole blocks, or all elements if there are no blocks. */
	size_t section;
	size_t piece; /* number of elements of a section whose kinds are stored at the same time */
	size_t sections;
	struct parameters own;
	/* Which collective is being posted: kinds, elements, or the agreement on section `asked` -
	 * 1. */
	enum phase phase;
	/* The elements of the collective that is being posted. They are in one block of the
	 * shape. */
	size_t first, end;
	size_t piece_end;
	size_t asked; /* number of sections for which the agreement was posted */
	/* Results that have arrived: */
	size_t agreed; /* number of sections for which the agreement has arrived */
	/* two agreements, which sections use in turn; NULL if ordered */
	struct agreement *agreement[2];
	bool special[2]; /* a head of that section reports infinities or NaN */
	/* kinds of a piece's elements (finite, infinity or NaN); NULL if scaled or ordered */
	uint8_t *kinds;
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

/* Returns the index of element i in its piece. */
static size_t index_in_piece(const struct inccl_floats *f, size_t i)
{
	return i % f->section % f->piece;
}

/* Segments the request's next collective on the wire. The contents of its messages are made later,
 * in the bounce buffer. */
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

/* Sets which kind of collective is being posted. */
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

/* Starts a collective for the kinds of elements, or the elements, from `first` on. It ends with the
 * piece or with the block of the shape. */
static void begin_run(struct inccl_request *req, enum phase phase, size_t first)
{
	struct inccl_floats *f = req->floats;
	const size_t block = first / f->call.count, block_end = (block + 1) * f->call.count;
	const enum inc_dtype fixed = f->type == INC_FLOAT64 ? INC_DTYPE_FIXED64 : INC_DTYPE_FIXED;
	enum inc_dtype dtype = f->ordered ? (enum inc_dtype)f->call.dtype : fixed;
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

/* Starts the next collective, for the elements from `at` on. Returns 1 if it has started, or
 * -EAGAIN if results of earlier messages are needed first. */
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
		begin_run(req, ELEMENTS, f->piece_end - index_in_piece(f, f->piece_end - 1) - 1);
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
	const unsigned int exponent = f->exponent - inc_fixed_min_exponent(f->type);
	const struct parameter_values values = {
		.type = f->type,
		.op = f->call.op,
		.exponent = {exponent, exponent >> 8},
		.block = {f->fixed.block, f->fixed.block >> 8, f->fixed.block >> 16,
			  f->fixed.block >> 24},
	};
	const uint8_t *p = (const uint8_t *)&values;

	f->own.values = values;
	for (size_t i = 0; i < sizeof(values); i++)
		f->own.inverse[i] = ~p[i];
}

/* Checks in the agreement whether all ranks have sent the same parameters. All ranks come to the
 * same result. */
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
	const int min = inc_fixed_min_exponent(f->type), max = inc_fixed_max_exponent(f->type);

	f->scaled = opts->float_exponent;
	if (f->scaled)
		f->exponent = *opts->float_exponent;
	if (f->scaled && (f->exponent < min || f->exponent > max))
		return inc_err_set(err, EINVAL, "float_exponent %d: want %d to %d", f->exponent,
				   min, max);
	return inc_fixed_init(&f->fixed, f->type, opts->float_block ?: INC_FIXED_BLOCK, world, err);
}

/* Checks that all values fit the exponent that the caller has given. Nothing was sent or changed
 * before. */
static int check_range(const struct inccl_floats *f, struct inc_err *err)
{
	const uint8_t *values = f->call.send;
	int64_t unused[CHECK_ELEMENTS]; /* large enough for every type */
	size_t first, n;
	int ret;

	for (first = 0; first < f->count; first += n) {
		n = f->count - first < CHECK_ELEMENTS ? f->count - first : CHECK_ELEMENTS;
		ret = inc_fixed_put_scaled(&f->fixed, unused,
					   values + first * inc_float_size(f->type), f->exponent,
					   f->offset + first, n, err);
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

/* Allocates memory for the agreements on two sections, and for the kinds of a piece. */
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
	f->offset = plan->first;
	f->type = (enum inc_float)(f->call.dtype - INCCL_FLOAT32);
	f->ordered = f->call.op == INCCL_MIN || f->call.op == INCCL_MAX;
	f->count = f->shape.send_blocks * f->call.count;
	f->wire_bytes = f->ordered ? inc_float_size(f->type) : inc_fixed_bytes(f->type);
	ret = f->ordered ? 0 : read_opts(f, opts, req->comm->group->world_size, err);
	if (!ret && f->scaled)
		ret = check_range(f, err);
	if (ret)
		return ret;
	if (!f->count) {
		/* without elements nothing is sent, so the request is handled as any empty one */
		inccl_floats_free(f);
		req->floats = NULL;
		return 0;
	}
	cut_sections(f);
	if (!f->ordered && make_own(f))
		return inc_err_set(err, ENOMEM, "no memory for the agreement of the ranks");
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

/* Writes len bytes of this rank's part of the agreement on a section, from offset on. */
static void fill_agreement(const struct inccl_floats *f, uint8_t *to, size_t offset, size_t len)
{
	const size_t s = f->asked - 1, count = section_count(f, s);
	size_t block, from, n;

	if (!offset) { /* the first packet always has room for the parameters */
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
	/* index of the section's first element in the caller's buffer, for texts of errors */
	const size_t at = f->offset + begin;
	const uint8_t *values = values_at(f, first);
	struct inc_err why = {""};
	int ret = 0;

	if (f->ordered)
		inc_float_to_order(f->type,
				   f->call.op == INCCL_MIN ? INC_OPERATOR_MIN : INC_OPERATOR_MAX,
				   to, values, count);
	else if (f->scaled)
		ret = inc_fixed_put_scaled(&f->fixed, to, values, f->exponent, first - begin, count,
					   &why);
	else
		ret = inc_fixed_put(&f->fixed, to, values, f->agreement[s % 2]->heads,
				    first - begin, count, &why);
	if (ret && at)
		return inc_err_set(err, -ret, "counted from element %zu on: %s", at, why.msg);
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
	/* where this rank's block begins among the elements that it gives to all blocks */
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
			      f->special[s % 2] ? f->kinds + index_in_piece(f, msg->first) : NULL,
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
		memcpy(f->kinds + index_in_piece(f, msg->first), msg->data, msg->recv_len);
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
	return f->ordered ? 1 : f->scaled ? 2 : INCCL_WAY_TWO_PASSES;
}

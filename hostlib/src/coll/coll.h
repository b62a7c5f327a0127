/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declarations of this folder. collectives.c has the public calls of each collective, and its shape
 * on a rank (struct inccl_shape). All of them use the functions of collective.c, which check,
 * segment and execute a collective of any shape.
 */
#ifndef INCCL_COLL_H
#define INCCL_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "lib/base/err.h"
#include "lib/proto/desc.h"
#include "lib/reduce/floats.h"

struct inccl_communicator;
struct inccl_floats;
struct inc_channel_exchange;
struct inc_channel_region;
struct inccl_request;

/*
 * The shape of a collective on one rank. On the wire a collective is a sequence of blocks with the
 * same number of elements. Each block is an AllReduce, Reduce or Broadcast, and block b has the
 * root root + b. The functions in desc.h tell which ranks give data to a block and which receive
 * its result. A buffer of the caller holds all blocks, one block, or is not used.
 */
struct inccl_shape {
	uint32_t blocks;
	/* number of blocks in the caller's buffer send; 0: send is not read */
	uint32_t send_blocks;
	uint32_t recv_blocks;
	/* Index of this rank's block, if one buffer holds all blocks and the other one a single
	 * block. In place means that this block has the same address in both. */
	uint32_t own_block;
	/* this rank's own data must also be copied to recv */
	bool copied;
};

/* A collective as its caller asks for it. */
struct inccl_call {
	enum inccl_collective collective;
	const void *send;
	void *recv;
	size_t count; /* number of elements in a block */
	enum inccl_dtype dtype;
	enum inccl_op op;
	int root;
};

/* A checked call, with its shape and with its sizes in bytes. */
struct inccl_plan {
	const struct inccl_call *call;
	struct inccl_shape shape;
	/* Type of the elements on the wire. It differs from the call's dtype only within a sum of
	 * floats. */
	enum inc_dtype wire_dtype;
	size_t element_bytes;
	uint64_t block_bytes;
	/* sizes of the caller's buffers; 0: the buffer is not read, or not written */
	uint64_t send_bytes, recv_bytes;
	/* For texts of errors: index in the caller's buffers of the first element, if this is a
	 * part of a cut collective. */
	size_t first;
};

static inline bool inccl_is_float(enum inccl_dtype dtype)
{
	return dtype >= INCCL_FLOAT32 && (unsigned int)dtype - INCCL_FLOAT32 < INC_N_FLOATS;
}

/* Whether the elements are values with an index, which only MINLOC and MAXLOC reduce. */
static inline bool inccl_is_index(enum inccl_dtype dtype)
{
	return dtype >= INCCL_INT32_INDEX && dtype <= INCCL_FLOAT64_INDEX;
}

/* collectives.c. Computes the shape of a call for this rank. Returns false if the collective is
 * unknown. */
bool inccl_shape_of(const struct inccl_call *call, int rank, int size, struct inccl_shape *shape);

/* collective.c. These two functions are the public calls NAME_start() and NAME() of any
 * collective. */
int inccl_collective_start(struct inccl_communicator *comm, const struct inccl_call *call,
			   const struct inccl_collective_opts *opts,
			   struct inccl_request **request);
int inccl_collective_run(struct inccl_communicator *comm, const struct inccl_call *call,
			 const struct inccl_collective_opts *opts);

/* Whether the call reduces its elements. A Broadcast or AllGather only copies them. */
static inline bool inccl_is_reduced(const struct inccl_call *call)
{
	return call->collective == INCCL_ALLREDUCE || call->collective == INCCL_REDUCE ||
	       call->collective == INCCL_REDUCE_SCATTER;
}

static inline bool inccl_floats_are_reduced(const struct inccl_call *call)
{
	return inccl_is_float(call->dtype) && inccl_is_reduced(call);
}

/* Whether the operator is MINLOC or MAXLOC, which are MIN and MAX of keys on the wire. */
static inline bool inccl_finds_index(enum inccl_op op)
{
	return op == INCCL_MINLOC || op == INCCL_MAXLOC;
}

static inline bool inccl_is_logical(enum inccl_op op)
{
	return op == INCCL_LAND || op == INCCL_LOR || op == INCCL_LXOR;
}

/* arguments.c. Checks a call and fills in its plan. Of the communicator it reads the group's rank
 * and size, the mode, and what floats and texts depend on. Returns 0, or -errno with an
 * explanation. */
int inccl_check_call(const struct inccl_communicator *comm, const struct inccl_call *call,
		     struct inccl_plan *plan, struct inc_err *err);
/* Checks whether the communicator's switches support the mode in the caller's options. */
int inccl_check_mode(const struct inccl_communicator *comm,
		     const struct inccl_collective_opts *opts, struct inc_err *err);

/* How a collective is cut for channels: the number of parts, and of elements in each. The last part
 * has the rest. */
struct inccl_cut {
	unsigned int parts;
	size_t count;
};
/* channels.c. Decides how a checked call is cut for the channels of the communicator. All ranks cut
 * alike. */
struct inccl_cut inccl_cut(const struct inccl_communicator *comm, const struct inccl_plan *plan,
			   const struct inccl_collective_opts *opts);
/* Makes the plan of part k of a collective, and its call, which is stored in *call. */
void inccl_cut_part(const struct inccl_plan *plan, const struct inccl_cut *cut, unsigned int k,
		    struct inccl_call *call, struct inccl_plan *part);

/* segment.c. Segments a request into messages: computes their number, their sizes and the
 * descriptor. */
void inccl_segment_request(struct inccl_request *req, const struct inccl_plan *plan);
/* Fills in message number k of the request. */
void inccl_segment_message(const struct inccl_request *req, uint64_t k,
			   struct inc_channel_exchange *msg);
/* Whether messages of the request write to recv. The root of a broadcast only sends from there, so
 * its memory may be read-only. */
bool inccl_segment_receives(const struct inccl_request *req);
/* Returns where message number i of a block starts, as an offset in that block in bytes. */
uint64_t inccl_segment_offset(const struct inccl_request *req, uint64_t i);
/* Returns the number of packets of a message or of its result, whichever has more. */
unsigned int inccl_segment_packets(const struct inccl_communicator *comm,
				   const struct inc_channel_exchange *msg);

/* caller_data.c. Before a collective: copies this rank's own data to its place in recv, if the
 * result contains it. */
void inccl_data_prepare(struct inccl_request *req, const struct inccl_plan *plan);
/* After a collective: divides the result if the operator is AVG. */
void inccl_data_finish(struct inccl_request *req);

/* The form of elements on the wire, beside their byte order. Floats that fixed_point.c converts
 * have none of these forms. */
enum inccl_form {
	INCCL_FORM_SAME,  /* that of the caller's buffers */
	INCCL_FORM_TRUTH, /* 1 for an element that is not 0, otherwise 0 */
	INCCL_FORM_KEYS,  /* keys of values with an index (lib/reduce/operate.h) */
};

/* A message's slot in the bounce buffer. */
struct inccl_bounce_slot {
	struct inccl_request *req;
	uint64_t number;   /* number of the message among all that were posted on the endpoint */
	unsigned int at;   /* where the slot starts in the bounce buffer, in packets */
	unsigned int size; /* length of the slot, in packets */
	/* memory of the slot, which has the data to send, and later the result */
	uint8_t *data;
	uint8_t *recv; /* where the result belongs in the caller's buffer */
	uint32_t recv_len;
	/* Used by fixed_point.c only: the phase of the collective, and the message's first element
	 * or byte in that phase. */
	uint8_t phase;
	uint64_t first;
};

/* bounce.c. Whether the request's data has another form on the wire than in the caller's buffers,
 * so that it needs the bounce buffer. */
bool inccl_uses_bounce(const struct inccl_request *req);
/* Returns the form of a call's elements on the wire. */
enum inccl_form inccl_form_of(const struct inccl_call *call);
/* Allocates and registers the bounce buffer at the first call, and returns its region. Returns 0 or
 * -errno. The caller of this function and of those below holds the communicator's lock. */
int inccl_bounce_map(struct inccl_communicator *comm, const struct inc_channel_region **region);
/* Gives the request's next message a slot of the bounce buffer, filled with the data to send.
 * Repeated calls before the message is posted do that once. Returns -EAGAIN if there is no room
 * now, or an error of inccl_floats_fill(). */
int inccl_bounce_fill(struct inccl_request *req, struct inc_channel_exchange *msg,
		      struct inc_err *err);
/* Handles that the message in the newest slot of the bounce buffer was posted. */
void inccl_bounce_posted(struct inccl_communicator *comm);
/* Copies results that have arrived from the bounce buffer to the caller's buffers, and frees their
 * slots. Returns 0, or an error of inccl_floats_collect(). */
int inccl_bounce_collect(struct inccl_communicator *comm, struct inc_err *err);
/* Frees the bounce buffer. Called while the endpoint is still open, because the buffer is
 * registered with it. */
void inccl_bounce_free(struct inccl_communicator *comm);

/*
 * fixed_point.c. It does the work of caller_data.c if floats are reduced and the switches cannot
 * add floats.
 */
/* Number of elements of a sum of floats whose kinds (finite, infinity or NaN) are stored at a time.
 * The exponents of their blocks are stored for two sections. This bounds the memory that a sum
 * needs beside the bounce buffer. All ranks must use the same value, because it determines the
 * messages on the wire. */
#define INCCL_FLOATS_PIECE ((size_t)256 * 1024)
/* Prepares the reduction of floats, without a change of either buffer. Returns 0, or an explained
 * error: -EINVAL, -ENOMEM, or -ERANGE if this rank's values cannot be sent, which the caller
 * reports to the other ranks. The caller frees req->floats. */
int inccl_floats_prepare(struct inccl_request *req, const struct inccl_plan *plan,
			 const struct inccl_collective_opts *opts, struct inc_err *err);
void inccl_floats_free(struct inccl_floats *floats); /* floats may be NULL */
/* Starts the request's first collective on the wire. Its sequence number is known by now. */
void inccl_floats_begin(struct inccl_request *req);
/* Starts the request's next collective on the wire, because all messages of the current one are
 * posted. Returns 1 if it has started, -EAGAIN if it needs results first, or 0 if there is none. */
int inccl_floats_advance(struct inccl_request *req);
/* Whether nothing of the request can be posted after the current collective until its results have
 * arrived. */
bool inccl_floats_must_wait(const struct inccl_request *req);
/* Fills the next message of a reduction of floats with len bytes. Returns -ERANGE and an
 * explanation if the values have changed since the start, or do not fit the agreed exponents. */
int inccl_floats_fill(struct inccl_request *req, struct inccl_bounce_slot *msg, size_t len,
		      struct inc_err *err);
/* Processes the result of a message of a reduction of floats. Returns -EREMOTEIO and an explanation
 * if the ranks have made different calls. */
int inccl_floats_collect(struct inccl_request *req, const struct inccl_bounce_slot *msg,
			 struct inc_err *err);
/* Describes, as a text for the log, how the floats are reduced. Returns a number from 1 to 3, which
 * stands for that way. The last one is a sum whose ranks agree on exponents first. */
#define INCCL_WAY_TWO_PASSES 3
unsigned int inccl_floats_describe(const struct inccl_request *req, char *text, size_t size);

#endif

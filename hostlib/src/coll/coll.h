/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declarations of this folder. Each collective has a file with its public calls and its shape on a
 * rank (struct inccl_shape). All of them use the functions of collective.c, which check, segment
 * and execute a collective of any shape.
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
	/* If one buffer holds all blocks and the other one block: the index of this rank's block.
	 * In place means that this block has the same address in both. */
	uint32_t own_block;
	/* this rank's own data also has to be copied to recv */
	bool copied;
};

/* A collective as its caller asks for it. */
struct inccl_call {
	enum inccl_collective collective;
	/* fills in the shape for this rank and world size of the communicator, and for the root of
	 * the call */
	void (*shape)(int rank, int size, int root, struct inccl_shape *shape);
	const void *send;
	void *recv;
	size_t count; /* number of elements in a block */
	enum inccl_dtype dtype;
	enum inccl_op op;
	int root;
};

/* A checked call with its shape and its sizes in bytes. */
struct inccl_plan {
	const struct inccl_call *call;
	struct inccl_shape shape;
	/* type on the wire, which differs from the call's dtype only within a sum of floats */
	enum inc_dtype wire_dtype;
	size_t element_bytes;
	uint64_t block_bytes;
	uint64_t send_bytes, recv_bytes; /* sizes of the buffers; 0: not read, or not written */
	/* index of the first element in the caller's buffers, if this is a part of a collective;
	 * for texts of errors */
	size_t first;
};

static inline bool inccl_is_float(enum inccl_dtype dtype)
{
	return dtype >= INCCL_FLOAT32 && (unsigned int)dtype - INCCL_FLOAT32 < INC_N_FLOATS;
}

/* collective.c. These are the public calls NAME_start() and NAME() for any collective. */
int inccl_collective_start(struct inccl_communicator *comm, const struct inccl_call *call,
			   const struct inccl_collective_opts *opts,
			   struct inccl_request **request);
int inccl_collective_run(struct inccl_communicator *comm, const struct inccl_call *call,
			 const struct inccl_collective_opts *opts);

/* Whether the call reduces floats. A Broadcast or AllGather only copies them. */
static inline bool inccl_floats_are_reduced(const struct inccl_call *call)
{
	return inccl_is_float(call->dtype) &&
	       (call->collective == INCCL_ALLREDUCE || call->collective == INCCL_REDUCE ||
		call->collective == INCCL_REDUCE_SCATTER);
}

/* arguments.c. Checks a call and fills the plan. Returns 0, or -errno with an explanation. */
int inccl_check_call(const struct inccl_communicator *comm, const struct inccl_call *call,
		     struct inccl_plan *plan, struct inc_err *err);
/* Checks whether the communicator's switches support the mode in the caller's options. */
int inccl_check_mode(const struct inccl_communicator *comm,
		     const struct inccl_collective_opts *opts, struct inc_err *err);

/* Into how many parts, and of how many elements, a collective is cut. The last part has the
 * rest. */
struct inccl_cut {
	unsigned int parts;
	size_t count;
};
/* channels.c. Cuts a checked call for the channels of the communicator. All ranks cut alike. */
struct inccl_cut inccl_cut(const struct inccl_communicator *comm, const struct inccl_plan *plan,
			   const struct inccl_collective_opts *opts);
/* Makes the plan of part k, whose call is stored in call. */
void inccl_cut_part(const struct inccl_plan *plan, const struct inccl_cut *cut, unsigned int k,
		    struct inccl_call *call, struct inccl_plan *part);

/* segment.c. Segments the request into messages: their number, sizes and descriptor. */
void inccl_segment_request(struct inccl_request *req, const struct inccl_plan *plan);
/* Fills in message number k of the request. */
void inccl_segment_message(const struct inccl_request *req, uint64_t k,
			   struct inc_channel_exchange *msg);
/* Returns the offset in its block at which message number i starts. */
uint64_t inccl_segment_offset(const struct inccl_request *req, uint64_t i);
/* Returns the packets of the message or of its result, whichever is longer. */
unsigned int inccl_segment_packets(const struct inccl_communicator *comm,
				   const struct inc_channel_exchange *msg);

/* caller_data.c. Copies this rank's own data to its place in recv, if the collective's result
 * contains it. */
void inccl_data_prepare(struct inccl_request *req, const struct inccl_plan *plan);
/* Completes the result of a request that is over: divides it if the operator is AVG. */
void inccl_data_finish(struct inccl_request *req);

/* A message's slot in the bounce buffer. */
struct inccl_bounce_slot {
	struct inccl_request *req;
	uint64_t number;   /* number of the message at the endpoint */
	unsigned int at;   /* start of the slot, in packets */
	unsigned int size; /* length of the slot, in packets */
	uint8_t *data;     /* memory of the slot: the data to send, then the result */
	uint8_t *recv;     /* destination of the result in the caller's buffer */
	uint32_t recv_len;
	/* phase of the collective, and the message's first element or byte in that phase; used by
	 * fixed_point.c only */
	uint8_t phase;
	uint64_t first;
};

/* bounce.c. Whether the request's data has another form on the wire than in the caller's buffer. */
bool inccl_uses_bounce(const struct inccl_request *req);
/* Allocates the bounce buffer at the first call, under the communicator's lock. Returns 0 or
 * -ENOMEM. */
int inccl_bounce_make(struct inccl_communicator *comm);
/* The caller of the functions below holds the communicator's lock. inccl_bounce_map() registers the
 * bounce buffer and fills in its region. It returns 0 or -errno. */
int inccl_bounce_map(struct inccl_communicator *comm, const struct inc_channel_region **region);
/* Assigns a slot to the request's next message and fills it with the data to send. Repeated calls
 * before the message is posted do that once. Returns -EAGAIN if there is no room now, or an error
 * of inccl_floats_fill(). */
int inccl_bounce_fill(struct inccl_request *req, struct inc_channel_exchange *msg,
		      struct inc_err *err);
/* Reports that the message in the newest slot has been posted. */
void inccl_bounce_posted(struct inccl_communicator *comm);
/* Copies results that have arrived to the caller's buffers and frees their slots. Returns 0, or an
 * error of inccl_floats_collect(). */
int inccl_bounce_collect(struct inccl_communicator *comm, struct inc_err *err);
/* Frees the bounce buffer. Called while the endpoint is still open, because the buffer is
 * registered with it. */
void inccl_bounce_free(struct inccl_communicator *comm);

/*
 * fixed_point.c. Replaces caller_data.c if floats are reduced and the switches cannot add floats.
 */
/* Number of elements whose kinds (finite, infinity or NaN) are stored at a time, and whose blocks'
 * exponents are stored at a time (for two sections). This bounds the memory that a sum of floats
 * needs beside the bounce buffer. All ranks must use the same value, because it determines the
 * messages on the wire. */
#define INCCL_FLOATS_PIECE ((size_t)256 * 1024)
/* Returns 0, or an explained error: -EINVAL, -ENOMEM, or -ERANGE if this rank's values cannot be
 * sent, which the caller reports to the other ranks. Neither buffer is changed. The caller frees
 * req->floats. */
int inccl_floats_prepare(struct inccl_request *req, const struct inccl_plan *plan,
			 const struct inccl_collective_opts *opts, struct inc_err *err);
void inccl_floats_free(struct inccl_floats *floats); /* floats may be NULL */
/* Starts the first collective of the request, whose sequence number is set now. */
void inccl_floats_begin(struct inccl_request *req);
/* All messages of the current collective on the wire are posted. Returns 1 if the next collective
 * has started, -EAGAIN if it needs results first, or 0 if that was the last one. */
int inccl_floats_advance(struct inccl_request *req);
/* Whether no message can be posted after the current collective before its results have arrived. */
bool inccl_floats_must_wait(const struct inccl_request *req);
/* Fills len bytes of the next message. Returns -ERANGE and an explanation if the values have
 * changed since the start, or do not fit the agreed exponents. */
int inccl_floats_fill(struct inccl_request *req, struct inccl_bounce_slot *msg, size_t len,
		      struct inc_err *err);
/* Processes the result of a message. Returns -EREMOTEIO and an explanation if the ranks have made
 * different calls. */
int inccl_floats_collect(struct inccl_request *req, const struct inccl_bounce_slot *msg,
			 struct inc_err *err);
/* Describes how the floats are reduced, for the log. Returns a number from 1 to 3, which stands for
 * the way. */
unsigned int inccl_floats_describe(const struct inccl_request *req, char *text, size_t size);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of this folder have in common: one for each collective, which says what it is on
 * a rank (struct inccl_shape) and has its public calls; and the call below them all
 * (collective.c), which checks, cuts and carries out whatever has such a shape.
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
struct inccl_message;
struct inccl_region;
struct inccl_request;

/*
 * What a collective is on one rank. On the wire it is a row of blocks of as many elements each, and
 * each is an AllReduce, Reduce or Broadcast with a root of its own: block b has root + b. Who
 * gives and who gets of a block, desc.h says. A buffer holds all the blocks, or one, or is not
 * this rank's affair.
 */
struct inccl_shape {
	uint32_t blocks;
	uint32_t send_blocks; /* that the caller's send holds; 0: nobody looks at it */
	uint32_t recv_blocks;
	/* Where one buffer holds all the blocks and the other one: which of them is this rank's.
	 * In place means that both buffers have it at the same address. */
	uint32_t own_block;
	bool copied; /* what this rank gives belongs into its own recv, too */
};

/* What a caller wants done. */
struct inccl_call {
	enum inccl_collective collective;
	/* rank and size: of the communicator; root: the call's */
	void (*shape)(int rank, int size, int root, struct inccl_shape *shape);
	const void *send;
	void *recv;
	size_t count; /* elements of a block */
	enum inccl_dtype dtype;
	enum inccl_op op;
	int root;
};

/* A call and its shape, with their bytes. */
struct inccl_plan {
	const struct inccl_call *call;
	struct inccl_shape shape;
	enum inc_dtype wire_dtype; /* a number of its own only within a sum of floats */
	size_t element_bytes;
	uint64_t block_bytes;
	uint64_t send_bytes, recv_bytes; /* of the buffers; 0: nothing is read, or written */
};

static inline bool inccl_is_float(enum inccl_dtype dtype)
{
	return dtype >= INCCL_FLOAT32 && (unsigned int)dtype - INCCL_FLOAT32 < INC_N_FLOATS;
}

/* collective.c. Like the public calls NAME_start() and NAME(). */
int inccl_collective_start(struct inccl_communicator *comm, const struct inccl_call *call,
			   const struct inccl_collective_opts *opts,
			   struct inccl_request **request);
int inccl_collective_run(struct inccl_communicator *comm, const struct inccl_call *call,
			 const struct inccl_collective_opts *opts);

/* Floats that are reduced, and not only carried. */
static inline bool inccl_floats_are_reduced(const struct inccl_call *call)
{
	return inccl_is_float(call->dtype) &&
	       (call->collective == INCCL_ALLREDUCE || call->collective == INCCL_REDUCE ||
		call->collective == INCCL_REDUCE_SCATTER);
}

/* arguments.c. Fills the plan; 0, or -errno with a sentence. */
int inccl_check_call(const struct inccl_communicator *comm, const struct inccl_call *call,
		     struct inccl_plan *plan, struct inc_err *err);
/* Can the communicator's switches do what the options ask for? */
int inccl_check_mode(const struct inccl_communicator *comm,
		     const struct inccl_collective_opts *opts, struct inc_err *err);

/* segment.c. How the request goes over the wire. */
void inccl_segment_request(struct inccl_request *req, const struct inccl_plan *plan);
/* Message number k of it. */
void inccl_segment_message(const struct inccl_request *req, uint64_t k, struct inccl_message *msg);
/* Bytes of a block that come before its message number i. */
uint64_t inccl_segment_offset(const struct inccl_request *req, uint64_t i);
/* Of the message, and of its result. */
unsigned int inccl_segment_packets(const struct inccl_communicator *comm,
				   const struct inccl_message *msg);

/* caller_data.c. What this rank gives and keeps is copied to where it belongs in recv. */
void inccl_data_prepare(struct inccl_request *req, const struct inccl_plan *plan);
/* The request is over: what has come is made what the caller asked for. */
void inccl_data_finish(struct inccl_request *req);

/* A message on the stage. */
struct inccl_bounce_slot {
	struct inccl_request *req;
	uint64_t number;   /* among the endpoint's messages */
	unsigned int at;   /* where its place begins, */
	unsigned int size; /* and how long it is, in packets */
	uint8_t *data;     /* the place: first what is sent, then the result */
	uint8_t *recv;     /* where the result would go that needs no stage */
	uint32_t recv_len;
	/* fixed_point.c's: a phase, and the message's first element, or byte, of it */
	uint8_t phase;
	uint64_t first;
};

/* bounce.c. Does the request's data differ on the wire from what the caller has? */
bool inccl_uses_bounce(const struct inccl_request *req);
/* Takes the communicator's lock; later calls find it made. 0 or -ENOMEM. */
int inccl_bounce_make(struct inccl_communicator *comm);
/* The others: under the lock. The region that all staged messages are in: 0 or -errno. */
int inccl_bounce_map(struct inccl_communicator *comm, const struct inccl_region **region);
/* Gives the next message of the request, cut, a place and puts its data there, once, however often
 * it is called before the message is posted. -EAGAIN: there is no room now; or as
 * inccl_floats_fill(). */
int inccl_bounce_fill(struct inccl_request *req, struct inccl_message *msg, struct inc_err *err);
/* The message is posted. */
void inccl_bounce_posted(struct inccl_communicator *comm);
/* Takes from the stage what has come. 0, or as inccl_floats_collect(). */
int inccl_bounce_collect(struct inccl_communicator *comm, struct inc_err *err);
/* The endpoint is still open. */
void inccl_bounce_free(struct inccl_communicator *comm);

/*
 * fixed_point.c. In place of the passes where floats are reduced and the switches cannot do that.
 */
/* Elements whose infinities and NaN are known at a time, and whose blocks' exponents (there are two
 * such lots of these): what a sum of floats needs beside the stage does not grow beyond that. All
 * ranks cut there, so it is part of what goes over the wire. */
#define INCCL_FLOATS_PIECE ((size_t)256 * 1024)
/* 0, or with a sentence -EINVAL, -ENOMEM, or -ERANGE, which the other ranks must hear of: what
 * this one has cannot be sent. Neither buffer is changed; req->floats is freed by the caller. */
int inccl_floats_prepare(struct inccl_request *req, const struct inccl_plan *plan,
			 const struct inccl_collective_opts *opts, struct inc_err *err);
void inccl_floats_free(struct inccl_floats *floats); /* NULL is fine */
/* With its number: the first of its collectives. */
void inccl_floats_begin(struct inccl_request *req);
/* All messages are posted. 1: there are new ones; -EAGAIN: there will be, once results are there;
 * 0: that was all. */
int inccl_floats_advance(struct inccl_request *req);
/* Is there nothing to post behind what is being posted, before its results are there? */
bool inccl_floats_must_wait(const struct inccl_request *req);
/* Makes len bytes of the next message. -ERANGE with a sentence: the values have changed since the
 * start, or heads have come that are not theirs. */
int inccl_floats_fill(struct inccl_request *req, struct inccl_bounce_slot *msg, size_t len,
		      struct inc_err *err);
/* The message's result is there. -EREMOTEIO with a sentence: ranks have called different things. */
int inccl_floats_collect(struct inccl_request *req, const struct inccl_bounce_slot *msg,
			 struct inc_err *err);
/* How it runs, for the log; returns a number from 1 to 3 that tells these ways apart. */
unsigned int inccl_floats_describe(const struct inccl_request *req, char *text, size_t size);

#endif

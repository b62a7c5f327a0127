/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fallback:
 * A front end for a framework (MPI, PyTorch) has collectives of its own, which need no switch. It
 * gives them to the library. Then a collective that fails on the switch ends on every rank all the
 * same: either all ranks get the switch's result, or the framework repeats it on all ranks.
 *
 * Method:
 * A rank can fail in a collective although another rank has the result already, and the other rank
 * may not call the library again for a long time. So each rank has a thread that listens at a TCP
 * port. A rank that has failed asks all others. If one of them has the result, the rank receives it
 * from there. Each other rank that is asked gives the collective up, and that is final. Therefore
 * one of them has the result, or no rank will ever have it and the framework repeats the
 * collective.
 *
 * Results of up to keep_bytes stay in memory of the library until the collective after the next.
 * That is long enough, because such a collective ends on no rank before all ranks have begun it.
 * After a larger one all ranks wait in a barrier on the switch, and the result is served from
 * @recv meanwhile. If the call is in place, the library copies the contribution before.
 *
 * A rank may come to a collective minutes after the others, up to timeout_ms. A waiting rank asks
 * the others after a second whether they have begun. The collective has failed if another rank has
 * lost the switch, or if it does not end within 10 seconds (and a second for each MB) after all
 * ranks have begun it. The communicator's timeout_ms does not count.
 *
 * These limits do not count the time in which the rank's process stands still. A rank is gone if
 * its process has ended, or if it cannot be reached for unreachable_ms. A child of the process, by
 * fork(), has none of its connections.
 *
 * So ranks must reach each other by TCP, at a port that the kernel chooses. A question needs a
 * random token of 16 bytes, which the ranks exchange by gather(). The connections are not
 * encrypted. All ranks must have the same order of bytes.
 *
 * See also:
 * inccl.h
 */
#ifndef INCCL_FALLBACK_H
#define INCCL_FALLBACK_H

#include <stddef.h>
#include "inccl.h"

/* the beginning of a reason that only says that another rank has one */
#define INCCL_FALLBACK_ANOTHER "another rank"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct inccl_fallback;
struct inccl_fallback_call;

/*
 * inccl_fallback_create, inccl_fallback_destroy - add a fallback to a communicator, and end both
 *
 * All ranks call these functions, as they do with a collective. inccl_fallback_create() takes the
 * communicator over: from then on only inccl_fallback_run() uses it, and
 * inccl_fallback_destroy() destroys it. The group stays the caller's, and outlives the fallback.
 * inccl_fallback_destroy() waits for the other ranks by gather(), because one of them may still
 * need a result of this rank (leave_early has another way). A @fallback of NULL is ignored.
 *
 * Return value:
 * 0, or a negative error number. After inccl_fallback_create() has failed, the communicator is
 * still the caller's. inccl_fallback_destroy() frees the object in any case.
 *
 * Errors:
 * -EINVAL	An argument is NULL, or the address has another form.
 * -E2BIG	The options have a member that this library does not know.
 * -ENOMEM	There is no memory.
 *
 * Otherwise the error of a system call, or that of gather(). If one rank fails, all ranks do, and
 * the line of the others names it.
 *
 * Example:
 *	INCCL_OPTS(inccl_fallback_opts, opts, .gather = gather, .repeat = repeat);
 *
 *	err = inccl_fallback_create(comm, &opts, &fallback);	(on all ranks)
 *	err = inccl_fallback_run(fallback, &call);
 *	err = inccl_fallback_destroy(fallback);			(on all ranks)
 *
 * See also:
 * inccl_communicator_create(), inccl_fallback_run()
 */
struct inccl_fallback_opts {
	size_t sz;     /* sizeof(struct inccl_fallback_opts) */
	void *context; /* the first argument of the functions below */
	/*
	 * The framework's collectives, among the same ranks with the same numbers. The thread that
	 * calls the library calls them. They return 0 or -errno.
	 *
	 * gather() copies @bytes of each rank to @all of each rank, in the order of the ranks.
	 * repeat() runs a collective, whose @send is the caller's or a copy. It may return before
	 * all ranks have called it. Neither function may call the fallback.
	 */
	int (*gather)(void *context, const void *mine, void *all, size_t bytes);
	int (*repeat)(void *context, const struct inccl_fallback_call *call);
	/* Called every few milliseconds of a wait, for frameworks whose messages need that. A
	 * question to a rank that does not answer may delay it by half a second. NULL: the
	 * framework needs no calls. */
	void (*progress)(void *context);
	/* Called once on each rank, when it has lost the switch, with the reason in one line. It
	 * begins with INCCL_FALLBACK_ANOTHER if that is all that this rank knows. */
	void (*lost)(void *context, const char *reason);
	/* largest result that is kept, the same on all ranks (default: 262144) */
	size_t keep_bytes;
	/* Address at which the other ranks reach this one, IPv4 or IPv6. NULL: the address of the
	 * connection to the controller. */
	const char *address;
	char *error; /* room for one line that explains a failed creation, or NULL */
	size_t error_size;
	/* A rank that cannot be reached for so long is gone (default: 30000). */
	unsigned int unreachable_ms;
	/* time limit of a collective on the switch, after which all ranks repeat it, the same on
	 * all ranks (default: 600000) */
	unsigned int timeout_ms;
	/* Not 0: inccl_fallback_destroy() does not call gather(), but asks each other rank until
	 * that has the last result. So a rank may leave although others do not, and their next
	 * collective fails and names it. It must be the same on all ranks, because gather() of one
	 * rank waits for that of all. The wait has no time limit, except that a rank counts no more
	 * when it has not been reached for unreachable_ms. */
	int leave_early;
};

int inccl_fallback_create(struct inccl_communicator *comm, const struct inccl_fallback_opts *opts,
			  struct inccl_fallback **fallback);
int inccl_fallback_destroy(struct inccl_fallback *fallback);

/*
 * inccl_fallback_run, inccl_fallback_reason - a collective that ends without the switch if need be
 *
 * inccl_fallback_run() returns when the result is in @recv. All ranks make the same calls in the
 * same order, one at a time. inccl_fallback_reason() is the line with which this rank has lost the
 * switch, or NULL. After a loss every collective goes to repeat().
 *
 * Return value:
 * 0, or a negative error number. inccl_fallback_reason() returns a text that lives as long as the
 * object.
 *
 * Errors:
 * -EINVAL	The call has no meaning; nothing was sent.
 * -ECONNRESET	A rank is gone, so it is not known whether it had the result. The reason names it.
 *		The only use of the object is then inccl_fallback_destroy().
 * -EPROTO	A rank has another result, because ranks have made different calls. Likewise.
 * -ECHILD	The object belongs to the process from which this one was forked.
 *
 * Otherwise the error of repeat(), or one of inccl_allreduce() that lies in the arguments.
 *
 * Example:
 *	INCCL_OPTS(inccl_fallback_call, call, .collective = INCCL_ALLREDUCE, .send = mine,
 *		   .recv = sum, .count = count, .dtype = INCCL_FLOAT32, .op = INCCL_SUM);
 *
 *	err = inccl_fallback_run(fallback, &call);
 *
 * See also:
 * inccl_fallback_create(), inccl_allreduce()
 */
/* A collective. The elements are those of inccl_allreduce() and so on: @count is the size of a
 * block for INCCL_REDUCE_SCATTER and INCCL_ALL_GATHER. The members have the meaning of the
 * arguments of inccl_allreduce() and the other functions. Those that the collective lacks are 0. A
 * broadcast's data is at @send on the root, and goes to @recv on all ranks. If both are the same
 * address, the root writes nothing there. */
struct inccl_fallback_call {
	size_t sz; /* sizeof(struct inccl_fallback_call) */
	enum inccl_collective collective;
	const void *send;
	void *recv;
	size_t count;
	enum inccl_dtype dtype;
	enum inccl_op op;
	int root;
};

int inccl_fallback_run(struct inccl_fallback *fallback, const struct inccl_fallback_call *call);
const char *inccl_fallback_reason(struct inccl_fallback *fallback);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

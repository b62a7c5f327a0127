/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libinccl - collectives that a switch computes on the way
 *
 * Synopsis:
 *	cc sum.c $(pkg-config --cflags --libs libinccl)
 *
 * Objects:
 * Each rank of a job gives its part of a vector. A switch between the ranks adds the parts up and
 * sends the sum to the ranks that want it. A *group* is the ranks of a job, and a controller knows
 * it by the job's name. A *communicator* is one RoCEv2 connection from each rank to its switch, or
 * several beside each other, its *channels*. Collectives run on it, in the same order on every
 * rank. A group can be made of some of another group's ranks, of survivors, or of more ranks.
 *
 *	struct inccl_group *group;
 *	struct inccl_communicator *comm;
 *
 *	err = inccl_group_create(NULL, &group);		(all from the environment)
 *	err = inccl_communicator_create(group, NULL, &comm);
 *	err = inccl_allreduce(comm, mine, sum, count, INCCL_INT32, INCCL_SUM, NULL);
 *	inccl_communicator_destroy(comm);
 *	inccl_group_destroy(group);
 *
 * Results:
 * Every function that can fail returns 0 or a negative errno(3). inccl_strerror() explains it in
 * one line. An error of a communicator is final: every pending and later call on the communicator
 * returns it. Then inccl_communicator_error() explains the failure in one line. If the rank that
 * caused it is known, inccl_communicator_failed_rank() returns that rank. A rank can fail by
 * itself, because of its device, its options or a packet that has become too long. The other ranks
 * learn that at once. They return its errno, and their explanation names the rank.
 *
 * Option structs:
 * An option struct begins with its own size, sz, which the caller sets. INCCL_OPTS() declares a
 * struct with its size set and the other members zero or as given. Zero always means the default.
 * A member that an older caller's struct lacks counts as zero. A member that the library does not
 * know must be zero, or the call fails with -E2BIG. NULL stands for a struct of zeros. If the
 * struct has @error and error_size, a call that fails writes a line of explanation to @error, of
 * error_size bytes at most, the final 0 included.
 *
 * Time:
 * Times are in milliseconds, and INT32_MAX at most. No call waits for ever: its timeouts limit the
 * creation of an object, and timeout_ms limits the time in which a collective makes no progress.
 * A group that has lost its controller is over: nothing new can ever begin in it. Collectives that
 * run go on, and the library keeps looking for the controller. While it is lost, ranks are not
 * notified of dead ranks. Therefore a collective fails after 5 seconds without progress then.
 *
 * A look-up of the controller's name may outlive the call that began it, on a thread of its own.
 * Therefore the shared library stays loaded after dlclose(3). A plugin that contains libinccl.a
 * must be linked with "-z nodelete", or stay loaded itself.
 *
 * Threads:
 * Any thread may call any function on any object, but an object must not be destroyed while another
 * thread is inside a call on it. If several threads start collectives on one communicator, the
 * caller must order the starts, because all ranks have to start the collectives in the same order.
 *
 * A communicator has one thread for each channel. That of the first channel serves it while no
 * caller waits, and the others serve theirs all the time. A group has one, which receives from the
 * controller. Communicators whose transport is verbs share one more thread while any of them keeps
 * registrations for reuse: it notices when registered memory goes away. The library's only other
 * global state is a list of fallbacks (inccl_fallback.h). All these threads block all signals. Each
 * has a stack of 1 MiB, whatever RLIMIT_STACK is, and a log callback may run on that stack.
 *
 * The library's threads must run while the program computes, because the controller declares a rank
 * dead whose thread does not answer for 3 seconds (inc-controller --member-timeout-ms). Therefore
 * the threads inherit neither policy nor CPUs of the thread that creates them. They are not
 * realtime, even if the caller is. They may run on the CPUs that the process had when the library
 * was loaded: those of taskset(1), a launcher or a cpuset, and not those of a pinned thread. If
 * realtime threads occupy all of these CPUs and never sleep, the kernel's throttling of realtime
 * must be on (kernel.sched_rt_runtime_us is not -1), as it is by default. The kernel lets a
 * SCHED_DEADLINE thread create no thread. Such a thread cannot create a group or a communicator
 * (-EAGAIN), but it may start collectives and wait for them.
 *
 * A thread that calls the library needs a stack of INCCL_MIN_STACK_BYTES (64 KiB), and what its own
 * log callback needs. Only inccl_wait() is a cancellation point, and only while it sleeps.
 *
 * The caller may use OpenSSL itself, on the same threads. A call leaves the thread's queue of
 * OpenSSL errors as it was, except that marks of ERR_set_mark() may get lost.
 *
 * Descriptors:
 * The library's descriptors are 3 or above, so that a program without standard streams cannot print
 * into a connection. Only libibverbs may open a device as a lower one, which accepts no text.
 *
 * Fork:
 * A group and its communicators belong to the process that made them. In a child of that process
 * inccl_communicator_destroy() and inccl_group_destroy() free memory, close descriptors and return
 * 0. They send nothing, so the parent's job goes on. Some memory stays until the child ends. Every
 * other call on these objects returns -ECHILD, or -1 for a failed rank, and error texts say why. A
 * child may make groups. While a child holds the parent's descriptors, only the controller's
 * timeout detects the parent's death. A child that executes another program holds none.
 *
 * Memory:
 * Objects belong to the caller until it destroys them. Texts that a function returns belong to the
 * library, and the description of the function says how long they live. Buffers of a collective
 * stay the caller's. The library reads @send and writes @recv until the collective has ended. A
 * call that makes an object stores its address through its last argument. On success the object
 * belongs to the caller. On an error the address is NULL.
 *
 * Environment:
 * The library reads these variables for options that are left at their defaults:
 *
 * INCCL_CONTROLLER	HOST or HOST:PORT of the controller (port 52200), or a list with commas.
 * INCCL_KEY	File with the key that proves to the controller, by TLS 1.3, who this rank is
 *		(docs/control.md, "Keys").
 * INCCL_TLS_CERT, INCCL_TLS_CERT_KEY, INCCL_TLS_CA
 *		Instead of a key: PEM files of a certificate, its private key, and the peer's CA.
 * INCCL_JOB	Name of the job, the same on every rank.
 * INCCL_RANK, INCCL_WORLD_SIZE	This rank, and the number of ranks.
 * INCCL_ADDR, INCCL_IFNAME	Own address on the fabric, or its interface. Default: all NICs.
 * INCCL_TRANSPORT	auto, soft or verbs.
 * INCCL_VERBS	Settings of verbs, such as "timeout=16". Soft endpoints have traffic_class alone.
 * INCCL_CHANNELS	Channels of every communicator, 1 to 16. By default the controller chooses.
 * INCCL_USE	Use of communicators, such as "float32,16M" (inccl_communicator_create()).
 * INCCL_START_PSN	First packet sequence number of communicators, for tests. Default: random.
 * INCCL_POLL_US	Microseconds for which a waiting call polls first (default 50; 0: none).
 * INCCL_NODE	off: ranks of one machine share no memory (no_node).
 * INCCL_DEBUG	1: the library prints its decisions to stderr.
 *
 * After these the library reads variables of launchers. The rank comes from OMPI_COMM_WORLD_RANK
 * and OMPI_COMM_WORLD_SIZE, PMI_RANK and PMI_SIZE, SLURM_PROCID and SLURM_NTASKS, or RANK and
 * WORLD_SIZE, the job from PMIX_NAMESPACE or SLURM_JOB_ID, and the controller from MASTER_ADDR.
 *
 * See also:
 * inccl_group_create(), inccl_communicator_create(), inccl_allreduce(), inccl-perf(1),
 * inc-controller(8), inc-switchd(8)
 */
#ifndef INCCL_H
#define INCCL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)
#define INCCL_VERSION_MAJOR 0
#define INCCL_VERSION_MINOR 2
#define INCCL_VERSION_PATCH 0

#define INCCL_MIN_STACK_BYTES (64 << 10)

struct inccl_group;
struct inccl_communicator;
struct inccl_request;

/* Declares an option struct with its size set and the other members zero or as given:
 *	INCCL_OPTS(inccl_group_opts, opts, .job = "train-7");	*/
#ifdef __cplusplus
/* clang-format off */
#define INCCL_OPTS(type, name, ...) \
	_Pragma("GCC diagnostic push") \
	_Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"") \
	struct type name = {.sz = sizeof(struct type), ##__VA_ARGS__}; \
	_Pragma("GCC diagnostic pop") static_assert(true, "")
/* clang-format on */
#else
#define INCCL_OPTS(type, name, ...) struct type name = {.sz = sizeof(struct type), ##__VA_ARGS__}
#endif

/*
 * inccl_group_create, inccl_group_destroy - join the group of a job, leave it
 *
 * inccl_group_create() finds the controller, joins the group that the job's name stands for, and
 * waits until all ranks have joined. A member of @opts that is zero comes from the environment (see
 * libinccl(3)), and so do all of them if @opts is NULL.
 *
 * inccl_group_destroy() leaves the group and frees it. NULL is allowed. The name is free at once.
 *
 * Errors:
 * -EINVAL	An option or variable is wrong or missing. Or the controller has another world size
 *		for this job, or its topology's switches cannot serve so many ranks.
 * -E2BIG	An option that this library does not know.
 * -ECONNREFUSED, -EHOSTUNREACH, ...	No controller answers there. -EHOSTUNREACH also: the
 *		controller's name does not exist.
 * -EAGAIN	No name server answers for the controller's name.
 * -ETIMEDOUT	The controller or the look-up of its name does not answer, or ranks are missing.
 * -EPROTO, -EPROTONOSUPPORT	The peer does not speak our protocol, or speaks another version.
 * -EEXIST	Another process has this rank.
 * -ENOENT	@join is set, and no such job runs.
 * -EADDRNOTAVAIL	No address of this machine is in the topology.
 * -ENOMEM	No memory.
 * -EBUSY	inccl_group_destroy(): the group has communicators.
 *
 * Example:
 *	char error[256] = "";
 *	INCCL_OPTS(inccl_group_opts, opts, .job = "train-7", .controller = "10.0.0.1",
 *		   .error = error, .error_size = sizeof(error));
 *
 *	if (inccl_group_create(&opts, &group))
 *		fprintf(stderr, "%s\n", error);
 *
 * See also:
 * inccl_group_rank(), inccl_group_grow(), inccl_communicator_create()
 */
struct inccl_group_opts {
	size_t sz; /* sizeof(struct inccl_group_opts) */
	/* Name of the job, the same on every rank: 1 to 64 printable ASCII characters without
	 * blanks. "default" if the environment has no name either. */
	const char *job;
	const char *controller; /* "HOST" or "HOST:PORT", or a list with commas */
	int rank;               /* this rank, from 0; read only if world_size is not 0 */
	int world_size;         /* ranks of the job; 0: it and rank come from the environment */
	/* Own address on the fabric, IPv4 or IPv6. NULL: the library offers all addresses of the
	 * machine, and the controller chooses the one that its topology has. */
	const char *address;
	const char *interface; /* the interface that has the address, instead of address */
	/* Time to look up the controller's name and to reach the controller, by whichever of the
	 * name's addresses answers first. Default: 5000; with a list of controllers 15000. */
	unsigned int connect_timeout_ms;
	/* Time until all ranks have joined. Default: 70000, so that the controller's own limit of
	 * 60 seconds ends the wait and names the missing ranks. If the process stands still, at
	 * most one second of that time counts. */
	unsigned int create_timeout_ms;
	char *error;       /* room for one line that explains a failed creation, or NULL */
	size_t error_size; /* bytes */
	/* The library calls log with each decision and its reason, as one line without a newline.
	 * Lines that begin with "waiting: " name the ranks for which this one has waited for 5
	 * seconds, with "slow: " the modes of switches that cost speed, and with "notice: " what a
	 * switch reports. The call comes from a thread of the library, or from a call of the
	 * caller's. The callback may ask about errors, ranks and statistics, but must not destroy
	 * an object or wait. It may run while another thread destroys a communicator, so a callback
	 * that asks about one must ensure that it still exists. None runs after the group is
	 * destroyed, also for splits. NULL: no lines, or on stderr if INCCL_DEBUG=1. */
	void (*log)(void *ctx, const char *line);
	void *log_ctx; /* the callback's first argument */
	/* 1: this rank joins a job that runs and whose ranks call inccl_group_grow(). world_size
	 * is then the new size, and rank the old size or more. */
	int join;
	/* 1: each rank has its own connection to the switch. By default ranks of one machine, 64 at
	 * most, share memory if they are processes of one user in one network namespace. */
	int no_node;
};

int inccl_group_create(const struct inccl_group_opts *opts, struct inccl_group **group);
int inccl_group_destroy(struct inccl_group *group);

/*
 * inccl_group_shrink, inccl_group_grow - a new group of the ranks that are left, or of more
 *
 * inccl_group_shrink() makes a group of the ranks that have neither left nor been lost, in the old
 * order. Each of them must call it. A rank that is lost meanwhile is omitted, too. The old group
 * may have failed, but not because it lost its controller. A shrink has precedence: a rank that
 * waits for another group to be made of this one gets -ECANCELED.
 *
 * inccl_group_grow() makes a group of world_size ranks. Every rank of the old group must call it
 * with the same size, and keeps its rank. The ranks from the old size on are processes that call
 * inccl_group_create() with @join set, with the new size and their rank, before or after.
 *
 * The new group has the same job's name, and communicators of its own. The old group stays the
 * caller's to destroy, and its communicators run on. All its ranks must make the same calls of this
 * kind, one after the other. Splits and duplicates of its communicators are such calls, too.
 *
 * Of @opts, which may be NULL, connect_timeout_ms, create_timeout_ms, @error and @log are read as
 * by inccl_group_create(). The other members must be 0. If @log is NULL, the new group calls the
 * old group's callback, until the new group is destroyed. A call that fails does so on all ranks.
 *
 * Errors:
 * -EINVAL	A NULL, a wrong option or size, or ranks that do not make the same call.
 * -E2BIG	An option that this library does not know.
 * -ETIMEDOUT	Ranks are missing, and the explanation names them.
 * -ECONNRESET, -ESHUTDOWN	inccl_group_grow(): a rank was lost or has left, or the controller
 *		is lost or has restarted.
 * -ECANCELED	inccl_group_grow(): a rank wants the group to shrink.
 * -EBUSY	Another group of the job grows.
 * -ENOMEM	No memory.
 *
 * Or the error with which the old group has failed. If a rank cannot join the new group, all ranks
 * get the error of its inccl_group_create().
 *
 * Example:
 * The ranks that survive go on:
 *
 *	err = inccl_allreduce(comm, mine, sum, count, INCCL_INT32, INCCL_SUM, NULL);
 *	if (err == -ECONNRESET && !inccl_group_shrink(group, NULL, &rest)) {
 *		inccl_communicator_destroy(comm);
 *		inccl_group_destroy(group);
 *		group = rest;
 *		err = inccl_communicator_create(group, NULL, &comm);
 *	}
 *
 * See also:
 * inccl_group_create(), inccl_communicator_split()
 */
int inccl_group_shrink(struct inccl_group *group, const struct inccl_group_opts *opts,
		       struct inccl_group **out);
int inccl_group_grow(struct inccl_group *group, int world_size, const struct inccl_group_opts *opts,
		     struct inccl_group **out);

/*
 * inccl_group_rank, inccl_group_size, inccl_group_error - ranks of a group, and why it has failed
 *
 * inccl_group_rank() is the caller's own rank, from 0, and inccl_group_size() the number of ranks.
 * Neither changes while the group lives.
 *
 * inccl_group_error() says why nothing new can begin in the group any more: it has lost a rank, or
 * its controller. After the loss of the controller, collectives that run may still succeed.
 *
 * None of these functions waits. Any thread may call them, and a log callback, too.
 *
 * Return value:
 * inccl_group_rank() and inccl_group_size() return the number, or -EINVAL for NULL.
 * inccl_group_error() returns a line that lives as long as the group, or NULL: it has not failed.
 *
 * Errors:
 * -EINVAL	@group is NULL.
 *
 * Example:
 *	if (inccl_group_rank(group) == 0)
 *		printf("%d ranks\n", inccl_group_size(group));
 *
 * See also:
 * inccl_group_create(), inccl_communicator_error()
 */
int inccl_group_rank(const struct inccl_group *group);
int inccl_group_size(const struct inccl_group *group);
const char *inccl_group_error(struct inccl_group *group);

/*
 * inccl_communicator_create, inccl_communicator_destroy - connect the ranks through their switch
 *
 * inccl_communicator_create() creates the next communicator of the group. Every rank must do so, in
 * the same order. The call returns when all ranks have called it and all connections are up. A
 * creation that fails counts: it fails for all ranks, each of which gets the error of the first
 * rank to fail. The next call is for the next communicator. @opts may be NULL.
 *
 * inccl_communicator_destroy() ends and frees the communicator without waiting for the other ranks.
 * Ranks still in their last collective finish it. Requests not collected are gone with the
 * communicator. This rank may not have sent all that it gives to such a request, or the data may
 * not reach the switch within 200 ms. Then the others cannot finish it, and get -ECANCELED. The
 * call always frees, and returns the error that ended the communicator, or 0. NULL is allowed.
 *
 * Errors:
 * -EINVAL	Options are out of range, or ranks disagree.
 * -E2BIG	An option that this library does not know. Or the communicator has more ranks or
 *		slots than its switches have room for when they are empty.
 * -EOPNOTSUPP	The transport is not usable on this machine.
 * -ETIMEDOUT	Ranks are missing.
 * -EHOSTUNREACH	A switch is not connected to the controller.
 * -ENOSPC	A switch is full. The explanation says what it lacks, and which job holds most.
 * -EDQUOT	The job has used up its share, which the controller limits.
 * -ECONNRESET	A rank was lost.
 * -ESHUTDOWN	A rank has left the group, or the controller has restarted.
 * -ENOMEM	No memory.
 *
 * Other errors are those of inccl_group_create().
 *
 * Example:
 *	INCCL_OPTS(inccl_communicator_opts, opts, .payload = 1024, .timeout_ms = 10000);
 *
 *	err = inccl_communicator_create(group, &opts, &comm);
 *
 * See also:
 * inccl_group_create(), inccl_communicator_info(), inccl_allreduce()
 */
enum inccl_transport_kind {
	INCCL_TRANSPORT_AUTO = 0, /* verbs if the host has a usable RDMA port, else soft */
	/* the library's own RC endpoint on a UDP socket, without device or privileges */
	INCCL_TRANSPORT_SOFT = 1,
	INCCL_TRANSPORT_VERBS = 2, /* the endpoint of an RDMA device, through libibverbs */
};

/* The byte order of elements on the wire. Buffers are always in the machine's order. */
enum inccl_byte_order {
	INCCL_ORDER_LITTLE = 0,
	INCCL_ORDER_NETWORK = 1, /* big endian, the order of networks */
};

struct inccl_communicator_opts {
	size_t sz;
	enum inccl_transport_kind transport; /* kind of transport; ranks may differ */
	/* Largest packet payload in bytes: 256, 512, 1024, 2048 or 4096. The smallest of all ranks
	 * counts. It is at most 2048 where a switch of the tree is in passthrough mode. Default: as
	 * much as the MTU of the interface and of its routes allows. */
	unsigned int payload;
	/* Packets per message, the same on every rank. If all switches of the tree are in
	 * termination mode: 1 to 1024, and at most 1 MiB together. Otherwise: 1 to 64, or fewer if
	 * a switch accepts fewer. Default: 64 KiB in termination mode, otherwise 1 packet. */
	unsigned int message_packets;
	/* Messages in flight at most; packets if message_packets is the default. window *
	 * message_packets is at most 4096. It becomes smaller if a switch in termination mode, or
	 * another rank, can hold fewer. Default: 256 packets, or 512 for the soft transport if all
	 * switches are in termination mode; fewer if the socket's receive buffer holds fewer. A
	 * packet with a payload of 4096 bytes counts as two there. */
	unsigned int window;
	/* A collective fails if it makes no progress for so long. Default: 30000. */
	unsigned int timeout_ms;
	/* Time until all ranks have their connection. Default: 70000. If the process stands still,
	 * at most one second of that time counts. */
	unsigned int create_timeout_ms;
	/* NULL, or room for one line that explains a failed creation, or missing channels */
	char *error;
	size_t error_size; /* bytes */
	/* Settings of the verbs transport, "key=value,...". They override those of the variable
	 * INCCL_VERBS, which has the same form. docs/verbs.md lists them. */
	const char *verbs;
	/* Byte order of elements on the wire, the same on every rank. If it is not the machine's,
	 * packets are converted in the library's own memory, one window for all collectives. */
	enum inccl_byte_order byte_order;
	unsigned int unused; /* padding of earlier versions, which may have any value */
	/* Number of channels, 1 to 16. Each counts towards quotas like a communicator. The least
	 * that a rank asks for counts, and all ranks have fewer if one is refused. Default: 1 to 4
	 * by the CPUs and queues of switches; 1 if a switch or this host has fewer than 4 CPUs. */
	unsigned int channels;
	/* The use of the communicator, by which the controller chooses the mode of switches that
	 * are in mode auto. Words with commas: the size of the largest usual vector, with a suffix
	 * K, M or G, and optionally names of types and operators, and "write" for RDMA WRITE:
	 * "float32,16M", "int32,4K,write". Ranks may differ. Default: large vectors of floats. */
	const char *use;
	/* The communicator fails if its switch leaves unanswered, for so long, what is sent to it
	 * again and again. A late rank does not cause that. Default, and with verbs: no limit. */
	unsigned int silence_ms;
	/* 1: inccl_test() and the starts return -EAGAIN where they would wait, for however short a
	 * time, for a thread of the library. Calls by which the communicator fails may wait. */
	unsigned int no_wait;
};

int inccl_communicator_create(struct inccl_group *group, const struct inccl_communicator_opts *opts,
			      struct inccl_communicator **comm);
int inccl_communicator_destroy(struct inccl_communicator *comm);

/*
 * inccl_communicator_split, inccl_communicator_duplicate - communicators of a communicator's ranks
 *
 * inccl_communicator_split() makes one communicator for each @color, as MPI does. Its ranks are
 * those that have called with this color, in the order of @key. Ranks with equal keys keep their
 * order in @comm. A color is 0 to INT32_MAX. Any negative color, such as INCCL_UNDEFINED, stands
 * for no communicator: the call takes part, returns 0, and *out is NULL.
 *
 * inccl_communicator_duplicate() makes one communicator of the same ranks.
 *
 * Every rank of @comm must make the same call, and one such call after the other. Calls of
 * inccl_group_shrink() and inccl_group_grow() on its group count as such calls. If @opts is NULL,
 * the new communicator gets the options that @comm was created with, and the transport that @comm
 * has. Otherwise @opts are those of inccl_communicator_create(). @comm goes on, and may be
 * destroyed before the new communicator.
 *
 * inccl_communicator_info() returns the caller's rank in the new communicator and the number of its
 * ranks. Failures name ranks of the new communicator. If one fails, all of @comm get an error.
 *
 * Errors:
 * Those of inccl_communicator_create() and inccl_group_shrink(), the error of @comm, and:
 *
 * -EINVAL	A NULL, options out of range, or ranks that do not make the same call.
 * -ECANCELED	A rank wants the group to shrink.
 * -ETIMEDOUT	Ranks are missing.
 * -ECONNRESET, -ESHUTDOWN	A rank was lost, or has left.
 *
 * Example:
 * Communicators of four neighbours, each with the highest rank first:
 *
 *	err = inccl_communicator_split(comm, rank / 4, -rank, NULL, &part);
 *
 * See also:
 * inccl_communicator_create(), inccl_communicator_info(), inccl_group_shrink()
 */

#define INCCL_UNDEFINED (-1)

int inccl_communicator_split(struct inccl_communicator *comm, int color, int key,
			     const struct inccl_communicator_opts *opts,
			     struct inccl_communicator **out);
int inccl_communicator_duplicate(struct inccl_communicator *comm,
				 const struct inccl_communicator_opts *opts,
				 struct inccl_communicator **out);

/*
 * inccl_communicator_info, inccl_communicator_error, inccl_communicator_failed_rank - properties
 * and counters of a communicator, and why it has failed
 *
 * inccl_communicator_info() fills as many members of @info as the caller's sz covers. Members that
 * the library does not know become 0.
 *
 * inccl_communicator_error() says in one line why the communicator has failed, and
 * inccl_communicator_failed_rank() which rank caused the failure.
 *
 * None of these functions waits. Any thread may call them, and a log callback, too.
 *
 * The statistics count from the communicator's creation on, and are the sums over its channels.
 * Those that are marked "soft" stay 0 with the verbs transport, because its device does not report
 * them. Window, slots, number, device and peer are those of the first channel.
 *
 * Return value:
 * Of inccl_communicator_info(): 0 or -EINVAL. Of inccl_communicator_error(): a line, or NULL while
 * the communicator has not failed. Of inccl_communicator_failed_rank(): a rank, or -1 if no rank
 * caused the failure or the rank is not known. All texts live as long as the communicator.
 *
 * Errors:
 * -EINVAL	@comm or @info is NULL, or sz is not a size of the struct.
 *
 * Example:
 *	struct inccl_communicator_info info = {.sz = sizeof(info)};
 *
 *	inccl_communicator_info(comm, &info);
 *	printf("%s by %s, %llu resends\n", info.peer, info.transport,
 *	       (unsigned long long)info.packets_resent);
 *
 * See also:
 * inccl_communicator_create(), inccl-perf(1)
 */

/* _(name, unit, text) */
#define INCCL_STATISTICS(_)                                                                     \
	_(packets_sent, "packets", "contributions, each counted once")                          \
	_(packets_resent, "packets", "contributions sent again (soft)")                         \
	_(results, "packets", "results received")                                               \
	_(duplicates, "packets", "results that were there already (soft)")                      \
	_(reordered, "packets", "results that came after a later one (soft)")                   \
	_(bad_packets, "packets", "dropped: ICRC, length, unknown sender, out of range (soft)") \
	_(acks_sent, "packets", "ACKs of results (soft)")                                       \
	_(acks_received, "packets", "ACKs; with verbs, of sends that asked for it")             \
	_(naks_sent, "packets", "NAKs of results (soft)")                                       \
	_(naks_received, "packets", "NAKs of contributions (soft)")                             \
	_(rnrs_received, "packets", "requests to wait, RNR NAKs (soft)")                        \
	_(timeouts, "times", "the retransmission timer ran out (soft)")                         \
	_(send_calls, "calls", "to the kernel to send, or posts to the device")                 \
	_(recv_calls, "calls", "to the kernel to receive, or looks at the completion queue")    \
	_(congested, "times", "the network was congested, and fewer packets were sent (soft)")

struct inccl_communicator_info {
	size_t sz;
	int rank;
	int world_size;
	unsigned int payload;         /* bytes */
	unsigned int message_packets; /* packets */
	unsigned int window;          /* messages in flight at most */
	unsigned int slots;           /* slots of the communicator on its switch, in packets */
	unsigned int number;          /* the controller's number of this communicator */
	const char *transport;        /* "soft", "verbs", "node" (shared memory) */
	const char *device;           /* own endpoint: "10.77.0.1:40001", "rxe0/1" */
	const char *peer;             /* the switch: "s0 (10.77.0.254)" */
#define INCCL_STATISTIC_(name, unit, what) uint64_t name;
	INCCL_STATISTICS(INCCL_STATISTIC_)
#undef INCCL_STATISTIC_
	/* Accuracy of a sum of floats that are sent as integers, otherwise 0. Each rank's element
	 * is rounded to a multiple of 2^-float_bits of a bound, which all elements of its block are
	 * below on all ranks. Float64 has 32 bits more. */
	unsigned int float_bits;
	/* "s0 > r of 3 switches": the switches from this rank's to the root, and the number of
	 * switches in the tree. incctl tree draws them. */
	const char *tree;
	/* "passthrough", "termination" or "mixed": that of the tree's switches (docs/protocol.md).
	 * "node": all ranks share memory, and no switch is used. */
	const char *mode;
	/* inccl_allreduce(): floats are reduced "native", as they are, or "fixed", as integers */
	const char *floats;
	unsigned int channels; /* connections of this rank */
	/* why the controller has chosen @mode; "": it had no choice */
	const char *choice;
};

int inccl_communicator_info(struct inccl_communicator *comm, struct inccl_communicator_info *info);
const char *inccl_communicator_error(struct inccl_communicator *comm);
int inccl_communicator_failed_rank(struct inccl_communicator *comm);

/*
 * inccl_allreduce, inccl_allreduce_start, inccl_allreduce_sendrecv, inccl_allreduce_write - the
 * operator over all ranks' vectors, on every rank
 *
 * Element @i of @recv, on every rank, becomes the elements @i of all ranks' @send, combined by the
 * operator. Every rank must call it with the same @count, @dtype and @op, as the same collective in
 * the order of the communicator's.
 *
 * @send	@count elements at any address, which must not change until the end.
 * @recv	Room for @count elements at any address. It may be @send itself (in place), and must
 *		not overlap it otherwise, nor a buffer of another request in flight. After an error
 *		its content is undefined.
 * @count	Elements. 0 is allowed, and nothing is sent then.
 * @dtype	Type of the elements, which are in the machine's byte order.
 * @op	Operator. All but MINLOC and MAXLOC exist for integers. Floats have the sum, the average,
 *		the minimum and the maximum, and the product if switches add them natively (below).
 *		A sum of complex numbers is one of twice as many floats.
 * @opts	May be NULL. Ranks may differ in it, unless a member must be the same on every rank.
 *
 * inccl_allreduce() returns when the result is in @recv. inccl_allreduce_start() does not wait: it
 * returns a request, which inccl_test() or inccl_wait() must collect. Several requests may be in
 * flight, whose order of start must be the same on every rank.
 *
 * An AllReduce, Reduce or Broadcast of 512 KiB or more is cut into equal parts, one for each
 * channel of the communicator and at most one for each 256 KiB. The channels share one window. If
 * one fails, the communicator fails. The bits of a result do not depend on the number of channels,
 * except that native floats may differ where a network has several roots, because a channel may
 * have another tree there. Then, too, all ranks get the same bits.
 *
 * inccl_allreduce_sendrecv() and inccl_allreduce_write() are inccl_allreduce() of INCCL_INT32 by
 * INCCL_SUM, in the mode that the name has.
 *
 * Floats:
 * If all switches of the tree are in termination mode, or all ranks share memory, floats are added
 * as they are: @floats of inccl_communicator_info() is "native". A result has the same bits on
 * every rank and in every run. Float32 and float64 are added and multiplied as IEEE 754 defines it,
 * in the order of the ranks at each switch. Switches add float16 and bfloat16 in float32, and round
 * to the type once at each switch. Minimum and maximum are exact. A NaN in any part makes the
 * result NaN. float_block and float_exponent have no effect, which the library logs.
 *
 * Otherwise @floats is "fixed": the switches add integers. The ranks convert floats to integers and
 * back. Minimum and maximum are exact, and a NaN wins. SUM and AVG are computed in fixed point,
 * with one exponent for each float_block elements, counted from the first of @send. The result has
 * the same bits on every rank, whatever the order of arrival. For a sum,
 *
 *	|result - exact sum| <= ranks * 2^-float_bits * largest + ulp(result) / 2
 *
 * Here "largest" is the largest finite |element| of the block on any rank. It is at least 2^-126,
 * or 2^-1016 for float64. inccl_communicator_info() has float_bits: 30 with one rank, 29 with two,
 * 28 with four, 27 with eight. Float64 has 32 bits more, of which the rounding of exponents takes
 * up to 7. Infinities and NaN give the results of IEEE 754 addition. See docs/floats.md.
 *
 * In such a sum an element is sent as 4 bytes, or 8 of float64. On the wire the request is two
 * collectives for each 262144 elements (or for one block, if that is more), because the ranks first
 * agree on the exponents. There are three if an element is infinite or NaN. The library's own
 * memory is one window of packets for each communicator, and up to 1.3 MiB for each sum in flight.
 * Later requests wait until the last sum is on its way. Other collectives send floats as they are.
 *
 * Errors:
 * After these errors nothing was sent, and the communicator lives. The log and @error say why:
 *
 * -EINVAL	NULL for a buffer that is needed, buffers that overlap, too many elements, or a size
 *		of @opts that is not a size of the struct.
 * -E2BIG	An option that this library does not know.
 * -EOPNOTSUPP	A type, operator or mode that is not offered, or not by switches in this mode.
 * -EAGAIN	no_wait is set, and the start would have to wait.
 * -ENOMEM, -EFAULT	Memory that cannot be allocated, or registered with the device.
 *
 * Any other error is the communicator's, and final:
 *
 * -ETIMEDOUT	The collective made no progress for too long.
 * -ECONNRESET	A rank was lost.
 * -EREMOTEIO	The switch has refused a packet, mostly because ranks call different collectives.
 *		Or in a sum of floats they differ by type, operator, float_block or float_exponent.
 * -ERANGE	An element is not below 2^float_exponent, or has changed during the collective.
 * -EPROTO	A result that is not one of this collective.
 *
 * Example:
 * Two requests in flight, while the program computes:
 *
 *	for (k = 0; k < 2; k++)
 *		inccl_allreduce_start(comm, part[k], part[k], n, INCCL_INT32, INCCL_SUM, NULL,
 *				      &request[k]);
 *	compute();
 *	for (k = 0; k < 2; k++)
 *		if (inccl_wait(request[k], -1))
 *			return fail(inccl_communicator_error(comm));
 *
 * See also:
 * inccl_communicator_create(), inccl_reduce(), inccl_broadcast(), inccl_reduce_scatter(),
 * inccl_all_gather(), inccl_barrier(), inccl_wait()
 */
enum inccl_dtype {
	INCCL_INT32 = 0, /* integers with a sign are in two's complement */
	INCCL_UINT32 = 1,
	INCCL_INT64 = 2,
	INCCL_UINT64 = 3,
	INCCL_INT16 = 4,
	INCCL_UINT16 = 5,
	INCCL_INT8 = 6,
	INCCL_UINT8 = 7,
	INCCL_FLOAT32 = 8,
	INCCL_FLOAT16 = 9, /* binary16 of IEEE 754 */
	INCCL_BFLOAT16 = 10,
	INCCL_FLOAT64 = 11,
	/* A value and an int32_t, its index: 8 bytes, or 16 with padding. They have MINLOC and
	 * MAXLOC only, in whose results the padding is 0. */
	INCCL_INT32_INDEX = 12, /* struct {int32_t value; int32_t index;} */
	INCCL_FLOAT32_INDEX = 13,
	INCCL_INT64_INDEX = 14,
	INCCL_FLOAT64_INDEX = 15, /* struct {double value; int32_t index;} */
};

enum inccl_op {
	/* The sum. Of integers it is modulo 2^bits, so one that does not fit wraps silently. */
	INCCL_SUM = 0,
	INCCL_MIN = 1,
	INCCL_MAX = 2,
	INCCL_PROD = 3, /* of integers modulo 2^bits, like the sum */
	/* AND, OR and XOR are bitwise. */
	INCCL_AND = 4,
	INCCL_OR = 5,
	INCCL_XOR = 6,
	/* The sum, divided by the world size on each rank that gets it. Integers are rounded
	 * towards zero, floats to nearest. */
	INCCL_AVG = 7,
	/* The logical operators of integers, also of bool (INCCL_UINT8) and Fortran's LOGICAL
	 * (INCCL_INT32). An element that is not 0 is true. The result is 1 or 0. */
	INCCL_LAND = 8,
	INCCL_LOR = 9,
	INCCL_LXOR = 10,
	/* The smallest or largest value, and its lowest index. A NaN wins, and -0 is below +0. */
	INCCL_MINLOC = 11,
	INCCL_MAXLOC = 12,
};

enum inccl_mode {
	INCCL_MODE_DEFAULT = 0,  /* the same as INCCL_MODE_SENDRECV */
	INCCL_MODE_SENDRECV = 1, /* RDMA SEND into receives posted ahead */
	/* RDMA WRITE with immediate: results are written into recv. It is refused (-EOPNOTSUPP) if
	 * a switch of the tree is in termination mode, in which it has no such memory. */
	INCCL_MODE_WRITE = 2,
};

struct inccl_collective_opts {
	size_t sz;
	enum inccl_mode mode; /* how this rank's data move; ranks may differ in that */
	/* This collective fails if it makes no progress for so long, and the communicator fails
	 * with it. Default: the communicator's timeout_ms. */
	unsigned int timeout_ms;
	char *error;       /* room for one line that says why the start is refused, or NULL */
	size_t error_size; /* bytes */
	/* Number of elements that share an exponent, from the first one of send on. Default: 64.
	 * It is read for SUM and AVG of floats that are sent as integers, and must be the same on
	 * every rank. If ranks differ in it, in float_exponent, in the type of floats or in the
	 * operator, the communicator ends with -EREMOTEIO on every rank. */
	unsigned int float_block;
	/* NULL, or -126 to 128 (float64: -1016 to 1024), the same on every rank: each element is
	 * below 2^*float_exponent in size. Then the ranks need not exchange their largest elements
	 * first, and 2^(*float_exponent - 1) takes the place of the largest element in the bound. A
	 * rank with an element that is not below the limit, is infinite or is NaN sends nothing.
	 * Its call and the communicator fail with -ERANGE, and so do those of the other ranks. */
	const int *float_exponent;
};

int inccl_allreduce(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		    enum inccl_dtype dtype, enum inccl_op op,
		    const struct inccl_collective_opts *opts);
int inccl_allreduce_start(struct inccl_communicator *comm, const void *send, void *recv,
			  size_t count, enum inccl_dtype dtype, enum inccl_op op,
			  const struct inccl_collective_opts *opts, struct inccl_request **request);
int inccl_allreduce_sendrecv(struct inccl_communicator *comm, const int32_t *send, size_t count,
			     int32_t *recv);
int inccl_allreduce_write(struct inccl_communicator *comm, const int32_t *send, size_t count,
			  int32_t *recv);

/*
 * inccl_reduce, inccl_reduce_start - the operator over all ranks' vectors, on one rank
 *
 * Element @i of the root's @recv becomes the elements @i of all ranks' @send, combined by the
 * operator. The switch sends the result to the root alone, and notifies the other ranks of the end.
 *
 * Every rank must call it with the same @count, @dtype, @op and @root, as the same collective in
 * the order of the communicator's.
 *
 * @send	@count elements, on every rank.
 * @recv	On the root: room for @count elements. It may be @send itself (in place), and must
 *		not overlap it otherwise. On other ranks it is ignored and may be NULL.
 * @root	The rank that gets the result.
 *
 * The other arguments, errors and requests are those of inccl_allreduce().
 *
 * Errors:
 * Those of inccl_allreduce(), and:
 *
 * -EINVAL	@root is not a rank.
 *
 * Example:
 *	err = inccl_reduce(comm, mine, total, 1024, INCCL_INT64, INCCL_MAX, 0, NULL);
 *	if (!err && inccl_group_rank(group) == 0)
 *		print(total);
 *
 * See also:
 * inccl_allreduce(), inccl_reduce_scatter(), inccl_wait()
 */
int inccl_reduce(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		 enum inccl_dtype dtype, enum inccl_op op, int root,
		 const struct inccl_collective_opts *opts);
int inccl_reduce_start(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		       enum inccl_dtype dtype, enum inccl_op op, int root,
		       const struct inccl_collective_opts *opts, struct inccl_request **request);

/*
 * inccl_broadcast, inccl_broadcast_start - one rank's vector, on every rank
 *
 * Every rank's @recv becomes the root's @send, the root's own @recv too: the library copies it
 * there. Only the root sends data, once, and the switch sends it to the other ranks.
 *
 * Every rank must call it with the same @count, @dtype and @root, in the order of the communicator.
 *
 * @send	On the root: @count elements. On other ranks it is ignored and may be NULL.
 * @recv	Room for @count elements, on every rank. On the root it may be @send itself (in
 *		place), which is then only read, and must not overlap it otherwise.
 * @root	The rank that gives the elements.
 *
 * The other arguments, errors and requests are those of inccl_allreduce().
 *
 * Errors:
 * Those of inccl_allreduce(), and:
 *
 * -EINVAL	@root is not a rank.
 *
 * Example:
 * Rank 0's weights, in place on every rank:
 *
 *	err = inccl_broadcast(comm, weights, weights, n, INCCL_INT32, 0, NULL);
 *
 * See also:
 * inccl_allreduce(), inccl_all_gather(), inccl_wait()
 */
int inccl_broadcast(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		    enum inccl_dtype dtype, int root, const struct inccl_collective_opts *opts);
int inccl_broadcast_start(struct inccl_communicator *comm, const void *send, void *recv,
			  size_t count, enum inccl_dtype dtype, int root,
			  const struct inccl_collective_opts *opts, struct inccl_request **request);

/*
 * inccl_reduce_scatter, inccl_reduce_scatter_start - the operator over all vectors, a block each
 *
 * The vectors are world_size blocks of @count elements. Rank @r's @recv becomes block @r of all
 * ranks' @send, combined by the operator. The switch sends each block to its rank alone.
 *
 * Every rank must call it with the same @count, @dtype and @op, in the order of the communicator.
 *
 * @send	world_size blocks of @count elements.
 * @recv	Room for one block. It may be this rank's block of @send, which is @send + @rank *
 *		@count elements (in place), or must not overlap @send. Other blocks do not change.
 * @count	Elements of a block.
 *
 * The other arguments, errors and requests are those of inccl_allreduce().
 *
 * Errors:
 * Those of inccl_allreduce().
 *
 * Example:
 * In place, as each rank's part of a sum of gradients:
 *
 *	int32_t *part = gradients + inccl_group_rank(group) * n;
 *
 *	err = inccl_reduce_scatter(comm, gradients, part, n, INCCL_INT32, INCCL_SUM, NULL);
 *
 * See also:
 * inccl_allreduce(), inccl_reduce(), inccl_all_gather(), inccl_wait()
 */
int inccl_reduce_scatter(struct inccl_communicator *comm, const void *send, void *recv,
			 size_t count, enum inccl_dtype dtype, enum inccl_op op,
			 const struct inccl_collective_opts *opts);
int inccl_reduce_scatter_start(struct inccl_communicator *comm, const void *send, void *recv,
			       size_t count, enum inccl_dtype dtype, enum inccl_op op,
			       const struct inccl_collective_opts *opts,
			       struct inccl_request **request);

/*
 * inccl_all_gather, inccl_all_gather_start - all ranks' vectors, one behind another, on every rank
 *
 * Block @r of every rank's @recv becomes rank @r's @send. Each rank sends its own block, once, and
 * the switch sends it to the other ranks.
 *
 * Every rank must call it with the same @count and @dtype, in the order of the communicator.
 *
 * @send	@count elements.
 * @recv	Room for world_size blocks of @count elements. @send may be this rank's block of it,
 *		which is @recv + @rank * @count elements (in place), or must not overlap it.
 * @count	Elements of a block.
 *
 * The other arguments, errors and requests are those of inccl_allreduce().
 *
 * Errors:
 * Those of inccl_allreduce().
 *
 * Example:
 * Every rank learns the counts of all ranks:
 *
 *	err = inccl_all_gather(comm, &mine, all, 1, INCCL_UINT64, NULL);
 *
 * See also:
 * inccl_allreduce(), inccl_broadcast(), inccl_reduce_scatter(), inccl_wait()
 */
int inccl_all_gather(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		     enum inccl_dtype dtype, const struct inccl_collective_opts *opts);
int inccl_all_gather_start(struct inccl_communicator *comm, const void *send, void *recv,
			   size_t count, enum inccl_dtype dtype,
			   const struct inccl_collective_opts *opts,
			   struct inccl_request **request);

/*
 * inccl_barrier, inccl_barrier_start - wait until every rank has called it
 *
 * inccl_barrier() returns when every rank of the communicator has called it, as the same collective
 * in the order of the communicator's. It moves no data. inccl_barrier_start() does not wait: its
 * request, which inccl_test() or inccl_wait() must collect, ends when every rank has begun its own.
 *
 * @opts may be NULL; see inccl_allreduce(). The time until the slowest rank calls counts as time
 * without progress, for which a barrier may need a timeout_ms of its own.
 *
 * Errors:
 * Those of inccl_allreduce().
 *
 * Example:
 *	INCCL_OPTS(inccl_collective_opts, patient, .timeout_ms = 600000);
 *
 *	err = inccl_barrier(comm, &patient);
 *
 * See also:
 * inccl_allreduce(), inccl_wait()
 */
int inccl_barrier(struct inccl_communicator *comm, const struct inccl_collective_opts *opts);
int inccl_barrier_start(struct inccl_communicator *comm, const struct inccl_collective_opts *opts,
			struct inccl_request **request);

/*
 * inccl_wait, inccl_test - collect a collective that was started
 *
 * inccl_test() checks, without waiting, whether the collective has ended. inccl_wait() waits up to
 * timeout_ms milliseconds for the end, and with -1 until the end or the collective's time limit.
 *
 * Both return -EAGAIN while the collective has not ended. Any other value is its result, and the
 * request is gone. Each request must be collected once, by any thread, in any order. Destroying the
 * communicator collects the remaining requests.
 *
 * Progress does not depend on these calls: the library's own thread makes it when no other does.
 *
 * inccl_wait() is a cancellation point while it sleeps (see pthread_cancel(3)). The request of a
 * thread that was cancelled still exists, and another thread must collect it.
 *
 * Return value:
 * 0: the result is in @recv. -EAGAIN or another negative error number.
 *
 * Errors:
 * -EAGAIN	The collective has not ended yet, and the request still exists.
 * -EINVAL	@request is NULL.
 *
 * Otherwise the final errors of inccl_allreduce().
 *
 * Example:
 *	while ((err = inccl_test(request)) == -EAGAIN)
 *		compute();
 *
 * See also:
 * inccl_allreduce(), inccl_barrier()
 */
int inccl_test(struct inccl_request *request);
int inccl_wait(struct inccl_request *request, int timeout_ms);

/*
 * inccl_dtype_size, inccl_collective_name, inccl_op_name, inccl_dtype_name, inccl_collective_parse,
 * inccl_op_parse, inccl_dtype_parse - sizes of types, names of values and values of names
 *
 * inccl_dtype_size() is the size of one element in bytes.
 *
 * A name is that of the value in lower case without INCCL_, such as "sum", "bfloat16" and
 * "allreduce". Only "reducescatter" and "allgather" have no underscore. Any thread may call them.
 *
 * Return value:
 * inccl_dtype_size() returns bytes, or 0 for a type that the library does not know. The functions
 * whose names end in "name" return a static text, or NULL for an unknown value. The functions whose
 * names end in "parse" return 0, or -EINVAL, and the value is then unchanged.
 *
 * Errors:
 * -EINVAL	The name is not known, or NULL.
 *
 * Example:
 *	if (inccl_dtype_parse(argv[1], &dtype))
 *		return usage();
 *	buf = malloc(count * inccl_dtype_size(dtype));
 *
 * See also:
 * inccl_allreduce()
 */
enum inccl_collective {
	INCCL_ALLREDUCE = 0,
	INCCL_REDUCE = 1,
	INCCL_BROADCAST = 2,
	INCCL_BARRIER = 3,
	INCCL_REDUCE_SCATTER = 4,
	INCCL_ALL_GATHER = 5,
};

size_t inccl_dtype_size(enum inccl_dtype dtype);
const char *inccl_collective_name(enum inccl_collective collective);
const char *inccl_op_name(enum inccl_op op);
const char *inccl_dtype_name(enum inccl_dtype dtype);
int inccl_collective_parse(const char *name, enum inccl_collective *collective);
int inccl_op_parse(const char *name, enum inccl_op *op);
int inccl_dtype_parse(const char *name, enum inccl_dtype *dtype);

/*
 * inccl_strerror, inccl_version - the meaning of a return value, and the version of the library
 *
 * inccl_strerror() says in one English line what a return value of this library means. The sign
 * does not matter. For the error of a communicator inccl_communicator_error() says more.
 *
 * inccl_version() is the version of the library that runs, "MAJOR.MINOR.PATCH". That of the header
 * is in INCCL_VERSION_MAJOR, INCCL_VERSION_MINOR and INCCL_VERSION_PATCH.
 *
 * Any thread may call them at any time.
 *
 * Return value:
 * A static text, never NULL.
 *
 * Example:
 *	fprintf(stderr, "allreduce: %s\n", inccl_strerror(err));
 *
 * See also:
 * inccl_communicator_error()
 */
const char *inccl_strerror(int err);
const char *inccl_version(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

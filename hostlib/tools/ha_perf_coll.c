/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ha-nccl-perf --collnet: plays the part of NCCL's proxy for collectives in the network
 * (docs/nccl.md has the table of calls). Each rank is a node with one GPU, so NCCL would use the
 * algorithm CollNetChain. A vector goes through staging buffers in chunks. Up to 8 channels are a
 * group, whose chunks lie beside each other and are one call. The last chunk
 * has old data of earlier calls behind its own, as in NCCL.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "hostlib/tools/ha_perf.h"

/* NCCL's numbers: steps of a buffer, the buffer of a channel, and channels of a group. */
#define STEPS        8u
#define BUFFER_BYTES (4ull << 20)
#define SLOT_BYTES   (BUFFER_BYTES / STEPS)
#define GROUP        8u
#define MAX_GROUPS   ((HA_PERF_MAX_CHANNELS + GROUP - 1) / GROUP)
/* Fills the buffers to send at first. As floats these are numbers that would spoil their
 * neighbours' accuracy, or NaN. */
#define OLD_BYTE 0x7f
/* The comms of --cycles may leave so much on the heap, whatever their number. The C library keeps a
 * cache of freed memory for each thread. */
#define MAX_KEPT_BYTES (512 << 10)

/* A communicator of NCCL, with a comm of the plugin. */
struct side {
	void *listen, *comm;
	uint8_t handle[HA_NCCL_HANDLE_BYTES];
	uint8_t *staging; /* first the buffers to send, then those to receive */
	void *send_mhandle[HA_PERF_MAX_CHANNELS], *recv_mhandle[HA_PERF_MAX_CHANNELS];
	uint8_t *own, *result; /* the user's vectors */
	/* Calls are numbered step by step, and in a step group by group. */
	uint64_t started, completed; /* completed: all calls of the vector that are done */
	uint64_t done[MAX_GROUPS];   /* steps of each group */
	void *request[MAX_GROUPS][STEPS];
	bool filled; /* the staging buffers have the data of call number `started` */
};

static struct {
	unsigned int api;
	union {
		const void *table;
		/* v9 is also used for calls that are the same from version 9 on */
		const struct ha_nccl_coll_v8 *v8;
		const struct ha_nccl_coll_v9 *v9;
		const struct ha_nccl_coll_v11 *v11;
		const struct ha_nccl_coll_v12 *v12;
	};
	void *context;
	bool ready;
	struct side side[HA_PERF_MAX_COMMS];
	unsigned int channels, groups;
	size_t element_bytes, staging_bytes, vector_bytes;
	/* of the vector that is reduced now */
	uint64_t bytes, chunk_bytes, steps;
} coll;

/* ---- set-up --------------------------------------------------------------------------------- */

static int find_table(struct ha_net *net, unsigned int api)
{
	char symbol[40] = "";

	for (coll.api = api ?: HA_NET_NEWEST; coll.api >= (api ?: HA_NET_OLDEST); coll.api--) {
		snprintf(symbol, sizeof(symbol), "ncclCollNetPlugin_v%u", coll.api);
		coll.table = dlsym(net->library, symbol);
		if (coll.table)
			return 0;
	}
	return inc_err_set(&net->err, ENOENT, "the plugin has no %s%s", symbol,
			   api ? "" : " or newer");
}

static int init(struct ha_net *net)
{
	int err = coll.api >= 11
			  ? HA_NET_TIMED(net, init,
					 coll.v11->init(&coll.context, 1, ha_perf_plugin_log))
			  : HA_NET_TIMED(net, init, coll.v8->init(ha_perf_plugin_log));

	coll.ready = !err;
	return err;
}

static int get_properties(struct ha_net *net, int dev, uint64_t *max_bytes)
{
	struct ha_nccl_properties_v12 v12 = {};
	struct ha_nccl_properties_v11 v11 = {};
	struct ha_nccl_properties_v9 v9 = {};
	struct ha_nccl_properties_v8 v8 = {};
	int err;

	if (coll.api == 12)
		err = HA_NET_TIMED(net, getProperties, coll.v12->getProperties(dev, &v12));
	else if (coll.api == 11)
		err = HA_NET_TIMED(net, getProperties, coll.v11->getProperties(dev, &v11));
	else if (coll.api >= 9)
		err = HA_NET_TIMED(net, getProperties, coll.v9->getProperties(dev, &v9));
	else
		err = HA_NET_TIMED(net, getProperties, coll.v8->getProperties(dev, &v8));
	*max_bytes = coll.api == 12   ? v12.max_coll_bytes
		     : coll.api == 11 ? v11.max_coll_bytes
		     : coll.api >= 9  ? v9.max_coll_bytes
				      : HA_PERF_MAX_BYTES;
	if (!err && (!*max_bytes || *max_bytes > HA_NCCL_MAX_NET_BYTES))
		err = inc_err_set(&net->err, EPROTO,
				  "device %d: calls of at most %llu bytes are refused by NCCL", dev,
				  (unsigned long long)*max_bytes);
	return err;
}

/* Asks for the devices and their properties, as NCCL does when it searches its topology. */
static int survey(struct ha_perf *perf)
{
	struct ha_net *net = &perf->net;
	uint64_t max_bytes;
	int ndev = 0, err = HA_NET_TIMED(net, devices, coll.v8->devices(&ndev));

	if (!err && (int)perf->opts.dev >= ndev)
		err = inc_err_set(&net->err, ENODEV, "no device %u: CollNet has %d", perf->opts.dev,
				  ndev);
	for (int dev = 0; dev < ndev && !err; dev++)
		err = get_properties(net, dev, &max_bytes);
	return err;
}

static int listen_one(struct ha_perf *perf, struct side *side)
{
	struct ha_net *net = &perf->net;
	const int dev = (int)perf->opts.dev;

	if (coll.api >= 11)
		return HA_NET_TIMED(
			net, listen,
			coll.v11->listen(coll.context, dev, side->handle, &side->listen));
	return HA_NET_TIMED(net, listen, coll.v8->listen(dev, side->handle, &side->listen));
}

/* Connects all nodes. All of them must agree on whether that has succeeded, because NCCL does not
 * check this between nodes. */
static int connect_one(struct ha_perf *perf, struct side *side)
{
	static uint8_t all[HA_PERF_MAX_RANKS][HA_NCCL_HANDLE_BYTES];
	const struct ha_perf_opts *opts = &perf->opts;
	uint32_t failed, of_all[HA_PERF_MAX_RANKS];
	struct ha_net *net = &perf->net;
	void *handles[HA_PERF_MAX_RANKS];
	struct inc_err why;
	int err = ha_bootstrap_gather(&perf->bootstrap, side->handle, sizeof(side->handle), all,
				      &net->err);

	if (err)
		return err;
	for (unsigned int r = 0; r < opts->ranks; r++)
		handles[r] = all[r];
	err = HA_NET_TIMED(net, connect,
			   coll.v8->connect(handles, (int)opts->ranks, (int)opts->rank,
					    side->listen, &side->comm));
	if (!err && !side->comm)
		err = inc_err_set(&net->err, EPROTO, "connect has made no comm");
	if (!err)
		err = HA_NET_TIMED(net, closeListen, coll.v8->closeListen(side->listen));
	side->listen = NULL; /* NCCL does not close it where connect has failed */
	why = net->err;
	failed = err != 0;
	if (ha_bootstrap_gather(&perf->bootstrap, &failed, sizeof(failed), of_all, &net->err))
		return -EIO;
	for (unsigned int r = 0; r < opts->ranks; r++)
		if (of_all[r] != failed)
			return inc_err_set(&net->err, EPROTO,
					   "connect has failed on some nodes only: node %u %s", r,
					   of_all[r] ? "failed" : "did not fail");
	net->err = why;
	return err;
}

static int reg(struct ha_net *net, struct side *side, void **mhandle)
{
	return HA_NET_TIMED(net, regMr,
			    coll.v8->regMr(side->comm, side->staging, coll.staging_bytes,
					   HA_NCCL_PTR_HOST, mhandle));
}

/* Sets up and connects a communicator as NCCL does: for each channel first the receiving and then
 * the sending half. All halves share a comm and the staging buffers, and each registers these. */
static int open_side(struct ha_perf *perf, struct side *side)
{
	struct ha_net *net = &perf->net;
	uint64_t max_bytes;
	int err = 0;

	for (unsigned int c = 0; c < coll.channels && !err; c++) {
		err = get_properties(net, (int)perf->opts.dev, &max_bytes);
		if (!err && !side->comm)
			err = listen_one(perf, side);
		if (!err && !side->comm)
			err = connect_one(perf, side);
		if (!err)
			err = reg(net, side, &side->recv_mhandle[c]);
		if (!err)
			err = get_properties(net, (int)perf->opts.dev, &max_bytes);
		if (!err)
			err = reg(net, side, &side->send_mhandle[c]);
	}
	return err;
}

/* Asks for every type and operator, and checks that all nodes get the same answer and that the
 * answer for the vector is yes. */
static int ask_support(struct ha_perf *perf)
{
	uint64_t own = 0, all[HA_PERF_MAX_RANKS];
	struct ha_net *net = &perf->net;
	const unsigned int wanted = perf->opts.op * HA_NCCL_NDTYPES + perf->opts.dtype;
	int err = 0, yes;

	for (unsigned int i = 0; i < HA_NCCL_NOPS * HA_NCCL_NDTYPES && !err; i++) {
		yes = 0;
		err = HA_NET_TIMED(
			net, reduceSupport,
			coll.v8->reduceSupport(i % HA_NCCL_NDTYPES, i / HA_NCCL_NDTYPES, &yes));
		own |= (uint64_t) !!yes << i;
	}
	if (!err)
		err = ha_bootstrap_gather(&perf->bootstrap, &own, sizeof(own), all, &net->err);
	for (unsigned int r = 0; r < perf->opts.ranks && !err; r++)
		if (all[r] != own)
			err = inc_err_set(&net->err, EPROTO,
					  "reduceSupport: node %u has another answer", r);
	if (!err && !(own >> wanted & 1))
		err = inc_err_set(&net->err, EOPNOTSUPP,
				  "reduceSupport: this type and operator are not supported");
	return err;
}

static void *map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Closes a communicator. Like NCCL, it frees the staging buffers before most registrations of them
 * have ended. */
static int close_side(struct ha_net *net, struct side *side)
{
	int err = 0, more;

	for (unsigned int i = 0; i < 2 * coll.channels; i++) {
		void *mhandle = i % 2 ? side->recv_mhandle[i / 2] : side->send_mhandle[i / 2];

		if (!mhandle)
			continue;
		more = HA_NET_TIMED(net, deregMr, coll.v8->deregMr(side->comm, mhandle));
		err = err ?: more;
		if (side->staging)
			munmap(side->staging, coll.staging_bytes);
		side->staging = NULL;
	}
	if (side->comm) {
		more = HA_NET_TIMED(net, closeColl, coll.v8->closeColl(side->comm));
		err = err ?: more;
	}
	if (side->staging)
		munmap(side->staging, coll.staging_bytes);
	if (side->own)
		munmap(side->own, coll.vector_bytes);
	if (side->result)
		munmap(side->result, coll.vector_bytes);
	return err;
}

/* Counts the entries of a folder below /proc/self: threads, or descriptors. */
static unsigned int count(const char *folder)
{
	char path[32];
	unsigned int n = 0;
	DIR *at;

	snprintf(path, sizeof(path), "/proc/self/%s", folder);
	at = opendir(path);
	while (at && readdir(at))
		n++;
	if (at)
		closedir(at);
	return n;
}

/* Connects and closes a communicator again and again, and checks that no thread, no descriptor and
 * no memory is left. The first time may make what stays. */
static int cycle(struct ha_perf *perf)
{
	unsigned int threads = 0, fds = 0;
	int64_t held = 0;
	int err = 0, more;

	for (unsigned int i = 0; i <= perf->opts.cycles && perf->opts.cycles && !err; i++) {
		struct side side = {.staging = map(coll.staging_bytes)};

		err = side.staging ? open_side(perf, &side)
				   : inc_err_set(&perf->net.err, ENOMEM, "no memory for buffers");
		more = close_side(&perf->net, &side);
		err = err ?: more;
		if (!i) {
			threads = count("task");
			fds = count("fd");
			held = (int64_t)mallinfo2().uordblks;
		}
	}
	perf->kept_bytes = (int64_t)mallinfo2().uordblks - held;
	if (!err && perf->opts.cycles &&
	    (count("task") > threads || count("fd") > fds || perf->kept_bytes > MAX_KEPT_BYTES))
		err = inc_err_set(&perf->net.err, EBUSY,
				  "leak: %u threads and %u descriptors after the first comm, now "
				  "%u and %u, and %lld bytes more",
				  threads, fds, count("task"), count("fd"),
				  (long long)perf->kept_bytes);
	return err;
}

int ha_perf_coll_open(struct ha_perf *perf)
{
	const struct ha_perf_opts *opts = &perf->opts;
	int err = find_table(&perf->net, opts->api);

	coll.channels = opts->channels;
	coll.groups = (opts->channels + GROUP - 1) / GROUP;
	coll.element_bytes = ha_element_bytes(opts->dtype);
	coll.staging_bytes = 2 * coll.channels * BUFFER_BYTES;
	coll.vector_bytes = opts->bytes ? opts->bytes : opts->max_bytes;
	if (!err)
		err = init(&perf->net);
	if (!err)
		err = survey(perf);
	if (!err)
		err = ha_bootstrap_open(&perf->bootstrap, &opts->root, &perf->net.err);
	if (!err)
		err = cycle(perf);
	for (unsigned int i = 0; i < opts->comms && !err; i++) {
		struct side *side = &coll.side[i];

		side->staging = map(coll.staging_bytes);
		side->own = map(coll.vector_bytes);
		side->result = map(coll.vector_bytes);
		if (!side->staging || !side->own || !side->result)
			return inc_err_set(&perf->net.err, ENOMEM, "no memory for buffers");
		memset(side->staging, OLD_BYTE, coll.staging_bytes / 2);
		err = open_side(perf, side);
	}
	return err ? err : ask_support(perf);
}

int ha_perf_coll_close(struct ha_perf *perf)
{
	struct ha_net *net = &perf->net;
	int err = 0, more;

	for (unsigned int i = 0; i < perf->opts.comms; i++) {
		more = close_side(net, &coll.side[i]);
		err = err ?: more;
	}
	if (coll.ready && coll.api >= 11) {
		more = HA_NET_TIMED(net, finalize, coll.v11->finalize(coll.context));
		err = err ?: more;
	}
	coll.ready = false;
	return err;
}

/* ---- a vector ------------------------------------------------------------------------------- */

/* NCCL's size of a chunk for CollNetChain, where each node has one GPU (src/enqueue.cc). */
static uint64_t chunk_of(uint64_t bytes)
{
	uint64_t chunk = 256 << 10;

	while (bytes / (coll.channels * chunk) < 64 && chunk > 128 << 10)
		chunk /= 2;
	while (bytes / (coll.channels * chunk) < 8 && chunk > 64 << 10)
		chunk /= 2;
	while (bytes / (coll.channels * chunk) < 1 && chunk > 32 << 10)
		chunk /= 2;
	return chunk;
}

void ha_perf_coll_begin(struct ha_perf *perf, uint64_t bytes, uint64_t iteration)
{
	coll.bytes = bytes;
	coll.chunk_bytes = chunk_of(bytes);
	coll.steps =
		(bytes + coll.channels * coll.chunk_bytes - 1) / (coll.channels * coll.chunk_bytes);
	for (unsigned int c = 0; c < perf->opts.comms; c++) {
		struct side *side = &coll.side[c];

		side->started = side->completed = 0;
		memset(side->done, 0, sizeof(side->done));
		if (!perf->opts.stream.check)
			continue;
		memset(side->result, 0, bytes);
		for (uint64_t i = 0; i < bytes / coll.element_bytes; i++)
			ha_element_put(
				perf->opts.dtype, side->own + i * coll.element_bytes,
				ha_element_value(&perf->opts, c, perf->opts.rank, i, iteration));
	}
}

/* The place of a channel's chunk of a step in the staging buffers. */
static uint8_t *staged(struct side *side, bool receives, uint64_t step, unsigned int channel)
{
	return side->staging + (receives * STEPS + step % STEPS) * coll.channels * SLOT_BYTES +
	       channel * coll.chunk_bytes;
}

/* Copies the data of a group's chunks into the staging buffers, or out of them. No byte
 * behind the end of the vector is copied. */
static void move(struct side *side, bool receives, uint64_t step, unsigned int group)
{
	for (unsigned int c = group * GROUP; c < coll.channels && c < (group + 1) * GROUP; c++) {
		const uint64_t at = (step * coll.channels + c) * coll.chunk_bytes;
		uint8_t *chunk = staged(side, receives, step, c);
		uint64_t bytes = at < coll.bytes ? coll.bytes - at : 0;

		if (bytes > coll.chunk_bytes)
			bytes = coll.chunk_bytes;
		if (receives)
			memcpy(side->result + at, chunk, bytes);
		else
			memcpy(chunk, side->own + at, bytes);
	}
}

/* Starts the next call of a vector. Returns 1 if it has started, 0 if it must wait, or -errno. */
static int start_one(struct ha_perf *perf, struct side *side)
{
	const uint64_t step = side->started / coll.groups;
	const unsigned int group = side->started % coll.groups, first = group * GROUP;
	const unsigned int n = coll.channels - first < GROUP ? coll.channels - first : GROUP;
	const size_t count = n * coll.chunk_bytes / coll.element_bytes;
	void *send = staged(side, false, step, first), *recv = staged(side, true, step, first);
	void *request = side, /* NCCL does not initialise it */
		*mhandle[2] = {side->send_mhandle[first + n - 1],
			       side->recv_mhandle[first + n - 1]};
	struct ha_net *net = &perf->net;
	int err;

	if (step == coll.steps || step >= side->done[group] + STEPS)
		return 0;
	if (!side->filled)
		move(side, false, step, group);
	side->filled = true;
	if (coll.api >= 9)
		err = HA_NET_TIMED(net, iallreduce,
				   coll.v9->iallreduce(side->comm, send, recv, count,
						       perf->opts.dtype, perf->opts.op, mhandle[0],
						       mhandle[1], &request));
	else
		err = HA_NET_TIMED(net, iallreduce,
				   coll.v8->iallreduce(side->comm, send, recv, (int)count,
						       perf->opts.dtype, perf->opts.op, mhandle[0],
						       mhandle[1], &request));
	if (err || !request)
		return err;
	side->request[group][step % STEPS] = request;
	side->started++;
	side->filled = false;
	return 1;
}

/* Flushes what a call has received. NCCL does so for GPU memory alone. */
static int flush(struct ha_net *net, struct side *side, uint64_t step, unsigned int group)
{
	void *request = NULL;
	int done = 0;
	int err = HA_NET_TIMED(net, iflush,
			       coll.v8->iflush(side->comm, staged(side, true, step, group * GROUP),
					       (int)coll.chunk_bytes,
					       side->recv_mhandle[group * GROUP], &request));

	while (!err && request && !done)
		err = HA_NET_TIMED(net, test, coll.v8->test(request, &done, NULL));
	return err;
}

/* Tests the oldest call of a group. Returns 1 if it is done, 0 if not, or -errno. */
static int test_one(struct ha_perf *perf, struct side *side, unsigned int group)
{
	const uint64_t step = side->done[group];
	struct ha_net *net = &perf->net;
	int done = 1, size, err;

	if (step * coll.groups + group >= side->started)
		return 0;
	err = HA_NET_TIMED(net, test,
			   coll.v8->test(side->request[group][step % STEPS], &done, &size));
	if (err || !done)
		return err;
	if (perf->opts.stream.flush)
		err = flush(net, side, step, group);
	if (err)
		return err;
	move(side, true, step, group);
	side->done[group]++;
	side->completed++;
	return 1;
}

int ha_perf_coll_advance(struct ha_perf *perf)
{
	int n = 0, got;

	for (unsigned int c = 0; c < perf->opts.comms; c++) {
		struct side *side = &coll.side[c];

		while ((got = start_one(perf, side)) > 0)
			;
		for (unsigned int g = 0; g < coll.groups && got >= 0; g++) {
			got = test_one(perf, side, g);
			n += got > 0;
		}
		if (got < 0)
			return got;
	}
	return n;
}

bool ha_perf_coll_complete(const struct ha_perf *perf)
{
	for (unsigned int c = 0; c < perf->opts.comms; c++)
		if (coll.side[c].completed < coll.steps * coll.groups)
			return false;
	return true;
}

int ha_perf_coll_check(struct ha_perf *perf, uint64_t iteration)
{
	uint8_t want[8];

	for (unsigned int c = 0; c < perf->opts.comms; c++)
		for (uint64_t i = 0; i < coll.bytes / coll.element_bytes; i++) {
			const uint8_t *got = coll.side[c].result + i * coll.element_bytes;
			uint64_t bits = 0, wanted = 0;

			ha_element_put(perf->opts.dtype, want,
				       ha_element_expected(&perf->opts, c, i, iteration));
			if (!memcmp(got, want, coll.element_bytes))
				continue;
			memcpy(&bits, got, coll.element_bytes);
			memcpy(&wanted, want, coll.element_bytes);
			return inc_err_set(&perf->net.err, EBADMSG,
					   "wrong: communicator %u iteration %llu: element %llu of "
					   "%llu bytes is 0x%llx, not 0x%llx",
					   c, (unsigned long long)iteration, (unsigned long long)i,
					   (unsigned long long)coll.bytes, (unsigned long long)bits,
					   (unsigned long long)wanted);
		}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flushes of GPU memory. A receive's completion is in host memory, and may be there before its data
 * are in the GPU's memory, because the device writes to both on different ways. An RDMA READ of GPU
 * memory by the same device cannot overtake what that device has written there before. So a flush
 * is a READ of one byte on a queue pair that is connected to itself (a loop), on each rail whose
 * device has written data that no flush has covered yet.
 *
 * A loop may fail, for example with its port. Nothing but a READ by the same device shows at once
 * that its data are in the GPU's memory. So a worker replaces the loop, and the flush reads again.
 * If the comm uses another rail, the data count as complete SETTLED_NS after the failed rail was
 * left. A device whose queue pair is in state ERR begins no write, and a bus delivers one within
 * microseconds. This does not hold if a READ fails although its port works, for example because the
 * device may not access the memory any more. Then data may be missing for good. So the comm fails
 * if no READ succeeds for FLUSH_RTOS, as it does on the rail in use.
 *
 * A payload may be cut off by the end of its path. Then a part of it may still be on its way to the
 * GPU while the whole is sent again by the other rail. So a rail that was left needs a READ, too.
 *
 * A receiver has one loop for each rail on which GPU memory is registered. The thread that
 * registers the memory makes the loop (comm_region.c). A loop whose port has got another GID is
 * replaced, too, because nothing that it sends arrives.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"

/* Most retries of a loop. On rxe a higher number means that it retries for ever. */
#define RETRIES_MAX 6
/* Number of RTOs for which READs of a flush may fail. They count from the first failure, or from
 * the comm's last change of state if that was later. On a rail that was left they count from the
 * time when its data could have settled. */
#define FLUSH_RTOS 3
/* Time after the end of a rail's last path, in which each write of its device has arrived. */
#define SETTLED_NS INC_NSEC_PER_SEC

struct ha_loop {
	struct inc_rdma_completions completions;
	struct inc_rdma_qp qp;
	struct ibv_mr *mr;
	uint8_t gid_index, gid[16]; /* GID of the port when the loop was made */
	uint8_t byte[64];           /* the byte that a READ returns, on a cache line of its own */
};

/* ---- loops ----------------------------------------------------------------------------------- */

void ha_loop_free(struct ha_loop *loop)
{
	if (!loop)
		return;
	inc_rdma_qp_destroy(&loop->qp);
	inc_rdma_completions_close(&loop->completions);
	if (loop->mr)
		ibv_dereg_mr(loop->mr);
	free(loop);
}

static int connect_to_itself(struct ha_loop *loop, const struct ha_config *config,
			     const struct ha_place *place, struct inc_err *err)
{
	struct inc_rdma_peer itself = {
		.name = "itself",
		.qpn = loop->qp.ibv->qp_num,
		.mtu_bytes = place->mtu_bytes,
		.sl = config->sl,
		.link_layer = place->link_layer,
		.lid = place->lid,
		.own_gid_index = place->gid_index,
		.hop_limit = INC_RDMA_HOPS_ANY,
		.traffic_class = config->traffic_class,
	};
	struct inc_rdma_rts rts = {
		.timeout = config->qp_timeout,
		.retry_cnt =
			config->qp_retry_cnt < RETRIES_MAX ? config->qp_retry_cnt : RETRIES_MAX,
	};
	struct inc_err why;
	int ret = inc_random24(&itself.psn, &why);

	if (ret)
		return inc_err_set(err, -ret, "%s: %s", loop->qp.what, why.msg);
	rts.psn = itself.psn;
	memcpy(itself.gid, place->gid, sizeof(itself.gid));
	ret = inc_rdma_qp_to_rtr(&loop->qp, &itself, err);
	return ret ?: inc_rdma_qp_to_rts(&loop->qp, &rts, err);
}

static int open_parts(struct ha_loop *loop, const struct ha_comm *comm, const struct ha_rail *rail,
		      const struct ha_place *place, struct inc_err *err)
{
	struct inc_rdma_device *device = rail->device;
	struct inc_rdma_qp_opts opts = {
		.caps = {.send_wr = HA_REQUESTS,
			 .recv_wr = 1,
			 .send_sge = 1,
			 .recv_sge = 1,
			 .rd_atomic = 1,
			 .dest_rd_atomic = 1},
		.port = rail->port,
		.pkey_index = comm->config.pkey_index,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	int ret = inc_rdma_completions_open(&loop->completions, device, HA_REQUESTS, 1, err);

	if (ret)
		return ret;
	loop->mr = ibv_reg_mr(device->pd, loop->byte, sizeof(loop->byte), IBV_ACCESS_LOCAL_WRITE);
	if (!loop->mr)
		return inc_err_set(err, errno, "%s: register a byte: %s", device->name,
				   strerror(errno));
	opts.send_cq = opts.recv_cq = loop->completions.cq;
	ret = inc_rdma_qp_make(&loop->qp, device, &opts, err);
	return ret ?: connect_to_itself(loop, &comm->config, place, err);
}

/* Makes a loop for a rail, without the comm's lock. */
static int open_loop(struct ha_loop **out, const struct ha_comm *comm, unsigned int rail,
		     struct inc_err *err)
{
	const struct ha_rail *at = &comm->device->rail[rail];
	struct ha_loop *loop;
	struct ha_place place;
	int ret = ha_rail_place(&comm->plugin->devices, at, &place, err);

	if (ret)
		return ret;
	loop = calloc(1, sizeof(*loop));
	if (!loop)
		return inc_err_set(err, ENOMEM, "%s: %s", comm->what, strerror(ENOMEM));
	loop->gid_index = place.gid_index;
	memcpy(loop->gid, place.gid, sizeof(loop->gid));
	ret = open_parts(loop, comm, at, &place, err);
	if (ret)
		ha_loop_free(loop);
	else
		*out = loop;
	return ret;
}

int ha_comm_make_loop(struct ha_comm *comm, unsigned int rail, struct inc_err *err)
{
	struct ha_loop *loop = NULL;
	bool needed;
	int ret;

	pthread_mutex_lock(&comm->lock);
	needed = !comm->sends && !comm->loop[rail] && comm->device->rail[rail].device &&
		 !comm->config.no_flush;
	pthread_mutex_unlock(&comm->lock);
	ret = needed ? open_loop(&loop, comm, rail, err) : 0;
	if (!needed || ret)
		return ret;
	pthread_mutex_lock(&comm->lock);
	/* another thread may have registered memory meanwhile, and made a loop */
	if (!comm->loop[rail]) {
		comm->loop[rail] = loop;
		loop = NULL;
	}
	pthread_mutex_unlock(&comm->lock);
	ha_loop_free(loop);
	return 0;
}

/* ---- new loops ------------------------------------------------------------------------------- */

static bool is_renewing(const struct ha_comm *comm, unsigned int rail)
{
	return comm->renewing & 1u << rail;
}

/* Lets a worker replace the loop of a rail. READs under way are posted again on the new one. */
static void renew(struct ha_comm *comm, unsigned int rail)
{
	struct ha_flush *flush;

	for (flush = comm->flush; flush < comm->flush + HA_REQUESTS; flush++)
		flush->reads[rail] = NULL;
	comm->renewing |= 1u << rail;
}

/* Whether the comm has had paths on the rail, and none of them is in use. */
static bool was_left(const struct ha_comm *comm, unsigned int rail)
{
	return comm->left_at_ns[rail] && !(comm->path && comm->path->rail == rail);
}

/* Whether the rail's device has begun no write for SETTLED_NS: no path uses the rail, and the queue
 * pair of its last path is in state ERR and has drained. Another rail must be in use, and the READs
 * must fail for no other reason than their port. */
static bool has_settled(const struct ha_comm *comm, unsigned int rail, uint64_t now_ns)
{
	unsigned int i;

	if ((comm->unreadable | comm->loopless) & 1u << rail)
		return false;
	for (i = 0; i < HA_OLD_PATHS; i++)
		if (comm->old[i] && comm->old[i]->rail == rail)
			return false;
	return comm->path && was_left(comm, rail) && now_ns >= comm->left_at_ns[rail] + SETTLED_NS;
}

/* The time at which the comm fails if no READ of this flush has succeeded on the rail. */
static uint64_t limit_at_ns(const struct ha_comm *comm, const struct ha_flush *flush,
			    unsigned int rail)
{
	uint64_t from_ns = flush->failed_at_ns[rail];

	if (from_ns < comm->end->entered_at_ns)
		from_ns = comm->end->entered_at_ns;
	if (was_left(comm, rail) && from_ns < comm->left_at_ns[rail] + SETTLED_NS)
		from_ns = comm->left_at_ns[rail] + SETTLED_NS;
	return from_ns + FLUSH_RTOS * comm->end->times.rto_ns;
}

/* Ends the wait of all flushes for a rail on which no READ succeeds, because its data have
 * settled. */
static void count_as_settled(struct ha_comm *comm, unsigned int rail, uint64_t now_ns)
{
	struct ha_flush *flush;

	ha_log(comm->plugin, HA_LOG_WARN,
	       "%s: no READ of GPU memory through %s succeeds, but the comm has left it %llu ms "
	       "ago, so its data count as complete",
	       comm->what, ha_rail_name(&comm->device->rail[rail]),
	       (unsigned long long)((now_ns - comm->left_at_ns[rail]) / INC_NSEC_PER_MSEC));
	comm->in_memory[rail] = comm->landed[rail];
	for (flush = comm->flush; flush < comm->flush + HA_REQUESTS; flush++) {
		flush->reads[rail] = NULL;
		flush->rails &= ~(1u << rail);
	}
}

/* Handles that READs of flushes on this rail fail. After too long they are given up: the data have
 * settled, or the comm fails. Returns whether a flush has had no failure before. */
static bool look_at_failures(struct ha_comm *comm, unsigned int rail, uint64_t now_ns)
{
	const bool settled = has_settled(comm, rail, now_ns);
	struct ha_flush *flush;
	bool first = false;

	for (flush = comm->flush; flush < comm->flush + HA_REQUESTS; flush++) {
		if (!(flush->rails & 1u << rail))
			continue;
		first = first || !flush->failed_at_ns[rail];
		if (!flush->failed_at_ns[rail])
			flush->failed_at_ns[rail] = now_ns;
		else if (settled)
			count_as_settled(comm, rail, now_ns);
		else if (now_ns >= limit_at_ns(comm, flush, rail))
			ha_receiver_fail(&comm->receiver, -EIO,
					 "no READ of GPU memory through its device succeeds, so "
					 "data may be missing there",
					 now_ns, &comm->todo);
	}
	return first;
}

static void loop_failed(struct ha_comm *comm, unsigned int rail, const char *why, uint64_t now_ns)
{
	if (is_renewing(comm, rail))
		return;
	ha_log(comm->plugin, look_at_failures(comm, rail, now_ns) ? HA_LOG_INFO : HA_LOG_TRACE,
	       "%s: a flush through %s has failed: %s. It is repeated on a new queue pair",
	       comm->what, ha_rail_name(&comm->device->rail[rail]), why);
	renew(comm, rail);
}

/* Asks a worker for new loops, at most once in a heartbeat for each rail. */
static void ask_for_loops(struct ha_comm *comm, uint64_t now_ns)
{
	unsigned int rail;

	for (rail = 0; rail < HA_RAILS; rail++)
		if (is_renewing(comm, rail) &&
		    now_ns >= comm->renewed_at_ns[rail] + comm->end->times.heartbeat_ns)
			ha_comm_register_all(comm);
}

void ha_comm_renew(struct ha_comm *comm)
{
	struct ha_loop *loop, *old;
	struct inc_err err;
	unsigned int rail;
	int ret;

	for (rail = 0; rail < HA_RAILS; rail++) {
		if (!comm->open || !is_renewing(comm, rail))
			continue;
		pthread_mutex_unlock(&comm->lock);
		ret = open_loop(&loop, comm, rail, &err);
		pthread_mutex_lock(&comm->lock);
		comm->renewed_at_ns[rail] = inc_now_ns();
		comm->loopless &= ~(1u << rail);
		/* ENETDOWN, EADDRNOTAVAIL: the port is down or has no address */
		if (ret && ret != -ENETDOWN && ret != -EADDRNOTAVAIL)
			comm->loopless |= 1u << rail;
		if (ret) {
			ha_log(comm->plugin, HA_LOG_TRACE, "%s: no flushes yet: %s", comm->what,
			       err.msg);
			continue;
		}
		old = comm->loop[rail];
		comm->loop[rail] = loop;
		comm->renewing &= ~(1u << rail);
		pthread_mutex_unlock(&comm->lock);
		ha_loop_free(old);
		pthread_mutex_lock(&comm->lock);
	}
}

void ha_comm_look_at_loop(struct ha_comm *comm, unsigned int rail, const struct ha_place *place,
			  uint64_t now_ns)
{
	const struct ha_loop *loop = comm->loop[rail];

	if (loop && !is_renewing(comm, rail) &&
	    (loop->gid_index != place->gid_index ||
	     memcmp(loop->gid, place->gid, sizeof(loop->gid)) != 0))
		renew(comm, rail);
	ask_for_loops(comm, now_ns);
}

/* ---- flushes --------------------------------------------------------------------------------- */

void ha_comm_note_landed(struct ha_comm *comm, const struct ha_path *path, uint32_t sequence)
{
	const struct ha_open_slot *slot = &comm->receiver.slot[sequence % HA_SLOTS];
	const struct ha_region *region = slot->region;

	/* The region of a complete slot may be gone. So may that of any slot when the comm has
	 * ended. */
	if (comm->end->state == HA_FAILED || comm->end->state == HA_DONE)
		return;
	if (slot->sequence == sequence && !slot->complete && region && ha_region_is_gpu(region))
		comm->landed[path->rail]++;
}

void ha_comm_note_left(struct ha_comm *comm, const struct ha_path *path, uint64_t now_ns)
{
	const struct ha_receiver *receiver = &comm->receiver;
	const struct ha_open_slot *slot;
	uint32_t s;

	comm->left_at_ns[path->rail] = now_ns;
	for (s = receiver->first_open; s != receiver->next_sequence; s++) {
		slot = &receiver->slot[s % HA_SLOTS];
		if (slot->described && !slot->complete && slot->region &&
		    ha_region_is_gpu(slot->region))
			comm->landed[path->rail]++;
	}
}

/* Finds GPU memory that the rail's device can read: that of the flush, or any other if the rail has
 * not registered that. NULL: it has registered none, so none of its writes is under way. */
static const struct ha_region *readable(const struct ha_comm *comm, const struct ha_flush *flush,
					unsigned int rail)
{
	const struct ha_comm_region *region;

	if (ha_comm_is_registered(flush->region, rail))
		return flush->region;
	for (region = comm->regions; region; region = region->next)
		if (ha_region_is_gpu(&region->region) && region->registered[rail])
			return &region->region;
	return NULL;
}

static int post_read(struct ha_comm *comm, struct ha_flush *flush, unsigned int rail,
		     const struct ha_region *region)
{
	const void *from = region == flush->region ? flush->address : region->address;
	struct ha_loop *loop = comm->loop[rail];
	struct ibv_sge sge = {.length = 1};
	struct ibv_send_wr wr = {
		.wr_id = flush - comm->flush,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)from, .rkey = ha_region_rkey(region, rail)},
	};
	struct ibv_send_wr *bad;
	int ret;

	if (!loop)
		return ENOTCONN;
	sge.addr = (uintptr_t)loop->byte;
	sge.lkey = loop->mr->lkey;
	flush->posted_at_ns[rail] = inc_now_ns();
	ret = ibv_post_send(loop->qp.ibv, &wr, &bad);
	if (!ret)
		flush->reads[rail] = region;
	return ret;
}

/* Posts the READs of a rail that are not under way: those of new flushes, and those that are
 * repeated on a new loop. */
static void post_reads(struct ha_comm *comm, unsigned int rail, uint64_t now_ns)
{
	const struct ha_region *region;
	struct ha_flush *flush;
	int ret = 0;

	for (flush = comm->flush; flush < comm->flush + HA_REQUESTS && !ret; flush++) {
		if (!(flush->rails & 1u << rail) || flush->reads[rail])
			continue;
		region = readable(comm, flush, rail);
		if (region)
			ret = post_read(comm, flush, rail, region);
		else
			flush->rails &= ~(1u << rail);
	}
	if (ret)
		loop_failed(comm, rail, strerror(ret), now_ns);
}

static void begin(struct ha_comm *comm, struct ha_flush *flush)
{
	unsigned int rail;

	for (rail = 0; rail < HA_RAILS; rail++) {
		flush->failed_at_ns[rail] = 0;
		flush->landed[rail] = comm->landed[rail];
		flush->reads[rail] = NULL;
		if (comm->landed[rail] != comm->in_memory[rail])
			flush->rails |= 1u << rail;
	}
	atomic_store(&flush->state, HA_FLUSH_BEGUN);
}

static void take_completion(struct ha_comm *comm, unsigned int rail, const struct ibv_wc *wc,
			    uint64_t now_ns)
{
	struct ha_flush *flush = &comm->flush[wc->wr_id % HA_REQUESTS];

	/* RETRY_EXC, WR_FLUSH: the READ has had no answer. Any other error is one of the device or
	 * of the memory. */
	if (wc->status == IBV_WC_SUCCESS)
		comm->unreadable &= ~(1u << rail);
	else if (wc->status != IBV_WC_RETRY_EXC_ERR && wc->status != IBV_WC_WR_FLUSH_ERR)
		comm->unreadable |= 1u << rail;
	if (wc->status != IBV_WC_SUCCESS) {
		loop_failed(comm, rail, ibv_wc_status_str(wc->status), now_ns);
		return;
	}
	if (flush->landed[rail] > comm->in_memory[rail])
		comm->in_memory[rail] = flush->landed[rail];
	flush->reads[rail] = NULL;
	flush->rails &= ~(1u << rail);
}

static void poll_loop(struct ha_comm *comm, unsigned int rail, uint64_t now_ns)
{
	struct ibv_wc wc[HA_REQUESTS];
	int i, n;

	n = ibv_poll_cq(comm->loop[rail]->completions.cq, HA_REQUESTS, wc);
	for (i = 0; i < n; i++)
		take_completion(comm, rail, &wc[i], now_ns);
	if (n < 0)
		loop_failed(comm, rail, "its completion queue cannot be polled", now_ns);
}

/* A READ to oneself waits for no peer, so the loop has failed if there is no answer for as long as
 * a path may give none. The caller has read now_ns before the last poll, so a pause of the thread
 * between the two does not count. */
static void fail_unanswered(struct ha_comm *comm, unsigned int rail, uint64_t now_ns)
{
	const uint64_t rto_ns = comm->end->times.rto_ns;
	const struct ha_flush *flush;

	for (flush = comm->flush; flush < comm->flush + HA_REQUESTS; flush++)
		if (flush->reads[rail] && now_ns >= flush->posted_at_ns[rail] + rto_ns)
			loop_failed(comm, rail, "no answer for HA_NCCL_RTO_MS", now_ns);
}

void ha_comm_flush_round(struct ha_comm *comm, uint64_t now_ns)
{
	struct ha_flush *flush;
	unsigned int rail;

	if (!atomic_load(&comm->flushes) || comm->end->state == HA_FAILED)
		return;
	for (flush = comm->flush; flush < comm->flush + HA_REQUESTS; flush++)
		if (atomic_load(&flush->state) == HA_FLUSH_ASKED)
			begin(comm, flush);
	for (rail = 0; rail < HA_RAILS; rail++) {
		if (is_renewing(comm, rail)) {
			look_at_failures(comm, rail, now_ns);
			continue;
		}
		post_reads(comm, rail, now_ns);
		if (comm->loop[rail] && !is_renewing(comm, rail))
			poll_loop(comm, rail, now_ns);
		fail_unanswered(comm, rail, now_ns);
	}
	ask_for_loops(comm, now_ns);
	ha_comm_do(comm, now_ns);
}

static bool reads_region(const struct ha_flush *flush, const struct ha_region *region)
{
	return flush->region == region || flush->reads[0] == region || flush->reads[1] == region;
}

bool ha_comm_flush_uses(const struct ha_comm *comm, const struct ha_region *region)
{
	const struct ha_flush *flush = comm->flush;

	for (; flush < comm->flush + HA_REQUESTS; flush++)
		if (atomic_load(&flush->state) >= HA_FLUSH_ASKED && reads_region(flush, region))
			return true;
	return false;
}

int ha_comm_test_flush(struct ha_comm *comm, struct ha_flush *flush, bool *done)
{
	const bool failed = comm->end->state == HA_FAILED;

	*done = failed || (atomic_load(&flush->state) == HA_FLUSH_BEGUN && !flush->rails);
	if (!*done)
		return 0;
	flush->rails = 0;
	atomic_fetch_sub(&comm->flushes, 1);
	atomic_store(&flush->state, HA_FLUSH_FREE);
	return failed ? comm->end->error : 0;
}

/* Takes a free place, without the comm's lock. Returns NULL if there is none. */
static struct ha_flush *take_place(struct ha_comm *comm)
{
	struct ha_flush *flush;
	unsigned int expected;

	for (flush = comm->flush; flush < comm->flush + HA_REQUESTS; flush++) {
		expected = HA_FLUSH_FREE;
		if (atomic_compare_exchange_strong(&flush->state, &expected, HA_FLUSH_TAKEN))
			return flush;
	}
	return NULL;
}

/* NULL as the request would mean to NCCL that it need not wait. So a flush gets a place in any
 * case, and begins in a later call if another thread has the lock. */
int ha_iflush(struct ha_comm *comm, unsigned int n, void **data, const int *bytes,
	      struct ha_region **regions, struct ha_request **out)
{
	struct ha_flush *flush;

	*out = NULL;
	if (comm->config.no_flush)
		return 0;
	/* one READ covers all that the devices have written to this GPU, so any buffer with data
	 * will do */
	while (n && !(bytes[n - 1] && regions[n - 1] && ha_region_is_gpu(regions[n - 1])))
		n--;
	if (!n)
		return 0;
	if (comm->sends)
		return -EINVAL;
	flush = take_place(comm);
	if (!flush)
		return -EOVERFLOW;
	flush->request = (struct ha_request){.comm = comm, .flush = flush};
	flush->region = regions[n - 1];
	flush->address = data[n - 1];
	atomic_fetch_add(&comm->flushes, 1);
	atomic_store(&flush->state, HA_FLUSH_ASKED);
	*out = &flush->request;
	if (!pthread_mutex_trylock(&comm->lock)) {
		ha_comm_flush_round(comm, inc_now_ns());
		pthread_mutex_unlock(&comm->lock);
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flushes of GPU memory. A receive's completion is in host memory, and may be there before its data
 * are in the GPU's memory, because the device writes to both on different ways. An RDMA READ of GPU
 * memory by the same device cannot overtake what that device has written there before. So a flush
 * is a READ of one byte on a queue pair that is connected to itself (a loop), on each rail whose
 * device has written data that no flush has covered yet.
 *
 * A loop may fail with its port. Then the rail's registrations of GPU memory are ended instead: an
 * end of a registration waits until the device writes there no more, because the kernel may give
 * the memory to others afterwards. If the path in use is on that rail, the comm leaves it.
 *
 * A receiver has one loop for each rail on which GPU memory is registered. The thread that
 * registers the memory makes the loop (comm_region.c).
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

struct ha_loop {
	struct inc_rdma_completions completions;
	struct inc_rdma_qp qp;
	struct ibv_mr *mr;
	uint8_t byte[64]; /* the byte that a READ returns, on a cache line of its own */
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

int ha_comm_make_loop(struct ha_comm *comm, unsigned int rail, struct inc_err *err)
{
	const struct ha_rail *at = &comm->device->rail[rail];
	struct ha_loop *loop;
	struct ha_place place;
	bool needed;
	int ret;

	pthread_mutex_lock(&comm->lock);
	needed = !comm->sends && !comm->loop[rail] && at->device && !comm->config.no_flush;
	pthread_mutex_unlock(&comm->lock);
	ret = needed ? ha_rail_place(&comm->plugin->devices, at, &place, err) : 0;
	if (!needed || ret)
		return ret;
	loop = calloc(1, sizeof(*loop));
	if (!loop)
		return inc_err_set(err, ENOMEM, "%s: %s", comm->what, strerror(ENOMEM));
	ret = open_parts(loop, comm, at, &place, err);
	if (!ret) {
		pthread_mutex_lock(&comm->lock);
		/* another thread may have registered memory meanwhile, and made a loop */
		if (!comm->loop[rail]) {
			comm->loop[rail] = loop;
			loop = NULL;
		}
		pthread_mutex_unlock(&comm->lock);
	}
	ha_loop_free(loop);
	return ret;
}

/* ---- the end of a rail's registrations ------------------------------------------------------- */

/* Lets a worker end the registrations of GPU memory on a rail, because its loop has failed. */
static void give_up(struct ha_comm *comm, unsigned int rail, const char *why, uint64_t now_ns)
{
	if (comm->revoking & 1u << rail)
		return;
	comm->revoking |= 1u << rail;
	ha_log(comm->plugin, HA_LOG_INFO,
	       "%s: a flush through %s has failed: %s. GPU memory is registered anew", comm->what,
	       ha_rail_name(&comm->device->rail[rail]), why);
	if (comm->path && comm->path->rail == rail)
		HA_MACHINE_EVENT(comm, trigger, HA_CAUSE_ERROR, now_ns);
	ha_comm_register_all(comm);
}

static struct ha_comm_region *next_revoked(const struct ha_comm *comm, unsigned int rail)
{
	struct ha_comm_region *region;

	for (region = comm->regions; region; region = region->next)
		if (ha_region_is_gpu(&region->region) && !region->registered[rail] &&
		    region->region.own[rail])
			return region;
	return NULL;
}

void ha_comm_revoke(struct ha_comm *comm)
{
	const unsigned int rail = comm->revoking & 1 ? 0 : 1;
	struct ha_loop *loop = comm->loop[rail];
	struct ha_comm_region *region;
	unsigned int i;

	comm->loop[rail] = NULL;
	/* from now on nothing is posted with these registrations */
	for (region = comm->regions; region; region = region->next)
		if (ha_region_is_gpu(&region->region))
			region->registered[rail] = region->refused[rail] = false;
	while ((region = next_revoked(comm, rail))) {
		region->busy = true;
		pthread_mutex_unlock(&comm->lock);
		ha_region_release_rail(&region->region, rail);
		pthread_mutex_lock(&comm->lock);
		region->busy = false;
		pthread_cond_broadcast(&comm->idle_region);
	}
	comm->flushed[rail] = comm->landed[rail];
	for (i = 0; i < HA_REQUESTS; i++)
		comm->flush[i].rails &= ~(1u << rail);
	comm->revoking &= ~(1u << rail);
	pthread_mutex_unlock(&comm->lock);
	ha_loop_free(loop);
	pthread_mutex_lock(&comm->lock);
}

/* ---- flushes --------------------------------------------------------------------------------- */

void ha_comm_note_landed(struct ha_comm *comm, const struct ha_path *path, uint32_t sequence)
{
	const struct ha_open_slot *slot = &comm->receiver.slot[sequence % HA_SLOTS];
	const struct ha_region *region = slot->region;

	/* the region of a complete slot may be gone */
	if (slot->sequence == sequence && !slot->complete && region && ha_region_is_gpu(region))
		comm->landed[path->rail]++;
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

static int post_read(struct ha_comm *comm, const struct ha_flush *flush, unsigned int rail,
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

	if (!loop)
		return ENOTCONN;
	sge.addr = (uintptr_t)loop->byte;
	sge.lkey = loop->mr->lkey;
	return ibv_post_send(loop->qp.ibv, &wr, &bad);
}

static void begin(struct ha_comm *comm, struct ha_flush *flush, uint64_t now_ns)
{
	const struct ha_region *region;
	unsigned int rail;
	int ret;

	flush->began_at_ns = now_ns;
	for (rail = 0; rail < HA_RAILS; rail++) {
		flush->landed[rail] = comm->landed[rail];
		if (comm->landed[rail] == comm->flushed[rail])
			continue;
		region = readable(comm, flush, rail);
		if (!region && !(comm->revoking & 1u << rail))
			continue;
		flush->rails |= 1u << rail;
		ret = comm->revoking & 1u << rail ? 0 : post_read(comm, flush, rail, region);
		if (ret)
			give_up(comm, rail, strerror(ret), now_ns);
	}
	atomic_store(&flush->state, HA_FLUSH_BEGUN);
}

static void take_completion(struct ha_comm *comm, unsigned int rail, const struct ibv_wc *wc,
			    uint64_t now_ns)
{
	struct ha_flush *flush = &comm->flush[wc->wr_id % HA_REQUESTS];

	if (wc->status != IBV_WC_SUCCESS) {
		give_up(comm, rail, ibv_wc_status_str(wc->status), now_ns);
		return;
	}
	if (flush->landed[rail] > comm->flushed[rail])
		comm->flushed[rail] = flush->landed[rail];
	flush->rails &= ~(1u << rail);
}

static void poll_loop(struct ha_comm *comm, unsigned int rail, uint64_t now_ns)
{
	struct ibv_wc wc[HA_REQUESTS];
	int i, n;

	if (!comm->loop[rail] || comm->revoking & 1u << rail)
		return;
	n = ibv_poll_cq(comm->loop[rail]->completions.cq, HA_REQUESTS, wc);
	for (i = 0; i < n; i++)
		take_completion(comm, rail, &wc[i], now_ns);
	if (n < 0)
		give_up(comm, rail, "completion queue", now_ns);
}

/* A READ to oneself waits for no peer, so the loop has failed if there is no answer for as long as
 * a path may give none. */
static void look_at_time(struct ha_comm *comm, const struct ha_flush *flush, uint64_t now_ns)
{
	unsigned int rail;

	if (now_ns - flush->began_at_ns < comm->end->times.rto_ns)
		return;
	for (rail = 0; rail < HA_RAILS; rail++)
		if (flush->rails & 1u << rail)
			give_up(comm, rail, "no answer for HA_NCCL_RTO_MS", now_ns);
}

void ha_comm_flush_round(struct ha_comm *comm, uint64_t now_ns)
{
	struct ha_flush *flush;
	unsigned int rail;

	if (!atomic_load(&comm->flushes) || comm->end->state == HA_FAILED)
		return;
	for (flush = comm->flush; flush < comm->flush + HA_REQUESTS; flush++) {
		if (atomic_load(&flush->state) == HA_FLUSH_ASKED)
			begin(comm, flush, now_ns);
		if (flush->rails)
			look_at_time(comm, flush, now_ns);
	}
	for (rail = 0; rail < HA_RAILS; rail++)
		poll_loop(comm, rail, now_ns);
	/* the job may have failed for want of memory */
	if (comm->revoking)
		ha_comm_register_all(comm);
	ha_comm_do(comm, now_ns);
}

bool ha_comm_flush_uses(const struct ha_comm *comm, const struct ha_region *region)
{
	const struct ha_flush *flush = comm->flush;

	for (; flush < comm->flush + HA_REQUESTS; flush++)
		if (atomic_load(&flush->state) >= HA_FLUSH_ASKED && flush->region == region)
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

/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/nccl/path.h"
#include "lib/base/random.h"
#include "lib/proto/roce.h"

#define RNR_RETRY 6 /* number of RNR retries; 7 would mean that the device retries for ever */
/* Code for a wait of 10 ms between RNR retries, so 60 ms with all retries. They are needed only if
 * the peer has not polled for a long time, so that it has no receive posted. */
#define MIN_RNR_TIMER 20

#define SEND_WR    (HA_WRITES + HA_MSGS_AHEAD)
#define POLL_BATCH 32

#define MSGS_AT         (HA_RECEIVES * HA_MSG_BYTES)
#define DESCRIPTIONS_AT (MSGS_AT + HA_MSGS_AHEAD * HA_MSG_BYTES)
#define MEMORY_BYTES    (DESCRIPTIONS_AT + HA_SLOTS * sizeof(struct ha_slot_wire))

/* ---- creation and destruction ---------------------------------------------------------------- */

static int register_memory(struct ha_path *path, void *ring, struct inc_err *err)
{
	const int ring_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	const size_t ring_bytes = HA_SLOTS * sizeof(struct ha_slot_wire);
	void *memory;
	int ret = posix_memalign(&memory, sysconf(_SC_PAGESIZE), MEMORY_BYTES);

	if (ret)
		return inc_err_set(err, ret, "%s: %s", path->what, strerror(ret));
	path->memory = memset(memory, 0, MEMORY_BYTES);
	path->mr = ibv_reg_mr(path->device->pd, memory, MEMORY_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!path->mr)
		return inc_err_set(err, errno, "%s: %s: register %zu bytes: %s", path->what,
				   path->device->name, MEMORY_BYTES, strerror(errno));
	if (!ring)
		return 0;
	path->ring_mr = ibv_reg_mr(path->device->pd, ring, ring_bytes, ring_access);
	if (!path->ring_mr)
		return inc_err_set(err, errno, "%s: %s: register the ring, %zu bytes: %s",
				   path->what, path->device->name, ring_bytes, strerror(errno));
	path->own.ring = (uintptr_t)ring;
	path->own.ring_rkey = path->ring_mr->rkey;
	return 0;
}

/* Makes the queue pair with room for inline messages, which a device need not fetch from memory. If
 * the device does not support that, makes one without such room. */
static int make_qp(struct ha_path *path, unsigned int pkey_index, struct inc_err *err)
{
	struct inc_rdma_qp_opts opts = {
		.send_cq = path->completions.cq,
		.recv_cq = path->completions.cq,
		.caps = {.send_wr = SEND_WR,
			 .recv_wr = HA_RECEIVES,
			 .send_sge = 1,
			 .recv_sge = 1,
			 .inline_bytes = HA_MSG_BYTES,
			 .rd_atomic = 1,
			 .dest_rd_atomic = 1},
		.port = path->port,
		.pkey_index = pkey_index,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	struct inc_err ignored;

	if (!inc_rdma_qp_make(&path->qp, path->device, &opts, &ignored))
		return 0;
	opts.caps.inline_bytes = 0;
	return inc_rdma_qp_make(&path->qp, path->device, &opts, err);
}

static int post_receive(struct ha_path *path, unsigned int i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)path->memory + i * HA_MSG_BYTES,
			      .length = HA_MSG_BYTES,
			      .lkey = path->mr->lkey};
	struct ibv_recv_wr wr = {
		.wr_id = ha_wr_id(path->epoch, HA_WR_RECEIVE | i), .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;
	const int ret = ibv_post_recv(path->qp.ibv, &wr, &bad);

	path->receives += !ret;
	return -ret;
}

static int post_receives(struct ha_path *path, struct inc_err *err)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < HA_RECEIVES && !ret; i++)
		ret = post_receive(path, i);
	return ret ? inc_err_set(err, -ret, "%s: %s: receives: %s", path->what, path->qp.what,
				 strerror(-ret))
		   : 0;
}

static int describe_own(struct ha_path *path, const struct ha_place *place, struct inc_err *err)
{
	struct ha_path_info *own = &path->own;
	struct inc_err why;
	int ret = inc_random24(&own->psn, &why);

	if (ret)
		return inc_err_set(err, -ret, "%s: %s", path->what, why.msg);
	own->attempt = path->attempt;
	own->rail = path->rail;
	own->qpn = path->qp.ibv->qp_num;
	own->mtu_bytes = place->mtu_bytes;
	own->link_layer = place->link_layer;
	own->lid = place->lid;
	own->pkey = place->pkey;
	memcpy(own->gid, place->gid, sizeof(own->gid));
	path->own_gid_index = place->gid_index;
	path->max_message_bytes = place->max_message_bytes;
	return 0;
}

static int make_on_device(struct ha_path *path, const struct ha_path_opts *opts,
			  const struct ha_place *place, struct inc_err *err)
{
	int ret;

	path->device = inc_rdma_device_ref(opts->rail->device);
	ret = inc_rdma_completions_open(&path->completions, path->device, SEND_WR + HA_RECEIVES, 1,
					err);
	if (!ret)
		ret = register_memory(path, opts->ring, err);
	if (!ret)
		ret = make_qp(path, opts->devices->config->pkey_index, err);
	if (!ret)
		ret = describe_own(path, place, err);
	return ret ?: post_receives(path, err);
}

int ha_path_make(struct ha_path **out, const struct ha_path_opts *opts, struct inc_err *err)
{
	struct ha_place place;
	struct ha_path *path;
	int ret = ha_rail_place(opts->devices, opts->rail, &place, err);

	if (ret)
		return ret;
	path = calloc(1, sizeof(*path));
	if (!path)
		return inc_err_set(err, ENOMEM, "%s: %s", opts->what, strerror(ENOMEM));
	snprintf(path->what, sizeof(path->what), "%s", opts->what);
	path->epoch = opts->epoch;
	path->attempt = opts->attempt;
	path->rail = opts->rail_number;
	path->port = opts->rail->port;
	snprintf(path->name, sizeof(path->name), "%s", ha_rail_name(opts->rail));
	path->free_msgs = (1u << HA_MSGS_AHEAD) - 1;
	if (opts->rail->device)
		ret = make_on_device(path, opts, &place, err);
	else
		ret = ha_soft_make(path, opts, &place, err);
	if (ret) {
		ha_path_destroy(path);
		return ret;
	}
	*out = path;
	return 0;
}

/* Checks that both ends are in one partition, and that one of them is a full member of it.
 * Otherwise the devices would drop each other's packets without a report. */
static int check_partition(const struct ha_path *path, const struct ha_path_info *peer,
			   struct inc_err *err)
{
	const uint16_t own = path->own.pkey;

	if (inc_pkeys_match(own, peer->pkey))
		return 0;
	return inc_err_set(err, EPROTO,
			   "%s: %s: the P_Key here is 0x%04x, and the peer has 0x%04x: change "
			   "NCCL_IB_PKEY or the ports' partitions",
			   path->what, path->qp.what, own, peer->pkey);
}

int ha_path_enter(struct ha_path *path, const struct ha_path_info *peer,
		  const struct ha_config *config, struct inc_err *err)
{
	struct inc_rdma_peer to = {
		.name = path->what,
		.qpn = peer->qpn,
		.psn = peer->psn,
		.mtu_bytes = peer->mtu_bytes < path->own.mtu_bytes ? peer->mtu_bytes
								   : path->own.mtu_bytes,
		.min_rnr_timer = MIN_RNR_TIMER,
		.sl = config->sl,
		.link_layer = (enum inc_rdma_link_layer)path->own.link_layer,
		.lid = peer->lid,
		.own_gid_index = path->own_gid_index,
		.hop_limit = INC_RDMA_HOPS_ANY,
		.traffic_class = config->traffic_class,
	};
	const struct inc_rdma_rts rts = {
		.psn = path->own.psn,
		.timeout = config->qp_timeout,
		.retry_cnt = config->qp_retry_cnt,
		.rnr_retry = RNR_RETRY,
	};
	int ret;

	if (path->soft)
		return ha_soft_enter(path, peer, config, err);
	if (peer->link_layer == HA_LINK_SOFT)
		return inc_err_set(err, EPROTO, "%s: %s: the peer has HA_NCCL_TRANSPORT=soft",
				   path->what, path->qp.what);
	if (peer->link_layer != path->own.link_layer)
		return inc_err_set(
			err, EPROTO, "%s: %s: our port is %s, the peer's is %s", path->what,
			path->qp.what, inc_rdma_link_layer_name(to.link_layer),
			inc_rdma_link_layer_name((enum inc_rdma_link_layer)peer->link_layer));
	if (!path->ring_mr && !peer->ring)
		return inc_err_set(err, EPROTO, "%s: %s: the peer has no ring", path->what,
				   path->qp.what);
	memcpy(to.gid, peer->gid, sizeof(to.gid));
	path->peer = *peer;
	ret = check_partition(path, peer, err);
	ret = ret ?: inc_rdma_qp_to_rtr(&path->qp, &to, err);
	return ret ?: inc_rdma_qp_to_rts(&path->qp, &rts, err);
}

void ha_path_destroy(struct ha_path *path)
{
	if (!path)
		return;
	if (path->soft)
		ha_soft_destroy(path);
	inc_rdma_qp_destroy(&path->qp);
	inc_rdma_completions_close(&path->completions);
	if (path->ring_mr)
		ibv_dereg_mr(path->ring_mr);
	if (path->mr)
		ibv_dereg_mr(path->mr);
	inc_rdma_device_put(path->device);
	free(path->memory);
	free(path);
}

int ha_path_fd(const struct ha_path *path)
{
	return path->soft ? ha_soft_fd(path) : -1;
}

int ha_path_fence(struct ha_path *path, struct inc_err *err)
{
	int ret;

	if (path->soft)
		return ha_soft_fence(path);
	ret = inc_rdma_qp_to_err(&path->qp, err);
	if (ret)
		return ret;
	path->fenced = true;
	/* waiting descriptions are dropped, because they are for this queue pair only */
	path->waiting = 0;
	return 0;
}

bool ha_path_drained(const struct ha_path *path)
{
	return path->fenced && !path->receives && !path->msgs && !path->writes;
}

/* ---- the send queue ------------------------------------------------------------------------- */

/* Returns a piece of the path's own registered buffer, for use in a send request. */
static struct ibv_sge own_piece(const struct ha_path *path, size_t at, uint32_t bytes)
{
	return (struct ibv_sge){(uintptr_t)path->memory + at, bytes, path->mr->lkey};
}

static unsigned int inline_flag(const struct ha_path *path)
{
	return path->qp.caps.inline_bytes ? IBV_SEND_INLINE : 0;
}

static int post_write(struct ha_path *path, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int ret;

	if (path->writes == HA_WRITES)
		return -EAGAIN;
	wr->send_flags |= IBV_SEND_SIGNALED;
	ret = ibv_post_send(path->qp.ibv, wr, &bad);
	path->writes += !ret;
	return -ret;
}

int ha_path_write(struct ha_path *path, uint64_t wr_id, const void *buffer, uint32_t lkey,
		  uint32_t bytes, uint64_t address, uint32_t rkey, uint32_t immediate)
{
	struct ibv_sge sge = {(uintptr_t)buffer, bytes, lkey};
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = bytes ? 1 : 0,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl(immediate),
		.wr.rdma = {.remote_addr = address, .rkey = rkey},
	};

	if (path->soft)
		return ha_soft_write(path, wr_id, buffer, bytes, immediate);
	return bytes > path->max_message_bytes ? -EMSGSIZE : post_write(path, &wr);
}

/* Posts the description of a slot. Its place in the send buffer is that of the slot in the ring. If
 * the slot is described again, the peer has received the previous description, so a retransmission
 * of that changes nothing. */
static int post_description(struct ha_path *path, uint64_t wr_id, const struct ha_slot *slot)
{
	const size_t at = slot->sequence % HA_SLOTS * sizeof(struct ha_slot_wire);
	struct ibv_sge sge = own_piece(path, DESCRIPTIONS_AT + at, sizeof(struct ha_slot_wire));
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = inline_flag(path),
		.wr.rdma = {.remote_addr = path->peer.ring + at, .rkey = path->peer.ring_rkey},
	};

	ha_slot_encode(slot, (struct ha_slot_wire *)(uintptr_t)sge.addr);
	return post_write(path, &wr);
}

int ha_path_describe(struct ha_path *path, uint64_t wr_id, const struct ha_slot *slot)
{
	unsigned int last;

	if (path->soft)
		return ha_soft_describe(path, wr_id, slot);
	if (!path->waiting && path->writes < HA_WRITES)
		return post_description(path, wr_id, slot);
	if (path->waiting == HA_SLOTS)
		/* does not happen, because a comm has no more open slots than the path has room
		 * for */
		return -EAGAIN;
	last = (path->first_waiting + path->waiting++) % HA_SLOTS;
	path->wait[last].wr_id = wr_id;
	path->wait[last].slot = *slot;
	return 0;
}

int ha_path_probe(struct ha_path *path, uint64_t wr_id)
{
	struct ibv_send_wr wr = {.wr_id = wr_id, .opcode = IBV_WR_RDMA_WRITE};

	return path->soft ? ha_soft_probe(path, wr_id) : post_write(path, &wr);
}

int ha_path_send(struct ha_path *path, const uint8_t msg[HA_MSG_BYTES])
{
	struct ibv_send_wr wr = {
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | inline_flag(path),
	};
	struct ibv_send_wr *bad;
	struct ibv_sge sge;
	unsigned int i;
	int ret;

	if (path->soft)
		return ha_soft_send(path, msg);
	if (!path->free_msgs)
		return -EAGAIN;
	i = __builtin_ctz(path->free_msgs);
	sge = own_piece(path, MSGS_AT + i * HA_MSG_BYTES, HA_MSG_BYTES);
	memcpy((void *)(uintptr_t)sge.addr, msg, HA_MSG_BYTES);
	wr.wr_id = ha_wr_id(path->epoch, HA_WR_MSG | i);
	wr.sg_list = &sge;
	ret = ibv_post_send(path->qp.ibv, &wr, &bad);
	if (ret)
		return -ret;
	path->free_msgs &= ~(1u << i);
	path->msgs++;
	return 0;
}

/* ---- completions ---------------------------------------------------------------------------- */

/* Marks the path as dead, and makes an event of that. Returns 1, or 0 without an event: if that was
 * reported before, or if the path is fenced, because then everything fails. */
static unsigned int die(struct ha_path *path, struct ha_path_event *event, const char *why)
{
	if (path->fenced || path->dead)
		return 0;
	path->dead = true;
	*event = (struct ha_path_event){.kind = HA_PATH_DEAD, .why = why};
	return 1;
}

/* Posts a receive again. An error is ignored, because a queue pair that fails reports that by a
 * completion. */
static void give_back(struct ha_path *path, unsigned int i)
{
	if (!path->fenced && !path->dead)
		post_receive(path, i);
}

static unsigned int received(struct ha_path *path, const struct ibv_wc *wc,
			     struct ha_path_event *event)
{
	const unsigned int i = ha_wr_index(wc->wr_id) - HA_WR_RECEIVE;

	path->receives--;
	if (wc->status != IBV_WC_SUCCESS)
		return die(path, event, ibv_wc_status_str(wc->status));
	/* a control message must fill the buffer, because a shorter one would leave the end of an
	 * earlier one there */
	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM && wc->byte_len != HA_MSG_BYTES)
		return die(path, event, "a control message of a wrong length");
	*event = (struct ha_path_event){.wr_id = wc->wr_id, .ok = true, .bytes = wc->byte_len};
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		event->kind = HA_PATH_LANDED;
		event->sequence = ntohl(wc->imm_data);
		give_back(path, i);
	} else {
		event->kind = HA_PATH_MSG;
		event->msg = path->memory + i * HA_MSG_BYTES;
		path->lent_receive[path->lent++] = i;
	}
	return 1;
}

static unsigned int completed(struct ha_path *path, const struct ibv_wc *wc,
			      struct ha_path_event *event)
{
	const uint32_t index = ha_wr_index(wc->wr_id);
	const bool ok = wc->status == IBV_WC_SUCCESS;

	if (index & HA_WR_RECEIVE)
		return received(path, wc, event);
	if (index & HA_WR_MSG) {
		path->free_msgs |= 1u << (index - HA_WR_MSG);
		path->msgs--;
		return ok ? 0 : die(path, event, ibv_wc_status_str(wc->status));
	}
	path->writes--;
	*event = (struct ha_path_event){
		.kind = HA_PATH_COMPLETED,
		.wr_id = wc->wr_id,
		.ok = ok,
		.flushed = wc->status == IBV_WC_WR_FLUSH_ERR,
		.why = ok ? NULL : ibv_wc_status_str(wc->status),
	};
	return 1;
}

static void post_waiting(struct ha_path *path)
{
	for (; path->waiting && path->writes < HA_WRITES; path->waiting--) {
		const unsigned int i = path->first_waiting;

		if (post_description(path, path->wait[i].wr_id, &path->wait[i].slot))
			return;
		path->first_waiting = (i + 1) % HA_SLOTS;
	}
}

unsigned int ha_path_poll(struct ha_path *path, struct ha_path_event *events, unsigned int max)
{
	struct ibv_wc wc[POLL_BATCH];
	unsigned int n = 0;
	int asked, got, i;

	if (path->soft)
		return ha_soft_poll(path, events, max);
	while (path->lent)
		give_back(path, path->lent_receive[--path->lent]);
	do {
		asked = max - n < POLL_BATCH ? max - n : POLL_BATCH;
		got = ibv_poll_cq(path->completions.cq, asked, wc);
		for (i = 0; i < got; i++)
			n += completed(path, &wc[i], &events[n]);
		if (got < 0)
			n += die(path, &events[n], "its completion queue cannot be polled");
	} while (got == asked && n < max);
	if (!path->fenced && path->waiting)
		post_waiting(path);
	return n;
}

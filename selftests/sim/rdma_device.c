// SPDX-License-Identifier: BSD-2-Clause
/* Devices, what processes have opened there, memory regions and events. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/rdma/gid.h"
#include "process.h"
#include "rdma_priv.h"
#include "sim.h"

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

#define DEVICES 64
#define TTL     64

struct rdma_figures rdma_figures;

static struct rdma_device devices[DEVICES];
static unsigned int n_devices;
static uint32_t last_key;

void rdma_begin(void)
{
	n_devices = 0;
}

void rdma_add(struct host *host, const char *name, const struct process *owner)
{
	struct rdma_device *device = &devices[n_devices];

	sim_require(n_devices < DEVICES, "more than %u RDMA devices", DEVICES);
	if (!n_devices++) {
		last_key = sim_below(1 << 16);
		rdma_first_numbers();
	}
	*device = (struct rdma_device){.host = host, .owner = owner};
	device->ibv.node_type = IBV_NODE_CA;
	device->ibv.transport_type = IBV_TRANSPORT_IB;
	snprintf(device->ibv.name, sizeof(device->ibv.name), "%s", name);
	snprintf(device->ibv.dev_name, sizeof(device->ibv.dev_name), "%s", name);
	device->ip_id = sim_below(1 << 16);
	host->rdma = true;
}

static bool may_open(const struct rdma_device *device, const struct process *process)
{
	return device->owner ? device->owner == process : device->host->addr == process->addr;
}

bool rdma_has(const struct process *process)
{
	unsigned int i;

	for (i = 0; i < n_devices; i++)
		if (may_open(&devices[i], process))
			return true;
	return false;
}

/* The network's last device, which may have failed. */
static struct rdma_device *device_of(const struct host *host)
{
	struct rdma_device *last = NULL;
	unsigned int i;

	for (i = 0; i < n_devices; i++)
		if (devices[i].host == host)
			last = &devices[i];
	return last;
}

bool rdma_is_up(const struct rdma_device *device)
{
	return !device->host->away && !device->broken;
}

static struct rdma_context *context_of(const struct ibv_context *ctx)
{
	return (struct rdma_context *)ctx;
}

struct rdma_qp *rdma_qp_of(uint64_t id)
{
	struct rdma_context *c;
	struct rdma_qp *qp;
	unsigned int i;

	for (i = 0; i < n_devices; i++)
		LIST_FOREACH (c, &devices[i].contexts, entry)
			LIST_FOREACH (qp, &c->qps, entry)
				if (qp->id == id)
					return qp;
	return NULL;
}

unsigned int rdma_queue_pairs(const struct host *host)
{
	const struct rdma_context *c;
	const struct rdma_qp *qp;
	unsigned int i, n = 0;

	for (i = 0; i < n_devices; i++)
		LIST_FOREACH (c, &devices[i].contexts, entry)
			LIST_FOREACH (qp, &c->qps, entry)
				n += devices[i].host == host;
	return n;
}

/* --- packets --- */

void rdma_transmit(struct rdma_qp *qp, struct frame_spec *packet)
{
	struct rdma_device *device = qp->context->device;
	const struct host *host = device->host;
	struct frame frame;

	if (!rdma_is_up(device))
		return;
	memcpy(packet->dst_mac, host->gateway, 6);
	memcpy(packet->src_mac, host->mac, 6);
	packet->saddr = host->addr;
	packet->daddr = qp->peer_addr;
	packet->sport = qp->sport;
	packet->dport = INC_ROCE_UDP_PORT;
	packet->ip_id = ++device->ip_id;
	packet->tos = qp->tos;
	packet->ttl = qp->hop_limit;
	packet->df = true;
	packet->pkey = RDMA_PKEY;
	packet->qpn = qp->peer_qpn;
	packet->pad = -packet->len & 3;
	frame_build(&frame, packet);
	wire_send(host->up, frame.data, frame.len);
}

static bool is_roce(const uint8_t *frame, size_t len)
{
	return len >= FRAME_BTH && get16(frame + 12) == 0x0800 && frame[FRAME_IP] == 0x45 &&
	       frame[FRAME_IP + 9] == IPPROTO_UDP &&
	       get16(frame + FRAME_UDP + 2) == INC_ROCE_UDP_PORT;
}

/* Is this a packet for the host whose checksums are right? */
static bool is_good(const struct host *host, const uint8_t *frame, size_t len)
{
	const uint8_t *ip = frame + FRAME_IP;
	const uint32_t end = FRAME_IP + get16(ip + 2);
	const uint8_t *icrc = frame + end - INC_ICRC_LEN;
	uint32_t crc;

	if (memcmp(ip + 16, &host->addr, 4) || frame_sum16(ip, INC_IP_LEN, 0) != 0xffff ||
	    get16(ip + 6) & 0x3fff || end > len || end < FRAME_EXT + INC_ICRC_LEN ||
	    get16(frame + FRAME_UDP + 4) + FRAME_UDP != (int)end ||
	    get16(frame + FRAME_BTH + 2) != RDMA_PKEY)
		return false;
	crc = frame_icrc(ip, end - FRAME_IP - INC_ICRC_LEN);
	return icrc[0] == (uint8_t)crc && icrc[1] == (uint8_t)(crc >> 8) &&
	       icrc[2] == (uint8_t)(crc >> 16) && icrc[3] == (uint8_t)(crc >> 24);
}

static struct rdma_qp *find_qp(const struct rdma_device *device, uint32_t qpn)
{
	struct rdma_context *c;
	struct rdma_qp *qp;

	LIST_FOREACH (c, &device->contexts, entry)
		LIST_FOREACH (qp, &c->qps, entry)
			if (qp->ibv.qp_num == qpn)
				return qp;
	return NULL;
}

/* Reads the headers behind the BTH. Returns false if the packet is too short for its opcode. */
static bool parse(const uint8_t *frame, struct rdma_packet *out)
{
	const uint8_t *bth = frame + FRAME_BTH, *at = frame + FRAME_EXT;
	const uint8_t *end = frame + FRAME_IP + get16(frame + FRAME_IP + 2) - INC_ICRC_LEN -
			     (bth[1] >> INC_BTH_PAD_SHIFT & 3);
	const int more = frame_ext_len(bth[0]);

	if (more < 0 || at + more > end)
		return false;
	*out = (struct rdma_packet){.opcode = bth[0], .ackreq = bth[8] >> 7, .psn = get24(bth + 9)};
	if (frame_has_reth(bth[0])) {
		out->va = (uint64_t)get32(at) << 32 | get32(at + 4);
		out->rkey = get32(at + 8);
		out->dmalen = get32(at + 12);
	}
	if (frame_has_imm(bth[0]) || bth[0] == INC_OP_ACK)
		out->imm = get32(at + more - INC_IMM_LEN);
	out->payload = at + more;
	out->bytes = end - out->payload;
	return true;
}

/* Handles a packet that names the queue pair. */
static void take(struct rdma_qp *qp, const uint8_t *frame, size_t len)
{
	const struct rdma_device *device = qp->context->device;
	struct rdma_packet packet;

	if (!rdma_is_up(device) || !is_good(device->host, frame, len) ||
	    memcmp(frame + FRAME_IP + 12, &qp->peer_addr, 4) != 0 ||
	    (qp->state != IBV_QPS_RTR && qp->state != IBV_QPS_RTS) || !parse(frame, &packet))
		return;
	if (packet.opcode == INC_OP_ACK)
		rdma_answered(qp, packet.imm >> 24, packet.psn);
	else
		rdma_requested(qp, &packet);
}

bool rdma_receive(struct host *host, const uint8_t *frame, size_t len)
{
	struct rdma_qp *qp = NULL;

	if (host->rdma && is_roce(frame, len))
		qp = find_qp(device_of(host), get24(frame + FRAME_BTH + 5));
	if (qp)
		take(qp, frame, len);
	return qp;
}

/* --- events --- */

void rdma_report(struct rdma_context *c, enum ibv_event_type type, struct ibv_qp *qp)
{
	struct ibv_async_event *event = &c->event[c->put % RDMA_EVENTS];

	if (c->put - c->taken == RDMA_EVENTS)
		return; /* the kernel drops events if the program does not read them */
	*event = (struct ibv_async_event){.event_type = type};
	if (qp)
		event->element.qp = qp;
	else
		event->element.port_num = 1;
	c->put++;
	descriptor_signal(c->ibv.async_fd);
}

static void report_to_all(const struct rdma_device *device, enum ibv_event_type type)
{
	struct rdma_context *c;

	LIST_FOREACH (c, &device->contexts, entry)
		rdma_report(c, type, NULL);
}

void rdma_link_changed(const struct host *host)
{
	struct rdma_device *device = device_of(host);

	if (device && !device->broken)
		report_to_all(device, host->away ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE);
}

bool rdma_break(const struct host *host)
{
	struct rdma_device *device = device_of(host);
	const bool reported = sim_chance(500);

	sim_require(device && !device->broken, "no RDMA device that could fail");
	sim_note(device->ibv.name, "fails", reported, 0, 0);
	device->broken = true;
	device->host->rdma = false;
	if (reported)
		report_to_all(device, IBV_EVENT_DEVICE_FATAL);
	return reported;
}

void rdma_repair(struct host *host)
{
	const struct rdma_device *device = device_of(host);

	if (device && device->broken)
		rdma_add(host, device->ibv.name, device->owner);
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct rdma_context *c = context_of(ctx);

	if (c->put == c->taken) {
		errno = EAGAIN;
		return -1;
	}
	*event = c->event[c->taken++ % RDMA_EVENTS];
	if (c->put == c->taken)
		descriptor_clear(ctx->async_fd);
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
}

/* --- contexts --- */

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(n_devices + 1, sizeof(struct ibv_device *));
	unsigned int i;

	*n = 0;
	for (i = 0; list && i < n_devices; i++)
		if (!devices[i].broken && may_open(&devices[i], task_process()))
			list[(*n)++] = &devices[i].ibv;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return htobe64(1 + ((struct rdma_device *)device - devices));
}

int ibv_fork_init(void)
{
	return 0;
}

/* The kernel frees what a process has made on the device, when its descriptor is closed. */
static void forget(void *arg)
{
	struct rdma_context *c = arg;
	struct rdma_mr *mr;

	rdma_figures.ended_with_process += !LIST_EMPTY(&c->qps);
	while (!LIST_EMPTY(&c->qps))
		rdma_free_qp(LIST_FIRST(&c->qps));
	while (!LIST_EMPTY(&c->cqs))
		rdma_free_cq(LIST_FIRST(&c->cqs));
	while ((mr = LIST_FIRST(&c->mrs))) {
		LIST_REMOVE(mr, entry);
		free(mr);
	}
	while (!LIST_EMPTY(&c->channels)) {
		struct rdma_notices *notices = LIST_FIRST(&c->channels);

		LIST_REMOVE(notices, entry);
		notices->context_ended = true;
		if (notices->closed)
			free(notices);
	}
	LIST_REMOVE(c, entry);
	free(c);
}

struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
	struct rdma_device *device = (struct rdma_device *)ibv;
	struct rdma_context *c = calloc(1, sizeof(*c));

	sim_require(c, "no memory");
	c->device = device;
	c->ibv.device = ibv;
	c->ibv.cmd_fd = -1;
	c->ibv.num_comp_vectors = 1;
	c->ibv.async_fd = descriptor_new();
	descriptor_own(c->ibv.async_fd, task_process(), forget, c);
	rdma_set_ops(&c->ibv);
	LIST_INSERT_HEAD(&device->contexts, c, entry);
	return &c->ibv;
}

int ibv_close_device(struct ibv_context *ctx)
{
	const struct rdma_context *c = context_of(ctx);

	sim_require(LIST_EMPTY(&c->qps) && LIST_EMPTY(&c->cqs) && LIST_EMPTY(&c->mrs) &&
			    LIST_EMPTY(&c->channels),
		    "%s is closed, and something on it was not destroyed", c->device->ibv.name);
	close(ctx->async_fd);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	context_of(ctx)->pd.context = ctx;
	return &context_of(ctx)->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return 0;
}

/* --- queries --- */

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
		.phys_port_cnt = 1,
		.max_qp = 1024,
		.max_qp_wr = RDMA_MOST_WR,
		.max_sge = 16,
		.max_cqe = RDMA_MOST_CQE,
		.max_mr = 1024,
		.max_mr_size = UINT64_MAX,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
	};
	return 0;
}

int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *out)
{
	*(struct ibv_port_attr *)out = (struct ibv_port_attr){
		.state = rdma_is_up(context_of(ctx)->device) ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = RDMA_GIDS,
		.max_msg_sz = RDMA_MOST_BYTES,
		.pkey_tbl_len = 1,
		.active_width = 2,
		.active_speed = 32,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	return 0;
}

int ibv_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	*pkey = htobe16(RDMA_PKEY);
	return 0;
}

/* The table has a link-local GID, and the port's address twice, for RoCE v1 and for RoCE v2. */
static void fill_gid(const struct rdma_device *device, unsigned int index,
		     struct ibv_gid_entry *entry)
{
	*entry = (struct ibv_gid_entry){
		.gid_index = index,
		.port_num = 1,
		.gid_type = index == 1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2,
	};
	if (index)
		inc_rdma_gid_of_ipv4(device->host->addr, entry->gid.raw);
	else
		entry->gid = (union ibv_gid){.raw = {0xfe, 0x80, [15] = 1}};
}

int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	fill_gid(context_of(ctx)->device, index, entry);
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *table, size_t most,
			     uint32_t flags, size_t size)
{
	unsigned int i;

	if (most < RDMA_GIDS)
		return -EINVAL;
	for (i = 0; i < RDMA_GIDS; i++)
		fill_gid(context_of(ctx)->device, i, &table[i]);
	return RDMA_GIDS;
}

/* --- memory --- */

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct rdma_mr *mr = calloc(1, sizeof(*mr));

	sim_require(mr, "no memory");
	mr->access = access;
	mr->ibv = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	mr->ibv.lkey = mr->ibv.rkey = ++last_key << 8;
	LIST_INSERT_HEAD(&context_of(pd->context)->mrs, mr, entry);
	return &mr->ibv;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return ibv_reg_mr(pd, addr, length, access);
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct rdma_mr *mr = (struct rdma_mr *)ibv;

	LIST_REMOVE(mr, entry);
	free(mr);
	return 0;
}

bool rdma_may_touch(const struct rdma_context *c, uint32_t key, uint64_t addr, uint64_t bytes,
		    int access)
{
	const struct rdma_mr *mr;

	LIST_FOREACH (mr, &c->mrs, entry)
		if (mr->ibv.lkey == key && (mr->access & access) == access &&
		    addr >= (uintptr_t)mr->ibv.addr &&
		    addr + bytes <= (uintptr_t)mr->ibv.addr + mr->ibv.length)
			return true;
	return false;
}

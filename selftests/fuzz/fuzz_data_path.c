// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 20000
 *
 * Target: the natively compiled XDP programs (selftests/native), on maps that the loader's own code
 * has filled (selftests/sim/xdp_maps.c). The programs get valid, wrong and damaged packets of a
 * communicator's children and parent, and must do the same as the reference of selftests/unit. The
 * first bytes of an input are the shape of the communicator, and each packet is made of some
 * further bytes.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "lib/proto/desc.h"
#include "selftests/fuzz/fuzz.h"
#include "selftests/native/native.h"
#include "selftests/sim/sim.h"
#include "selftests/sim/xdp_priv.h"
#include "selftests/unit/unit.h"

#define PORTS        4
#define COMMS        2
#define CONNECTIONS  16
#define ROWS         256
#define PAYLOAD      256
#define PACKETS_MOST 64
#define ECHO_IP      0x0a6300feu /* address of the port of child 0, in host order */

static const uint32_t descs[] = {
	INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, 1),
	INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_MAX, INC_DTYPE_INT8, 0, 2),
	INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_PROD, INC_DTYPE_UINT16, 0, 3),
	INC_DESC(INC_COLL_REDUCE, INC_OPERATOR_MIN, INC_DTYPE_INT64, 1, 4),
	INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_LXOR, INC_DTYPE_UINT8, 0, 127),
	INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_MAX, INC_DTYPE_FLOAT64_INDEX, 0, 7),
	INC_DESC(INC_COLL_BROADCAST, INC_OPERATOR_SUM, INC_DTYPE_INT32, 1, 5),
	INC_DESC(INC_COLL_BARRIER, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, 6),
};

struct both_switches {
	struct xdp *xdp;
	struct native_maps maps;
	struct native_ports ports[COMMS * INC_PORTS_ROWS];
	struct native_lookup lookup[CONNECTIONS];
	struct native_addr own_addr[CONNECTIONS];
	uint32_t parent[COMMS];
	struct ref_switch ref;
	struct ref_comm *cm;
};

static struct inc_comm_conf conf_of(struct fuzz_bytes *bytes)
{
	const uint32_t shape = fuzz_take8(bytes), csums = fuzz_take8(bytes);
	struct inc_comm_conf conf = {.communicator = 7, .payload = PAYLOAD};
	uint32_t i;

	conf.n_conns = 1 + (shape & 3);
	conf.slots = 1u << (shape >> 2 & 3);
	conf.byte_order = shape & 16 ? INC_ORDER_NETWORK : INC_ORDER_LITTLE;
	conf.n_conns += shape >> 5 & 1;
	for (i = 0; i < conf.n_conns; i++) {
		struct inc_conn_conf *c = &conf.conn[i];

		c->up = shape & 32 && i == conf.n_conns - 1;
		c->rank = c->up ? 0 : i;
		snprintf(c->port, sizeof(c->port), "p%u", i % PORTS);
		c->peer.ip = inc_addr_of_ipv4(htonl(0x0a4d0001 | i << 8));
		c->own.ip = inc_addr_of_ipv4(htonl(0x0a4d00fe | i << 8));
		c->peer.qpn = 0x200 + i;
		c->own.qpn = 0x100000 + i;
		c->peer.udp_port = c->own.udp_port = INC_ROCE_UDP_PORT;
		c->pkey = INC_PKEY_DEFAULT;
		c->own_mac[0] = 2;
		c->own_mac[5] = i;
		c->peer.psn = shape & 64 ? INC_PSN_MASK - i : i;
		c->own.psn = shape & 128 ? INC_PSN_MASK - 1 : 77;
		c->udp_csum = csums >> i & 1;
	}
	return conf;
}

/* Copies the maps that the loader has filled into the native programs' maps. */
static void take_maps(struct both_switches *both)
{
	struct xdp *x = both->xdp;
	struct native_maps *m = &both->maps;
	uint32_t i;

	*m = (struct native_maps){.max_comms = COMMS,
				  .max_connections = CONNECTIONS,
				  .max_rows = ROWS,
				  .sum_rows = x->sw.sum_rows,
				  .places = inc_conn_places(CONNECTIONS),
				  .root_rows = inc_switch_root_rows(COMMS),
				  .place = x->place,
				  .conn_cfg = x->conn_cfg,
				  .conn_state = x->sw.conn_state,
				  .copy = x->copy,
				  .comm_cfg = x->comm_cfg,
				  .comm_state = x->sw.comm_state,
				  .parent = both->parent,
				  .ports = both->ports,
				  .root = x->root,
				  .slots = x->sw.slots,
				  .sums = x->sw.sums,
				  .kept = x->sw.kept,
				  .lookup = both->lookup,
				  .lookups = x->lookups,
				  .own_addr = both->own_addr,
				  .own_addrs = x->own_addrs};
	for (i = 0; i < COMMS * INC_PORTS_ROWS; i++) {
		const struct xdp_devmap *from = x->comm_ports[i];

		both->ports[i].n = from ? from->n : 0;
		if (from)
			memcpy(both->ports[i].ifindex, from->ifindex, sizeof(from->ifindex));
	}
	for (i = 0; i < COMMS; i++)
		both->parent[i] = x->parent[i].ifindex;
	for (i = 0; i < x->lookups; i++)
		both->lookup[i] = (struct native_lookup){x->lookup[i].key, x->lookup[i].conn};
	for (i = 0; i < x->own_addrs; i++)
		both->own_addr[i] = (struct native_addr){x->own_addr[i].addr, x->own_addr[i].count};
}

static void make_switches(struct both_switches *both, const struct inc_comm_conf *conf)
{
	const struct xdp_out nowhere = {};
	struct ref_conn conn[INC_MAX_CONNECTIONS] = {};
	const struct inc_comm_cfg *cfg;
	struct inc_err err = {};
	struct inc_switch *sw;
	int index;
	uint32_t i;

	memset(both, 0, sizeof(*both));
	sim_begin(1, false);
	both->xdp = xdp_new(COMMS, CONNECTIONS, ROWS, PORTS, &nowhere);
	sw = xdp_switch(both->xdp);
	index = inc_switch_add_comm(sw, conf, &err);
	fuzz_require(index >= 0 && !inc_switch_start_comm(sw, index, &err), "%s", err.msg);
	cfg = inc_switch_comm(sw, index);
	for (i = 0; i < conf->n_conns; i++) {
		conn[i].cfg = *inc_switch_conn(sw, cfg->conn_base + i);
		inc_ranks_add(&conn[i].ranks, conn[i].cfg.flags & INC_CONN_F_UP
						      ? 0
						      : ntohl(conn[i].cfg.peer.ip) >> 8 & 0xff);
	}
	both->cm = ref_comm_add(&both->ref, index, cfg, conn);
	fuzz_require(both->cm, "no memory for the reference");
	for (i = 0; both->cm->up && i < cfg->children; i++)
		inc_ranks_join(&both->cm->conn[cfg->children].ranks, &conn[i].ranks);
	take_maps(both);
	both->ref.echo_ifindex = conn[0].cfg.ifindex;
	both->ref.echo_ip = htonl(ECHO_IP);
	both->maps.port[0] = (struct native_port){conn[0].cfg.ifindex, {.ip = both->ref.echo_ip}};
}

/* Makes an echo request, which may be damaged afterwards. */
static void echo(struct fuzz_bytes *bytes, struct frame *f)
{
	const uint32_t source = fuzz_take8(bytes), port = fuzz_take16(bytes);
	uint8_t payload[INC_ECHO_LEN];
	const struct frame_spec s = {
		.dst_mac = {2, 0, 0, 0, 0, 9},
		.src_mac = {2, 0, 0, 0, 0, 7},
		.saddr = htonl(source << 24 | 7),
		.daddr = htonl(ECHO_IP),
		.sport = port,
		.dport = INC_ROCE_UDP_PORT,
		.opcode = INC_OP_ECHO_REQUEST,
		.psn = port,
		.payload = payload,
		.len = sizeof(payload),
	};

	memset(payload, fuzz_take8(bytes), sizeof(payload));
	frame_build(f, &s);
}

static void damage(struct fuzz_bytes *bytes, struct frame *f, uint32_t how)
{
	const uint32_t at = fuzz_take16(bytes);

	if (how & 1)
		f->data[at % f->len] ^= fuzz_take8(bytes);
	if (how & 2)
		frame_seal(f);
	if (how & 4)
		f->len = INC_ETH_LEN + at % (f->len - INC_ETH_LEN + 1);
}

/* Makes the next packet of a child or the parent. Returns the port by which it arrives. */
static uint32_t some_packet(struct both_switches *both, struct fuzz_bytes *bytes, struct frame *f)
{
	static const uint8_t opcodes[] = {INC_OP_SEND_ONLY_IMM,  INC_OP_SEND_ONLY,
					  INC_OP_SEND_FIRST,     INC_OP_SEND_MIDDLE,
					  INC_OP_SEND_LAST,      INC_OP_SEND_LAST_IMM,
					  INC_OP_WRITE_ONLY_IMM, INC_OP_WRITE_FIRST};
	const uint32_t who = fuzz_take8(bytes), how = fuzz_take8(bytes), when = fuzz_take8(bytes);
	const uint32_t child = (who & 15) % (both->cm->cfg.children + both->cm->up);
	const struct ref_conn *c = &both->cm->conn[child];
	struct unit_packet p = {.ackreq = how & 8, .solicited = how & 16};

	if (who == 0xee) {
		echo(bytes, f);
	} else if (who >> 4 == 15) {
		unit_ack(both->cm, child, fuzz_take8(bytes),
			 c->cfg.own.psn + c->state.tx_acked + (when & 15) - 4, f);
	} else {
		p.r = c->state.rx_next + (when & 3) - (when >> 2 & 3);
		if ((int64_t)p.r < 0)
			p.r = 0;
		p.opcode = opcodes[how >> 5];
		p.desc = descs[(who >> 4) % (sizeof(descs) / sizeof(descs[0]))];
		p.len = when & 128 ? PAYLOAD : fuzz_take8(bytes);
		unit_data(both->cm, child, &p, f);
	}
	if (how & 7)
		damage(bytes, f, how);
	return who == 0xee ? both->ref.echo_ifindex : c->cfg.ifindex;
}

static bool is(const struct native_out *out, const struct frame *want)
{
	return out->len == want->len && !memcmp(out->frame, want->data, want->len);
}

/* Compares a copy that leaves by a port with the expected one. If that is NULL, the copy must be
 * dropped. */
static void copy(struct both_switches *both, const struct frame *from, uint32_t ifindex,
		 const struct frame *want)
{
	struct native_out out;

	native_egress(&both->maps, ifindex, from->data, from->len, &out);
	fuzz_require(out.verdict == (want ? XDP_PASS : XDP_DROP), "verdict %d of a copy",
		     out.verdict);
	fuzz_require(!want || is(&out, want), "another copy");
}

static bool is_known(const struct ref_conn *c)
{
	return c->state.mac.known || c->state.mac_hint.known;
}

static void copies(struct both_switches *both, const struct frame *template,
		   const struct ref_out *want)
{
	const uint32_t children = both->cm->cfg.children;
	struct frame f;
	uint32_t i;

	if (want->counter == INC_CTR_UP_PARTIAL) {
		ref_partial(both->cm, want->r, &f);
		copy(both, template, both->cm->conn[children].cfg.ifindex,
		     is_known(&both->cm->conn[children]) ? &f : NULL);
		return;
	}
	for (i = 0; i < children; i++) {
		ref_copy(both->cm, i, want->r, &f);
		copy(both, template, both->cm->conn[i].cfg.ifindex,
		     is_known(&both->cm->conn[i]) ? &f : NULL);
		if (is_known(&both->cm->conn[i]))
			ref_copied(&both->ref, both->cm, i);
	}
}

static void one_packet(struct both_switches *both, struct fuzz_bytes *bytes)
{
	const uint32_t first = both->cm->cfg.conn_base;
	struct native_out out;
	struct frame f, template;
	struct ref_out want;
	uint32_t ifindex, i;

	ifindex = some_packet(both, bytes, &f);
	ref_input(&both->ref, &f, ifindex, &want);
	native_switch(&both->maps, ifindex, f.data, f.len, &out);
	fuzz_require(out.verdict == want.verdict, "verdict %d, not %d (%s)", out.verdict,
		     want.verdict, inc_counter_info[want.counter].name);
	fuzz_require(want.verdict != XDP_PASS || is(&out, &f), "a packet that passes was changed");
	fuzz_require(want.verdict != XDP_TX || is(&out, &want.frame), "another answer");
	fuzz_require(both->maps.events == (uint32_t)want.events, "%u events, not %d",
		     both->maps.events, want.events);
	for (i = 0; i < INC_CTR_MAX; i++)
		fuzz_require(inc_counter_is(i, 'X') ||
				     both->maps.counter[i] == both->ref.counter[i],
			     "counter %s", inc_counter_info[i].name);
	for (i = 0; i < both->cm->cfg.children + both->cm->up; i++)
		fuzz_require(both->maps.conn_state[first + i].rx_next ==
					     both->cm->conn[i].state.rx_next &&
				     both->maps.conn_state[first + i].tx_acked ==
					     both->cm->conn[i].state.tx_acked,
			     "another state of child %u", i);
	if (!inc_counter_is(want.counter, 'M') && want.counter != INC_CTR_UP_PARTIAL)
		return;
	template.len = out.len;
	memcpy(template.data, out.frame, out.len);
	copies(both, &template, &want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	static struct both_switches both;
	static bool opened;
	struct inc_comm_conf conf;
	uint32_t i;

	fuzz_require(opened || !native_open(), "no place for frames");
	opened = true;
	native_set(&(struct native_constants){.places = inc_conn_places(CONNECTIONS),
					      .check_icrc = true});
	conf = conf_of(&bytes);
	make_switches(&both, &conf);
	for (i = 0; bytes.size && i < PACKETS_MOST; i++)
		one_packet(&both, &bytes);
	ref_comm_remove(&both.ref, both.cm->index);
	xdp_free(both.xdp);
	return 0;
}

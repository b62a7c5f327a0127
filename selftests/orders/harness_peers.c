// SPDX-License-Identifier: BSD-2-Clause
/* Implements harness_peers.h: the peers, the slow path, and the checks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include <linux/bpf.h>
#include "data_path.h"
#include "lib/proto/desc.h"
#include "loader/inc_loader_priv.h"
#include "loader/inc_state.h"
#include "harness_peers.h"

#define PAYLOAD  256
#define ELEMENTS 2
#define LEN      (ELEMENTS * 4)
/* PSN of the first packet that connection 0's peer sends; other connections add their number */
#define RX_START 100
/* PSN of the first packet to connection 0's peer; other connections add their number */
#define TX_START  70000
#define PEER_QPN  0x300
#define MAX_CHUNK 4

static struct {
	/* For each peer: how often packet r has arrived at it. Peers wait for these words. */
	uint64_t came[DATA_PATH_CONNS][MAX_CHUNK];
} peers;

static struct {
	const struct shape *shape;
	struct conduct conduct;
	struct inc_switch sw;
	/* packets of each peer, which are built once */
	struct frame frame[DATA_PATH_CONNS][MAX_CHUNK];
	struct data_path initial;
	unsigned int results[MAX_CHUNK],
		/* number of results and partial sums that the data path has made, by chunk */
		partials[MAX_CHUNK];
} scripted;

static uint32_t part(uint32_t child, uint64_t r, uint32_t i)
{
	return (child + 1) * 1000 + r * 10 + i + (i ? 0x7ffffff0 : 0);
}

/* An element of a packet that a peer sends: a child's contribution, or the parent's result. */
static uint32_t element(uint32_t conn, uint64_t r, uint32_t i)
{
	return conn < scripted.shape->children ? part(conn, r, i) : 0x1234567 * (r + 1) + i;
}

static uint32_t partial(uint64_t r, uint32_t i)
{
	uint32_t sum = 0;

	for (uint32_t c = 0; c < scripted.shape->children; c++)
		sum += part(c, r, i);
	return sum;
}

static uint32_t desc_of(uint64_t r)
{
	return INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, r);
}

/* An element that this peer must receive in packet r. */
static uint32_t expected(uint32_t conn, uint64_t r, uint32_t i)
{
	bool from_parent = scripted.shape->up && conn < scripted.shape->children;

	return from_parent ? element(scripted.shape->children, r, i) : partial(r, i);
}

static bool right(const void *payload, uint32_t conn, uint64_t r)
{
	uint32_t have[ELEMENTS];

	memcpy(have, payload, LEN);
	for (uint32_t i = 0; i < ELEMENTS; i++)
		if (have[i] != expected(conn, r, i))
			return false;
	return true;
}

/* Called when packet r has arrived at the peer, from the data path or from the slow path. */
static void comes(uint32_t conn, uint64_t r)
{
	search_fetch_add(&peers.came[conn][r], 1);
}

void data_path_leaves(uint32_t conn, const struct frame *frame)
{
	const uint8_t *bth = frame->data + FRAME_BTH;
	uint64_t r = get24(bth + 9) - (TX_START + conn);
	uint32_t end = frame->len - INC_ICRC_LEN, icrc;

	if (frame->len != FRAME_EXT + INC_IMM_LEN + LEN + INC_ICRC_LEN ||
	    bth[0] != INC_OP_SEND_ONLY_IMM || r >= scripted.shape->chunks ||
	    get24(bth + 5) != PEER_QPN + conn) {
		search_fail("a frame that leaves for connection %u is no packet for it", conn);
		return;
	}
	memcpy(&icrc, frame->data + end, sizeof(icrc));
	if (icrc != frame_icrc(frame->data + FRAME_IP, end - FRAME_IP))
		search_fail("packet %llu to connection %u has a wrong ICRC", (unsigned long long)r,
			    conn);
	if (get32(frame->data + FRAME_EXT) != desc_of(r))
		search_fail("packet %llu to connection %u mirrors another one",
			    (unsigned long long)r, conn);
	if (!right(frame->data + FRAME_EXT + INC_IMM_LEN, conn, r))
		search_fail("packet %llu to connection %u has a wrong sum", (unsigned long long)r,
			    conn);
	if (scripted.conduct.ordered && r && !search_latest(&peers.came[conn][r - 1]))
		search_fail("packet %llu to connection %u overtakes the one before it",
			    (unsigned long long)r, conn);
	comes(conn, r);
}

/* --- packets of a peer ------------------------------------------------------------------- */

static void make_spec(uint32_t conn, struct frame_spec *s)
{
	const struct inc_conn_cfg *cfg = &data_path_cfg.conn[conn];

	*s = (struct frame_spec){
		.dst_mac = {2, 0x5c, 0, 0, 0, conn},
		.src_mac = {2, 0x40, 0, 0, 0, conn},
		.saddr = cfg->peer.ip,
		.daddr = cfg->own.ip,
		.sport = cfg->peer.udp_port,
		.dport = INC_ROCE_UDP_PORT,
		.ttl = 64,
		.df = true,
		.bth_flags = INC_BTH_M,
		.pkey = cfg->pkey,
		.qpn = cfg->own.qpn,
		.ack_byte = 0x80,
	};
}

static void make_frame(uint32_t conn, uint64_t r)
{
	uint32_t payload[ELEMENTS];
	struct frame_spec s;

	for (uint32_t i = 0; i < ELEMENTS; i++)
		payload[i] = element(conn, r, i);
	make_spec(conn, &s);
	s.opcode = INC_OP_SEND_ONLY_IMM;
	s.psn = RX_START + conn + r;
	s.imm = desc_of(r);
	s.payload = payload;
	s.len = LEN;
	frame_build(&scripted.frame[conn][r], &s);
}

/* Is packet r of a peer stored? If so, its row holds chunk r, or a later chunk of the same slot.
 * counted: a child's packet must also have set its bit in the slot. */
static bool kept(uint32_t conn, uint64_t r, bool counted)
{
	uint32_t slot = r % scripted.shape->slots, generation = r / scripted.shape->slots;
	const struct inc_buf *row = &data_path.kept[conn * scripted.shape->slots + slot];
	uint64_t word = search_latest(&data_path.slot[slot].word), have;

	if (INC_SLOT_GENERATION(word) > generation)
		return true;
	if (counted && conn < scripted.shape->children && !(word >> conn & 1))
		return false;
	if (search_latest(&row->r) != r)
		return false;
	have = search_latest(row->payload);
	return (uint32_t)have == element(conn, r, 0) && have >> 32 == element(conn, r, 1);
}

/* Checks that all packets before `end` are stored, because the switch has acknowledged them. */
static void acked_to(uint32_t conn, uint64_t end, bool counted)
{
	for (uint64_t r = 0; r < end; r++)
		if (!kept(conn, r, counted))
			search_fail("packet %llu of connection %u is acknowledged, not kept",
				    (unsigned long long)r, conn);
}

/* Checks how the switch answered packet r. Returns 1 if the packet is stored. Returns 0 if it was
 * refused and may be sent again. */
static int judge_answer(uint32_t conn, uint64_t r, const struct data_path_outcome *out)
{
	switch (out->counter) {
	case INC_CTR_ANS_ACK:
	case INC_CTR_ANS_DUPLICATE:
		acked_to(conn,
			 ((get24(out->answer->data + FRAME_BTH + 9) - (RX_START + conn) + 1) &
			  INC_PSN_MASK),
			 true);
		return 1;
	case INC_CTR_ABS_STORED:
	case INC_CTR_ABS_AHEAD:
		return 1;
	case INC_CTR_ANS_NAK_SEQ:
		/* the packet shows a gap, and is kept unless it would complete its chunk */
		return scripted.conduct.reorder && kept(conn, r, true);
	case INC_CTR_MC_RESULT:
	case INC_CTR_MC_DOWN:
		scripted.results[r]++;
		return 1;
	case INC_CTR_UP_PARTIAL:
		scripted.partials[r]++;
		return 1;
	case INC_CTR_ANS_RNR:
		return 0;
	case INC_CTR_RX: /* the packet is in the queue of another CPU, which accepts it */
		if (scripted.conduct.cpu_plus_1)
			return 1;
		/* fall through */
	default:
		search_fail("packet %llu of connection %u ends on counter %d",
			    (unsigned long long)r, conn, out->counter);
		return 0;
	}
}

static void send_until_kept(uint32_t conn, uint64_t r)
{
	uint32_t slots = scripted.shape->slots;
	struct data_path_outcome out = data_path_receive(conn, &scripted.frame[conn][r]);

	if (judge_answer(conn, r, &out))
		return;
	if (scripted.conduct.reorder) {
		out = data_path_receive(conn, &scripted.frame[conn][r]);
		if (judge_answer(conn, r, &out))
			return;
	}
	if (r < slots) {
		search_fail("packet %llu of connection %u is refused", (unsigned long long)r, conn);
		return;
	}
	/* the result has arrived, so the window is open: from now on the packet must be accepted */
	search_wait(&peers.came[conn][r - slots], 1);
	out = data_path_receive(conn, &scripted.frame[conn][r]);
	if (!judge_answer(conn, r, &out))
		search_fail("packet %llu of connection %u is refused, though result %llu has come",
			    (unsigned long long)r, conn, (unsigned long long)(r - slots));
}

static void send_ack(uint32_t conn, uint64_t r)
{
	struct data_path_outcome out;
	struct frame_spec s;
	struct frame f;

	make_spec(conn, &s);
	s.ack_byte = 0;
	s.opcode = INC_OP_ACK;
	s.syndrome = INC_AETH_ACK;
	s.psn = TX_START + conn + r;
	frame_build(&f, &s);
	out = data_path_receive(conn, &f);
	if (out.counter == INC_CTR_ANS_OWED)
		acked_to(conn,
			 (get24(out.answer->data + FRAME_BTH + 9) - (RX_START + conn) + 1) &
				 INC_PSN_MASK,
			 true);
	else if (out.counter != INC_CTR_ABS_ACK)
		search_fail("connection %u's ACK of %llu ends on counter %d", conn,
			    (unsigned long long)r, out.counter);
}

/* --- the slow path ----------------------------------------------------------------------- */

/* Reads the same data as sp_conn_tick() and its callees, in the same order, when the retransmission
 * timer has expired. */
static void tick(uint32_t conn)
{
	const struct inc_conn_cfg *cfg = &data_path_cfg.conn[conn];
	bool up = conn == scripted.shape->children;
	struct inc_kept_head head;
	struct inc_conn_state st;
	struct inc_comm_state comm;
	uint8_t payload[INC_MAX_PAYLOAD];
	uint64_t acked, sent;
	uint32_t len;
	int ret;

	inc_switch_read_conn(&scripted.sw, conn, &st);
	if (st.ack_asked > st.rx_next)
		search_fail("connection %u asked for an ACK of %llu, but only %llu are kept", conn,
			    (unsigned long long)st.ack_asked, (unsigned long long)st.rx_next);
	if (st.ack_asked > st.ack_sent)
		acked_to(conn, st.rx_next, false);
	acked = inc_implied(&data_path_cfg.comm, cfg, st.rx_next);
	acked = st.tx_acked > acked ? st.tx_acked : acked;
	inc_switch_read_comm(&scripted.sw, 0, &comm);
	sent = up ? comm.up_next : comm.tx_next;
	if (comm.up_next < comm.tx_next && scripted.shape->up)
		search_fail("more results than partial sums");
	if (sent <= acked)
		return;
	if (up) {
		ret = inc_switch_read_partial(&scripted.sw, 0, acked, payload, &head);
		len = head.len;
	} else {
		ret = inc_switch_read_sum(&scripted.sw, 0, acked, payload, &len)
			      ?: inc_switch_read_kept(&scripted.sw, 0, conn, acked, &head);
	}
	if (ret)
		return;
	if (len != LEN || !right(payload, conn, acked) || head.mirror.desc != desc_of(acked) ||
	    head.mirror.opcode != INC_OP_SEND_ONLY_IMM) {
		search_fail("what is sent again to connection %u as %llu is wrong", conn,
			    (unsigned long long)acked);
		return;
	}
	comes(conn, acked);
}

/* --- CPUs of communicators ---------------------------------------------------------------- */

static void serve(uint32_t cpus)
{
	struct data_path_outcome out;
	const struct frame *frame;
	uint32_t conn, n;

	for (n = 1; cpus; n++) {
		if (!data_path_serve(&conn, &frame, &out))
			cpus--;
		else if (!judge_answer(conn, get24(frame->data + FRAME_BTH + 9) - (RX_START + conn),
				       &out))
			search_fail("a packet of connection %u is refused", conn);
		if (n % 2 == 0) /* two packets are a batch */
			data_path_flush();
	}
}

/* Moves the communicator as move() in loader/inc_steer.c does. */
static void move(uint32_t cpu)
{
	uint64_t word;

	if (!inc_switch_route_idle(&scripted.sw, 0, &word))
		return;
	data_path_await_programs();
	inc_switch_move_comm(&scripted.sw, 0, word, cpu);
}

/* --- one run ----------------------------------------------------------------------------- */

static void reset(void *arg)
{
	memcpy(&data_path, &scripted.initial, sizeof(data_path));
	memset(&peers, 0, sizeof(peers));
	memset(scripted.results, 0, sizeof(scripted.results));
	memset(scripted.partials, 0, sizeof(scripted.partials));
	data_path_reset();
}

static void run(void *arg, unsigned int self)
{
	const struct step *s = scripted.shape->cpu[self];
	struct data_path_outcome out;

	for (; s < scripted.shape->cpu[self] + SHAPE_STEPS && s->act; s++) {
		/* packets that come one after the other are a batch */
		if (s->act != KEEP)
			data_path_flush();
		switch (s->act) {
		case KEEP:
			send_until_kept(s->conn, s->r);
			break;
		case SEND:
			out = data_path_receive(s->conn, &scripted.frame[s->conn][s->r]);
			if (out.counter != INC_CTR_ANS_NAK_SEQ && out.counter != INC_CTR_DROP_AHEAD)
				judge_answer(s->conn, s->r, &out);
			break;
		case AWAIT:
			search_wait(&peers.came[s->conn][s->r], 1);
			break;
		case ACK:
			send_ack(s->conn, s->r);
			break;
		case TICK:
			tick(s->conn);
			break;
		case SERVE:
			serve(s->conn);
			break;
		case LEAVE:
			data_path_leave_queue(s->conn);
			break;
		case MOVE:
			move(s->conn);
			break;
		case END:
			break;
		}
	}
	data_path_flush();
}

static const char *check_conn(uint32_t conn)
{
	const struct inc_conn_state *st = &data_path.conn[conn];
	static char why[128];
	uint64_t r;

	for (r = 0; r < scripted.shape->chunks; r++)
		if (!peers.came[conn][r] && !(scripted.shape->impatient &&
					      r + scripted.shape->slots < scripted.shape->chunks)) {
			snprintf(why, sizeof(why), "packet %llu has not come to connection %u",
				 (unsigned long long)r, conn);
			return why;
		}
	if (st->rx_next == scripted.shape->chunks && !st->busy && !st->error)
		return NULL;
	snprintf(why, sizeof(why), "connection %u expects %llu, busy %u, error %#x", conn,
		 (unsigned long long)st->rx_next, st->busy, st->error);
	return why;
}

static const char *check(void *arg)
{
	const struct shape *shape = scripted.shape;
	const struct inc_comm_state *comm = &data_path.comm;
	static char why[128];
	const char *wrong = NULL;

	for (uint64_t r = 0; r < shape->chunks; r++)
		if (scripted.results[r] != 1 || scripted.partials[r] != shape->up) {
			snprintf(why, sizeof(why), "chunk %llu: %u results, %u partial sums",
				 (unsigned long long)r, scripted.results[r], scripted.partials[r]);
			return why;
		}
	for (uint32_t c = 0; c < shape->children + shape->up && !wrong; c++)
		wrong = check_conn(c);
	if (wrong)
		return wrong;
	for (uint32_t s = 0; s < shape->slots; s++) {
		uint64_t generation = (shape->chunks + shape->slots - 1 - s) / shape->slots;

		if (data_path.slot[s].word != generation << 32) {
			snprintf(why, sizeof(why), "slot %u is %#llx, not in generation %llu", s,
				 (unsigned long long)data_path.slot[s].word,
				 (unsigned long long)generation);
			return why;
		}
	}
	if (data_path.route.done + data_path.route.refused != inc_route_count(data_path.route.word))
		return "the route has counted packets that no CPU has handled";
	for (uint32_t i = 0; i < SEARCH_THREADS; i++)
		if (data_path.queue[i].put != data_path.queue[i].taken)
			return "a queue has counted packets that have not left it";
	if (comm->error || comm->tx_next != shape->chunks ||
	    comm->up_next != (shape->up ? shape->chunks : 0))
		return "the communicator's state is not that after all chunks";
	return data_path_events(INC_EVENT_MISMATCH) || data_path_events(INC_EVENT_CONN_ERROR)
		       ? "a failure was reported"
		       : NULL;
}

/* --- names of words for a trace
 * ------------------------------------------------------------------ */

static const char *word(void *arg, const void *address)
{
	const uint8_t *at = address, *base = (const uint8_t *)&data_path;
	size_t off = at - base, i;
	static char name[64];

#define PART(array, what)                                                                     \
	i = off - offsetof(struct data_path, array);                                          \
	if (i < sizeof(data_path.array)) {                                                    \
		snprintf(name, sizeof(name), what " %zu + %zu", i / sizeof(*data_path.array), \
			 i % sizeof(*data_path.array));                                       \
		return name;                                                                  \
	}
	PART(conn, "connection")
	PART(slot, "slot")
	PART(kept, "kept row")
	PART(sum, "sum row")
	PART(queue, "queue")
#undef PART
	if (at >= (const uint8_t *)&data_path.route && at < (const uint8_t *)&data_path.queue)
		snprintf(name, sizeof(name), "route + %zu",
			 off - offsetof(struct data_path, route));
	else if (off < sizeof(data_path))
		snprintf(name, sizeof(name), "communicator + %zu",
			 off - offsetof(struct data_path, comm));
	else
		snprintf(name, sizeof(name), "what came to peers");
	return name;
}

/* --- set-up ------------------------------------------------------------------------------ */

/* Sets what the maps hold before the first packet. */
static void initialize(struct inc_comm_cfg *comm, uint32_t conns)
{
	uint32_t c;

	scripted.initial = (struct data_path){};
	for (c = 0; c < conns; c++)
		scripted.initial.conn[c].mac =
			(union inc_mac){.addr = {2, 0x40, 0, 0, 0, c}, .known = 1};
	for (c = 0; c < DATA_PATH_CONNS * DATA_PATH_SLOTS; c++)
		scripted.initial.kept[c].r = ~0ull; /* marks the row as empty */
	for (c = 0; c < DATA_PATH_SLOTS; c++)
		scripted.initial.sum[c].r = ~0ull;
	scripted.initial.route.word = (uint64_t)scripted.conduct.cpu_plus_1 << INC_ROUTE_CPU_SHIFT;
	scripted.sw = (struct inc_switch){
		.routes = &data_path.route,
		.comm = comm,
		.conn = data_path_cfg.conn,
		.conn_state = data_path.conn,
		.comm_state = &data_path.comm,
		.slots = data_path.slot,
		.kept = data_path.kept,
		.sums = data_path.sum,
	};
}

static void configure(const struct shape *shape)
{
	struct inc_comm_cfg *comm = &data_path_cfg.comm;
	uint32_t c, conns = shape->children + shape->up;

	memset(&data_path_cfg, 0, sizeof(data_path_cfg));
	*comm = (struct inc_comm_cfg){
		.flags = INC_COMM_F_VALID | (shape->up ? INC_COMM_F_UP : 0) |
			 (scripted.conduct.reorder ? INC_COMM_F_REORDER : 0),
		.children = shape->children,
		.full_mask = (1u << shape->children) - 1,
		.log2_slots = __builtin_ctz(shape->slots),
		.payload = PAYLOAD,
		.root_rows = 1,
	};
	for (c = 0; c < conns; c++) {
		bool up = c == shape->children;

		data_path_cfg.conn[c] = (struct inc_conn_cfg){
			.child = c,
			.rank = up ? 0 : c,
			.ifindex = c + 1,
			.peer.ip = htonl(0x0a000001 + c),
			.own.ip = htonl(0x0a0000fe),
			.peer.qpn = PEER_QPN + c,
			.own.qpn = c, /* the queue pair number of a connection is its index */
			.peer.udp_port = INC_ROCE_UDP_PORT,
			.own.udp_port = INC_ROCE_UDP_PORT,
			.pkey = INC_PKEY_DEFAULT,
			.flags =
				INC_CONN_F_FIXED_MAC | (up ? INC_CONN_F_UP | INC_CONN_F_SWITCH : 0),
			.peer.psn = RX_START + c,
			.own.psn = TX_START + c,
			.port_first = c,
			.port_children = 1,
			.ranks = up ? shape->children : 1,
		};
		if (up)
			continue;
		comm->port_child[inc_port_place_of(c + 1)] = c + 1;
		data_path_cfg.roots.child_plus_1[c] = c + 1;
	}
	initialize(comm, conns);
}

int search_shape(const struct shape *shape, const struct conduct *conduct,
		 const struct search_options *options, bool order_stores,
		 struct search_result *result)
{
	struct search_program program = {shape->name, 0, reset, run, check, word, NULL};
	uint32_t c, conns = shape->children + shape->up;
	int ret = data_path_open(order_stores, conduct->cpu_plus_1, conduct->ordered);

	memset(result, 0, sizeof(*result));
	if (ret) {
		snprintf(result->why, sizeof(result->why), "no room for frames: %s",
			 strerror(-ret));
		return -1;
	}
	scripted.shape = shape;
	scripted.conduct = *conduct;
	configure(shape);
	for (c = 0; c < conns; c++)
		for (uint64_t r = 0; r < shape->chunks; r++)
			make_frame(c, r);
	while (program.threads < SEARCH_THREADS && shape->cpu[program.threads][0].act)
		program.threads++;
	search_share(&data_path, sizeof(data_path));
	search_share(&peers, sizeof(peers));
	for (c = 0; c < conns; c++)
		search_spins_on(&data_path.conn[c].busy);
	ret = search_run(&program, options, result);
	search_forget();
	return ret;
}

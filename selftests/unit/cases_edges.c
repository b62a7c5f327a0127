// SPDX-License-Identifier: BSD-2-Clause
/*
 * Cases that mutation tests of the program showed to be missing: bounds that only odd frames reach,
 * carries, map entries that contradict each other, and rows that must not be mistaken for a result.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <linux/if_xdp.h>
#include <sys/socket.h>
#include <bpf/bpf.h>
#include "lib/proto/desc.h"
#include "cases.h"
#include "unit.h"

static int why(struct unit *u, const char *text)
{
	snprintf(u->why, sizeof(u->why), "%s", text);
	return -1;
}

static const struct inc_buf *sum_row(const struct unit *u, const struct ref_comm *cm, uint64_t r)
{
	return inc_switch_sums(u->sw) + cm->cfg.sum_base + r % cm->slots;
}

/* The lengths of IP and UDP agree, and the frame is long enough. But the lengths are too short for
 * the headers. */
static int short_lengths(struct unit *u)
{
	static const uint8_t opcodes[] = {INC_OP_SEND_ONLY_IMM, INC_OP_WRITE_ONLY_IMM,
					  INC_OP_SEND_ONLY, INC_OP_ACK};
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f;
	uint32_t i, v, body;

	RUN(!cm);
	for (i = 0; i < sizeof(opcodes); i++) {
		struct unit_packet p = {
			.opcode = opcodes[i], .len = 64, .desc = CASE_DESC, .ackreq = true};

		if (opcodes[i] == INC_OP_ACK)
			unit_ack_spec(cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn, &s);
		else
			unit_data_spec(cm, 0, &p, &s, payload);
		body = FRAME_EXT - FRAME_IP + frame_ext_len(opcodes[i]) + INC_ICRC_LEN;
		for (v = INC_IP_LEN; v < body; v++) {
			frame_build(&f, &s);
			put16(f.data + FRAME_IP + 2, v);
			put16(f.data + FRAME_UDP + 4, v - INC_IP_LEN);
			frame_seal(&f);
			RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex));
			RUN(case_expect(u, v < FRAME_EXT - FRAME_IP ? INC_CTR_DROP_LENGTH
								    : INC_CTR_DROP_TRUNCATED));
		}
	}
	return 0;
}

/* Message sequence numbers (MSN) wrap at 2^24, in the connection's state and in packets. */
static int msn_wraps(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 1, 256, 8);
	struct inc_conn_state *st;
	uint64_t r;

	RUN(!cm);
	st = inc_switch_conn_state(u->sw) + cm->cfg.conn_base;
	st->msn = cm->conn[0].state.msn = 0xfffffe;
	for (r = 0; r < 4; r++)
		RUN(case_data(u, cm, 0, r, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true) ||
		    case_expect(u, INC_CTR_ANS_ACK));
	return st->msn == 2 ? 0 : why(u, "the MSN does not wrap at 2^24");
}

/* Sums of elements whose ones' complement sum carries when it is folded, and again when it is
 * folded once more. */
static int checksum_carries(struct unit *u)
{
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	struct frame_spec s;
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame f;
	uint32_t len, low, last;
	uint64_t r = 0;

	unit_spec(u, &spec, 480, 1, 1, 2048, 4);
	spec.conn[0].udp_csum = true;
	cm = unit_add_comm(u, &spec);
	RUN(!cm);
	for (len = 4; len <= 2048; len += len < 80 ? 4 : 164) {
		for (low = 0; low < 6; low++, r++) {
			struct unit_packet p = {.r = r,
						.opcode = INC_OP_SEND_ONLY_IMM,
						.len = len,
						.desc = CASE_DESC};

			unit_data_spec(cm, 0, &p, &s, payload);
			memset(payload, 0xff, len);
			last = low < 3 ? low : len / 4 - 1 + (low - 3);
			memcpy(payload + len - 4, &last, 4);
			frame_build(&f, &s);
			RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex));
			RUN(case_expect(u, INC_CTR_MC_RESULT));
		}
	}
	return 0;
}

/* A copy whose UDP checksum is 0 must carry another value, because 0 means that there is no
 * checksum. */
static int checksum_zero(struct unit *u)
{
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 8, .desc = CASE_DESC};
	uint8_t payload[INC_MAX_PAYLOAD];
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	struct frame_spec s;
	struct inc_buf *row;
	struct frame f;
	uint32_t i;

	unit_spec(u, &spec, 481, 1, 1, 256, 4);
	spec.conn[0].udp_csum = true;
	cm = unit_add_comm(u, &spec);
	RUN(!cm);
	/* finds a payload with such a copy: the reference computes its result beforehand */
	unit_data_spec(cm, 0, &p, &s, payload);
	row = ref_contrib(cm, 0, 0);
	memset(row, 0, sizeof(*row));
	row->len = p.len;
	row->desc = CASE_DESC;
	row->opcode = p.opcode;
	ref_result(cm, 0)->len = p.len;
	ref_result(cm, 0)->desc = CASE_DESC;
	for (i = 0; i < 1 << 20; i++) {
		memcpy(payload, &i, sizeof(i));
		memcpy(ref_result(cm, 0)->payload, payload, p.len);
		ref_copy(cm, 0, 0, &f);
		if (get16(f.data + FRAME_UDP + 6) == 0xffff)
			break;
	}
	if (i == 1 << 20)
		return why(u, "no payload found");
	frame_build(&f, &s);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex));
	return case_expect(u, INC_CTR_MC_RESULT);
}

/* The IP header's checksum may carry a second time when it is folded. The case finds an address of
 * the switch that causes this for an answer, and another one for a copy. */
static int header_checksum(struct unit *u)
{
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	struct frame f;
	uint32_t i, x, k, sum, found = 0;
	uint16_t word;

	for (i = 0; i < 2; i++) {
		unit_spec(u, &spec, 482 + i, 1, 1, 256, 4);
		cm = unit_add_comm(u, &spec);
		RUN(!cm);
		RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY_IMM, 64, CASE_DESC, true));
		if (i)
			ref_copy(cm, 0, 0, &f);
		RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY, 64, 0, true));
		RUN(case_expect(u, INC_CTR_ANS_DUPLICATE));
		if (!i)
			f = u->want.frame;
		put16(f.data + FRAME_IP + 10, 0);
		for (x = 1; x < 0x10000; x++) {
			spec.conn[0].own.ip = inc_addr_of_ipv4(htonl(0x0aff0000 | x));
			memcpy(f.data + FRAME_IP + 12, &spec.conn[0].own.ip.word[3], 4);
			for (sum = 0, k = 0; k < INC_IP_LEN; k += 2) {
				memcpy(&word, f.data + FRAME_IP + k, 2);
				sum += word;
			}
			if ((sum & 0xffff) + (sum >> 16) > 0xffff)
				break;
		}
		RUN(unit_remove_comm(u, cm));
		found += x < 0x10000;
		cm = unit_add_comm(u, &spec);
		RUN(!cm);
		RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY_IMM, 64, CASE_DESC, true));
		RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY, 64, 0, true));
		RUN(unit_remove_comm(u, cm));
	}
	return found == 2 ? 0 : why(u, "no such addresses");
}

/* The result is longer than the last arriver's frame, by the least and by the greatest difference,
 * with one child per port and with several. So each copy has to grow. One of the children wants a
 * UDP checksum, and one receives by WRITE. */
static int just_too_long(struct unit *u)
{
	static const uint32_t lens[] = {1, 4, 8, 252, 256, 1021, 1024, 2048};
	uint32_t i, c, ports,
		desc = INC_DESC(INC_COLL_BROADCAST, INC_OPERATOR_SUM, INC_DTYPE_INT8, 0, 9);
	struct inc_comm_conf spec;
	struct ref_comm *cm;

	for (ports = 1; ports <= 4; ports++) {
		unit_spec(u, &spec, 486 + ports, 4, ports, 2048, 8);
		spec.conn[2].udp_csum = true;
		cm = unit_add_comm(u, &spec);
		RUN(!cm);
		for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			for (c = 0; c < 4; c++)
				RUN(case_data(u, cm, c, i,
					      c == 1 ? INC_OP_WRITE_ONLY_IMM : INC_OP_SEND_ONLY_IMM,
					      c ? 0 : lens[i], desc, true));
			RUN(case_expect(u, INC_CTR_MC_RESULT));
		}
	}
	return 0;
}

/* Tries to remove a communicator while inc_comm_ports cannot be written. The removal must fail. */
static int remove_in_vain(struct unit *u, uint32_t comm)
{
	int map = inc_switch_map_fd(u->sw, INC_MAP_COMM_PORTS), kept = dup(map), ret;
	int none = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct inc_err err = {""};

	RUN(kept < 0 || none < 0 || dup2(none, map) < 0);
	ret = inc_switch_remove_comm(u->sw, comm, &err);
	RUN(dup2(kept, map) < 0);
	close(none);
	close(kept);
	return ret && strstr(err.msg, INC_MAP_COMM_PORTS) ? 0 : why(u, "it was removed");
}

/* If the removal of a communicator fails, the communicator is unchanged, whether it was started or
 * not. */
static int remove_fails(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 4);
	struct inc_comm_conf spec;
	struct inc_err err;
	struct frame f;
	int index;
	uint64_t r;

	RUN(!cm);
	for (r = 0; r < 6; r++) {
		RUN(case_data(u, cm, 0, r, INC_OP_SEND_ONLY_IMM, 64, CASE_DESC, true));
		RUN(remove_in_vain(u, cm->index));
		RUN(case_data(u, cm, 1, r, INC_OP_SEND_ONLY_IMM, 64, CASE_DESC, true));
		RUN(case_expect(u, INC_CTR_MC_RESULT));
	}
	unit_data(cm, 0, &(struct unit_packet){.opcode = INC_OP_SEND_ONLY_IMM, .desc = CASE_DESC},
		  &f);
	RUN(unit_remove_comm(u, cm));
	unit_spec(u, &spec, 485, 2, 2, 256, 4);
	index = inc_switch_add_comm(u->sw, &spec, &err);
	RUN(index < 0 || remove_in_vain(u, index));
	RUN(unit_run(u, &f, u->port[0]) || case_expect(u, INC_CTR_PASS_NO_CONN));
	return inc_switch_remove_comm(u->sw, index, &err);
}

/* The program distinguishes roots by all eight bits of their rank. */
static int high_roots(struct unit *u)
{
	static const uint8_t ranks[] = {2, 130, 66, 254, 126, 255};
	uint32_t n = sizeof(ranks), root, c;
	struct inc_comm_conf spec;
	struct ref_comm *cm;

	unit_spec(u, &spec, 484, n, 3, 256, 8);
	for (c = 0; c < n; c++)
		spec.conn[c].rank = ranks[c];
	cm = unit_add_comm(u, &spec);
	RUN(!cm);
	for (root = 0; root < n; root++) {
		for (c = 0; c < n; c++)
			RUN(case_data(u, cm, c, root, INC_OP_SEND_ONLY_IMM, 32,
				      INC_DESC(INC_COLL_REDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32,
					       ranks[root], root),
				      true));
		RUN(case_expect(u, INC_CTR_MC_RESULT));
	}
	return 0;
}

/* After a chunk has failed, its row holds no result, not even that of the slot's previous chunk.
 * The slow path may still have to send the previous result, and must not mistake this row for
 * it. */
static int failed_row(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 2);
	uint64_t r;

	RUN(!cm);
	for (r = 0; r < 2; r++)
		RUN(case_data(u, cm, 0, r, INC_OP_SEND_ONLY_IMM, 64, CASE_DESC, true) ||
		    case_data(u, cm, 1, r, INC_OP_SEND_ONLY_IMM, 64, CASE_DESC, true) ||
		    case_expect(u, INC_CTR_MC_RESULT));
	if (sum_row(u, cm, 0)->r != 0)
		return why(u, "result 0 is not in its row");
	RUN(case_data(u, cm, 0, 2, INC_OP_SEND_ONLY_IMM, 64, CASE_DESC, true) ||
	    case_data(u, cm, 1, 2, INC_OP_SEND_ONLY_IMM, 64, CASE_DESC + 1, true) ||
	    case_expect(u, INC_CTR_ANS_NAK_FATAL));
	if (sum_row(u, cm, 0)->r == 0 || sum_row(u, cm, 0)->r == 2)
		return why(u, "the row of a mismatch still counts as a result");
	return 0;
}

/* Runs a frame that the program must drop because of map entries that only the program sees, and
 * not the reference. */
static int bad_config(struct unit *u, const struct frame *f, uint32_t ifindex, const char *what)
{
	const struct xdp_md md = {.data_end = f->len, .ingress_ifindex = ifindex};
	uint32_t verdict;

	u->ref.counter[INC_CTR_RX]++;
	u->ref.counter[INC_CTR_DROP_CONFIG]++;
	u->want.verdict = XDP_DROP;
	u->want.counter = INC_CTR_DROP_CONFIG;
	if (unit_run_program(u, f, &md, &verdict))
		return -1;
	if (verdict == XDP_DROP && !compare_counters(u))
		return 0;
	snprintf(u->why, sizeof(u->why), "%s: %s, not dropped for it", what,
		 unit_verdict_name(verdict));
	return -1;
}

static int set(struct unit *u, const char *map, uint32_t key, const void *value)
{
	if (!bpf_map_update_elem(inc_switch_map_fd(u->sw, map), &key, value, BPF_ANY))
		return 0;
	return why(u, map);
}

/* If map entries contradict each other, the packet is dropped and counted, and nothing else
 * changes. */
static int configs(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct unit_packet p = {
		.opcode = INC_OP_SEND_ONLY_IMM, .len = 32, .desc = CASE_DESC, .ackreq = true};
	struct inc_comm_cfg comm;
	struct inc_conn_cfg conn;
	uint32_t i, ifindex, id;
	struct frame f;

	RUN(!cm);
	ifindex = cm->conn[0].cfg.ifindex;
	id = cm->cfg.conn_base;
	unit_data(cm, 0, &p, &f);
	for (i = 0; i < 4; i++) {
		static const char *const what[] = {"a communicator that is not valid",
						   "too many slots", "rows beyond the map",
						   "slots beyond the map"};

		comm = cm->cfg;
		if (i == 0)
			comm.flags &= ~INC_COMM_F_VALID;
		else if (i == 1)
			comm.log2_slots = 13;
		else if (i == 2)
			comm.kept_base = 0x7fffff00;
		else
			comm.sum_base = 0x7fffff00;
		RUN(set(u, INC_MAP_COMM_CFG, cm->index, &comm));
		RUN(bad_config(u, &f, ifindex, what[i]));
	}
	RUN(set(u, INC_MAP_COMM_CFG, cm->index, &cm->cfg));
	for (i = 0; i < 2; i++) {
		conn = cm->conn[0].cfg;
		if (i == 0)
			conn.child = INC_MAX_CHILDREN + 1;
		else
			conn.comm = 0x7fffffff;
		RUN(set(u, INC_MAP_CONN_CFG, id, &conn));
		RUN(bad_config(u, &f, ifindex, i ? "no such communicator" : "no such child"));
	}
	RUN(set(u, INC_MAP_CONN_CFG, id, &cm->conn[0].cfg));
	RUN(unit_compare_all(u));
	RUN(unit_run(u, &f, ifindex));
	return case_expect(u, INC_CTR_ANS_ACK);
}

/* A NAK goes to the AF_XDP socket of the port and queue by which it arrived. */
static int socket_of_port(struct unit *u)
{
	int map = inc_switch_map_fd(u->sw, INC_MAP_XSK),
	    ports = inc_switch_map_fd(u->sw, INC_MAP_PORT);
	struct inc_port port = {.index = 3};
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	uint32_t queue, at, key, own = 3 * INC_PORT_QUEUES;
	int ring = 64, fd = socket(AF_XDP, SOCK_RAW, 0), ret = 0;
	struct frame f;

	RUN(!cm);
	if (fd < 0 || setsockopt(fd, SOL_XDP, XDP_RX_RING, &ring, sizeof(ring)) ||
	    system("ethtool -L p1 rx 2 >/dev/null 2>&1") ||
	    bpf_map_update_elem(ports, &u->port[1], &port, BPF_ANY))
		ret = why(u, "no AF_XDP socket, or no second queue");
	unit_ack(cm, 1, INC_AETH_NAK_SEQ, cm->conn[1].cfg.own.psn, &f);
	for (queue = 0; queue < 2 && !ret; queue++) {
		for (at = 0; at < 4 && !ret; at++) {
			const struct xdp_md md = {.data_end = f.len,
						  .ingress_ifindex = u->port[1],
						  .rx_queue_index = queue};
			const bool right = at == queue;
			uint32_t verdict;

			/* puts a socket into one of this port's two queues, and then into one of
			 * another port */
			key = at < 2 ? own + at : at - 2;
			if (bpf_map_update_elem(map, &key, &fd, BPF_ANY))
				ret = why(u, strerror(errno));
			else if (unit_run_program(u, &f, &md, &verdict))
				ret = -1;
			else if (verdict != (right ? XDP_REDIRECT : XDP_DROP))
				ret = why(u, right ? "the socket of port and queue did not get it"
						   : "another queue's or port's socket got it");
			bpf_map_delete_elem(map, &key);
		}
	}
	bpf_map_delete_elem(ports, &u->port[1]);
	if (fd >= 0)
		close(fd);
	unit_forgive(u);
	/* the program has counted the NAKs, which acknowledge nothing */
	cm->conn[1].state = inc_switch_conn_state(u->sw)[cm->cfg.conn_base + 1];
	return ret;
}

/* A communicator's resources count as used while it exists, and as free afterwards. */
static int usage(struct unit *u)
{
	const struct inc_switch_opts *opts = inc_switch_get_opts(u->sw);
	struct inc_usage before, during, after;
	struct ref_comm *cm;

	inc_switch_usage(u->sw, &before);
	cm = case_comm(u, 3, 2, 256, 8);
	RUN(!cm);
	inc_switch_usage(u->sw, &during);
	RUN(unit_remove_comm(u, cm));
	inc_switch_usage(u->sw, &after);
	if (before.communicators.max != opts->max_comms ||
	    before.connections.max != opts->max_connections || before.rows.max != opts->max_rows ||
	    before.slots.max != inc_switch_sum_rows(opts->max_rows) ||
	    before.root_rows.max != inc_switch_root_rows(opts->max_comms))
		return why(u, "the greatest numbers are not those of the options");
	if (during.communicators.used != before.communicators.used + 1 ||
	    during.connections.used != before.connections.used + 3 ||
	    during.rows.used != before.rows.used + 24 ||
	    during.slots.used != before.slots.used + 8 ||
	    during.root_rows.used != before.root_rows.used + 1)
		return why(u, "3 children and 8 slots use other numbers of resources");
	return memcmp(&before, &after, sizeof(before)) ? why(u, "a resource is still used") : 0;
}

const struct unit_case cases_edges[] = {
	{"short_lengths", short_lengths},
	{"msn_wraps", msn_wraps},
	{"checksum_carries", checksum_carries},
	{"checksum_zero", checksum_zero},
	{"header_checksum", header_checksum},
	{"just_too_long", just_too_long},
	{"remove_fails", remove_fails},
	{"high_roots", high_roots},
	{"failed_row", failed_row},
	{"configs", configs},
	{"socket_of_port", socket_of_port},
	{"usage", usage},
	{NULL, NULL},
};

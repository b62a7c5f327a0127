// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/*
 * The programs on real ports. Frames enter at the far ends of veth pairs. Answers, and the copies
 * of results that the devmap made, come back there. The test compares them byte by byte with the
 * reference, in the order of a port's children. One process tests native mode, one generic mode,
 * and one native mode with communicators whose CPU is another one than that of the frames.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/sockios.h>
#include <linux/if_packet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "lib/base/clock.h"
#include "unit.h"
#include "cases.h"

#define DEADLINE_MS 5000

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

struct live {
	struct unit u;
	int far[UNIT_PORTS]; /* packet sockets on the hosts' ends h0, h1, ... */
	/* packet sockets on p0, p1, ..., which get the frames that passed to the kernel */
	int near[UNIT_PORTS];
};

static int open_packet(struct unit *u, const char *ifname)
{
	struct sockaddr_ll addr = {.sll_family = AF_PACKET,
				   .sll_protocol = htons(ETH_P_IP),
				   .sll_ifindex = if_nametoindex(ifname)};
	int one = 1, size = 4 << 20, fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));

	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		snprintf(u->why, sizeof(u->why), "packet socket on %s: %s", ifname,
			 strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

static int gro_on(const char *ifname)
{
	struct ethtool_value gro = {.cmd = ETHTOOL_SGRO, .data = 1};
	struct ifreq ifr = {.ifr_data = (void *)&gro};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = 0;

	if (fd < 0)
		return -errno;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	if (ioctl(fd, SIOCETHTOOL, &ifr))
		ret = -errno;
	close(fd);
	return ret;
}

static int open_live(struct live *l)
{
	struct inc_err err = {""};
	char name[16];
	uint32_t i;
	int ret;

	for (i = 0; i < UNIT_PORTS; i++) {
		/* switches GRO on, as a host has it: a veth accepts redirected frames while its
		 * peer polls, which GRO causes; for XDP_TX it would wake the peer only if the peer
		 * had a program */
		snprintf(name, sizeof(name), "h%u", i);
		ret = gro_on(name);
		if (ret) {
			snprintf(l->u.why, sizeof(l->u.why), "GRO on %s: %s", name, strerror(-ret));
			return -1;
		}
		snprintf(name, sizeof(name), "p%u", i);
		if (inc_switch_attach_port(l->u.sw, name, &err)) {
			snprintf(l->u.why, sizeof(l->u.why), "%s", err.msg);
			return -1;
		}
		l->near[i] = open_packet(&l->u, name);
		snprintf(name, sizeof(name), "h%u", i);
		l->far[i] = open_packet(&l->u, name);
		if (l->near[i] < 0 || l->far[i] < 0)
			return -1;
	}
	return 0;
}

static uint32_t port_of(const struct live *l, uint32_t ifindex)
{
	uint32_t i;

	for (i = 0; i < UNIT_PORTS - 1 && l->u.port[i] != ifindex; i++)
		;
	return i;
}

/* Expects this frame as the next one on the socket. */
static int expect_frame(struct live *l, int fd, const char *what, const struct frame *want)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct frame have;
	ssize_t n;

	if (poll(&p, 1, DEADLINE_MS) != 1) {
		snprintf(l->u.why, sizeof(l->u.why), "packet %llu, %s: nothing came in %d ms",
			 (unsigned long long)l->u.packets, what, DEADLINE_MS);
		return -1;
	}
	n = recv(fd, have.data, sizeof(have.data), 0);
	if (n < 0) {
		snprintf(l->u.why, sizeof(l->u.why), "%s: %s", what, strerror(errno));
		return -1;
	}
	have.len = n;
	return compare_frame(&l->u, what, &have, want);
}

static int expect_copies(struct live *l)
{
	struct ref_comm *cm = l->u.want.comm;
	struct frame want;
	char what[64];
	uint32_t c;

	for (c = 0; c < cm->cfg.children; c++) {
		ref_copy(cm, c, l->u.want.r, &want);
		snprintf(what, sizeof(what), "copy of result %llu for child %u",
			 (unsigned long long)l->u.want.r, c);
		RUN(expect_frame(l, l->far[port_of(l, cm->conn[c].cfg.ifindex)], what, &want));
		ref_copied(&l->u.ref, cm, c);
		l->u.ref.counter[INC_CTR_X_COPY]++;
		l->u.copies++;
	}
	return 0;
}

/* Sends a frame and expects exactly those frames that the reference expects. */
static int send_frame(struct live *l, uint32_t ifindex, const struct frame *f)
{
	uint32_t port = port_of(l, ifindex);
	struct unit *u = &l->u;

	u->packets++;
	ref_input(&u->ref, f, ifindex, &u->want);
	if (u->steers && u->want.comm)
		u->ref.counter[INC_CTR_X_STEERED]++;
	if (send(l->far[port], f->data, f->len, 0) != (ssize_t)f->len) {
		snprintf(u->why, sizeof(u->why), "send: %s", strerror(errno));
		return -1;
	}
	switch (u->want.verdict) {
	case XDP_PASS:
		return expect_frame(l, l->near[port], "passed frame", f);
	case XDP_TX:
		return expect_frame(l, l->far[port], "answer", &u->want.frame);
	case XDP_REDIRECT:
		return expect_copies(l);
	default:
		return 0;
	}
}

/* Checks that no frame is left, and that counters and all state agree with the reference. */
static int settled(struct live *l)
{
	int64_t deadline = (int64_t)inc_now_ms() + DEADLINE_MS;
	struct frame f;
	uint32_t i;

	while (unit_compare_all(&l->u))
		if ((int64_t)inc_now_ms() > deadline)
			return -1;
	for (i = 0; i < UNIT_PORTS; i++) {
		if (recv(l->far[i], f.data, sizeof(f.data), MSG_DONTWAIT) >= 0 ||
		    recv(l->near[i], f.data, sizeof(f.data), MSG_DONTWAIT) >= 0) {
			snprintf(l->u.why, sizeof(l->u.why), "port %u: a frame too many", i);
			return -1;
		}
	}
	return 0;
}

static uint8_t shape(uint32_t child, uint8_t send_opcode)
{
	return send_opcode + (child & 1 ? INC_OP_WRITE_FIRST : 0);
}

/* Runs chunks of all lengths from children in changing order. Every child acknowledges its
 * results. */
static int comm_run(struct live *l, uint32_t children, uint32_t ports, uint32_t payload)
{
	struct unit *u = &l->u;
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	struct frame f;
	uint32_t c, turn;
	uint64_t r;

	unit_spec(u, &spec, children * 10 + ports, children, ports, payload, 8);
	for (c = 0; c < children; c++) {
		spec.conn[c].udp_csum = c % 3 == 1;
		spec.conn[c].own.psn = 0xfffffa + c % 6;
	}
	cm = unit_add_comm(u, &spec);
	RUN(!cm);
	for (r = 0; r < 24; r++) {
		for (turn = 0; turn < children; turn++) {
			struct unit_packet p = {
				.r = r, .desc = CASE_DESC, .ackreq = (turn + r) % 2};

			c = (turn + r) % children;
			p.opcode = shape(c, r % 8 == 0 ? INC_OP_SEND_ONLY_IMM : INC_OP_SEND_ONLY);
			/* one length is 0, for which the answer to a SEND is longer than the
			 * packet */
			p.len = r % 8 == 7 ? payload : 4 * r;
			if (r % 8 == 3)
				p.len = 0;
			unit_data(cm, c, &p, &f);
			RUN(send_frame(l, cm->conn[c].cfg.ifindex, &f));
		}
		RUN(case_expect(u, INC_CTR_MC_RESULT));
		for (c = 0; c < children; c++) {
			unit_ack(cm, c, INC_AETH_ACK, cm->conn[c].cfg.own.psn + r, &f);
			RUN(send_frame(l, cm->conn[c].cfg.ifindex, &f));
		}
	}
	RUN(settled(l));
	return unit_remove_comm(u, cm);
}

/* Broadcasts of all lengths in which the last arriver is not the root. In native mode the copies
 * can grow, however little room the frame has. */
static int grown(struct live *l)
{
	const uint32_t desc = INC_DESC(INC_COLL_BROADCAST, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, 9);
	struct unit *u = &l->u;
	struct ref_comm *cm;
	uint32_t ports, c;
	struct frame f;
	uint64_t r;

	for (ports = 1; ports <= UNIT_PORTS; ports++) {
		cm = case_comm(u, 4, ports, 2048, 8);
		RUN(!cm);
		for (r = 0; r < 17; r++) {
			for (c = 0; c < 4; c++) {
				struct unit_packet p = {.r = r,
							.desc = desc,
							.len = c ? 0 : 128 * r,
							.opcode = shape(c, INC_OP_SEND_ONLY_IMM)};

				unit_data(cm, c, &p, &f);
				RUN(send_frame(l, cm->conn[c].cfg.ifindex, &f));
			}
			RUN(case_expect(u, u->ref.generic && r ? INC_CTR_ABS_PENDING
							       : INC_CTR_MC_RESULT));
		}
		RUN(settled(l));
		RUN(unit_remove_comm(u, cm));
	}
	return 0;
}

static int one_child_per_port(struct live *l)
{
	RUN(comm_run(l, 1, 1, 256));
	RUN(comm_run(l, 2, 2, 1024));
	return comm_run(l, 4, 4, 2048);
}

static int children_behind_one_port(struct live *l)
{
	RUN(comm_run(l, 2, 1, 512));
	RUN(comm_run(l, 7, 3, 1024));
	RUN(comm_run(l, 16, 4, 256));
	return comm_run(l, 32, 2, 2048);
}

/* Answers on the wire: a NAK 60, an RNR NAK, the answers to a duplicate and to damage, a NAK 61,
 * and an unknown sender's packet. */
static int answers(struct live *l)
{
	struct unit *u = &l->u;
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 64, .desc = CASE_DESC};
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 2);
	uint32_t port;
	struct frame f;

	RUN(!cm);
	port = cm->conn[0].cfg.ifindex;
	p.r = 1;
	unit_data(cm, 0, &p, &f);
	RUN(send_frame(l, port, &f) || case_expect(u, INC_CTR_ANS_NAK_SEQ));
	RUN(send_frame(l, port, &f) || case_expect(u, INC_CTR_DROP_AHEAD));
	for (p.r = 0; p.r < 2; p.r++) {
		unit_data(cm, 0, &p, &f);
		RUN(send_frame(l, port, &f) || case_expect(u, INC_CTR_ABS_STORED));
	}
	RUN(send_frame(l, port, &f) || case_expect(u, INC_CTR_ANS_DUPLICATE));
	unit_data(cm, 0, &p, &f);
	RUN(send_frame(l, port, &f) || case_expect(u, INC_CTR_ANS_RNR));
	f.data[60] ^= 1;
	RUN(send_frame(l, port, &f) || case_expect(u, INC_CTR_DROP_ICRC));
	put24(f.data + FRAME_BTH + 5, 0x123456);
	frame_seal(&f);
	RUN(send_frame(l, port, &f) || case_expect(u, INC_CTR_PASS_NO_CONN));
	put16(f.data + FRAME_UDP + 2, 53);
	frame_seal(&f);
	RUN(send_frame(l, port, &f) || case_expect(u, INC_CTR_PASS_NOT_ROCE));
	p.opcode = INC_OP_SEND_LAST;
	unit_data(cm, 0, &p, &f);
	RUN(send_frame(l, port, &f) || case_expect(u, INC_CTR_ANS_NAK_INVALID));
	RUN(settled(l));
	return unit_remove_comm(u, cm);
}

/* A port answers echo requests to its address on the CPU that receives them. */
static int echoes(struct live *l)
{
	const uint32_t ip = htonl(0x0a6300fe);
	struct inc_port value = {.ip = ip};
	struct unit *u = &l->u;
	struct frame_spec s;
	struct frame f;
	uint32_t i;

	case_echo(ip, &s);
	frame_build(&f, &s);
	RUN(send_frame(l, u->port[1], &f) || case_expect(u, INC_CTR_PASS_NO_CONN));
	for (i = 0; i < UNIT_PORTS; i++) {
		value.index = inc_switch_port_at(u->sw, i)->index;
		RUN(bpf_map_update_elem(inc_switch_map_fd(u->sw, INC_MAP_PORT), &u->port[i], &value,
					BPF_EXIST));
		u->ref.echo_ip = ip;
		u->ref.echo_ifindex = u->port[i];
		RUN(send_frame(l, u->port[i], &f) || case_expect(u, INC_CTR_ANS_ECHO));
	}
	u->ref.echo_ip = 0;
	return settled(l);
}

/* While the queue to the CPU of the communicator is full, frames are dropped. */
static int overflow(struct live *l)
{
	struct unit *u = &l->u;
	struct inc_queue *queue = &inc_switch_queues(u->sw)[u->steer_to];
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 64, .desc = CASE_DESC};
	struct ref_comm *cm;
	struct frame f;
	uint64_t put;

	if (!u->steers)
		return 0;
	cm = case_comm(u, 2, 2, 256, 2);
	RUN(!cm);
	unit_data(cm, 0, &p, &f);
	put = queue->put;
	queue->taken = put - INC_QUEUE_ROOM;
	/* the reference knows no queues */
	if (send(l->far[0], f.data, f.len, 0) != (ssize_t)f.len)
		return -1;
	u->ref.counter[INC_CTR_RX]++;
	u->ref.counter[INC_CTR_DROP_QUEUE_FULL]++;
	RUN(settled(l));
	if (queue->put != put) {
		snprintf(u->why, sizeof(u->why), "a dropped frame counts as queued");
		return -1;
	}
	queue->taken = put;
	RUN(send_frame(l, cm->conn[0].cfg.ifindex, &f) || case_expect(u, INC_CTR_ABS_STORED));
	RUN(settled(l));
	return unit_remove_comm(u, cm);
}

enum how { NATIVE, GENERIC, STEERED, HOWS };

/* Checks that no packet of a connection has ended on the CPU of the frames, unless it found no room
 * in the queue. */
static int all_on_one_cpu(struct unit *u)
{
	uint32_t i;

	for (i = INC_CTR_DROP_AHEAD; i < INC_CTR_MAX; i++) {
		if (i == INC_CTR_DROP_QUEUE_FULL || i == INC_CTR_ANS_ECHO ||
		    inc_counter_is(i, 'X') ||
		    bpf_map_lookup_elem(u->counter_fd, &i, u->counter_buf))
			continue;
		if (!u->counter_buf[u->cpu])
			continue;
		snprintf(u->why, sizeof(u->why), "CPU %d has counted %s", u->cpu,
			 inc_counter_info[i].name);
		return -1;
	}
	return 0;
}

static int mode(enum how how)
{
	static const struct {
		const char *name;
		int (*run)(struct live *l);
	} tests[] = {
		{"one_child_per_port", one_child_per_port},
		{"children_behind_one_port", children_behind_one_port},
		{"grown", grown},
		{"answers", answers},
		{"echoes", echoes},
		{"overflow", overflow},
	};
	static const char *const words[] = {"native", "generic", "steered"};
	const char *word = words[how];
	static struct live l;
	const struct inc_switch_port *port;
	char name[64];
	uint32_t i;

	snprintf(name, sizeof(name), "xdp_live_%s", word);
	l.u.steers = how == STEERED;
	if (unit_start(&l.u, name, 16384, how == GENERIC))
		return report_exit();
	l.u.steer_to = l.u.cpu ? 0 : 1;
	if (l.u.steers && l.u.cpus < 2) {
		report_skip(name, "this machine has one CPU");
		unit_stop(&l.u);
		return report_exit();
	}
	if (open_live(&l)) {
		report_fail(name, "%s", l.u.why);
		unit_stop(&l.u);
		return report_exit();
	}
	port = inc_switch_port_at(l.u.sw, 0);
	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		uint64_t packets = l.u.packets, copies = l.u.copies;

		snprintf(name, sizeof(name), "xdp_live_%s_%s", word, tests[i].name);
		if (tests[i].run(&l) || (l.u.steers && all_on_one_cpu(&l.u))) {
			if (*inc_switch_copies_shared(l.u.sw))
				report_skip(name, "this kernel's copies of a frame share their "
						  "bytes in generic mode, so the slow path would "
						  "have to send results");
			else
				report_fail(name, "%s", l.u.why);
			break; /* the frames that are under way would disturb the next case */
		}
		report_ok("%s (by %s, %llu packets, %llu copies)", name,
			  inc_attach_name(port->attach),
			  (unsigned long long)(l.u.packets - packets),
			  (unsigned long long)(l.u.copies - copies));
	}
	unit_stop(&l.u);
	return report_exit();
}

int main(void)
{
	int status, ret = 0;
	enum how how;
	pid_t pid;

	for (how = 0; how < HOWS; how++) {
		pid = fork();
		if (pid == 0)
			_exit(mode(how));
		if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
		    WEXITSTATUS(status))
			ret = 1;
	}
	return ret;
}

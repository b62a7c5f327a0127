// SPDX-License-Identifier: BSD-2-Clause
/*
 * A stress test with everything at once. Each child has two threads, on all CPUs. They send the
 * next packet, duplicates, packets ahead, beyond the window or damaged, with damaged MAC addresses,
 * and ACKs, NAKs and RNR NAKs of any near PSN. The test checks every frame that the program sends:
 * a result against the sum of the children's values, with CRC and checksum, and an answer's PSN
 * against its MSN. Afterwards related counters must agree. A second part removes and adds the
 * communicator meanwhile.
 *
 * test_xdp_stress [SECONDS [SEED]]
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <bpf/bpf.h>
#include <zlib.h>
#include "lib/base/clock.h"
#include "cases.h"
#include "unit.h"

#define SECONDS     6
#define ROUND_MS    500
#define PER_CHILD   2
#define MAX_CHILD   4
#define MAX_THREADS (PER_CHILD * MAX_CHILD)
#define MAX_LEN     256
#define MAX_CHUNKS  (1u << 18)
#define MULTICAST   1 /* multicast bit in the first byte of a MAC address */
#define NO_DATA     (~0ull)

/* offsets in struct inc_template of bpf/inc_multicast.h, which only BPF can include */
#define TEMPLATE_R    4
#define TEMPLATE_EXT  14
#define TEMPLATE_LEN  20
#define TEMPLATE_CRC  24
#define TEMPLATE_CSUM 28

/* One communicator in one period of its life, which all threads share. */
struct stage {
	struct unit *u;
	struct inc_comm_conf spec;
	struct ref_comm cm; /* used only to build frames, so its pointers are not used */
	uint64_t base;      /* number of the first chunk */
	uint32_t len;
	bool churn; /* meanwhile the communicator is removed and added again */
	atomic_bool stop;
	_Atomic uint8_t seen[MAX_CHUNKS]; /* number of results of each chunk */
};

struct worker {
	struct stage *s;
	struct rng rng;
	uint32_t child;
	char why[256];
};

static struct stage stage;

#define LOAD(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)

static struct inc_conn_state *state_of(const struct stage *s, uint32_t child)
{
	return inc_switch_conn_state(s->u->sw) + s->cm.cfg.conn_base + child;
}

static void data_spec(const struct stage *s, uint32_t child, uint64_t r, struct frame_spec *spec,
		      uint8_t payload[INC_MAX_PAYLOAD])
{
	struct unit_packet p = {.r = r,
				.opcode = r % 3 ? INC_OP_SEND_ONLY_IMM : INC_OP_WRITE_ONLY_IMM,
				.len = s->len,
				.desc = CASE_DESC,
				.ackreq = r % 5};

	unit_data_spec(&s->cm, child, &p, spec, payload);
}

/* Checks the frame of the last arriver, which the program has made a result. */
static int check_result(struct worker *w, const struct frame *out)
{
	struct stage *s = w->s;
	uint32_t want[MAX_LEN / 4] = {0}, have[MAX_LEN / 4], part[MAX_LEN / 4], i, k, crc, csum,
				len;
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec spec;
	uint16_t ext;
	uint64_t r;

	memcpy(&r, out->data + TEMPLATE_R, sizeof(r));
	memcpy(&ext, out->data + TEMPLATE_EXT, sizeof(ext));
	memcpy(&len, out->data + TEMPLATE_LEN, sizeof(len));
	memcpy(&crc, out->data + TEMPLATE_CRC, sizeof(crc));
	memcpy(&csum, out->data + TEMPLATE_CSUM, sizeof(csum));
	for (i = 0; i < s->spec.n_conns; i++) {
		data_spec(s, i, r, &spec, payload);
		memcpy(part, payload, s->len);
		for (k = 0; k < s->len / 4; k++)
			want[k] += part[k];
	}
	if (len == s->len && out->len >= FRAME_EXT + ext + len) {
		memcpy(have, out->data + FRAME_EXT + ext, len);
		/* the complement, because zlib inverts the CRC's state before and after */
		if (r >= s->base && !memcmp(have, want, len) &&
		    crc == ~(uint32_t)crc32(0xffffffff, (uint8_t *)want, len) &&
		    frame_sum16((uint8_t *)&csum, 4, 0) == frame_sum16((uint8_t *)want, len, 0)) {
			if (s->churn || r - s->base >= MAX_CHUNKS)
				return 0;
			if (!s->seen[r - s->base]++)
				return 0;
		}
	}
	snprintf(w->why, sizeof(w->why), "child %u: result %llu is wrong, or there twice", w->child,
		 (unsigned long long)r);
	return -1;
}

/* Checks an answer: its PSN and MSN must agree, and it must go to the child. r: chunk of the data
 * packet that is answered, or NO_DATA. */
static int check_answer(struct worker *w, const struct frame *in, uint64_t r,
			const struct frame *out)
{
	const struct stage *s = w->s;
	const struct ref_conn *c = &s->cm.conn[w->child];
	const uint8_t *right = s->spec.conn[w->child].peer_mac;
	uint8_t syndrome = out->data[FRAME_EXT];
	uint32_t first = c->cfg.peer.psn + (uint32_t)s->base, kept, msn;
	uint64_t next = LOAD(state_of(s, w->child)->rx_next);
	bool ack = syndrome == INC_AETH_ACK;

	msn = get24(out->data + FRAME_EXT + 1);
	kept = (get24(out->data + FRAME_BTH + 9) + ack - first) & INC_PSN_MASK;
	if (out->data[FRAME_BTH] != INC_OP_ACK || kept != msn ||
	    (!s->churn && ((uint32_t)(next - s->base) - kept) & 0x800000)) {
		snprintf(w->why, sizeof(w->why),
			 "child %u: syndrome %#x acknowledges %u packets and %u messages, but %llu "
			 "are stored",
			 w->child, syndrome, kept, msn, (unsigned long long)(next - s->base));
		return -1;
	}
	if (!memcmp(out->data, right, 6))
		return 0;
	/* the answer to a duplicate goes to the duplicate's own source address */
	if (ack && r != NO_DATA && kept >= ((r - s->base) & INC_PSN_MASK) + 1 &&
	    !(in->data[6] & MULTICAST) && !memcmp(out->data, in->data + 6, 6))
		return 0;
	snprintf(w->why, sizeof(w->why), "child %u: syndrome %#x went astray", w->child, syndrome);
	return -1;
}

static int check_state(struct worker *w)
{
	const struct stage *s = w->s;
	const struct inc_conn_state *st = state_of(s, w->child);
	uint64_t acked = LOAD(st->tx_acked), rx = LOAD(st->rx_next), mac = LOAD(st->mac.word);
	uint64_t next = LOAD(inc_switch_comm_state(s->u->sw)[s->cm.index].tx_next);
	union inc_mac right = {.known = 1};

	memcpy(right.addr, s->spec.conn[w->child].peer_mac, 6);
	if (s->churn || (acked <= next && mac == right.word && rx <= next + s->spec.slots + 1))
		return 0;
	snprintf(w->why, sizeof(w->why),
		 "child %u: received %llu, acknowledged %llu, results %llu, address %llx", w->child,
		 (unsigned long long)rx, (unsigned long long)acked, (unsigned long long)next,
		 (unsigned long long)mac);
	return -1;
}

static int send_frame(struct worker *w, const struct frame *f, uint64_t r)
{
	struct stage *s = w->s;
	struct xdp_md md = {.data_end = f->len,
			    .ingress_ifindex = s->cm.conn[w->child].cfg.ifindex};
	struct frame out;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = f->data, .data_size_in = f->len,
		    .data_out = out.data, .data_size_out = sizeof(out.data), .ctx_in = &md,
		    .ctx_size_in = sizeof(md), .repeat = 1);

	if (bpf_prog_test_run_opts(s->u->prog_fd, &opts)) {
		snprintf(w->why, sizeof(w->why), "BPF_PROG_TEST_RUN: %s", strerror(errno));
		return -1;
	}
	out.len = opts.data_size_out;
	if (opts.retval == XDP_REDIRECT && r != NO_DATA)
		return check_result(w, &out);
	if (opts.retval == XDP_TX)
		return check_answer(w, f, r, &out);
	if (opts.retval == XDP_DROP || (s->churn && opts.retval == XDP_PASS)) {
		if (r != NO_DATA)
			sched_yield(); /* lets another thread make progress first */
		return 0;
	}
	snprintf(w->why, sizeof(w->why), "child %u: verdict %s", w->child,
		 unit_verdict_name(opts.retval));
	return -1;
}

static void damage_mac(struct worker *w, struct frame_spec *spec)
{
	uint64_t random = rng_next(&w->rng);

	memcpy(spec->src_mac, &random, 6);
	if (rng_chance(&w->rng, 500))
		spec->src_mac[0] |= MULTICAST;
}

static int send_response(struct worker *w)
{
	static const uint8_t syndrome[] = {INC_AETH_ACK, INC_AETH_ACK, INC_AETH_NAK_SEQ,
					   INC_AETH_RNR | 14};
	const struct inc_conn_state *st = state_of(w->s, w->child);
	uint64_t r = LOAD(st->tx_acked) + rng_below(&w->rng, 12) - 6;
	struct frame_spec spec;
	struct frame f;

	unit_ack_spec(&w->s->cm, w->child, syndrome[rng_below(&w->rng, 4)],
		      w->s->cm.conn[w->child].cfg.own.psn + (uint32_t)r, &spec);
	memcpy(spec.src_mac, w->s->spec.conn[w->child].peer_mac, 6);
	if (rng_chance(&w->rng, 50))
		damage_mac(w, &spec);
	frame_build(&f, &spec);
	return send_frame(w, &f, NO_DATA);
}

static int send_data(struct worker *w)
{
	uint64_t r = LOAD(state_of(w->s, w->child)->rx_next);
	uint32_t what = rng_below(&w->rng, 100), times = 1;
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec spec;
	struct frame f;

	if (what < 10)
		r -= 1 + rng_below(&w->rng, 2 * w->s->spec.slots);
	else if (what < 20)
		r += 1 + rng_below(&w->rng, 3);
	if (r < w->s->base || r >= w->s->base + MAX_CHUNKS)
		/* starts again, because the communicator may have been added again */
		r = w->s->base;
	data_spec(w->s, w->child, r, &spec, payload);
	memcpy(spec.src_mac, w->s->spec.conn[w->child].peer_mac, 6);
	if (rng_chance(&w->rng, 50))
		damage_mac(w, &spec);
	frame_build(&f, &spec);
	if (rng_chance(&w->rng, 50))
		f.data[FRAME_EXT + rng_below(&w->rng, w->s->len)] ^= 1 << rng_below(&w->rng, 8);
	else if (rng_chance(&w->rng, 50))
		times = 2;
	while (times--)
		if (send_frame(w, &f, r))
			return -1;
	return 0;
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;
	cpu_set_t cpus;
	int cpu;

	/* the suite is bound to one CPU, but this test needs several */
	CPU_ZERO(&cpus);
	for (cpu = 0; cpu < w->s->u->cpus && cpu < CPU_SETSIZE; cpu++)
		CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	while (!w->s->stop)
		if ((rng_chance(&w->rng, 150) ? send_response(w) : send_data(w)) || check_state(w))
			w->s->stop = true;
	return NULL;
}

/* Checks the pairs of counters that must agree. */
static int verify(struct stage *s, const uint64_t before[INC_CTR_MAX])
{
	const struct inc_comm_state *comm_st = inc_switch_comm_state(s->u->sw) + s->cm.index;
	uint64_t now[INC_CTR_MAX], chunks = comm_st->tx_next - s->base, ends = 0, dup = 0, rnr = 0;
	uint64_t nak = 0, acks = 0, naks = 0, i, wrong = 0;

	compare_read_counters(s->u, now);
	for (i = 0; i < INC_CTR_MAX; i++) {
		now[i] -= before[i];
		ends += i != INC_CTR_RX && i <= INC_CTR_MC_RESULT ? now[i] : 0;
	}
	for (i = 0; i < s->spec.n_conns; i++) {
		const struct inc_conn_state *st = state_of(s, i);

		dup += st->duplicates;
		rnr += st->rnrs_sent;
		nak += st->naks_sent;
		acks += st->acks_received;
		naks += st->naks_received;
		wrong += st->busy || st->error;
	}
	for (i = 0; i < MAX_CHUNKS; i++)
		wrong += s->seen[i] != (i < chunks);
	if (!wrong && !comm_st->error && chunks <= MAX_CHUNKS && now[INC_CTR_RX] == ends &&
	    now[INC_CTR_MC_RESULT] == chunks && now[INC_CTR_ANS_DUPLICATE] == dup &&
	    now[INC_CTR_ANS_RNR] == rnr && now[INC_CTR_ANS_NAK_SEQ] == nak &&
	    now[INC_CTR_ABS_ACK] + now[INC_CTR_ANS_OWED] == acks &&
	    now[INC_CTR_DROP_NO_SLOWPATH] == naks &&
	    now[INC_CTR_X_SUM_BYTES] == chunks * s->len * s->spec.n_conns)
		return 0;
	snprintf(s->u->why, sizeof(s->u->why),
		 "%llu chunks, %llu multicast, %llu wrong words; %llu of %llu packets counted; "
		 "duplicates %llu and %llu, RNR %llu and %llu, NAK %llu and %llu",
		 (unsigned long long)chunks, (unsigned long long)now[INC_CTR_MC_RESULT],
		 (unsigned long long)wrong, (unsigned long long)ends,
		 (unsigned long long)now[INC_CTR_RX], (unsigned long long)dup,
		 (unsigned long long)now[INC_CTR_ANS_DUPLICATE], (unsigned long long)rnr,
		 (unsigned long long)now[INC_CTR_ANS_RNR], (unsigned long long)nak,
		 (unsigned long long)now[INC_CTR_ANS_NAK_SEQ]);
	return -1;
}

/* Adds or removes another communicator, whose queue pair numbers share the entries of
 * inc_conn_place with the first one's. It has these entries while the first communicator does not
 * exist. */
static int toggle_other(struct stage *s, int *other, struct inc_err *err)
{
	struct inc_comm_conf spec = s->spec;
	uint32_t i;
	int ret;

	if (*other >= 0) {
		ret = inc_switch_remove_comm(s->u->sw, *other, err);
		*other = -1;
		return ret;
	}
	spec.communicator++;
	for (i = 0; i < spec.n_conns; i++)
		spec.conn[i].own.qpn ^= unit_conn_places(s->u);
	*other = inc_switch_add_comm(s->u->sw, &spec, err);
	return *other < 0 ? *other : inc_switch_start_comm(s->u->sw, *other, err);
}

/* Removes and adds a communicator with the same addresses and queue pairs again and again, while
 * packets are under way. */
static int come_and_go(struct stage *s, uint64_t end)
{
	struct inc_err err = {""};
	int index = s->cm.index, other = -1;

	while (inc_now_ms() < end && !s->stop) {
		if (inc_switch_remove_comm(s->u->sw, index, &err))
			break;
		index = inc_switch_add_comm(s->u->sw, &s->spec, &err);
		if (index != (int)s->cm.index || toggle_other(s, &other, &err) ||
		    inc_switch_start_comm(s->u->sw, index, &err))
			break;
	}
	if (other >= 0)
		inc_switch_remove_comm(s->u->sw, other, &err);
	if (!err.msg[0] && index == (int)s->cm.index)
		return 0;
	snprintf(s->u->why, sizeof(s->u->why), "communicator %d: %s", index, err.msg);
	return -1;
}

static int run_threads(struct stage *s, struct rng *rng)
{
	struct worker w[MAX_THREADS] = {0};
	const struct timespec ms = {.tv_nsec = 1000000};
	uint64_t end = inc_now_ms() + ROUND_MS;
	pthread_t thread[MAX_THREADS];
	uint32_t i, n;
	int ret = 0;

	s->stop = false;
	s->u->why[0] = 0;
	for (n = 0; n < s->spec.n_conns * PER_CHILD; n++) {
		w[n] = (struct worker){.s = s, .child = n / PER_CHILD, .rng = {rng_next(rng)}};
		if (pthread_create(&thread[n], NULL, run_worker, &w[n])) {
			snprintf(s->u->why, sizeof(s->u->why), "no thread");
			s->stop = true;
			break;
		}
	}
	if (s->churn)
		ret = come_and_go(s, end);
	while (inc_now_ms() < end && !s->stop)
		nanosleep(&ms, NULL);
	s->stop = true;
	for (i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		if (w[i].why[0])
			snprintf(s->u->why, sizeof(s->u->why), "%s", w[i].why);
	}
	return s->u->why[0] ? -1 : ret;
}

static int one_round(struct unit *u, struct rng *rng, uint32_t number, uint64_t *chunks)
{
	static const uint64_t bases[] = {0,          0xffff80,           0x1000000,
					 0xffffff80, 0x100000000ull - 3, 0x7fffff};
	struct stage *s = &stage;
	uint64_t before[INC_CTR_MAX];
	struct ref_comm *cm;
	uint32_t i, k;

	memset(s, 0, sizeof(*s));
	s->u = u;
	s->len = 4 * (1 + rng_below(rng, MAX_LEN / 4));
	unit_spec(u, &s->spec, 1, 1 + rng_below(rng, MAX_CHILD), 1 + rng_below(rng, UNIT_PORTS),
		  256, 1u << rng_below(rng, 5));
	for (i = 0; i < s->spec.n_conns; i++) {
		s->spec.conn[i].peer.psn = rng_next(rng) & INC_PSN_MASK;
		s->spec.conn[i].own.psn = rng_next(rng) & INC_PSN_MASK;
		memcpy(s->spec.conn[i].peer_mac, "\x02\x77\0\0\0", 5);
		s->spec.conn[i].peer_mac[5] = i;
	}
	cm = unit_add_comm(u, &s->spec);
	RUN(!cm);
	s->cm = *cm;
	s->base = number % 4 == 3 ? 0 : bases[rng_below(rng, sizeof(bases) / sizeof(bases[0]))];
	s->churn = number % 4 == 3;
	if (!s->churn)
		unit_reset(u, cm, s->base);
	compare_read_counters(u, before);
	RUN(run_threads(s, rng));
	if (!s->churn)
		RUN(verify(s, before));
	for (k = 0; s->churn && k < s->spec.n_conns; k++)
		if (state_of(s, k)->busy) {
			snprintf(u->why, sizeof(u->why), "child %u stays busy", k);
			return -1;
		}
	*chunks += s->churn ? 0 : inc_switch_comm_state(u->sw)[s->cm.index].tx_next - s->base;
	return unit_remove_comm(u, cm);
}

int main(int argc, char **argv)
{
	static struct unit u;
	uint64_t end, chunks = 0,
		      seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
	struct rng rng = {seed};
	uint32_t round;
	int ret = 0;

	if (unit_start(&u, "xdp_stress", 16384, false))
		return report_exit();
	end = inc_now_ms() + 1000 * (argc > 1 ? strtoull(argv[1], NULL, 0) : SECONDS);
	for (round = 0; !ret && inc_now_ms() < end; round++)
		ret = one_round(&u, &rng, round, &chunks);
	if (ret)
		report_fail("xdp_stress", "seed %llu round %u: %s", (unsigned long long)seed,
			    round - 1, u.why);
	else if (!chunks)
		report_fail("xdp_stress", "not one chunk in %u rounds", round);
	else
		report_ok("xdp_stress_seed_%llu (%u rounds, %llu chunks, %d CPUs)",
			  (unsigned long long)seed, round, (unsigned long long)chunks, u.cpus);
	unit_stop(&u);
	return report_exit();
}

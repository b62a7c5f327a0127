/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures the cost of a packet in the XDP programs, by BPF_PROG_TEST_RUN of the data path's own
 * functions. bpf/inc_xdp_test.bpf.c restores their state before each round. For comparison, an
 * empty XDP program and zlib's crc32 over the same bytes are measured. Prints nanoseconds per
 * packet, minimum and median over rounds, and the ratio to zlib's crc32.
 *
 * A round measures every row once. The ratio is the median of the ratios of all rounds, so other
 * load on the machine changes it less than the nanoseconds.
 *
 * With --cpus, so many threads, each on a CPU of its own and with a communicator of its own, handle
 * contributions at the same time. A channel of a communicator is a communicator of the switch, so
 * the figure holds for channels, too.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <jansson.h>
#include <zlib.h>
#include "lib/proto/desc.h"
#include "lib/proto/roce.h"
#include "lib/base/clock.h"
#include "lib/base/opt.h"
#include "lib/roce/wire.h"
#include "loader/inc_crc_tables.h"
#include "loader/inc_loader.h"
#include "loader/inc_raw.h"
#include "inc_xdp_test.skel.h"

#define ROUNDS  100
#define PACKETS 2000 /* number of packets that each row handles in a round */
/* number of the loopback interface, which is the ingress port of BPF_PROG_TEST_RUN */
#define IFINDEX  1
#define MAX_CPUS 64
/* Packets that each CPU handles in a round. They are many, because the start of BPF_PROG_TEST_RUN
 * changes the kernel's code, for which it interrupts all CPUs. */
#define LANE_PACKETS 100000
#define LANE_ROUNDS  25
#define SLOTS        64
#define OTHER        "inc-others" /* name of the port of all children except the first */

struct bench {
	struct inc_switch *sw;
	struct inc_xdp_test *test;
	uint8_t frame[INC_MAX_PAYLOAD + 128];
	uint32_t frame_len;
	uint8_t left[INC_MAX_PAYLOAD + 128 + 256]; /* the frame as the last run returned it */
	uint32_t payload;
	uint32_t children;
	/* number of communicators of the switch; the last one is measured */
	uint32_t communicators;
	struct cpus {
		uint32_t counts[MAX_CPUS]; /* of CPUs that work at the same time */
		uint32_t n;                /* 0: the costs of a packet are measured instead */
	} cpus;
	bool json;
};

/* A line of the table, and what its program took in each round. */
struct row {
	const char *name;
	struct bpf_program *prog; /* NULL for zlib's crc32 */
	uint32_t want;            /* the verdict that proves that a packet was handled */
	uint64_t arrived;         /* arrival bits of the other children */
	double ns[ROUNDS];
};

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_double);
	return values[n / 2];
}

/* Builds the first packet of child 0, which is a SEND only with immediate and has random data. */
static void build_frame(struct bench *b, const struct inc_conn_conf *child, uint32_t desc)
{
	uint8_t *ip = b->frame + INC_ETH_LEN, *udp = ip + INC_IP_LEN;
	struct inc_bth *bth = (struct inc_bth *)(udp + INC_UDP_LEN);
	uint32_t len = INC_IP_LEN + INC_UDP_LEN + INC_BTH_LEN + INC_IMM_LEN + b->payload;
	uint8_t *imm = (uint8_t *)(bth + 1);
	uint32_t word;

	memset(b->frame, 2, 12);
	b->frame[12] = 8;
	b->frame[13] = 0;
	memset(ip, 0, INC_IP_LEN + INC_UDP_LEN);
	ip[0] = 0x45;
	ip[2] = (len + INC_ICRC_LEN) >> 8;
	ip[3] = (len + INC_ICRC_LEN) & 0xff;
	ip[6] = 0x40;
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, &child->peer.ip.word[3], 4);
	memcpy(ip + 16, &child->own.ip.word[3], 4);
	*(uint16_t *)udp = htons(child->peer.udp_port);
	*(uint16_t *)(udp + 2) = htons(INC_ROCE_UDP_PORT);
	*(uint16_t *)(udp + 4) = htons(len + INC_ICRC_LEN - INC_IP_LEN);
	bth->opcode = INC_OP_SEND_ONLY_IMM;
	bth->se_m_pad_tver = INC_BTH_M;
	bth->pkey = htons(child->pkey);
	bth->ecn_qpn = htonl(child->own.qpn);
	bth->ackreq_psn = htonl(child->peer.psn);
	word = htonl(desc);
	memcpy(imm, &word, 4);
	for (uint32_t i = 0; i < b->payload; i++)
		imm[INC_IMM_LEN + i] = random();
	word = inc_icrc_ipv4(ip, len);
	memcpy(ip + len, &word, 4);
	b->frame_len = INC_ETH_LEN + len + INC_ICRC_LEN;
}

static int open_test_object(struct bench *b, struct inc_err *err)
{
	struct bpf_map *map;
	int ret;

	b->test = inc_xdp_test__open();
	if (!b->test)
		return inc_err_set(err, errno, "inc_xdp_test: %s", strerror(errno));
	inc_crc_fill_tables(b->test->rodata->inc_crc_table, b->test->rodata->inc_shift_table);
	b->test->rodata->inc_places = inc_conn_places(inc_switch_get_opts(b->sw)->max_connections);
	b->test->rodata->inc_order_stores = INC_ORDER_STORES;
	bpf_object__for_each_map (map, b->test->obj) {
		int fd = inc_switch_map_fd(b->sw, bpf_map__name(map));

		if (fd >= 0 && (ret = bpf_map__reuse_fd(map, fd)))
			return inc_err_set(err, -ret, "map %s: %s", bpf_map__name(map),
					   strerror(-ret));
	}
	ret = inc_xdp_test__load(b->test);
	if (ret)
		return inc_err_set(err, -ret, "inc_xdp_test: load: %s", strerror(-ret));
	return 0;
}

/* Creates a namespace with its own interfaces, so that the interfaces of this machine do not
 * matter. The namespace has no name, so it ends with this process. */
static int own_namespace(struct inc_err *err)
{
	if (unshare(CLONE_NEWNET))
		return inc_err_set(err, errno, "a network namespace of its own: %s",
				   strerror(errno));
	if (system("ip link add " OTHER " type veth peer name inc-peer"))
		return inc_err_set(err, EIO, "no veth pair (ip link add)");
	return 0;
}

/* Queue pair numbers look random, as those of the controller do, but each number occurs once. */
static uint32_t qpn_of(uint32_t i)
{
	i = (i ^ i >> 12) * 0x5bd1e5;
	i = ((i & INC_QPN_MASK) ^ (i & INC_QPN_MASK) >> 11) * 0x2c1b3d;
	return (i & INC_QPN_MASK) ^ (i & INC_QPN_MASK) >> 13;
}

/* Adds a communicator. Child 0 is alone on its port, and all others share another one. */
static int add_comm(struct bench *b, uint32_t number, uint32_t slots, struct inc_comm_conf *conf,
		    struct inc_err *err)
{
	unsigned int others = if_nametoindex(OTHER);
	int ret;

	*conf = (struct inc_comm_conf){.communicator = number,
				       .payload = b->payload,
				       .slots = slots,
				       .n_conns = b->children};
	for (uint32_t c = 0; c < b->children; c++) {
		struct inc_conn_conf *conn = &conf->conn[c];

		*conn = (struct inc_conn_conf){
			.rank = c,
			.peer.ip = inc_addr_of_ipv4(htonl(0x0a000001 + c)),
			.own.ip = inc_addr_of_ipv4(htonl(0x0a0000fe)),
			.peer.qpn = 0x200 + c,
			.own.qpn = qpn_of(number * INC_MAX_CHILDREN + c),
			/* the loopback interface has no MAC address */
			.own_mac = {2, 0, 0, 0, 0, 1},
			.peer.udp_port = 50000,
			.own.udp_port = INC_ROCE_UDP_PORT,
			.pkey = INC_PKEY_DEFAULT,
			.udp_csum = true,
		};
		if_indextoname(c ? others : IFINDEX, conn->port);
	}
	ret = inc_switch_add_comm(b->sw, conf, err);
	return ret < 0 ? ret : inc_switch_start_comm(b->sw, ret, err) ?: ret;
}

/* Prepares the frame and the programs for a communicator. comm: its number in the switch */
static int prepare(struct bench *b, int number, const struct inc_comm_conf *conf,
		   struct inc_err *err)
{
	uint32_t desc = INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, 1);
	const struct inc_comm_cfg *comm = inc_switch_comm(b->sw, number);
	int ret;

	/* the other children have contributed zeros, so the sum leaves the frame's payload as
	 * it is */
	for (uint32_t c = 1; c < b->children; c++) {
		struct inc_buf *row =
			&inc_switch_kept(b->sw)[comm->kept_base + (c << comm->log2_slots)];

		row->desc = desc;
		row->len = b->payload;
		row->opcode = INC_OP_SEND_ONLY_IMM;
	}
	build_frame(b, &conf->conn[0], desc);
	ret = open_test_object(b, err);
	if (ret)
		return ret;
	memcpy(b->test->bss->inc_bench_headers, b->frame, sizeof(b->test->bss->inc_bench_headers));
	b->test->bss->inc_bench_conn = comm->conn_base;
	b->test->bss->inc_bench_slot_row = comm->sum_base;
	b->test->bss->inc_test_egress_ifindex = IFINDEX;
	return 0;
}

static int open_switch(struct bench *b, uint32_t slots, struct inc_err *err)
{
	struct inc_switch_opts opts = {.sz = sizeof(opts),
				       .max_comms = b->communicators,
				       .max_connections = b->communicators * b->children + 64,
				       .max_rows = (b->communicators + slots) * b->children};

	return inc_switch_open(&opts, &b->sw, err);
}

static int setup(struct bench *b, struct inc_err *err)
{
	struct inc_comm_conf conf;
	int ret = open_switch(b, SLOTS, err);

	for (uint32_t n = 1; ret >= 0 && n <= b->communicators; n++)
		ret = add_comm(b, n, n < b->communicators ? 1 : SLOTS, &conf, err);
	return ret < 0 ? ret : prepare(b, ret, &conf, err);
}

/* Runs the row's program on the frame many times. Returns the nanoseconds per packet, or -errno. */
static int run_program(struct bench *b, const struct row *row, unsigned int packets,
		       struct inc_err *err)
{
	uint8_t in[sizeof(b->frame)];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in, .data_size_in = b->frame_len,
		    .data_out = b->left, .data_size_out = sizeof(b->left), .repeat = packets);
	int ret;

	b->test->bss->inc_bench_arrived = row->arrived;
	memcpy(in, b->frame, b->frame_len);
	ret = bpf_prog_test_run_opts(bpf_program__fd(row->prog), &opts);
	if (ret)
		return inc_err_set(err, -ret, "%s: BPF_PROG_TEST_RUN: %s",
				   bpf_program__name(row->prog), strerror(-ret));
	if (opts.retval != row->want)
		return inc_err_set(err, EPROTO, "%s: verdict %u, expected %u",
				   bpf_program__name(row->prog), opts.retval, row->want);
	if (row->arrived) /* the frame is the template from which copies are made */
		memcpy(&b->test->bss->inc_bench_template, b->left,
		       sizeof(b->test->bss->inc_bench_template));
	return opts.duration;
}

/* Returns the nanoseconds that zlib's crc32 takes for the bytes of a packet. It is CPU time,
 * because BPF_PROG_TEST_RUN does not count the time of other processes either. */
static double run_zlib(const struct bench *b)
{
	const uint64_t start_ns = inc_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	volatile uLong sink = 0;

	for (int k = 0; k < PACKETS; k++)
		sink ^= crc32(0, b->frame + INC_ETH_LEN, b->frame_len - INC_ETH_LEN);
	return (double)(inc_clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns) / PACKETS;
}

/* Prints a row, whose nanoseconds this function sorts. zlib: those of zlib in the same rounds. */
static void print(struct row *row, const double *zlib, const struct bench *b)
{
	double ratios[ROUNDS], ratio, middle;

	for (int i = 0; i < ROUNDS; i++)
		ratios[i] = row->ns[i] / zlib[i];
	ratio = median(ratios, ROUNDS);
	middle = median(row->ns, ROUNDS);
	if (b->json) {
		json_t *o = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:f}", "bench", row->name,
				      "payload", b->payload, "children", b->children,
				      "communicators", b->communicators, "min_ns", (int)row->ns[0],
				      "median_ns", (int)middle, "zlib_ratio", ratio);

		json_dumpf(o, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(o);
	} else {
		printf("%-46s %8.0f %8.0f %8.2f\n", row->name, row->ns[0], middle, ratio);
	}
}

/* Parses counts of CPUs, "1,2". */
static int take_cpus(void *member, const char *text, struct inc_err *err)
{
	const long most =
		sysconf(_SC_NPROCESSORS_ONLN) < MAX_CPUS ? sysconf(_SC_NPROCESSORS_ONLN) : MAX_CPUS;
	struct cpus *cpus = member;
	char *end;

	for (cpus->n = 0; cpus->n < MAX_CPUS; text = end + 1) {
		unsigned long count = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;

		if (!count || count > (unsigned long)most || (*end && *end != ','))
			return inc_err_set(err, EINVAL, "'%s': want counts of CPUs, 1 to %ld", text,
					   most);
		cpus->counts[cpus->n++] = count;
		if (!*end)
			return 0;
	}
	return inc_err_set(err, EINVAL, "more than %d counts of CPUs", MAX_CPUS);
}

#define PAYLOAD(bytes) {#bytes, bytes},
static const struct inc_opt_word payloads[] = {INC_PAYLOADS(PAYLOAD){}};

static const struct inc_opt options[] = {
	{.name = "payload",
	 .letter = 'p',
	 .preset = "1024",
	 .help = "bytes of a packet's data",
	 INC_OPT_WORD(struct bench, payload, payloads)},
	{.name = "children",
	 .letter = 'c',
	 .value = "N",
	 .preset = "4",
	 .help = "of the communicator, 2 to " INC_STR(INC_MAX_CHILDREN),
	 INC_OPT_NUMBER(struct bench, children, 2, INC_MAX_CHILDREN)},
	{.name = "communicators",
	 .letter = 'm',
	 .value = "N",
	 .preset = "1",
	 .help = "that the switch has, 1 to " INC_STR(INC_MAX_COMMS) ": measured is the last",
	 INC_OPT_NUMBER(struct bench, communicators, 1, INC_MAX_COMMS)},
	{.name = "cpus",
	 .value = "N,..",
	 .help = "contributions per second on 1 CPU and on so many CPUs at the same time, each "
		 "with a "
		 "communicator of its own",
	 INC_OPT_TAKE(struct bench, cpus, take_cpus)},
	{.name = "json",
	 .letter = 'j',
	 .help = "one object per line",
	 INC_OPT_FLAG(struct bench, json)},
	{},
};

static const struct inc_program program = {
	.name = "bench_xdp",
	.about = "What a packet costs in the XDP programs, in nanoseconds.",
	.groups = {{options, 0}},
};

/* Measures every row in each round and prints the rows. Returns 0 or -errno. */
static int measure(struct bench *b, struct inc_err *err)
{
	uint64_t others = (b->children == 32 ? ~0u : (1u << b->children) - 1) & ~1ull;
	struct row rows[] = {
		{.name = "zlib crc32 over the packet"},
		{.name = "empty XDP program", .prog = b->test->progs.inc_bench_empty, .want = 2},
		{.name = "putting state back (part of what follows)",
		 .prog = b->test->progs.inc_bench_reset_only,
		 .want = 2},
		{.name = "contribution, not the last",
		 .prog = b->test->progs.inc_bench_handle,
		 .want = 1},
		{.name = "last contribution, sum, ICRC of result",
		 .prog = b->test->progs.inc_bench_handle,
		 .want = 4,
		 .arrived = others},
		/* the next row uses the template that the row above has left */
		{.name = "putting a template back (part of the next)",
		 .prog = b->test->progs.inc_bench_template_only,
		 .want = 2},
		{.name = "one copy with its ICRC",
		 .prog = b->test->progs.inc_bench_copy,
		 .want = 2},
	};
	const size_t n = sizeof(rows) / sizeof(rows[0]);
	double zlib[ROUNDS];
	int ret;

	for (int round = 0; round < ROUNDS; round++) {
		zlib[round] = rows[0].ns[round] = run_zlib(b);
		for (size_t i = 1; i < n; i++) {
			ret = run_program(b, &rows[i], PACKETS, err);
			if (ret < 0)
				return ret;
			rows[i].ns[round] = ret;
		}
	}
	if (!b->json)
		printf("payload %u, %u children; ns per packet           min   median  of zlib\n",
		       b->payload, b->children);
	for (size_t i = 0; i < n; i++)
		print(&rows[i], zlib, b);
	return 0;
}

/* A thread with a CPU and a communicator of its own. */
struct lane {
	pthread_t thread;
	unsigned int cpu;
	struct bench b; /* with programs of its own, and the switch of all lanes */
	struct row row;
	pthread_barrier_t *start;
	double ns[2]; /* per contribution, and per crc32 of zlib, of the last round */
	struct inc_err err;
	int ret;
};

/* Does the work of one round. All lanes begin at the same time. CPU time counts, because other
 * programs may use the same CPUs. */
static void *run_lane(void *arg)
{
	struct lane *lane = arg;
	uint64_t start_ns;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(lane->cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	pthread_barrier_wait(lane->start);
	start_ns = inc_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	lane->ret = run_program(&lane->b, &lane->row, LANE_PACKETS, &lane->err);
	lane->ns[0] = (double)(inc_clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns) / LANE_PACKETS;
	pthread_barrier_wait(lane->start);
	lane->ns[1] = run_zlib(&lane->b);
	return NULL;
}

/* Measures a round of n lanes. per_s: millions of contributions, and of zlib's crc32, per second of
 * all lanes */
static int run_lanes(struct lane *lanes, uint32_t n, double per_s[2], struct inc_err *err)
{
	pthread_barrier_t start;
	int ret = 0;

	pthread_barrier_init(&start, NULL, n);
	for (uint32_t i = 0; i < n; i++) {
		lanes[i].start = &start;
		if (pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]))
			abort(); /* the others would wait for it for ever */
	}
	per_s[0] = per_s[1] = 0;
	for (uint32_t i = 0; i < n; i++) {
		pthread_join(lanes[i].thread, NULL);
		if (lanes[i].ret < 0) {
			*err = lanes[i].err;
			ret = lanes[i].ret;
			continue;
		}
		for (int k = 0; k < 2; k++)
			per_s[k] += 1e3 / lanes[i].ns[k];
	}
	pthread_barrier_destroy(&start);
	return ret;
}

static void print_cpus(const struct bench *b, uint32_t n, double *per_s, double *ratio,
		       double *zlib_ratio)
{
	const double speed = median(per_s, LANE_ROUNDS), times = median(ratio, LANE_ROUNDS),
		     zlib = median(zlib_ratio, LANE_ROUNDS);

	if (b->json)
		printf("{\"bench\":\"cpus\",\"payload\":%u,\"children\":%u,\"cpus\":%u,\"million_"
		       "per_s\":%.3f,"
		       "\"ratio\":%.3f,\"zlib_ratio\":%.3f}\n",
		       b->payload, b->children, n, speed, times, zlib);
	else
		printf("%u CPUs: %.2f million contributions per second, %.2f of one CPU; zlib "
		       "%.2f\n",
		       n, speed, times, zlib);
}

/* Measures every count of CPUs beside one CPU in each round. */
static int measure_cpus(const struct bench *b, struct lane *lanes, struct inc_err *err)
{
	double speeds[MAX_CPUS][LANE_ROUNDS], ratios[MAX_CPUS][LANE_ROUNDS],
		zlib[MAX_CPUS][LANE_ROUNDS], one[2], all[2];

	for (int round = 0; round < LANE_ROUNDS; round++) {
		int ret = run_lanes(lanes, 1, one, err);

		for (uint32_t i = 0; !ret && i < b->cpus.n; i++) {
			ret = run_lanes(lanes, b->cpus.counts[i], all, err);
			speeds[i][round] = all[0];
			ratios[i][round] = all[0] / one[0];
			zlib[i][round] = all[1] / one[1];
		}
		if (ret)
			return ret;
	}
	for (uint32_t i = 0; i < b->cpus.n; i++)
		print_cpus(b, b->cpus.counts[i], speeds[i], ratios[i], zlib[i]);
	return 0;
}

/* Opens a switch with a communicator for each lane. */
static int on_cpus(struct bench *b, struct inc_err *err)
{
	struct inc_comm_conf conf;
	struct lane *lanes;
	uint32_t most = 1;
	int ret;

	for (uint32_t i = 0; i < b->cpus.n; i++)
		most = b->cpus.counts[i] > most ? b->cpus.counts[i] : most;
	b->communicators = most;
	lanes = calloc(most, sizeof(*lanes));
	if (!lanes)
		return inc_err_set(err, ENOMEM, "out of memory");
	ret = open_switch(b, most * SLOTS, err);
	for (uint32_t i = 0; ret >= 0 && i < most; i++) {
		lanes[i].cpu = i;
		lanes[i].b = *b;
		ret = add_comm(b, i + 1, SLOTS, &conf, err);
		ret = ret < 0 ? ret : prepare(&lanes[i].b, ret, &conf, err);
		if (ret >= 0)
			lanes[i].row = (struct row){.name = "contribution, not the last",
						    .prog = lanes[i].b.test->progs.inc_bench_handle,
						    .want = 1};
	}
	ret = ret < 0 ? ret : measure_cpus(b, lanes, err);
	for (uint32_t i = 0; i < most; i++)
		inc_xdp_test__destroy(lanes[i].b.test);
	free(lanes);
	return ret;
}

int main(int argc, char **argv)
{
	struct bench b = {};
	struct inc_err err = {};
	int ret;

	ret = inc_opt_parse(&program, argc, argv, &b, NULL);
	if (ret >= 0)
		return ret;
	libbpf_set_print(NULL);
	ret = own_namespace(&err);
	if (!ret && b.cpus.n)
		ret = on_cpus(&b, &err);
	else if (!ret)
		ret = setup(&b, &err) ?: measure(&b, &err);
	if (ret < 0)
		fprintf(stderr, "bench_xdp: %s\n", err.msg);
	inc_xdp_test__destroy(b.test);
	inc_switch_close(b.sw);
	return ret < 0;
}

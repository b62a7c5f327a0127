// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "lib/proto/desc.h"
#include "selftests/unit/ref_switch.h"
#include "sim.h"
#include "star_priv.h"

/* With faults, and from their end to everybody's. The longest of all timers is a second. */
#define FAULTS_MOST_NS INC_NSEC_PER_SEC
#define CONVERGE_NS    (5 * INC_NSEC_PER_SEC)
#define INCIDENTS_MOST 4

struct star star;

static void choose_call(struct star_call *call)
{
	static const enum inccl_dtype dtypes[] = {INCCL_INT32,  INCCL_UINT32, INCCL_INT64,
						  INCCL_UINT64, INCCL_INT16,  INCCL_UINT16,
						  INCCL_INT8,   INCCL_UINT8};
	uint32_t packets = sim_chance(300) ? PACKETS_MOST : 4, element;

	call->dtype = dtypes[sim_below(sizeof(dtypes) / sizeof(dtypes[0]))];
	call->op = sim_below(INCCL_XOR + 1);
	call->mode = sim_chance(300) ? INCCL_MODE_WRITE : INCCL_MODE_SENDRECV;
	element = ref_element_bytes(INC_DESC(INC_COLL_ALLREDUCE, call->op, call->dtype, 0, 0));
	call->bytes = sim_between(1, packets * star.opts.payload);
	call->count = (call->bytes + element - 1) / element;
	call->bytes = call->count * element;
	call->in_place = sim_chance(300);
	call->expected = malloc(call->bytes);
	sim_require(call->expected, "no memory");
}

/* Bytes of the seed's, quickly. */
static void fill(uint8_t *at, size_t size)
{
	struct rng rng = {.state = sim_between(0, UINT64_MAX - 1)};
	uint64_t word;
	size_t n;

	for (; size; at += n, size -= n) {
		word = rng_next(&rng);
		n = size < sizeof(word) ? size : sizeof(word);
		memcpy(at, &word, n);
	}
}

static void choose_buffers(struct star_rank *rank)
{
	unsigned int i;

	for (i = 0; i < star.n_calls; i++) {
		const struct star_call *call = &star.call[i];

		rank->call[i].given = malloc(call->bytes);
		rank->call[i].send = malloc(call->bytes);
		rank->call[i].recv = call->in_place ? rank->call[i].send : malloc(call->bytes);
		sim_require(rank->call[i].given && rank->call[i].send && rank->call[i].recv,
			    "no memory");
		memset(rank->call[i].recv, 0xa5, call->bytes);
		fill(rank->call[i].given, call->bytes);
		memcpy(rank->call[i].send, rank->call[i].given, call->bytes);
	}
}

static void free_buffers(void)
{
	unsigned int r, i;

	for (i = 0; i < star.n_calls; i++) {
		free(star.call[i].expected);
		for (r = 0; r < star.n_ranks; r++) {
			free(star.rank[r].call[i].given);
			if (star.rank[r].call[i].recv != star.rank[r].call[i].send)
				free(star.rank[r].call[i].recv);
			free(star.rank[r].call[i].send);
		}
	}
}

static void add_rank(unsigned int number)
{
	struct star_rank *rank = &star.rank[number];
	char up[8], down[8];

	rank->number = number;
	snprintf(rank->host.process.name, sizeof(rank->host.process.name), "h%u", number);
	snprintf(up, sizeof(up), "h%u>s0", number);
	snprintf(down, sizeof(down), "s0>h%u", number);
	memcpy(rank->host.mac, (const uint8_t[]){2, 0, 0, 0, 1, number}, 6);
	memcpy(rank->host.gateway, (const uint8_t[]){2, 0, 0, 0, 2, number}, 6);
	rank->host.addr = htonl(STAR_SWITCH_ADDR - 0xfe + 1 + number);
	rank->host.up = &rank->up;
	rank->port = (struct daemon_port){&star.daemon, number};
	wire_init(&rank->up, up, daemon_receive, &rank->port, star.faults_end_at_ns);
	wire_init(&rank->down, down, host_receive, &rank->host, star.faults_end_at_ns);
	star.daemon.down[number] = &rank->down;
	host_add(&rank->host);
	choose_buffers(rank);
	task_new(&rank->host.process, star_rank_run, rank);
}

/* --- what goes wrong --- */

static void revive(void *arg, uint64_t unused)
{
	if (!star.daemon.slow_path)
		daemon_revive(&star.daemon);
}

static void kill_daemon(void *arg, uint64_t revive_at_ns)
{
	if (!star.daemon.slow_path)
		return;
	daemon_kill(&star.daemon);
	sim_at(revive_at_ns, revive, NULL, 0);
}

static void stop_process(void *arg, uint64_t until_ns)
{
	struct process *process = arg;

	process->paused_until_ns = until_ns;
	sim_figures.pauses++;
	sim_note(process->name, "is stopped for us:", (until_ns - sim_now_ns()) / 1000, 0, 0);
}

static void choose_incidents(void)
{
	uint32_t n = sim_chance(500) ? sim_below(INCIDENTS_MOST + 1) : 0, i;

	for (i = 0; i < n; i++) {
		uint64_t from = sim_between(sim_now_ns(), star.faults_end_at_ns);
		uint64_t to = sim_between(from, star.faults_end_at_ns);
		uint32_t whom = sim_below(star.n_ranks + 2);

		if (whom < star.n_ranks)
			sim_at(from, stop_process, &star.rank[whom].host.process, to);
		else if (whom == star.n_ranks)
			sim_at(from, stop_process, &star.daemon.process, to);
		else
			sim_at(from, kill_daemon, NULL, to);
	}
}

/* --- a run --- */

static void choose(void)
{
	unsigned int i;

	star = (struct star){.n_ranks = 1 + sim_below(RANKS_MOST)};
	star.n_calls = 1 + sim_below(CALLS_MOST);
	star.at_once = 1 + sim_below(4);
	star.opts.sz = sizeof(star.opts);
	star.opts.transport = INCCL_TRANSPORT_SOFT;
	star.opts.payload = 256u << sim_below(4);
	star.opts.message_packets = 1 + (sim_chance(300) ? sim_below(8) : 0);
	star.opts.window = 1 + sim_below(32);
	star.faults_end_at_ns = sim_now_ns() + sim_between(0, 1u << (16 + sim_below(15)));
	if (star.faults_end_at_ns > sim_now_ns() + FAULTS_MOST_NS)
		star.faults_end_at_ns = sim_now_ns() + FAULTS_MOST_NS;
	for (i = 0; i < star.n_calls; i++)
		choose_call(&star.call[i]);
}

static uint32_t rows_most(void)
{
	uint32_t slots = 1;

	while (slots < star.opts.window * star.opts.message_packets)
		slots *= 2;
	return slots * (star.n_ranks > 2 ? star.n_ranks : 2);
}

void star_run(void)
{
	unsigned int i;

	task_begin();
	wire_begin();
	host_begin();
	choose();
	sim_faults_end(star.faults_end_at_ns);
	star.daemon.watch = star_watch;
	daemon_start(&star.daemon, "s0", star.n_ranks, rows_most());
	for (i = 0; i < star.n_ranks; i++)
		add_rank(i);
	choose_incidents();
	while (task_alive()) {
		sim_require(sim_step(), "nothing happens any more, and %u threads wait",
			    task_alive());
		sim_require(sim_now_ns() < star.faults_end_at_ns + CONVERGE_NS,
			    "%u of %u ranks are not through, so long after the last fault",
			    star.n_ranks - star.finished, star.n_ranks);
	}
	daemon_remove(&star.daemon, star.comm);
	daemon_stop(&star.daemon);
	free_buffers();
}

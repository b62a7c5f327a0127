/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/os.h"
#include "selftests/fakes/fallback_ranks.h"

#define PAUSE_NS  (97 * INC_NSEC_PER_MSEC)
#define LATE_NS   (600 * INC_NSEC_PER_MSEC)
#define LIMIT_NS  (120 * INC_NSEC_PER_SEC)
#define ANSWER_S  10 /* real time after which a rank that shall answer is stuck */
#define CLEANUP_S 10 /* real time in which the kernel removes threads that have ended */
/* one reading of the clock in so many lets another rank go on */
#define PREEMPT_ONE_IN 4
/* one job in so many is followed by a look at what it has left, because each look takes long */
#define LOOK_ONE_IN 64

struct job job;
struct plan plan;
_Atomic uint64_t job_now_ns = 1000 * INC_NSEC_PER_SEC;
__thread struct member *me;

void job_fail(const char *format, ...)
{
	static const char *const endings[] = {"arrives",      "stalls",      "fails",
					      "arrives late", "fails after", "dies"};
	va_list ap;

	fprintf(stderr, "%s, seed %u, %llu ms: ", job.text ?: "job", job.seed,
		(unsigned long long)((job_now_ns - job.began_at_ns) / INC_NSEC_PER_MSEC));
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	for (int r = 0; r < job.ranks; r++) {
		const struct member *m = &job.member[r];

		fprintf(stderr, "\n  rank %d: call %u, %u calls of the framework, lost %u:", r,
			m->calls, m->frames, m->losses);
		for (unsigned int i = 0; i < OPERATIONS; i++)
			if (job.on_switch[i].begun || plan.ending[i][r] != ARRIVES)
				fprintf(stderr, " %u %s%s;", i,
					job.on_switch[i].begun >> r & 1 ? "begun, " : "",
					endings[plan.ending[i][r]]);
	}
	fprintf(stderr, "\n");
	_exit(1);
}

/* ---- turns and time ---- */

uint32_t job_draw(uint32_t below)
{
	job.lots ^= job.lots << 13;
	job.lots ^= job.lots >> 17;
	job.lots ^= job.lots << 5;
	return job.lots % below;
}

/* Chooses the rank that goes on. If all of them wait, time passes. */
static struct member *choose(void)
{
	struct member *able[MOST_RANKS];
	uint64_t at_ns;
	unsigned int n;

	for (;;) {
		n = 0;
		at_ns = UINT64_MAX;
		for (int r = 0; r < job.ranks; r++) {
			struct member *m = &job.member[r];

			if (m->has_ended)
				continue;
			if (m->until_ns <= job_now_ns || (m->ready && m->ready(m)))
				able[n++] = m;
			else if (m->until_ns < at_ns)
				at_ns = m->until_ns;
		}
		if (n)
			return able[job_draw(n)];
		if (at_ns == UINT64_MAX)
			job_fail("no rank can go on");
		if (at_ns > job.began_at_ns + job.limit_ns)
			job_fail("the ranks do not come to an end");
		job_now_ns = at_ns;
	}
}

static sem_t turns[MOST_RANKS];

static void take_turn(struct member *m)
{
	while (sem_wait(&turns[m - job.member]))
		;
}

void job_pass_turn(bool (*ready)(struct member *m), uint64_t until_ns)
{
	struct member *self = me, *next;

	self->ready = ready;
	self->until_ns = until_ns;
	next = choose();
	if (next == self)
		return;
	sem_post(&turns[next->rank]);
	take_turn(self);
}

void job_die(void)
{
	inccl_peers_close(me->fallback->peers);
	me->has_ended = true;
	sem_post(&turns[choose()->rank]);
	for (;;)
		pause();
}

/* Lets time pass for all, in which no rank does anything. */
static void stand_still(void)
{
	const uint64_t ns = job.stand_ns;

	job.stand_at_ns = 0;
	job_now_ns += ns;
	job.began_at_ns += ns;
	for (int r = 0; r < job.ranks; r++) {
		job.member[r].begun_at_ns += ns;
		if (job.member[r].until_ns > job_now_ns - ns && job.member[r].until_ns < UINT64_MAX)
			job.member[r].until_ns += ns;
	}
}

static uint64_t clock_in_turn(clockid_t clock)
{
	if (!me)
		return job_now_ns;
	if (job.stand_at_ns && job_now_ns >= job.stand_at_ns)
		stand_still();
	if (!job_draw(PREEMPT_ONE_IN))
		job_pass_turn(NULL, 0);
	return job_now_ns;
}

/* A rank that waits for an answer waits for real, because the other rank's thread is real. */
static int poll_in_turn(struct pollfd *pfd, unsigned int n, const struct timespec *timeout)
{
	const struct timespec real = job.has_silence ? (struct timespec){.tv_nsec = 1000000}
						     : (struct timespec){.tv_sec = ANSWER_S};
	uint64_t ns;
	int ret;

	if (!me)
		return inc_os_kernel.wait.poll(pfd, n, timeout);
	ns = timeout->tv_sec * INC_NSEC_PER_SEC + timeout->tv_nsec;
	if (!n) {
		job_pass_turn(NULL, job_now_ns + (ns > job.pause_ns ? ns : job.pause_ns));
		return 0;
	}
	if (!ns)
		return inc_os_kernel.wait.poll(pfd, n, timeout);
	ret = inc_os_kernel.wait.poll(pfd, n, &real);
	if (!ret && !job.has_silence)
		job_fail("rank %d gets no answer", me->rank);
	if (!ret)
		job_pass_turn(NULL, job_now_ns + ns);
	return ret;
}

void job_pause_ms(struct member *m, unsigned int ms)
{
	job_pass_turn(NULL, job_now_ns + ms * INC_NSEC_PER_MSEC);
}

/* The thread that answers needs the lock. */
void job_be_silent(struct member *m, unsigned int ms)
{
	pthread_mutex_lock(&m->fallback->lock);
	job.has_silence = true;
	job_pause_ms(m, ms);
	job.has_silence = false;
	pthread_mutex_unlock(&m->fallback->lock);
}

void job_wait(struct member *m, bool (*ready)(struct member *m))
{
	job_pass_turn(ready, UINT64_MAX);
}

uint64_t job_now_ms(void)
{
	return job_now_ns / INC_NSEC_PER_MSEC;
}

bool job_other_has_ended(struct member *m)
{
	return job.member[!m->rank].has_ended;
}

/* ---- calls of a rank ---- */

int job_open(struct member *m, size_t keep_bytes, const char *address)
{
	INCCL_OPTS(inccl_fallback_opts, opts, .context = m, .gather = job_gather,
		   .repeat = job_repeat, .progress = m->rank % 2 ? job_progress : NULL,
		   .lost = job_lost, .keep_bytes = keep_bytes, .address = address,
		   .error = m->error, .error_size = sizeof(m->error),
		   .unreachable_ms = job.unreachable_ms, .timeout_ms = job.timeout_ms,
		   .leave_early = job.leave_early);

	return inccl_fallback_create(&m->comm, &opts, &m->fallback);
}

void job_create(struct member *m)
{
	char address[32];

	/* Connections that have ended keep their ports for a minute, so each job has addresses. */
	snprintf(address, sizeof(address), "127.%u.%u.%d", 1 + job.serial / 256 % 250,
		 job.serial % 256, 1 + m->rank);
	if (job_open(m, JOB_KEEP_BYTES, address))
		job_fail("rank %d: %s", m->rank, m->error);
}

static uint32_t operand(int rank, unsigned int call, size_t i)
{
	return (rank + 1) * 2654435761u + call * 40503u + (uint32_t)i * 69069u;
}

static uint32_t wanted(const struct planned *p, int rank, unsigned int call, size_t i)
{
	const size_t at = i + (p->collective == INCCL_REDUCE_SCATTER ? rank * p->count : 0);
	uint32_t sum = 0;

	if (p->collective == INCCL_BROADCAST)
		return operand(p->root, call, i);
	if (p->collective == INCCL_ALL_GATHER)
		return operand(i / p->count, call, i % p->count);
	for (int r = 0; r < job.ranks; r++)
		sum += operand(r, call, at);
	return sum;
}

/* The fallback keeps two results of keep_bytes, and none in the caller's memory. It has room for a
 * copy of the largest contribution. */
static void check_kept(const struct member *m)
{
	struct inccl_fallback *f = m->fallback;
	size_t most = JOB_KEEP_BYTES;

	for (unsigned int i = 0; i < plan.calls; i++)
		if (4 * plan.call[i].count * job.ranks > most)
			most = 4 * plan.call[i].count * job.ranks;
	pthread_mutex_lock(&f->lock);
	for (int i = 0; i < 2; i++)
		if (f->result[i].number && f->result[i].is_held)
			job_check(f->result[i].data == f->result[i].room &&
				  f->result[i].bytes <= JOB_KEEP_BYTES);
	job_check(f->copy_bytes <= most);
	pthread_mutex_unlock(&f->lock);
}

/* Memory that the rank can only read once it is filled. */
static uint32_t *new_pages(size_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	job_check(pages != MAP_FAILED);
	return pages;
}

/* Frees memory of a call. An answer that is read from it later is wrong. */
static void drop(uint32_t *buffer, size_t bytes, bool is_mapped)
{
	if (is_mapped) {
		job_check(!munmap(buffer, bytes));
		return;
	}
	memset(buffer, 0xee, bytes);
	free(buffer);
}

/* Makes a call in memory that is freed at once behind it. */
int job_call(struct member *m, unsigned int number)
{
	const struct planned *p = &plan.call[number];
	const size_t n = p->count * (p->collective == INCCL_REDUCE_SCATTER ? job.ranks : 1);
	const size_t got = p->count * (p->collective == INCCL_ALL_GATHER ? job.ranks : 1);
	const size_t bytes = 4 * (p->in_place && got > n ? got : n) + 1;
	/* the root of a broadcast in place must not write */
	const bool only_reads =
		p->in_place && p->collective == INCCL_BROADCAST && p->root == m->rank;
	uint32_t *send = only_reads ? new_pages(bytes) : malloc(bytes);
	uint32_t *recv = p->in_place ? send : malloc(4 * got + 1), *from = send, *to = recv;
	INCCL_OPTS(inccl_fallback_call, c, .collective = p->collective, .count = p->count,
		   .dtype = INCCL_INT32, .op = INCCL_SUM, .root = p->root);
	int err;

	/* an operator that the collective lacks has no meaning */
	if (p->collective == INCCL_BROADCAST || p->collective == INCCL_ALL_GATHER)
		c.op = INCCL_MINLOC;
	if (p->is_refused) {
		c.dtype = INCCL_FLOAT32;
		c.op = INCCL_XOR;
	}
	if (p->in_place && p->collective == INCCL_ALL_GATHER)
		from += m->rank * p->count;
	if (p->in_place && p->collective == INCCL_REDUCE_SCATTER)
		to += m->rank * p->count;
	for (size_t i = 0; i < n; i++)
		from[i] = operand(m->rank, number, i);
	job_check(!only_reads || !mprotect(send, bytes, PROT_READ));
	c.send = from;
	c.recv = to;
	m->calls++;
	m->operations = 0;
	err = inccl_fallback_run(m->fallback, &c);
	if (p->collective != INCCL_BARRIER && (p->collective != INCCL_REDUCE || p->root == m->rank))
		for (size_t i = 0; i < got && !err && !p->is_refused; i++)
			if (to[i] != wanted(p, m->rank, number, i))
				job_fail("rank %d, call %u: element %zu is wrong", m->rank, number,
					 i);
	if (!p->in_place)
		drop(recv, 4 * got, false);
	drop(send, bytes, only_reads);
	check_kept(m);
	return err;
}

void job_all_calls(struct member *m)
{
	int err;

	job_create(m);
	for (unsigned int i = 0; i < plan.calls; i++) {
		err = job_call(m, i);
		if (err)
			job_fail("rank %d, call %u: error %d: %s", m->rank, i, err,
				 inccl_fallback_reason(m->fallback) ?: "no loss");
	}
	job_check(!!m->losses == !!inccl_fallback_reason(m->fallback));
	job_check(!inccl_fallback_destroy(m->fallback));
}

void job_be_a_child(struct member *m, int fd)
{
	INCCL_OPTS(inccl_fallback_call, c, .collective = INCCL_BARRIER);
	char byte;

	job_check(inccl_fallback_run(m->fallback, &c) == -ECHILD);
	job_check(!inccl_fallback_destroy(m->fallback));
	while (read(fd, &byte, 1) < 0)
		;
	_exit(0);
}

/* ---- jobs ---- */

void job_prepare(int ranks, uint32_t seed)
{
	const unsigned int serial = job.serial + 1;

	memset(&job, 0, sizeof(job));
	job.serial = serial;
	job.ranks = ranks;
	job.seed = seed;
	job.lots = seed * 2654435761u | 1;
	job.pause_ns = PAUSE_NS;
	job.late_ns = LATE_NS;
	job.limit_ns = LIMIT_NS;
	/* not the lowest bit, by which tests choose other properties of a job */
	job.leave_early = !(seed >> 1 & 1);
	job.began_at_ns = job_now_ns;
	inc_os.clock_ns = clock_in_turn;
	inc_os.wait.poll = poll_in_turn;
}

void job_prepare_two(enum inccl_collective collective, size_t count)
{
	plan = (struct plan){.calls = 1, .call = {{collective, count, 0, false, false}}};
	job_prepare(2, 1);
}

static void (*run_rank)(struct member *m);
static sem_t all_have_ended;

/* Runs a rank of each job. The threads stay, because new ones would take most of the time. */
static void *rank_thread(void *arg)
{
	bool all_ended;

	me = arg;
	for (;;) {
		take_turn(me);
		run_rank(me);
		me->has_ended = all_ended = true;
		for (int r = 0; r < job.ranks; r++)
			all_ended &= job.member[r].has_ended;
		sem_post(all_ended ? &all_have_ended : &turns[choose()->rank]);
	}
	return NULL;
}

/* Returns the number of entries of a directory of the process. */
static unsigned int entries(const char *path)
{
	DIR *directory = opendir(path);
	unsigned int n = 0;

	job_check(directory);
	while (readdir(directory))
		n++;
	closedir(directory);
	return n;
}

static void check_frames(void)
{
	const unsigned int all = (1u << job.ranks) - 1;

	for (unsigned int i = 0; i < FRAMES; i++)
		if (job.in_framework[i].begun && job.in_framework[i].begun != all)
			job_fail("call %u of the framework was made by ranks 0x%x only", i,
				 job.in_framework[i].begun);
}

static void free_parts(struct round *rounds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		for (int r = 0; r < job.ranks; r++)
			free(rounds[i].part[r]);
}

static unsigned int threads, descriptors; /* of the process between two jobs */

static void start_threads(void)
{
	pthread_t thread;

	sem_init(&all_have_ended, 0, 0);
	for (int r = 0; r < MOST_RANKS; r++) {
		sem_init(&turns[r], 0, 0);
		job_check(!pthread_create(&thread, NULL, rank_thread, &job.member[r]));
	}
	threads = entries("/proc/self/task");
	descriptors = entries("/proc/self/fd");
}

void job_check_left(void)
{
	const uint64_t until_ns =
		inc_os_kernel.clock_ns(CLOCK_MONOTONIC) + CLEANUP_S * INC_NSEC_PER_SEC;
	const unsigned int left = threads ? entries("/proc/self/fd") : 0;

	if (left != descriptors)
		job_fail("%u descriptors before the jobs, %u after them", descriptors, left);
	/* a thread that was joined is in the list for a moment more */
	while (threads && entries("/proc/self/task") != threads) {
		job_check(inc_os_kernel.clock_ns(CLOCK_MONOTONIC) < until_ns);
		sched_yield();
	}
}

void job_run(void (*rank_main)(struct member *m))
{
	if (!threads)
		start_threads();
	run_rank = rank_main;
	for (int r = 0; r < job.ranks; r++) {
		struct member *m = &job.member[r];

		m->rank = r;
		m->group.rank = r;
		m->group.world_size = job.ranks;
		m->comm.group = &m->group;
	}
	sem_post(&turns[choose()->rank]);
	while (sem_wait(&all_have_ended))
		;
	check_frames();
	free_parts(job.on_switch, OPERATIONS);
	free_parts(job.in_framework, FRAMES);
	if (job.serial % LOOK_ONE_IN == 0)
		job_check_left();
}

void job_run_plan(int ranks, uint32_t seed, const char *text)
{
	bool fails = false;

	job_prepare(ranks, seed);
	job.text = text;
	job_run(job_all_calls);
	for (unsigned int i = 0; i < OPERATIONS; i++)
		for (int r = 0; r < ranks; r++)
			fails |= is_failure(plan.ending[i][r]);
	for (int r = 0; r < ranks && !fails; r++)
		if (job.member[r].repeats || job.member[r].losses)
			job_fail("rank %d has lost the switch for no reason", r);
}

int job_in_a_process(void (*run)(void), unsigned int limit_s)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		alarm(limit_s);
		run();
		job_check_left();
		exit(0);
	}
	job_check(waitpid(pid, &status, 0) == pid);
	return status;
}

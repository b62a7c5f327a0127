// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <time.h>
#include <ucontext.h>
#include "lib/base/thread.h"
#include "sim.h"
#include "task.h"

#define TASKS       96
#define FDS         1024
#define STACK_BYTES (512 * 1024)
#define POLLED      320
#define OFFERS_MOST 100
#define IDLE_MOST   100000
/* Time between a task's wake-up and its first instruction, as a scheduler needs it. */
#define TURN_MIN_NS 500
#define TURN_MAX_NS 20000

struct task {
	ucontext_t context;
	struct process *process;
	void (*fn)(void *arg);
	void *arg;
	bool used, asleep;
	/* another thread will join this task, so its place in `tasks` becomes free only then */
	bool joined_later;
	bool ended;
	/* number of the task's sleeps, because each wake-up is for one particular sleep */
	uint64_t turn;
	bool woken; /* a wake-up for the current sleep is scheduled */
	unsigned int polled;
	int fd[POLLED];       /* descriptors that the task polls while it sleeps */
	short events[POLLED]; /* events for which the task polls each descriptor */
	unsigned int idle;    /* polls in a row that did not wait, and found nothing */
	const void *waits_for;
	struct task *joiner;
};

struct descriptor {
	bool used;
	struct process *process; /* process that owns the descriptor; NULL: none */
	bool (*readable)(const void *arg);
	bool (*writable)(const void *arg);
	void (*closed)(void *arg);
	void *arg;
	bool signalled; /* an eventfd has been written, or a timerfd has expired */
	uint64_t armed; /* number of times that a timerfd was set */
	uint64_t full_until_ns;
	unsigned int offers; /* how often ppoll() has reported room to send since the last send */
	bool refused;        /* a send on this descriptor was refused for want of room */
	uint64_t at_ns;      /* when the timerfd expires; 0: its timer does not run */
};

static struct task tasks[TASKS];
static uint8_t (*stacks)[STACK_BYTES];
static struct descriptor fds[FDS];
static ucontext_t outside;
static struct task *self;

int __wrap_ppoll(struct pollfd *pfd, nfds_t n, const struct timespec *timeout,
		 const sigset_t *mask);
int __wrap_eventfd(unsigned int count, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
			   struct itimerspec *old);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
ssize_t __wrap_getrandom(void *data, size_t size, unsigned int flags);
int inc_thread_create_apart(pthread_t *out, void *(*fn)(void *arg), void *arg)
{
	return inc_thread_create(out, fn, arg);
}

int __wrap_pthread_join(pthread_t thread, void **value);
int __wrap_pthread_detach(pthread_t thread);

void task_begin(void)
{
	if (!stacks)
		stacks = calloc(TASKS, sizeof(*stacks));
	sim_require(stacks, "no memory for stacks");
	memset(tasks, 0, sizeof(tasks));
	memset(fds, 0, sizeof(fds));
	self = NULL;
}

static void trampoline(void)
{
	struct task *task = self;

	task->fn(task->arg);
	task->ended = true;
	if (task->joiner)
		task_wake(task->joiner);
	task->used = task->joined_later;
	swapcontext(&task->context, &outside);
}

/* Resumes the task, unless an earlier wake-up has resumed it already, or its process is stopped. */
static void run(void *arg, uint64_t turn)
{
	struct task *task = arg;

	if (!task->used || task->ended || !task->asleep || task->turn != turn)
		return;
	if (sim_now_ns() < task->process->paused_until_ns) {
		sim_at(task->process->paused_until_ns, run, task, turn);
		return;
	}
	task->asleep = false;
	self = task;
	swapcontext(&outside, &task->context);
	self = NULL;
}

struct task *task_new(struct process *process, void (*fn)(void *arg), void *arg)
{
	unsigned int i;

	for (i = 0; i < TASKS && tasks[i].used; i++)
		;
	sim_require(i < TASKS, "more than %u threads", TASKS);
	/* wake-ups of the task that had this place before must not resume the new task */
	tasks[i] = (struct task){
		.process = process, .fn = fn, .arg = arg, .used = true, .turn = tasks[i].turn + 1};
	tasks[i].asleep = true;
	getcontext(&tasks[i].context);
	tasks[i].context.uc_stack.ss_sp = stacks[i];
	tasks[i].context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&tasks[i].context, trampoline, 0);
	task_wake(&tasks[i]);
	return &tasks[i];
}

struct task *task_self(void)
{
	return self;
}

void task_wake(struct task *task)
{
	if (!task->asleep || task->woken)
		return;
	task->woken = true;
	sim_after(sim_between(TURN_MIN_NS, TURN_MAX_NS), run, task, task->turn);
}

static void sleep_until(uint64_t at_ns)
{
	struct task *task = self;

	sim_require(task, "something sleeps that is no task");
	task->asleep = true;
	task->woken = false;
	task->turn++;
	if (at_ns != UINT64_MAX)
		sim_at(at_ns, run, task, task->turn);
	swapcontext(&task->context, &outside);
}

void task_sleep(void)
{
	sleep_until(UINT64_MAX);
}

struct process *task_process(void)
{
	return self ? self->process : NULL;
}

void task_wait_for(const void *what, uint64_t until_ns)
{
	self->waits_for = what;
	sleep_until(until_ns);
	self->waits_for = NULL;
}

void task_wake_all(const void *what)
{
	unsigned int i;

	for (i = 0; i < TASKS; i++)
		if (tasks[i].used && tasks[i].waits_for == what)
			task_wake(&tasks[i]);
}

unsigned int task_alive_of(const struct process *process)
{
	unsigned int i, n = 0;

	for (i = 0; i < TASKS; i++)
		n += tasks[i].used && (!process || tasks[i].process == process);
	return n;
}

unsigned int task_alive(void)
{
	return task_alive_of(NULL);
}

/* --- descriptors --- */

static struct descriptor *descriptor(int fd)
{
	struct descriptor *d = &fds[fd - TASK_FD_FIRST];

	if (fd < TASK_FD_FIRST || fd >= TASK_FD_FIRST + FDS || !d->used)
		return NULL;
	return d;
}

int task_fd_new(bool (*readable)(const void *arg), void *arg)
{
	unsigned int i;

	for (i = 0; i < FDS && fds[i].used; i++)
		;
	sim_require(i < FDS, "more than %u descriptors", FDS);
	fds[i] = (struct descriptor){
		.used = true, .process = task_process(), .readable = readable, .arg = arg};
	return TASK_FD_FIRST + (int)i;
}

void *task_fd_arg(int fd)
{
	return descriptor(fd) ? descriptor(fd)->arg : NULL;
}

void task_fd_close(int fd)
{
	struct descriptor *d = descriptor(fd);

	sim_require(d, "descriptor %d is closed, and is none", fd);
	d->used = false;
	if (d->closed)
		d->closed(d->arg);
}

void task_fd_more(int fd, bool (*writable)(const void *arg), void (*closed)(void *arg))
{
	descriptor(fd)->writable = writable;
	descriptor(fd)->closed = closed;
}

unsigned int task_fds_of(const struct process *process)
{
	unsigned int i, n = 0;

	for (i = 0; i < FDS; i++)
		n += fds[i].used && fds[i].process == process;
	return n;
}

void task_stop(void *arg, uint64_t until_ns)
{
	struct process *process = arg;

	const uint64_t from_ns =
		process->paused_until_ns > sim_now_ns() ? process->paused_until_ns : sim_now_ns();

	if (from_ns < until_ns) {
		process->stood_ns += until_ns - from_ns;
		process->paused_until_ns = until_ns;
	}
	sim_figures.pauses++;
	sim_note(process->name, "is stopped for us:", (until_ns - sim_now_ns()) / 1000, 0, 0);
}

void task_kill(struct process *process)
{
	unsigned int i;

	process->dead = true;
	process->paused_until_ns = 0;
	for (i = 0; i < TASKS; i++)
		if (tasks[i].process == process)
			tasks[i].used = false;
	for (i = 0; i < FDS; i++)
		if (fds[i].used && fds[i].process == process)
			task_fd_close(TASK_FD_FIRST + (int)i);
	if (task_process() == process)
		swapcontext(&self->context, &outside);
}

static bool is_readable(int fd)
{
	const struct descriptor *d = descriptor(fd);

	return d && (d->readable ? d->readable(d->arg) : d->signalled);
}

bool task_fd_takes(int fd)
{
	const struct descriptor *d = descriptor(fd);

	return d && (d->writable ? d->writable(d->arg) : sim_now_ns() >= d->full_until_ns);
}

static void wake_for(int fd, short what)
{
	unsigned int t, i;

	for (t = 0; t < TASKS; t++)
		for (i = 0; tasks[t].used && tasks[t].asleep && i < tasks[t].polled; i++)
			if (tasks[t].fd[i] == fd && tasks[t].events[i] & what)
				task_wake(&tasks[t]);
}

void task_fd_changed(int fd)
{
	if (!is_readable(fd))
		return;
	wake_for(fd, POLLIN);
	epoll_changed(fd);
}

bool task_fd_readable(int fd)
{
	return is_readable(fd);
}

void task_fd_has_room(int fd)
{
	if (task_fd_takes(fd))
		wake_for(fd, POLLOUT);
}

static void has_room(void *arg, uint64_t until_ns)
{
	const struct descriptor *d = arg;

	if (d->used && d->full_until_ns == until_ns)
		wake_for(TASK_FD_FIRST + (int)(d - fds), POLLOUT);
}

void task_fd_full(int fd, uint64_t until_ns)
{
	struct descriptor *d = descriptor(fd);

	d->full_until_ns = until_ns;
	sim_at(until_ns, has_room, d, until_ns);
}

static short ready(const struct pollfd *pfd)
{
	return (is_readable(pfd->fd) ? pfd->events & POLLIN : 0) |
	       (task_fd_takes(pfd->fd) ? pfd->events & POLLOUT : 0);
}

/* Fails the run if a thread polls for room to send again and again, and sends nothing. */
static void check_offers(struct descriptor *d)
{
	sim_require(++d->offers < OFFERS_MOST,
		    "%s: a thread has asked for room %u times, and sends nothing",
		    self->process->name, d->offers);
}

void task_fd_sent(int fd)
{
	descriptor(fd)->offers = 0;
}

void task_fd_refused(int fd, bool refused)
{
	descriptor(fd)->refused = refused;
}

/* Checks that a thread whose send was refused polls for room, because nothing else reports it. */
static void check_sleep(const struct pollfd *pfd)
{
	const struct descriptor *d = descriptor(pfd->fd);

	sim_require(!d || !d->refused || task_fd_takes(pfd->fd) || pfd->events & POLLOUT,
		    "%s: a thread sleeps beside a full send buffer, and does not ask for room",
		    self->process->name);
}

/* Fails the run if a thread polls again and again without a wait, as one does whose timer has
 * passed and is never served. */
static void check_idle(bool any, const struct timespec *timeout)
{
	self->idle = !any && timeout && !timeout->tv_sec && !timeout->tv_nsec ? self->idle + 1 : 0;
	sim_require(self->idle < IDLE_MOST, "%s: a thread polls %u times without a wait",
		    self->process->name, self->idle);
}

/* Lets other tasks run and some time pass even if a descriptor is readable at once. Otherwise a
 * thread that only polls would stop the clock. */
int __wrap_ppoll(struct pollfd *pfd, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	uint64_t at_ns = UINT64_MAX;
	bool any = false;
	int count = 0;
	nfds_t i;

	sim_require(self && n <= POLLED, "ppoll of %u descriptors", (unsigned int)n);
	self->polled = n;
	for (i = 0; i < n; i++) {
		self->fd[i] = pfd[i].fd;
		self->events[i] = pfd[i].events;
		any |= ready(&pfd[i]) != 0;
		check_sleep(&pfd[i]);
	}
	check_idle(any, timeout);
	if (any)
		at_ns = sim_now_ns() + TURN_MIN_NS;
	else if (timeout)
		at_ns = sim_now_ns() + TURN_MIN_NS + timeout->tv_sec * INC_NSEC_PER_SEC +
			timeout->tv_nsec;
	sleep_until(at_ns);
	self->polled = 0;
	for (i = 0; i < n; i++) {
		pfd[i].revents = ready(&pfd[i]);
		if (pfd[i].revents & POLLOUT)
			check_offers(descriptor(pfd[i].fd));
		count += !!pfd[i].revents;
	}
	return count;
}

int __wrap_eventfd(unsigned int count, int flags)
{
	return task_fd_new(NULL, NULL);
}

int __wrap_timerfd_create(int clock, int flags)
{
	return task_fd_new(NULL, NULL);
}

static void go_off(void *arg, uint64_t armed)
{
	struct descriptor *d = arg;

	if (!d->used || d->armed != armed || !d->at_ns)
		return;
	d->at_ns = 0;
	d->signalled = true;
	task_fd_changed(TASK_FD_FIRST + (int)(d - fds));
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
	struct descriptor *d = descriptor(fd);
	/* counts settings of all timerfds together, because the number of a descriptor may be
	 * reused */
	static uint64_t settings;

	d->armed = ++settings;
	d->signalled = false;
	d->at_ns = when->it_value.tv_sec * INC_NSEC_PER_SEC + when->it_value.tv_nsec;
	if (d->at_ns)
		sim_at(d->at_ns, go_off, d, d->armed);
	return 0;
}

void inc_signal_fd(int fd)
{
	struct descriptor *d = descriptor(fd);

	if (!d)
		return; /* the descriptor belongs to a process without this thread */
	d->signalled = true;
	task_fd_changed(fd);
}

void inc_drain_fd(int fd)
{
	struct descriptor *d = descriptor(fd);

	if (d)
		d->signalled = false;
}

int __wrap_close(int fd)
{
	if (fd < TASK_FD_FIRST)
		return __real_close(fd);
	if (descriptor(fd))
		task_fd_close(fd);
	return 0;
}

/* --- threads, time and random numbers --- */

struct start {
	void *(*fn)(void *arg);
	void *arg;
};

static void thread(void *arg)
{
	struct start start = *(struct start *)arg;

	free(arg);
	start.fn(start.arg);
}

int inc_thread_create(pthread_t *out, void *(*fn)(void *arg), void *arg)
{
	struct start *start = malloc(sizeof(*start));
	struct task *task;

	if (!start)
		return -ENOMEM;
	*start = (struct start){fn, arg};
	task = task_new(self->process, thread, start);
	task->joined_later = true;
	*out = (pthread_t)task;
	return 0;
}

int __wrap_pthread_join(pthread_t which, void **value)
{
	struct task *other = (struct task *)which;

	while (!other->ended) {
		other->joiner = self;
		task_sleep();
	}
	other->used = false;
	return 0;
}

int __wrap_pthread_detach(pthread_t which)
{
	struct task *other = (struct task *)which;

	other->joined_later = false;
	other->used = !other->ended;
	return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	t->tv_sec = sim_now_ns() / INC_NSEC_PER_SEC;
	t->tv_nsec = sim_now_ns() % INC_NSEC_PER_SEC;
	return 0;
}

/* Fills the data with random bytes. Half of the values of 4 bytes, such as a process's first PSN,
 * are near the wrap of PSNs. */
ssize_t __wrap_getrandom(void *data, size_t size, unsigned int flags)
{
	uint8_t *at = data;
	size_t i;

	for (i = 0; i < size; i++)
		at[i] = sim_below(256);
	if (size == sizeof(uint32_t) && sim_chance(500))
		at[1] = at[2] = 0xff;
	return (ssize_t)size;
}

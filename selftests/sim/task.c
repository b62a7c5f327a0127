// SPDX-License-Identifier: BSD-2-Clause
/* Processes and their threads (process.h). */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "lib/base/thread.h"
#include "network.h"
#include "process.h"
#include "sim.h"

#define TASKS       96
#define STACK_BYTES (512 * 1024)
/* number of waits of no length in a row; such a thread has a timer that has passed and is never
 * served */
#define IDLE_MOST 100000
/* Time between a task's wake-up and its first instruction, as a scheduler needs it. */
#define TURN_MIN_NS 500
#define TURN_MAX_NS 20000
/* Time that a thread gives to others between two polls. It is longer than on an idle CPU, because
 * each poll costs time of the test. */
#define GIVE_WAY_NS 5000

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
	/* whether the task can go on (task_wait_until()); NULL: it waits for something else */
	bool (*ready)(const void *arg, int fd);
	const void *ready_arg;
	unsigned int idle; /* waits in a row of no length */
	const void *waits_for;
	struct task *joiner;
};

static struct task tasks[TASKS];
static uint8_t (*stacks)[STACK_BYTES];
static ucontext_t outside;
static struct task *self;

/* A constant, because a seed must run alike on every machine. */
unsigned int inc_cpus(void)
{
	return 2;
}

bool inc_cpu_usable(unsigned int cpu)
{
	return cpu < inc_cpus();
}

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
	tcp_pump();
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

bool task_wait_until(bool (*ready)(const void *arg, int fd), const void *arg, uint64_t at_ns)
{
	sim_require(self, "something waits that is no task");
	self->idle = at_ns <= sim_now_ns() ? self->idle + 1 : 0;
	sim_require(self->idle < IDLE_MOST, "%s: a thread polls %u times without a wait",
		    self->process->name, self->idle);
	self->ready = ready;
	self->ready_arg = arg;
	/* some time passes in any case; otherwise a thread that only polls would stop the clock */
	sleep_until(at_ns == UINT64_MAX ? at_ns : at_ns + TURN_MIN_NS);
	self->ready = NULL;
	return self->woken;
}

void task_pass_time(void)
{
	self->idle = 0;
	sleep_until(sim_now_ns() + TURN_MIN_NS);
}

void task_give_way(void)
{
	self->idle = 0;
	sleep_until(sim_now_ns() + GIVE_WAY_NS);
}

void task_changed(const struct process *process, int fd)
{
	unsigned int i;

	for (i = 0; i < TASKS; i++)
		if (tasks[i].process == process && tasks[i].used && tasks[i].asleep &&
		    !tasks[i].woken && tasks[i].ready && tasks[i].ready(tasks[i].ready_arg, fd))
			task_wake(&tasks[i]);
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
	descriptor_close_all(process);
	if (task_process() == process)
		swapcontext(&self->context, &outside);
	tcp_pump();
}

/* --- threads --- */

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

/*
 * Locks and conditions between tasks, and calls that identify threads and processes. The linker
 * (--wrap) replaces the C library's functions with these. The product calls them in tasks. It also
 * calls them outside of tasks, where no other thread can hold a lock.
 */

struct lock {
	bool held;
};
_Static_assert(sizeof(struct lock) <= sizeof(pthread_mutex_t), "a lock stands in a mutex");

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *until);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
pthread_t __wrap_pthread_self(void);
pid_t __wrap_getpid(void);
int __wrap_gethostname(char *out, size_t size);

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	memset(mutex, 0, sizeof(*mutex));
	return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	sim_require(!((struct lock *)mutex)->held, "a lock that is held ends");
	return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	struct lock *lock = (struct lock *)mutex;

	while (lock->held) {
		sim_require(task_self(), "a lock is held by what does not run");
		task_wait_for(lock, UINT64_MAX);
	}
	lock->held = true;
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	struct lock *lock = (struct lock *)mutex;

	sim_require(lock->held, "a lock is let go that is not held");
	lock->held = false;
	task_wake_all(lock);
	return 0;
}

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
	return 0;
}

static int wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until_ns)
{
	__wrap_pthread_mutex_unlock(mutex);
	task_wait_for(cond, until_ns);
	__wrap_pthread_mutex_lock(mutex);
	return sim_now_ns() >= until_ns ? ETIMEDOUT : 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return wait_until(cond, mutex, UINT64_MAX);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *until)
{
	return wait_until(cond, mutex, until->tv_sec * INC_NSEC_PER_SEC + until->tv_nsec);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	task_wake_all(cond);
	return 0;
}

/* Wakes all waiters, which the C library may do as well. */
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	return __wrap_pthread_cond_broadcast(cond);
}

pthread_t __wrap_pthread_self(void)
{
	return (pthread_t)task_self();
}

pid_t __wrap_getpid(void)
{
	return 1;
}

int __wrap_gethostname(char *out, size_t size)
{
	snprintf(out, size, "%s", task_process()->name);
	return 0;
}

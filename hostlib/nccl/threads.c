/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress thread and the workers (threads.h). */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "hostlib/nccl/comm_priv.h"
#include "hostlib/nccl/threads.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/thread.h"

/* ---- the progress thread --------------------------------------------------------------------- */

/* How long the progress thread sleeps: BUSY_SLEEP_MS while a comm has something under way, else 1 /
 * SLEEPS_PER_HEARTBEAT of a heartbeat, so that messages on standby paths are answered in time. */
#define BUSY_SLEEP_MS        1
#define SLEEPS_PER_HEARTBEAT 4
#define EVENTS               16
/* Interval at which the ports are read even without an event, because not every device reports all
 * changes of its ports. */
#define REFRESH_NS (5 * INC_NSEC_PER_SEC)

struct ha_progress {
	struct ha_plugin *plugin;
	pthread_t thread;
	int wake_fd, epoll_fd;
	pthread_mutex_t lock; /* protects incoming and stopping */
	struct ha_comm *incoming;
	bool stopping;
	/* Only the thread itself uses the following members. */
	struct ha_comm *comms;
	unsigned int open; /* number of comms that were open in the last round */
	uint64_t refreshed_at_ns;
};

/* Adds new comms to the thread's list of comms. Returns whether the thread has to stop. */
static bool take_incoming(struct ha_progress *p)
{
	struct ha_comm *comm;
	bool stopping;

	pthread_mutex_lock(&p->lock);
	while ((comm = p->incoming)) {
		p->incoming = comm->next;
		comm->next = p->comms;
		p->comms = comm;
	}
	stopping = p->stopping;
	pthread_mutex_unlock(&p->lock);
	return stopping;
}

/* Does one round over all comms. Returns the HA_ROUND_* bits of all of them together. */
static unsigned int look_at_comms(struct ha_progress *p, bool wide)
{
	struct ha_comm **at = &p->comms, *comm;
	unsigned int bits, all = 0;

	p->open = 0;
	while ((comm = *at)) {
		/* if another thread has the comm's lock, the next round serves the comm */
		bits = HA_ROUND_CLOSING;
		if (!pthread_mutex_trylock(&comm->lock)) {
			bits = ha_comm_round(comm, p->plugin->config.poll_batch, wide,
					     inc_now_ns());
			pthread_mutex_unlock(&comm->lock);
		}
		all |= bits;
		p->open += !!(bits & HA_ROUND_OPEN);
		if (bits & HA_ROUND_OVER) {
			*at = comm->next;
			ha_comm_end(comm);
		} else {
			at = &comm->next;
		}
	}
	return all;
}

static void refresh(struct ha_progress *p)
{
	struct inc_err err;

	if (inc_rdma_inventory_refresh(p->plugin->devices.inventory, &err) < 0)
		ha_log(p->plugin, HA_LOG_WARN, "%s", err.msg);
	p->refreshed_at_ns = inc_now_ns();
	atomic_fetch_add(&p->plugin->port_changes, 1);
}

/* Sleeps until an event or the timeout. Returns whether there was an event. */
static bool sleep_until_event(struct ha_progress *p, int timeout_ms)
{
	struct epoll_event events[EVENTS];
	const int n = epoll_wait(p->epoll_fd, events, EVENTS, timeout_ms);
	bool changed = false;
	int i;

	for (i = 0; i < n; i++) {
		if (events[i].data.fd == p->wake_fd)
			inc_drain_fd(p->wake_fd);
		else if (events[i].data.fd == inc_rdma_inventory_fd(p->plugin->devices.inventory))
			changed = inc_rdma_inventory_take(p->plugin->devices.inventory) > 0;
	}
	if (changed || inc_now_ns() - p->refreshed_at_ns >= REFRESH_NS)
		refresh(p);
	return n > 0;
}

static void *progress(void *arg)
{
	struct ha_progress *p = arg;
	const struct ha_config *config = &p->plugin->config;
	const int idle_ms = config->heartbeat_ms / SLEEPS_PER_HEARTBEAT ?: 1;
	unsigned int rounds = 0, idle = 0, bits;
	bool wide, stopping;

	for (;;) {
		stopping = take_incoming(p);
		wide = idle >= config->idle_spin_threshold ||
		       ++rounds >= config->poll_standby_interval;
		bits = look_at_comms(p, wide);
		if (wide)
			rounds = 0;
		if (stopping && !(bits & HA_ROUND_CLOSING))
			return NULL;
		idle = bits & HA_ROUND_WORKED ? 0 : idle + (idle < config->idle_spin_threshold);
		if (idle >= config->idle_spin_threshold)
			sleep_until_event(p, bits & HA_ROUND_BUSY ? BUSY_SLEEP_MS : idle_ms);
		else if (wide)
			sleep_until_event(p, 0);
		/* On a machine with fewer CPUs than busy threads, the peer or NCCL's proxy may wait
		 * for this CPU. */
		if (idle)
			sched_yield();
	}
}

static int open_descriptors(struct ha_progress *p, struct inc_err *err)
{
	const int inventory_fd = inc_rdma_inventory_fd(p->plugin->devices.inventory);

	p->epoll_fd = inc_fd_high(epoll_create1(EPOLL_CLOEXEC));
	p->wake_fd = inc_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (p->epoll_fd < 0 || p->wake_fd < 0)
		return inc_err_set(err, errno, "progress thread: %s", strerror(errno));
	ha_progress_watch(p, p->wake_fd);
	if (inventory_fd >= 0)
		ha_progress_watch(p, inventory_fd);
	return 0;
}

void ha_progress_free(struct ha_progress *p)
{
	if (!p)
		return;
	if (p->epoll_fd >= 0)
		close(p->epoll_fd);
	if (p->wake_fd >= 0)
		close(p->wake_fd);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int ha_progress_start(struct ha_progress **out, struct ha_plugin *plugin, struct inc_err *err)
{
	struct ha_progress *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return inc_err_set(err, ENOMEM, "progress thread: %s", strerror(ENOMEM));
	p->plugin = plugin;
	p->epoll_fd = p->wake_fd = -1;
	p->refreshed_at_ns = inc_now_ns();
	pthread_mutex_init(&p->lock, NULL);
	ret = open_descriptors(p, err);
	if (!ret) {
		ret = inc_thread_create_apart(&p->thread, progress, p);
		if (ret)
			inc_err_set(err, -ret, "progress thread: %s", strerror(-ret));
	}
	if (ret) {
		ha_progress_free(p);
		return ret;
	}
	*out = p;
	return 0;
}

unsigned int ha_progress_stop(struct ha_progress *p)
{
	if (!p)
		return 0;
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_mutex_unlock(&p->lock);
	ha_progress_wake(p);
	pthread_join(p->thread, NULL);
	return p->open;
}

void ha_progress_add(struct ha_progress *p, struct ha_comm *comm)
{
	pthread_mutex_lock(&p->lock);
	comm->next = p->incoming;
	p->incoming = comm;
	pthread_mutex_unlock(&p->lock);
	ha_progress_wake(p);
}

void ha_progress_wake(struct ha_progress *p)
{
	inc_signal_fd(p->wake_fd);
}

int ha_progress_watch(struct ha_progress *p, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	/* an error only delays the thread, because its sleeps are short */
	epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &event);
	return p->epoll_fd;
}

/* ---- workers -------------------------------------------------------------------------------- */

struct ha_worker {
	struct ha_plugin *plugin;
	bool parallel;
	pthread_mutex_t lock; /* protects the members below */
	pthread_cond_t more;  /* there is a job, or the worker stops */
	pthread_cond_t left;  /* a thread has left */
	struct ha_job *first, **last;
	bool stopping;
	unsigned int threads;  /* threads that have not left, one that is being started included */
	unsigned int waiting;  /* threads that wait for a job */
	unsigned int coming;   /* threads that are started and look for their first job */
	unsigned int queued;   /* jobs that no thread has taken */
	bool short_of_threads; /* a thread could not be started, and the log has that */
	/* The thread that has left last, until another one joins it: the one that waits, the next
	 * that leaves, or ha_worker_stop(). So no thread runs code of the library when that is
	 * unloaded. */
	pthread_t gone;
	bool has_gone;
};

static void *work(void *arg);

/* Starts one more thread, with the worker's lock. Returns 0 or -errno. */
static int add_thread(struct ha_worker *worker)
{
	pthread_t thread;
	const int ret = inc_thread_create_apart(&thread, work, worker);

	worker->threads += !ret;
	worker->coming += !ret;
	return ret;
}

/* Joins the thread that has left last, if no other thread has. Releases the worker's lock
 * meanwhile. */
static void join_gone(struct ha_worker *worker)
{
	const pthread_t gone = worker->gone;

	if (!worker->has_gone)
		return;
	worker->has_gone = false;
	pthread_mutex_unlock(&worker->lock);
	pthread_join(gone, NULL);
	pthread_mutex_lock(&worker->lock);
}

/* Takes the next job, for which a thread of the worker waits. Returns NULL if the thread has to
 * leave, because the worker stops, or because another thread waits for the next job already. */
static struct ha_job *next_job(struct ha_worker *worker)
{
	struct ha_job *job;

	while (!worker->first && !worker->stopping) {
		if (worker->waiting)
			return NULL;
		worker->waiting++;
		pthread_cond_wait(&worker->more, &worker->lock);
		worker->waiting--;
		join_gone(worker);
	}
	job = worker->first;
	if (job) {
		worker->first = job->next;
		worker->queued--;
	}
	if (!worker->first)
		worker->last = &worker->first;
	return job;
}

/* Starts another thread of a parallel worker unless `jobs` threads wait for a job. Without one, the
 * next job waits until a thread is ready, or until the job after it finds that one can be
 * started. */
static void call_another(struct ha_worker *worker, unsigned int jobs)
{
	int ret;

	if (!worker->parallel || worker->stopping || worker->waiting + worker->coming >= jobs)
		return;
	ret = add_thread(worker);
	if (ret && !worker->short_of_threads)
		ha_log(worker->plugin, HA_LOG_WARN,
		       "a thread that connects queue pairs cannot be started: %s. Paths come up "
		       "later; raise ulimit -u or the cgroup's pids.max",
		       strerror(-ret));
	worker->short_of_threads = ret;
}

/* Leaves the worker, with its lock, which it releases. Wakes the thread that waits, which joins
 * this one. */
static void leave(struct ha_worker *worker)
{
	while (worker->has_gone)
		join_gone(worker);
	worker->gone = pthread_self();
	worker->has_gone = true;
	worker->threads--;
	pthread_cond_signal(&worker->left);
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->lock);
}

static void *work(void *arg)
{
	struct ha_worker *worker = arg;
	struct ha_job *job;

	pthread_mutex_lock(&worker->lock);
	worker->coming--;
	while ((job = next_job(worker))) {
		call_another(worker, worker->queued + 1);
		pthread_mutex_unlock(&worker->lock);
		job->run(job);
		pthread_mutex_lock(&worker->lock);
	}
	leave(worker);
	return NULL;
}

static void free_worker(struct ha_worker *worker)
{
	pthread_cond_destroy(&worker->left);
	pthread_cond_destroy(&worker->more);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}

int ha_worker_start(struct ha_worker **out, struct ha_plugin *plugin, bool parallel,
		    struct inc_err *err)
{
	struct ha_worker *worker = calloc(1, sizeof(*worker));
	int ret;

	if (!worker)
		return inc_err_set(err, ENOMEM, "worker thread: %s", strerror(ENOMEM));
	worker->plugin = plugin;
	worker->parallel = parallel;
	worker->last = &worker->first;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->more, NULL);
	pthread_cond_init(&worker->left, NULL);
	pthread_mutex_lock(&worker->lock);
	ret = add_thread(worker);
	pthread_mutex_unlock(&worker->lock);
	if (ret) {
		free_worker(worker);
		return inc_err_set(err, -ret, "worker thread: %s", strerror(-ret));
	}
	*out = worker;
	return 0;
}

void ha_worker_do(struct ha_worker *worker, struct ha_job *job)
{
	pthread_mutex_lock(&worker->lock);
	job->next = NULL;
	*worker->last = job;
	worker->last = &job->next;
	worker->queued++;
	call_another(worker, worker->queued);
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->lock);
}

void ha_worker_stop(struct ha_worker *worker)
{
	if (!worker)
		return;
	pthread_mutex_lock(&worker->lock);
	worker->stopping = true;
	pthread_cond_broadcast(&worker->more);
	while (worker->threads)
		pthread_cond_wait(&worker->left, &worker->lock);
	join_gone(worker);
	pthread_mutex_unlock(&worker->lock);
	free_worker(worker);
}

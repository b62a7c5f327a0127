/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/thread.h"
#include "userspace/term/devices.h"
#include "userspace/term/worker.h"

#define TICK_NS (INC_TERM_TICK_MS * INC_NSEC_PER_MSEC)

/* A call that the daemon's thread passes to the worker's thread, and whose end it waits for. */
struct call {
	int (*fn)(struct inc_term_worker *w, struct call *call);
	struct inc_term_comm *cm;
	struct inc_comm_conf *conf;
	const struct inc_msg_peer *peer;
	uint32_t n_peers;
	struct inc_term_view *view;
	uint32_t of_peer; /* peer that is reached by the port, for inc_term_comm_port() */
	const char *reason;
	enum inc_port_condition condition;
	struct inc_channel_device_figures figures;
	struct inc_err *err;
	int ret;
};

struct inc_term_worker {
	struct inc_term_comm_opts comm_opts;
	struct inc_term_devices *devices;
	struct inc_term_comm **comms; /* [room]: the communicators */
	uint32_t n_comms, room;
	uint64_t tick_at_ns;
	/* a communicator has reported an event and so may have ended; if it has, this turn closes
	 * its channels */
	bool settle;
	struct inc_term_worker_opts opts;
	int wake_fd;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; /* protects the members below */
	pthread_cond_t served;
	struct call *call; /* the call that the worker's thread shall make; NULL: none */
	bool stop;
};

static void on_notice(void *arg, const struct inc_msg_event *event)
{
	struct inc_term_worker *w = arg;

	w->settle = true;
	w->opts.notice(w->opts.arg, event);
}

int inc_term_worker_new(const struct inc_term_worker_opts *opts, struct inc_term_worker **out,
			struct inc_err *err)
{
	const struct inc_term_devices_opts devices = {
		.handler = &inc_term_comm_handler,
		.rto_min_ns = opts->rto_min_ns,
		.rto_max_ns = opts->rto_max_ns,
		.poll_ns = opts->poll_ns,
	};
	struct inc_term_worker *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return inc_err_set(err, ENOMEM, "no memory for a worker");
	w->opts = *opts;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->served, NULL);
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ret = w->wake_fd < 0 ? inc_err_set(err, errno, "eventfd: %s", strerror(errno))
			     : inc_term_devices_new(&devices, w->wake_fd, &w->devices, err);
	if (ret) {
		inc_term_worker_free(w);
		return ret;
	}
	w->comm_opts = (struct inc_term_comm_opts){
		.devices = w->devices, .kinds = opts->kinds, .notice = on_notice, .arg = w};
	*out = w;
	return 0;
}

static void serve(struct inc_term_worker *w)
{
	inc_drain_fd(w->wake_fd);
	pthread_mutex_lock(&w->lock);
	if (w->call) {
		w->call->ret = w->call->fn(w, w->call);
		w->call = NULL;
		pthread_cond_signal(&w->served);
	}
	pthread_mutex_unlock(&w->lock);
}

void inc_term_worker_turn(struct inc_term_worker *w, uint64_t until_ns)
{
	uint64_t now_ns;
	uint32_t i;

	if (inc_term_devices_turn(w->devices, until_ns < w->tick_at_ns ? until_ns : w->tick_at_ns))
		serve(w);
	now_ns = inc_now_ns();
	if (now_ns >= w->tick_at_ns) {
		for (i = 0; i < w->n_comms; i++)
			inc_term_comm_tick(w->comms[i], now_ns);
		w->tick_at_ns = now_ns + TICK_NS;
	}
	for (i = 0; w->settle && i < w->n_comms; i++)
		inc_term_comm_settle(w->comms[i]);
	w->settle = false;
	inc_term_devices_flush(w->devices);
}

static bool stopped(struct inc_term_worker *w)
{
	bool stop;

	pthread_mutex_lock(&w->lock);
	stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

static void *run(void *arg)
{
	struct inc_term_worker *w = arg;

	while (!stopped(w))
		inc_term_worker_turn(w, UINT64_MAX);
	return NULL;
}

int inc_term_worker_start(struct inc_term_worker *w, struct inc_err *err)
{
	int ret = inc_thread_create(&w->thread, run, w);

	if (ret)
		return inc_err_set(err, -ret, "no thread for a worker: %s", strerror(-ret));
	w->has_thread = true;
	return 0;
}

void inc_term_worker_free(struct inc_term_worker *w)
{
	if (!w)
		return;
	if (w->has_thread) {
		pthread_mutex_lock(&w->lock);
		w->stop = true;
		pthread_mutex_unlock(&w->lock);
		inc_signal_fd(w->wake_fd);
		pthread_join(w->thread, NULL);
	}
	while (w->n_comms)
		inc_term_comm_free(w->comms[--w->n_comms]);
	free(w->comms);
	inc_term_devices_free(w->devices);
	if (w->wake_fd >= 0)
		close(w->wake_fd);
	pthread_cond_destroy(&w->served);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* Makes a call on the worker's thread and returns its result. If the worker has no thread, as in
 * tests, makes it on this thread. */
static int ask(struct inc_term_worker *w, struct call *call)
{
	if (!w->has_thread)
		return call->fn(w, call);
	pthread_mutex_lock(&w->lock);
	w->call = call;
	inc_signal_fd(w->wake_fd);
	while (w->call)
		pthread_cond_wait(&w->served, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return call->ret;
}

static int add(struct inc_term_worker *w, struct call *call)
{
	int ret;

	if (w->n_comms == w->room) {
		const uint32_t room = w->room * 2 ?: 16;
		struct inc_term_comm **more = realloc(w->comms, room * sizeof(*more));

		if (!more)
			return inc_err_set(call->err, ENOMEM, "no memory for communicators");
		w->comms = more;
		w->room = room;
	}
	ret = inc_term_comm_new(&w->comm_opts, call->conf, &call->cm, call->err);
	if (!ret)
		w->comms[w->n_comms++] = call->cm;
	return ret;
}

int inc_term_worker_add(struct inc_term_worker *w, struct inc_comm_conf *conf,
			struct inc_term_comm **out, struct inc_err *err)
{
	struct call call = {.fn = add, .conf = conf, .err = err};
	int ret = ask(w, &call);

	*out = call.cm;
	return ret;
}

static int start_comm(struct inc_term_worker *w, struct call *call)
{
	return inc_term_comm_start(call->cm, call->err);
}

int inc_term_worker_start_comm(struct inc_term_worker *w, struct inc_term_comm *cm,
			       struct inc_err *err)
{
	return ask(w, &(struct call){.fn = start_comm, .cm = cm, .err = err});
}

static int connect_comm(struct inc_term_worker *w, struct call *call)
{
	return inc_term_comm_connect(call->cm, call->peer, call->n_peers, call->err);
}

int inc_term_worker_connect(struct inc_term_worker *w, struct inc_term_comm *cm,
			    const struct inc_msg_peer *peer, uint32_t n, struct inc_err *err)
{
	return ask(w,
		   &(struct call){
			   .fn = connect_comm, .cm = cm, .peer = peer, .n_peers = n, .err = err});
}

static int remove_comm(struct inc_term_worker *w, struct call *call)
{
	uint32_t i = 0;

	while (w->comms[i] != call->cm)
		i++;
	w->comms[i] = w->comms[--w->n_comms];
	inc_term_comm_free(call->cm);
	return 0;
}

void inc_term_worker_remove(struct inc_term_worker *w, struct inc_term_comm *cm)
{
	ask(w, &(struct call){.fn = remove_comm, .cm = cm});
}

static int view(struct inc_term_worker *w, struct call *call)
{
	inc_term_comm_view(call->cm, call->view);
	return 0;
}

void inc_term_worker_view(struct inc_term_worker *w, const struct inc_term_comm *cm,
			  struct inc_term_view *out)
{
	ask(w, &(struct call){.fn = view, .cm = (struct inc_term_comm *)cm, .view = out});
}

static int port(struct inc_term_worker *w, struct call *call)
{
	inc_term_comm_port(call->cm, call->of_peer, call->condition, call->reason);
	return 0;
}

void inc_term_worker_port(struct inc_term_worker *w, struct inc_term_comm *cm, uint32_t peer,
			  enum inc_port_condition condition, const char *reason)
{
	ask(w, &(struct call){.fn = port,
			      .cm = cm,
			      .of_peer = peer,
			      .condition = condition,
			      .reason = reason});
}

static int figures(struct inc_term_worker *w, struct call *call)
{
	call->figures = inc_term_devices_figures(w->devices);
	return 0;
}

struct inc_channel_device_figures inc_term_worker_figures(struct inc_term_worker *w)
{
	struct call call = {.fn = figures};

	ask(w, &call);
	return call.figures;
}

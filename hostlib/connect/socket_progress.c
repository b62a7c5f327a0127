/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "hostlib/connect/socket.h"
#include "hostlib/connect/socket_priv.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"

#define POLL_BATCH 16
/* most completions that one call handles, so that its caller can do other work, too */
#define POLL_MOST 128
/* Number of polls in a row without a completion after which the device's notification is read. A
 * device may notify without a completion, and the descriptor would then stay readable. */
#define EMPTY_POLLS_MAX 64
#define LONG_AGO_NS     1

/* ---- events and their actions --------------------------------------------------------------- */

int connect_socket_fail(struct inc_connect_socket *socket, int error, const char *fmt, ...)
{
	va_list ap;

	if (socket->error)
		return socket->error;
	va_start(ap, fmt);
	socket->error = inc_err_vset(&socket->why, error, socket->qp.what, fmt, ap);
	va_end(ap);
	if (socket->handed_over)
		connect_socket_step(socket, CONNECT_EVENT_FAILED);
	return socket->error;
}

void connect_socket_stop(struct inc_connect_socket *socket)
{
	struct inc_err ignored;

	/* an error is ignored: if the queue pair cannot be moved to ERR, its device is gone */
	if (!socket->stopped)
		inc_rdma_qp_to_err(&socket->qp, &ignored);
	socket->stopped = true;
}

static void post_close(struct inc_connect_socket *socket)
{
	socket->drain_ends_at_ns = inc_now_ns() + CONNECT_DRAIN_MS * INC_NSEC_PER_MSEC;
	connect_socket_post_control(socket, CONNECT_WR_CLOSE,
				    connect_immediate(CONNECT_IMM_CLOSE, 0));
}

void connect_socket_step(struct inc_connect_socket *socket, enum connect_event event)
{
	const struct connect_step step = connect_next(socket->state, event);
	const enum connect_state from = socket->state;

	if (step.to == from)
		return;
	socket->state = step.to;
	if (step.actions & CONNECT_DO(STOP_CLOCK))
		socket->drain_ends_at_ns = 0;
	if (step.actions & CONNECT_DO(POST_CLOSE))
		post_close(socket);
	if (step.actions & CONNECT_DO(STOP))
		connect_socket_stop(socket);
	if (step.to == CONNECT_CLOSED)
		connect_socket_fail(socket, ESHUTDOWN, "%s",
				    from == CONNECT_CLOSING ? "closed" : "the peer has closed");
	connect_socket_set_timer(socket);
}

/* ---- events of the device, and time limits -------------------------------------------------- */

/* Sets timer_fd to the socket's next time limit, or to fire at once if an event is pending. The
 * caller holds the lock of device_events. */
static void set_timer(struct inc_connect_socket *socket)
{
	const uint64_t at_ns = socket->device_events.pending ? LONG_AGO_NS : socket->wake_at_ns;
	const struct itimerspec at = {.it_value = inc_timespec_of_ns(at_ns)};

	timerfd_settime(socket->device_events.timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

void connect_socket_set_timer(struct inc_connect_socket *socket)
{
	const uint64_t port_ns = inc_rdma_port_deadline_ns(&socket->port_timer);
	uint64_t at_ns = socket->drain_ends_at_ns;

	if (port_ns != UINT64_MAX && (!at_ns || at_ns > port_ns))
		at_ns = port_ns;
	/* a socket with an error stays readable, so that its owner calls progress() and receives
	 * the error */
	if (socket->error)
		at_ns = LONG_AGO_NS;
	pthread_mutex_lock(&socket->device_events.lock);
	socket->wake_at_ns = at_ns;
	set_timer(socket);
	pthread_mutex_unlock(&socket->device_events.lock);
}

/* Stores a device event for the socket's owner. Called on the thread that reads the device's
 * events. */
static void on_event(struct inc_rdma_subscriber *self, const struct inc_rdma_event *event)
{
	struct inc_connect_socket *socket =
		(struct inc_connect_socket *)((char *)self -
					      offsetof(struct inc_connect_socket, subscriber));
	struct connect_device_events *events = &socket->device_events;

	pthread_mutex_lock(&events->lock);
	switch (event->kind) {
	case INC_RDMA_PORT_UP:
	case INC_RDMA_PORT_WENT_DOWN:
		events->port_down = event->kind == INC_RDMA_PORT_WENT_DOWN;
		events->port_was_up |= !events->port_down;
		events->pending = true;
		break;
	case INC_RDMA_QP_FATAL:
	case INC_RDMA_CQ_FATAL:
	case INC_RDMA_DEVICE_FATAL:
	case INC_RDMA_DEVICE_GONE:
		if (!events->fatal)
			events->fatal = event->text;
		events->pending = true;
		break;
	default:
		break;
	}
	if (events->pending)
		set_timer(socket);
	pthread_mutex_unlock(&events->lock);
}

/* Checks whether the port is up, because it may have gone down before this socket had subscribed to
 * its events. */
static int check_port(struct inc_connect_socket *socket, struct inc_err *err)
{
	struct ibv_port_attr port;
	int ret = ibv_query_port(socket->device->ctx, socket->own.port, &port);

	if (ret)
		return inc_err_set(err, ret, "%s: query: %s", socket->qp.what, strerror(ret));
	if (!inc_rdma_port_is_up((enum inc_rdma_port_state)port.state))
		return inc_err_set(err, ENETDOWN, "%s: the port is %s", socket->qp.what,
				   inc_rdma_port_state_name((enum inc_rdma_port_state)port.state));
	return 0;
}

int connect_socket_open_events(struct inc_connect_socket *socket, struct inc_err *err)
{
	const int completions_fd = inc_rdma_completions_fd(&socket->completions);
	struct epoll_event ev = {.events = EPOLLIN};

	socket->device_events.timer_fd =
		inc_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	socket->epoll_fd = inc_fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (socket->device_events.timer_fd < 0 || socket->epoll_fd < 0 ||
	    epoll_ctl(socket->epoll_fd, EPOLL_CTL_ADD, completions_fd, &ev) ||
	    epoll_ctl(socket->epoll_fd, EPOLL_CTL_ADD, socket->device_events.timer_fd, &ev))
		return inc_err_set(err, errno, "%s: descriptors: %s", socket->qp.what,
				   strerror(errno));
	socket->subscriber = (struct inc_rdma_subscriber){
		.on_event = on_event,
		.port = socket->own.port,
		.qp = socket->qp.ibv,
		.cq = socket->completions.cq,
	};
	inc_rdma_subscribe(socket->device, &socket->subscriber);
	return check_port(socket, err);
}

void connect_socket_close_events(struct inc_connect_socket *socket)
{
	if (socket->subscriber.on_event)
		inc_rdma_unsubscribe(socket->device, &socket->subscriber);
	if (socket->epoll_fd >= 0)
		close(socket->epoll_fd);
	if (socket->device_events.timer_fd >= 0)
		close(socket->device_events.timer_fd);
	pthread_mutex_destroy(&socket->device_events.lock);
}

/* Handles device events and time limits of a socket. It is called only after the completion queue
 * was empty, because a failed completion gives a better reason for the same fault. */
static void handle_events(struct inc_connect_socket *socket)
{
	struct connect_device_events *events = &socket->device_events;
	uint64_t now_ns = 0;
	const char *fatal;
	bool down, was_up;

	if (socket->wake_at_ns)
		now_ns = inc_now_ns();
	if (!events->pending && (!socket->wake_at_ns || now_ns < socket->wake_at_ns))
		return;
	pthread_mutex_lock(&events->lock);
	events->pending = false;
	down = events->port_down;
	was_up = events->port_was_up;
	events->port_was_up = false;
	fatal = events->fatal;
	pthread_mutex_unlock(&events->lock);
	now_ns = inc_now_ns();
	if (fatal)
		connect_socket_fail(socket, EIO, "%s", fatal);
	if (was_up)
		inc_rdma_port_came_up(&socket->port_timer);
	if (down)
		inc_rdma_port_went_down(&socket->port_timer, now_ns);
	if (inc_rdma_port_expired(&socket->port_timer, now_ns))
		connect_socket_fail(socket, ENETDOWN, "the port is down");
	if (socket->drain_ends_at_ns && now_ns >= socket->drain_ends_at_ns)
		connect_socket_step(socket, CONNECT_EVENT_TIMEOUT);
	connect_socket_set_timer(socket);
}

/* ---- completions ---------------------------------------------------------------------------- */

static int handle_receive(struct inc_connect_socket *socket, const struct ibv_wc *wc)
{
	const uint32_t buffer = (uint32_t)wc->wr_id;
	struct connect_flow *flow = &socket->flow;
	struct connect_message *message =
		&socket->messages[flow->received % socket->settings.send_buf_cnt];
	enum connect_received received;
	const char *why;

	if (connect_flow_receive(flow, wc->wc_flags & IBV_WC_WITH_IMM, ntohl(wc->imm_data),
				 wc->byte_len, &received, &why))
		return connect_socket_fail(socket, EPROTO, "the peer has sent %s", why);
	if (received == CONNECT_RECEIVED_CONTROL)
		return connect_socket_post_receive(socket, buffer);
	*message = (struct connect_message){buffer, wc->byte_len};
	socket->bytes_received += wc->byte_len;
	connect_count(&connect_socket_figures(socket)->received_bytes, wc->byte_len);
	return 0;
}

static int handle_sent(struct inc_connect_socket *socket, uint64_t number)
{
	struct connect_figures *figures = connect_socket_figures(socket);
	struct connect_flow *flow = &socket->flow;
	const uint64_t read = flow->bytes_read, written = flow->bytes_written;

	if (connect_flow_complete(flow, number) < 0)
		return connect_socket_fail(socket, EIO, "the device has completed request %llu",
					   (unsigned long long)number);
	connect_count(&figures->read_bytes, flow->bytes_read - read);
	connect_count(&figures->written_bytes, flow->bytes_written - written);
	return 0;
}

static int handle_completion(struct inc_connect_socket *socket, const struct ibv_wc *wc)
{
	const bool receive = wc->wr_id & CONNECT_RECEIVE;

	/* after the peer's close, requests that fail are no error, and further receives are
	 * ignored */
	if (socket->flow.peer_closed && (receive || wc->status != IBV_WC_SUCCESS))
		return 0;
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		socket->flushed = true;
		return 0;
	}
	if (wc->status != IBV_WC_SUCCESS)
		return connect_socket_fail(socket, inc_rdma_completion_errno(wc->status),
					   "%s: %s (vendor error 0x%x)%s",
					   receive ? "receiving" : "sending",
					   ibv_wc_status_str(wc->status), wc->vendor_err,
					   inc_rdma_port_note(&socket->port_timer));
	return receive ? handle_receive(socket, wc) : handle_sent(socket, wc->wr_id);
}

/* Handles completions from the queue. Returns their number, or the socket's error. */
static int poll_queue(struct inc_connect_socket *socket)
{
	struct ibv_wc wc[POLL_BATCH];
	int i, n, ret = 0, total = 0;

	do {
		n = ibv_poll_cq(socket->completions.cq, POLL_BATCH, wc);
		if (n < 0)
			return connect_socket_fail(socket, EIO, "completion queue: error %d", n);
		for (i = 0; i < n && !ret; i++)
			ret = handle_completion(socket, &wc[i]);
		if (ret)
			return ret;
		total += n;
		/* the loop continues after a flushed request, because the completion with the
		 * reason may come behind it */
	} while (n == POLL_BATCH && (total < POLL_MOST || socket->flushed));
	if (socket->flushed)
		return connect_socket_fail(socket, ECANCELED, "the queue pair was moved to ERR");
	ret = connect_socket_post_ack_if_due(socket);
	return ret ? ret : total;
}

/* Handles completions like poll_queue(). If it returns 0, the socket's descriptor becomes readable
 * at the next completion. */
static int poll_or_arm(struct inc_connect_socket *socket)
{
	struct inc_rdma_completions *completions = &socket->completions;
	int ret;

	if (socket->stopped || socket->error)
		return socket->error;
	ret = poll_queue(socket);
	if (!ret && completions->armed &&
	    (socket->completed_since_armed || ++socket->empty_polls >= EMPTY_POLLS_MAX)) {
		inc_rdma_completions_take(completions);
		socket->empty_polls = 0;
	}
	if (!ret && !completions->armed) {
		ret = inc_rdma_completions_arm(completions);
		if (ret)
			return connect_socket_fail(socket, -ret, "notification: %s",
						   strerror(-ret));
		socket->completed_since_armed = false;
		/* polls again, because completions that came before the request for a notification
		 * cause none */
		ret = poll_queue(socket);
	}
	if (ret > 0)
		socket->completed_since_armed = true;
	if (!ret)
		handle_events(socket);
	return socket->error ? socket->error : ret;
}

/* ---- for client and service ----------------------------------------------------------------- */

static bool report_once(bool *reported, bool happened)
{
	if (*reported || !happened)
		return false;
	*reported = true;
	return true;
}

int connect_socket_event(struct inc_connect_socket *socket, enum connect_event *event,
			 struct inc_err *err)
{
	const struct connect_flow *flow = &socket->flow;

	for (;;) {
		if (report_once(&socket->reported_message, flow->has_received)) {
			*event = CONNECT_EVENT_MESSAGE;
			return 1;
		}
		if (report_once(&socket->reported_probed,
				flow->probe && connect_flow_ended(flow, flow->probe))) {
			*event = CONNECT_EVENT_PROBED;
			return 1;
		}
		if (report_once(&socket->reported_closed, flow->peer_closed)) {
			*event = CONNECT_EVENT_PEER_CLOSED;
			return 1;
		}
		if (socket->error)
			return inc_err_set(err, -socket->error, "%s", socket->why.msg);
		if (!poll_or_arm(socket))
			return 0;
	}
}

/* ---- for its owner -------------------------------------------------------------------------- */

int inc_connect_socket_progress(struct inc_connect_socket *socket)
{
	const struct connect_flow *flow = &socket->flow;
	int n = flow->peer_closed ? 0 : poll_or_arm(socket);

	if (flow->peer_closed)
		connect_socket_step(socket, CONNECT_EVENT_PEER_CLOSED);
	else if (flow->close && connect_flow_ended(flow, flow->close))
		connect_socket_step(socket, CONNECT_EVENT_DRAINED);
	if (socket->error)
		return socket->error;
	n += socket->uncounted_messages;
	socket->uncounted_messages = 0;
	socket->idle = !n;
	return n;
}

int inc_connect_socket_wait(struct inc_connect_socket *socket, int timeout_ms)
{
	const uint64_t until_ns = inc_now_ns() + (uint64_t)timeout_ms * INC_NSEC_PER_MSEC;
	struct pollfd pfd = {.fd = socket->epoll_fd, .events = POLLIN};
	int n;

	if (socket->error || !socket->idle)
		return socket->error;
	while ((n = poll(&pfd, 1, timeout_ms)) < 0) {
		if (errno != EINTR)
			return connect_socket_fail(socket, errno, "poll: %s", strerror(errno));
		if (timeout_ms < 0)
			continue;
		timeout_ms = inc_ms_until(until_ns, inc_now_ns());
	}
	return n ? 0 : -ETIMEDOUT;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * inc-wire forwards frames between two interfaces like a faulty cable. Rate, delay, loss,
 * duplication, corruption and reordering happen at random (seeded), or at frames with given
 * numbers. Faults are set at run time through a UNIX socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/outfile.h"
#include "topo/wire_priv.h"

/* limit of the time for which a frame that shall be reordered is held until other frames overtake
 * it */
#define HOLD_NS         (5 * INC_NSEC_PER_MSEC)
#define QUEUE_MAX_BYTES (1 << 20)
/* If several frames are queued, they are sent together as soon as the first is due for this time,
 * as a network adapter delays interrupts. A wake-up for each frame costs more CPU time than the
 * frame. The line's rate stays, because a frame never leaves before it is due. */
#define COALESCE_NS (100 * INC_NSEC_PER_USEC)
/* The allocator keeps so much memory of frames that have been sent. If it returned the memory to
 * the kernel, every queued frame would cost a page fault. */
#define KEPT_BYTES (64 << 20)

struct wire {
	/* port[d] receives the frames of direction d */
	struct wire_port port[WIRE_DIRS];
	struct wire_line line[WIRE_DIRS];
	struct wire_heap heap;
	uint8_t *frames; /* buffer for the frames that are received together; owned */
	const struct wire_args *args;
	int control_fd;
	int signal_fd;
};

static void put(struct wire *w, enum wire_dir dir, const uint8_t *frame, size_t len)
{
	struct wire_counters *n = &w->line[dir].n;
	unsigned int failed = wire_port_write(&w->port[!dir], frame, len);

	n->forwarded++;
	n->send_errors += failed;
}

/* Forgets the frames that the line has sent before `now`. */
static void backlog_leave(struct wire_backlog *b, uint64_t now)
{
	for (; b->n && b->leaves_at_ns[b->first] <= now; b->n--)
		b->first = (b->first + 1) % WIRE_QUEUE_FRAMES_MAX;
}

/* Notes when the line will have sent a frame. In a full ring, the frame is not counted. */
static void backlog_enter(struct wire_backlog *b, uint64_t leaves_at_ns)
{
	if (b->n < WIRE_QUEUE_FRAMES_MAX)
		b->leaves_at_ns[(b->first + b->n++) % WIRE_QUEUE_FRAMES_MAX] = leaves_at_ns;
}

/* Adds a frame to the queue before the line, and sets CE in it if the queue is long. Returns the
 * time when the line will have sent the frame; 0: the queue has no room for it. */
static uint64_t enter_queue(struct wire_line *line, uint8_t *frame, size_t len, uint64_t now)
{
	/* besides its bytes a frame occupies a cable for 24 more: preamble, frame check sequence
	 * and gap */
	const uint64_t ns = (len + 24) * 8 * INC_NSEC_PER_SEC / line->rate_bps;
	struct wire_backlog *b = &line->backlog;

	backlog_leave(b, now);
	if (line->queued_bytes + len > line->queue_max_bytes ||
	    (line->queue_frames && b->n >= line->queue_frames))
		return 0;
	if (line->mark_frames && b->n >= line->mark_frames)
		line->n.marked += wire_mark(frame, len);
	line->line_free_at_ns = (line->line_free_at_ns > now ? line->line_free_at_ns : now) + ns;
	if (line->queue_frames || line->mark_frames)
		backlog_enter(b, line->line_free_at_ns);
	return line->line_free_at_ns;
}

/* Sends a frame, or queues it until the line's rate and delay and the additional time extra_ns
 * allow that. */
static void emit(struct wire *w, enum wire_dir dir, uint8_t *frame, size_t len, uint64_t now,
		 uint64_t extra_ns)
{
	struct wire_line *line = &w->line[dir];
	uint64_t due = now;
	struct wire_queued *q;

	if (line->rate_bps) {
		due = enter_queue(line, frame, len, now);
		if (!due) {
			line->n.overflow++;
			return;
		}
	}
	due += line->delay_ns + extra_ns;
	if (due <= now) {
		put(w, dir, frame, len);
		return;
	}
	q = malloc(sizeof(*q) + len);
	if (!q) {
		line->n.overflow++;
		return;
	}
	*q = (struct wire_queued){
		.due_at_ns = due, .dir = dir, .counted = line->rate_bps > 0, .len = len};
	memcpy(q->data, frame, len);
	if (wire_heap_push(&w->heap, q)) {
		free(q);
		line->n.overflow++;
		return;
	}
	if (q->counted)
		line->queued_bytes += len;
}

static void release_held(struct wire *w, enum wire_dir dir, uint64_t now)
{
	struct wire_line *line = &w->line[dir];
	uint8_t *frame = line->held;

	line->held = NULL;
	emit(w, dir, frame, line->held_len, now, 0);
	free(frame);
}

static void forward(struct wire *w, enum wire_dir dir, uint8_t *frame, size_t len, uint64_t now)
{
	struct wire_line *line = &w->line[dir];
	enum wire_class class = wire_classify(frame, len);
	struct wire_verdict v;

	wire_decide(line, class, now, &v);
	if (v.drop) {
		line->n.lost++;
		return;
	}
	if (v.corrupt) {
		wire_corrupt(frame, len, class, v.corrupt_at);
		line->n.corrupted++;
	}
	if (v.corrupt_eth) {
		wire_corrupt_eth(frame, v.corrupt_at);
		line->n.corrupted++;
	}
	if (v.corrupt_any) {
		wire_corrupt_any(frame, len, v.corrupt_at);
		line->n.corrupted++;
	}
	if (v.mark)
		line->n.marked += wire_mark(frame, len);
	if (v.delay_ns)
		line->n.delayed++;
	if (v.reorder_gap && !line->held) {
		line->held = malloc(len);
		if (line->held) {
			memcpy(line->held, frame, len);
			line->held_len = len;
			line->held_gap = v.reorder_gap;
			line->held_due_at_ns = now + HOLD_NS;
			return;
		}
	}
	emit(w, dir, frame, len, now, v.delay_ns);
	if (v.copies == 2) {
		line->n.duplicated++;
		emit(w, dir, frame, len, now, v.delay_ns);
	}
	if (line->held && !--line->held_gap) {
		line->n.reordered++;
		release_held(w, dir, now);
	}
}

static void read_port(struct wire *w, enum wire_dir dir)
{
	uint64_t arrived_at_ns[WIRE_BATCH];
	size_t lens[WIRE_BATCH];
	int n = wire_port_read(&w->port[dir], w->frames, lens, arrived_at_ns);

	for (int i = 0; i < n; i++) {
		if (lens[i])
			forward(w, dir, w->frames + (size_t)i * WIRE_FRAME_MAX, lens[i],
				arrived_at_ns[i]);
		else
			w->line[dir].n.overflow++;
	}
}

/* Sends the queued frames that are due. Returns when to call again; 0: no frame waits. */
static uint64_t run_queue(struct wire *w)
{
	uint64_t now = inc_now_ns(), next = 0;
	struct wire_queued *q;

	for (int d = 0; d < WIRE_DIRS; d++)
		if (w->line[d].held && w->line[d].held_due_at_ns <= now)
			release_held(w, d, now);
	while ((q = wire_heap_min(&w->heap)) && q->due_at_ns <= now) {
		wire_heap_pop(&w->heap);
		if (q->counted)
			w->line[q->dir].queued_bytes -= q->len;
		put(w, q->dir, q->data, q->len);
		free(q);
	}
	if (q)
		next = q->due_at_ns + (w->heap.len > 1 ? COALESCE_NS : 0);
	for (int d = 0; d < WIRE_DIRS; d++)
		if (w->line[d].held && (!next || w->line[d].held_due_at_ns < next))
			next = w->line[d].held_due_at_ns;
	for (int d = 0; d < WIRE_DIRS; d++)
		w->line[!d].n.send_errors += wire_port_flush(&w->port[d]);
	return next;
}

/* A queue that is counted in frames needs the times when they arrived. Otherwise, frames that come
 * while the wire waits for a CPU would seem to arrive at once, and to make a queue. */
static int set_stamps(struct wire *w, struct inc_err *err)
{
	int ret = 0;

	for (int d = 0; d < WIRE_DIRS && !ret; d++)
		ret = wire_port_stamp(&w->port[d],
				      w->line[d].queue_frames || w->line[d].mark_frames, err);
	return ret;
}

static json_t *stats(struct wire *w)
{
	for (int d = 0; d < WIRE_DIRS; d++)
		w->line[d].n.overflow += wire_port_drops(&w->port[d]);
	return wire_stats_json(w->line);
}

static void write_stats(struct wire *w)
{
	struct inc_outfile out;
	struct inc_err err = {""};
	json_t *s;

	if (!w->args->stats_path)
		return;
	s = stats(w);
	if (!inc_outfile_open(&out, w->args->stats_path, &err)) {
		json_dumpf(s, out.f, JSON_COMPACT);
		inc_outfile_close(&out, true, &err);
	}
	if (err.msg[0])
		inc_error("--stats %s", err.msg);
	json_decref(s);
}

/* Answers one request on the control socket: a packet with SPECs separated by blanks, or "stats".
 * Every request has its own connection, because the answer to a datagram could not leave the wire's
 * network namespace. */
static void serve_control(struct wire *w)
{
	struct timeval limit = {.tv_usec = 200000};
	struct inc_err err = {{0}};
	char buf[WIRE_MESSAGE_MAX], *reply = NULL, *save = NULL;
	int fd = accept4(w->control_fd, NULL, NULL, SOCK_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	n = recv(fd, buf, sizeof(buf) - 1, 0);
	if (n <= 0)
		goto out;
	buf[n] = 0;
	if (!strcmp(buf, "stats")) {
		json_t *s = stats(w);

		reply = json_dumps(s, JSON_COMPACT);
		json_decref(s);
	} else {
		for (char *s = strtok_r(buf, " \n", &save); s; s = strtok_r(NULL, " \n", &save)) {
			if (wire_set(w->line, s, &err))
				break;
			inc_info("%s", s);
		}
		if (!err.msg[0])
			set_stamps(w, &err);
		reply = strdup(err.msg[0] ? err.msg : "ok");
	}
	if (reply)
		send(fd, reply, strlen(reply), MSG_DONTWAIT | MSG_NOSIGNAL);
out:
	free(reply);
	close(fd);
}

/* Removes a socket that an earlier wire left, but no file of another kind. */
static int remove_socket(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	return unlink(path) ? -errno : 0;
}

static int open_control(struct wire *w, struct inc_err *err)
{
	struct sockaddr_un sun;
	int ret;

	w->control_fd = -1;
	if (!w->args->control_path)
		return 0;
	wire_socket_address(&sun, w->args->control_path);
	ret = remove_socket(w->args->control_path);
	if (ret)
		return inc_err_set(err, -ret, "--control %s: %s", w->args->control_path,
				   strerror(-ret));
	w->control_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (w->control_fd < 0 || bind(w->control_fd, (struct sockaddr *)&sun, sizeof(sun)))
		ret = -errno;
	else if (listen(w->control_fd, 16)) {
		ret = -errno;
		unlink(w->args->control_path);
	}
	if (!ret)
		return 0;
	if (w->control_fd >= 0)
		close(w->control_fd);
	/* closed here, so that the path is not removed later, because it may be another process's
	 * socket */
	w->control_fd = -1;
	return inc_err_set(err, -ret, "--control %s: %s", w->args->control_path, strerror(-ret));
}

static int enter_netns(const char *name, struct inc_err *err)
{
	char path[NAME_MAX + 16];
	int fd, ret = 0;

	snprintf(path, sizeof(path), "%s%s", strchr(name, '/') ? "" : "/run/netns/", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		ret = inc_err_set(err, errno, "namespace %s: %s", name, strerror(errno));
	if (fd >= 0)
		close(fd);
	return ret;
}

static int loop(struct wire *w)
{
	struct pollfd fds[] = {{w->port[WIRE_UP].fd, POLLIN, 0},
			       {w->port[WIRE_DOWN].fd, POLLIN, 0},
			       {w->signal_fd, POLLIN, 0},
			       {w->control_fd, POLLIN, 0}};

	for (;;) {
		uint64_t next = run_queue(w), now;
		struct timespec ts, *wait = NULL;

		if (next) {
			now = inc_now_ns();
			next = next > now ? next - now : 0;
			ts = (struct timespec){next / INC_NSEC_PER_SEC, next % INC_NSEC_PER_SEC};
			wait = &ts;
		}
		if (ppoll(fds, 4, wait, NULL) < 0) {
			if (errno == EINTR)
				continue;
			inc_error("ppoll: %s", strerror(errno));
			return 1;
		}
		if (fds[3].revents)
			serve_control(w);
		for (int d = 0; d < WIRE_DIRS; d++) {
			if (fds[d].revents & POLLIN)
				read_port(w, d);
			else if (fds[d].revents & POLLERR) {
				/* an error of the socket means that the interface is down or
				 * gone */
				int e = 0;
				socklen_t len = sizeof(e);

				getsockopt(fds[d].fd, SOL_SOCKET, SO_ERROR, &e, &len);
				inc_warn("%s: %s", w->port[d].ifname, strerror(e));
			} else if (fds[d].revents) {
				inc_error("%s: interface gone", w->port[d].ifname);
				return 1;
			}
		}
		if (fds[2].revents) {
			struct signalfd_siginfo si;

			if (read(w->signal_fd, &si, sizeof(si)) != sizeof(si))
				continue;
			if (si.ssi_signo != SIGUSR1)
				return 0;
			write_stats(w);
		}
	}
}

/* Opens the descriptor for signals, and both ends of the wire. */
static int open_wire(struct wire *w, struct inc_err *err)
{
	const struct wire_args *args = w->args;
	sigset_t signals;
	int ret;

	for (int d = 0; d < WIRE_DIRS; d++)
		wire_line_seed(&w->line[d], args->seed, d);
	for (unsigned int i = 0; i < args->specs.count; i++) {
		ret = wire_set(w->line, args->specs.text[i], err);
		if (ret)
			return ret;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	w->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	w->frames = calloc(WIRE_BATCH, WIRE_FRAME_MAX);
	if (w->signal_fd < 0 || !w->frames)
		return inc_err_set(err, errno, "starting: %s", strerror(errno));
	if (w->args->stats_path) {
		ret = inc_outfile_check(w->args->stats_path, err);
		if (ret)
			return ret;
	}
	if (args->netns) {
		ret = enter_netns(args->netns, err);
		if (ret)
			return ret;
	}
	for (int d = 0; d < WIRE_DIRS; d++) {
		ret = wire_port_open(&w->port[d], args->ifname[d], err);
		if (ret)
			return ret;
	}
	ret = set_stamps(w, err);
	return ret ? ret : open_control(w, err);
}

static void close_wire(struct wire *w)
{
	if (w->control_fd >= 0) {
		close(w->control_fd);
		unlink(w->args->control_path);
	}
	if (w->signal_fd >= 0)
		close(w->signal_fd);
	for (int d = 0; d < WIRE_DIRS; d++) {
		wire_port_close(&w->port[d]);
		wire_line_free(&w->line[d]);
	}
	wire_heap_free(&w->heap);
	free(w->frames);
}

static int run(const struct wire_args *args)
{
	struct wire w = {.args = args, .control_fd = -1, .signal_fd = -1};
	struct inc_err err = {{0}};
	int ret = 1;

	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	inc_log_sink(inc_log_unblocked);
	for (int d = 0; d < WIRE_DIRS; d++) {
		w.port[d].fd = w.port[d].link_fd = -1;
		w.line[d].queue_max_bytes = QUEUE_MAX_BYTES;
	}
	if (open_wire(&w, &err)) {
		inc_error("%s", err.msg);
	} else {
		inc_info("%s <-> %s", args->ifname[WIRE_UP], args->ifname[WIRE_DOWN]);
		ret = loop(&w);
		write_stats(&w);
	}
	close_wire(&w);
	return ret;
}

int main(int argc, char **argv)
{
	struct wire_args args = {};
	int ret;

	inc_log_init("inc-wire");
	ret = wire_parse(argc, argv, &args);
	if (ret < 0)
		ret = args.is_ctl ? wire_ctl(&args) : run(&args);
	inc_opt_list_free(&args.specs);
	return ret;
}

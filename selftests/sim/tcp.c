// SPDX-License-Identifier: BSD-2-Clause
/* TCP streams (network.h). */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "lib/base/os.h"
#include "network.h"
#include "process.h"
#include "sim.h"

#define DELAY_MIN_NS 5000
#define DELAY_MAX_NS 100000
/* greatest delay of a lost segment, until faults end */
#define LATE_MOST_NS  (30 * INC_NSEC_PER_MSEC)
#define CUTS          8
#define TCP_BUFFER    (64 * 1024) /* approximate limit of the bytes under way in one direction */
#define TCP_BACKLOG   256
#define SEGMENT_BYTES 4096
#define PUMPED        64

enum tcp_state { LISTENING, TRYING, UP, BROKEN };

/* An end of a stream, or a listener. */
struct tcp_end {
	struct tcp_end *next; /* next in the list of all ends of a run */
	unsigned int number;
	enum tcp_state state;
	struct process *process;
	/* own: descriptor of the process, -1: closed, or not accepted yet. middle: the other socket
	 * of the pair, -1: closed, or this is a listener */
	int own, middle;
	int error;      /* the result of an attempt to connect that has failed */
	bool closed;    /* the process has closed its socket */
	bool ended;     /* the peer has ended its direction of the stream, so it sends no more */
	bool given_end; /* the process' socket has the end, after all bytes */
	bool shut;      /* the process has ended its direction of the stream */
	bool at_once;   /* close() sends a reset */
	bool stuck;     /* so many bytes are under way that the process must wait */
	uint32_t addr, peer_addr; /* IP addresses of this end and its peer, in network order */
	uint16_t port, peer_port;
	struct tcp_end *peer;
	/* of segments towards this end: their delay, and the arrival of the last one */
	uint64_t delay_ns, last_ns;
	size_t under_way; /* number of bytes from this end that are under way */
	size_t took;      /* number of bytes that the last take_from() has taken */
	bool has_small_buffer;
	/* bytes that have arrived and for which the process' socket has no room */
	uint8_t *received;
	size_t n_received;
	/* address of a listener, as bind() has chosen it */
	struct sockaddr_un at;
	socklen_t at_len;
};

enum what { BYTES, END, RESET, ARRIVED, REFUSED };

/* Bytes, an end of stream, or another signal, on the way to one end of a stream. */
struct segment {
	struct tcp_end *to;
	enum what what;
	size_t size;
	uint8_t bytes[];
};

static struct tcp_end *ends; /* list of all ends of a run, which is freed at the end of the run */
static unsigned int n_ends;
static struct {
	uint32_t addr;
	bool gone;
	uint64_t until_ns;
} cuts[CUTS];
static unsigned int n_cuts;
static uint16_t next_port;
static int pump = -1; /* epoll instance of all middles */

int __real_epoll_create1(int flags);
int __real_close(int fd);
int __real_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);

void tcp_cut(uint32_t addr, uint64_t until_ns)
{
	sim_require(n_cuts < CUTS, "too many cuts");
	sim_figures.cuts++;
	cuts[n_cuts].addr = addr;
	cuts[n_cuts].gone = false;
	cuts[n_cuts++].until_ns = until_ns;
}

void tcp_vanish(uint32_t addr)
{
	tcp_cut(addr, UINT64_MAX);
	cuts[n_cuts - 1].gone = true;
}

static bool is_gone(uint32_t addr)
{
	unsigned int i;

	for (i = 0; i < n_cuts; i++)
		if (cuts[i].gone && cuts[i].addr == addr)
			return true;
	return false;
}

static struct tcp_end *new_end(struct process *process, enum tcp_state state)
{
	struct tcp_end *e = calloc(1, sizeof(*e));

	sim_require(e, "no memory");
	*e = (struct tcp_end){.next = ends,
			      .number = n_ends++,
			      .state = state,
			      .process = process,
			      .own = -1,
			      .middle = -1,
			      .addr = process->addr};
	ends = e;
	return e;
}

static void close_middle(struct tcp_end *e)
{
	if (e->middle >= 0)
		__real_close(e->middle);
	e->middle = -1;
}

static void on_close(void *arg)
{
	struct tcp_end *e = arg;

	e->own = -1;
	/* tcp_pump() sees the close of a stream whose ends are connected */
	if (e->state == UP && !e->closed)
		return;
	e->closed = true;
	close_middle(e);
}

static void set_own(struct tcp_end *e, int fd)
{
	e->own = fd;
	descriptor_own(fd, e->process, on_close, e);
}

/* --- the way between the two ends --- */

/* The time when a segment that leaves now arrives at the other machine. */
static uint64_t arrival(struct tcp_end *to, uint32_t from)
{
	uint64_t at_ns = sim_now_ns() + to->delay_ns;
	unsigned int i;

	if (sim_fault(20))
		at_ns += sim_between(0, LATE_MOST_NS);
	for (i = 0; i < n_cuts; i++)
		if ((cuts[i].addr == to->addr || cuts[i].addr == from) && !cuts[i].gone &&
		    sim_now_ns() < cuts[i].until_ns && at_ns < cuts[i].until_ns)
			at_ns = cuts[i].until_ns + to->delay_ns;
	if (at_ns <= to->last_ns)
		at_ns = to->last_ns + 1;
	to->last_ns = at_ns;
	return at_ns;
}

static void arrive(void *arg, uint64_t unused);

/* Sends bytes or a signal to the end `to`, on behalf of its peer. */
static void pass(struct tcp_end *to, enum what what, const void *bytes, size_t size)
{
	struct segment *s;

	if (is_gone(to->peer_addr) || is_gone(to->addr))
		return;
	s = malloc(sizeof(*s) + size);
	sim_require(s, "no memory");
	s->to = to;
	s->what = what;
	s->size = size;
	if (size)
		memcpy(s->bytes, bytes, size);
	sim_at(arrival(to, to->peer_addr), arrive, s, 0);
}

/* --- from a process --- */

static void on_closed_by_process(struct tcp_end *e, bool unread)
{
	e->closed = true;
	pass(e->peer, unread || e->n_received || e->at_once ? RESET : END, NULL, 0);
	close_middle(e);
}

/* Takes some bytes that the process has sent. Returns what recv() does. */
static ssize_t take_bytes(struct tcp_end *e)
{
	const size_t most = sim_fault(50) ? sim_between(1, SEGMENT_BYTES / 4) : SEGMENT_BYTES;
	uint8_t bytes[SEGMENT_BYTES];
	const ssize_t n = recv(e->middle, bytes, most, 0);

	if (n <= 0)
		return n;
	e->under_way += n;
	e->took += n;
	descriptor_sent(e->own);
	pass(e->peer, BYTES, bytes, n);
	return n;
}

/* Takes what the process has sent, and notices that it has shut down or closed the stream. As a
 * kernel does, AF_UNIX reports a reset if the process has not read all bytes. */
static void take_from(struct tcp_end *e)
{
	struct pollfd pfd = {.fd = e->middle};
	ssize_t n = 1;
	bool goes_on;

	e->took = 0;
	while (n > 0) {
		e->stuck = e->under_way >= TCP_BUFFER;
		n = e->stuck ? -EAGAIN : take_bytes(e);
	}
	goes_on = e->stuck || (n < 0 && errno == EAGAIN);
	/* the socket may have room now */
	if (e->has_small_buffer || e->took >= SEGMENT_BYTES)
		task_changed(e->process, e->own);
	if (goes_on)
		return;
	poll(&pfd, 1, 0);
	if (n < 0 || pfd.revents & POLLHUP)
		on_closed_by_process(e, n < 0);
	else if (!e->shut)
		pass(e->peer, END, NULL, 0);
	e->shut = true;
}

/* --- to a process --- */

static void give(struct tcp_end *e)
{
	ssize_t n = 1;

	while (e->n_received && n > 0 && e->middle >= 0) {
		n = send(e->middle, e->received, e->n_received, MSG_NOSIGNAL);
		if (n <= 0)
			continue;
		e->n_received -= n;
		memmove(e->received, e->received + n, e->n_received);
	}
	if (!e->ended || e->given_end || e->n_received || e->middle < 0)
		return;
	e->given_end = true; /* each shutdown() is an event for epoll */
	shutdown(e->middle, SHUT_WR);
}

void tcp_pump(void)
{
	struct epoll_event event[PUMPED];
	int i, n;

	do {
		n = epoll_wait(pump, event, PUMPED, 0);
		for (i = 0; i < n; i++) {
			struct tcp_end *e = event[i].data.ptr;

			if (e->middle >= 0 && event[i].events & EPOLLOUT && e->n_received) {
				give(e);
				task_changed(e->process, e->own);
			}
			if (e->middle >= 0 && event[i].events & ~EPOLLOUT)
				take_from(e);
		}
	} while (n == PUMPED);
}

/* Relays from now on. */
static void watch(struct tcp_end *e)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				    .data.ptr = e};

	sim_require(!epoll_ctl(pump, EPOLL_CTL_ADD, e->middle, &event), "epoll_ctl: %s",
		    strerror(errno));
}

static void set_buffer(struct tcp_end *e)
{
	const int bytes = sim_fault(300) ? 2048 : TCP_BUFFER;

	e->has_small_buffer = bytes < TCP_BUFFER;
	setsockopt(e->own, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

/* The socket of a process reports a reset after the bytes that it has received, as a socket does
 * whose peer closes with unread bytes. */
static void reset(struct tcp_end *e)
{
	if (e->own >= 0)
		send(e->own, "", 1, MSG_NOSIGNAL);
	close_middle(e);
}

static void bytes_arrived(struct tcp_end *e, const struct segment *s)
{
	if (e->closed) { /* no process reads from this end any more */
		pass(e->peer, RESET, NULL, 0);
		return;
	}
	e->received = realloc(e->received, e->n_received + s->size);
	sim_require(e->received, "no memory");
	memcpy(e->received + e->n_received, s->bytes, s->size);
	e->n_received += s->size;
	give(e);
}

static void is_up(struct tcp_end *e)
{
	descriptor_drain((const int[2]){e->own, e->middle});
	e->state = UP;
	set_buffer(e);
	watch(e);
}

static void arrive(void *arg, uint64_t unused)
{
	struct segment *s = arg;
	struct tcp_end *e = s->to;

	if (is_gone(e->addr) || e->state == BROKEN)
		goto out;
	sim_note("tcp", "arrives: what, bytes, port", s->what, s->size, e->port);
	switch (s->what) {
	case BYTES:
		e->peer->under_way -= s->size;
		bytes_arrived(e, s);
		if (e->peer->stuck && e->peer->middle >= 0)
			take_from(e->peer);
		break;
	case END:
		e->ended = true;
		give(e);
		break;
	case RESET:
		e->state = BROKEN;
		reset(e);
		break;
	case ARRIVED:
		if (e->closed) /* the process has given up the attempt */
			pass(e->peer, RESET, NULL, 0);
		else
			is_up(e);
		break;
	case REFUSED:
		e->state = BROKEN;
		e->error = ECONNREFUSED;
		close_middle(e);
		break;
	}
	task_changed(e->process, e->own);
out:
	free(s);
}

/* --- connections --- */

static struct tcp_end *find_listener(uint32_t addr, uint16_t port)
{
	struct tcp_end *e;

	for (e = ends; e; e = e->next)
		if (e->state == LISTENING && e->own >= 0 && e->addr == addr && e->port == port)
			return e;
	return NULL;
}

/* The name of the middle of an accepted stream, which its process' socket has for its peer. */
static socklen_t name_of(unsigned int number, struct sockaddr_un *out)
{
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	return offsetof(struct sockaddr_un, sun_path) + 1 +
	       snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "sim/%d/%u", getppid(),
			number);
}

/* Connects a middle to a listener. Returns false if its queue is full. */
static bool reach(struct tcp_end *e, const struct tcp_end *listener)
{
	struct sockaddr_un name;
	const socklen_t len = name_of(e->number, &name);

	e->middle = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	sim_require(e->middle >= 0 && !bind(e->middle, (struct sockaddr *)&name, len),
		    "a socket of a stream: %s", strerror(errno));
	return !connect(e->middle, (const struct sockaddr *)&listener->at, listener->at_len);
}

static void pair(struct tcp_end *a, struct tcp_end *b)
{
	a->peer = b;
	b->peer = a;
	a->peer_addr = b->addr;
	b->peer_addr = a->addr;
	a->peer_port = b->port;
	b->peer_port = a->port;
	a->delay_ns = b->delay_ns = sim_between(DELAY_MIN_NS, DELAY_MAX_NS);
}

/* The connection request of this end arrives at the other machine. */
static void take_request(void *arg, uint64_t unused)
{
	struct tcp_end *e = arg, *l = find_listener(e->peer_addr, e->peer_port), *theirs;

	if (is_gone(e->addr) || is_gone(e->peer_addr) || e->closed)
		return;
	theirs = l ? new_end(l->process, UP) : NULL;
	if (!theirs || !reach(theirs, l)) {
		if (theirs)
			close_middle(theirs);
		pass(e, REFUSED, NULL, 0);
		return;
	}
	theirs->port = l->port;
	pair(e, theirs);
	watch(theirs);
	pass(e, ARRIVED, NULL, 0);
	task_changed(l->process, l->own);
}

/* Reads from a descriptor that nothing is recorded of the number of the end that it belongs to. */
static bool number_of(int fd, unsigned int *number)
{
	struct sockaddr_un name;
	socklen_t len = sizeof(name);
	int parent;

	memset(&name, 0, sizeof(name));
	return !descriptor_known(fd) && !getpeername(fd, (struct sockaddr *)&name, &len) &&
	       name.sun_family == AF_UNIX &&
	       sscanf(name.sun_path + 1, "sim/%d/%u", &parent, number) == 2;
}

/* Finds the end whose descriptor of a process this is. */
static struct tcp_end *end_of(int fd)
{
	struct tcp_end *e = descriptor_arg(fd, on_close);
	unsigned int number;

	if (e || !number_of(fd, &number))
		return e;
	for (e = ends; e && e->number != number; e = e->next)
		;
	sim_require(e, "a stream that is none");
	set_own(e, fd);
	return e;
}

void tcp_reset_at_close(int fd)
{
	if (end_of(fd))
		end_of(fd)->at_once = true;
}

/* --- functions of inc_os --- */

static int listen_at(const struct sockaddr *at, socklen_t len, int backlog)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)at;
	const uint16_t port = in->sin_port ? ntohs(in->sin_port) : next_port++;
	struct tcp_end *e;
	int fd;

	if (find_listener(task_process()->addr, port))
		return -EADDRINUSE;
	e = new_end(task_process(), LISTENING);
	e->port = port;
	e->at.sun_family = AF_UNIX;
	e->at_len = sizeof(e->at);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* a name of no length makes the kernel choose one */
	sim_require(fd >= 0 && !bind(fd, (struct sockaddr *)&e->at, sizeof(sa_family_t)) &&
			    !listen(fd, TCP_BACKLOG) &&
			    !getsockname(fd, (struct sockaddr *)&e->at, &e->at_len),
		    "a socket that listens: %s", strerror(errno));
	set_own(e, fd);
	return fd;
}

static int begin_connect(const struct sockaddr *to, socklen_t len)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)to;
	struct tcp_end *e = new_end(task_process(), TRYING);
	int sockets[2];

	descriptor_pair(sockets);
	descriptor_fill(sockets); /* the socket is not writable before it is connected */
	set_own(e, sockets[0]);
	descriptor_sends(e->own);
	e->middle = sockets[1];
	e->port = next_port++;
	e->peer_addr = in->sin_addr.s_addr;
	e->peer_port = ntohs(in->sin_port);
	e->delay_ns = sim_between(DELAY_MIN_NS, DELAY_MAX_NS);
	sim_at(arrival(e, e->peer_addr), take_request, e, 0);
	return e->own;
}

static int result_of(int fd)
{
	struct tcp_end *e = end_of(fd);
	const int error = e->error;

	e->error = 0;
	return -error;
}

static int put_address(uint32_t addr, uint16_t port, struct sockaddr_storage *out, socklen_t *len)
{
	const struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = addr};

	memcpy(out, &in, sizeof(in));
	*len = sizeof(in);
	return 0;
}

static int own_address(int fd, struct sockaddr_storage *out, socklen_t *len)
{
	const struct tcp_end *e = end_of(fd);

	return put_address(e->addr, e->port, out, len);
}

static int peer_address(int fd, struct sockaddr_storage *out, socklen_t *len)
{
	const struct tcp_end *e = end_of(fd);

	return e && e->state == UP ? put_address(e->peer_addr, e->peer_port, out, len) : -ENOTCONN;
}

/* A program learns the address of a peer from accept4() even if that peer has reset the connection
 * already. */
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	const int own = __real_accept4(fd, addr, len, flags);
	const struct tcp_end *e = own < 0 ? NULL : end_of(own);
	struct sockaddr_storage peer;

	if (e && addr && !put_address(e->peer_addr, e->peer_port, &peer, len))
		memcpy(addr, &peer, *len);
	return own;
}

static bool peer_ended(int fd)
{
	const struct tcp_end *e = end_of(fd);

	return e && (e->state != UP || e->ended);
}

void tcp_begin(void)
{
	n_cuts = n_ends = 0;
	next_port = 32768;
	if (pump < 0)
		pump = __real_epoll_create1(EPOLL_CLOEXEC);
	inc_os.stream = (struct inc_os_stream){.listen = listen_at,
					       .connect = begin_connect,
					       .result = result_of,
					       .own = own_address,
					       .peer = peer_address,
					       .peer_ended = peer_ended};
}

void tcp_end(void)
{
	struct tcp_end *e;

	while ((e = ends)) {
		ends = e->next;
		close_middle(e);
		free(e->received);
		free(e);
	}
}

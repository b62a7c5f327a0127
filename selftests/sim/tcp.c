// SPDX-License-Identifier: BSD-2-Clause
/* TCP streams: the bytes under way, and the two ends. tcp_calls.c has the system calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "sim.h"
#include "tcp.h"

#define DELAY_MIN_NS 5000
#define DELAY_MAX_NS 100000
/* greatest delay of a lost segment, until faults end */
#define LATE_MOST_NS (30 * INC_NSEC_PER_MSEC)
#define CUTS         8

/* Bytes, an end of stream, or another signal, on the way to one end of a stream. */
struct segment {
	struct tcp_end *to;
	enum { BYTES, END, RESET, ARRIVED, REFUSED } what;
	size_t size;
	uint8_t bytes[];
};

static struct tcp_end *ends; /* list of all ends of a run, which is freed at the end of the run */
static struct {
	uint32_t addr;
	bool gone;
	uint64_t until_ns;
} cuts[CUTS];
static unsigned int n_cuts;
static uint16_t next_port;

void tcp_begin(void)
{
	n_cuts = 0;
	next_port = 32768;
}

void tcp_end(void)
{
	struct tcp_end *e;

	while ((e = ends)) {
		ends = e->next;
		free(e->received);
		free(e);
	}
}

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

unsigned int tcp_open(uint32_t addr)
{
	const struct tcp_end *e;
	unsigned int n = 0;

	for (e = ends; e; e = e->next)
		n += e->fd >= 0 && e->addr == addr && !e->pipe;
	return n;
}

struct tcp_end *tcp_new(uint32_t addr)
{
	struct tcp_end *e = calloc(1, sizeof(*e));

	sim_require(e, "no memory");
	e->addr = addr;
	e->fd = -1;
	e->next = ends;
	ends = e;
	return e;
}

uint16_t tcp_free_port(void)
{
	return next_port++;
}

struct tcp_end *tcp_listener(uint32_t addr, uint16_t port)
{
	struct tcp_end *e;

	for (e = ends; e; e = e->next)
		if (e->state == TCP_LISTENING && e->fd >= 0 && e->addr == addr && e->port == port)
			return e;
	return NULL;
}

void tcp_pair(struct tcp_end *a, struct tcp_end *b)
{
	a->peer = b;
	b->peer = a;
	a->peer_addr = b->addr;
	b->peer_addr = a->addr;
	a->peer_port = b->port;
	b->peer_port = a->port;
	a->delay_ns = b->delay_ns = a->pipe ? 0 : sim_between(DELAY_MIN_NS, DELAY_MAX_NS);
}

static void changed(struct tcp_end *e)
{
	if (e->fd < 0)
		return;
	task_fd_changed(e->fd);
	task_fd_has_room(e->fd);
}

static void take_bytes(struct tcp_end *e, const struct segment *s)
{
	if (e->closed) { /* no process reads from this end any more */
		tcp_send(e->peer, TCP_RESET, NULL, 0);
		return;
	}
	e->received = realloc(e->received, e->n_received + s->size);
	sim_require(e->received, "no memory");
	memcpy(e->received + e->n_received, s->bytes, s->size);
	e->n_received += s->size;
}

static void arrive(void *arg, uint64_t unused)
{
	struct segment *s = arg;
	struct tcp_end *e = s->to;

	if (is_gone(e->addr) || e->state == TCP_BROKEN)
		goto out;
	sim_note("tcp", "arrives: what, bytes, port", s->what, s->size, e->port);
	switch (s->what) {
	case BYTES:
		e->peer->under_way -= s->size;
		take_bytes(e, s);
		changed(e->peer);
		break;
	case END:
		e->ended = true;
		break;
	case RESET:
		e->state = TCP_BROKEN;
		e->error = ECONNRESET;
		break;
	case ARRIVED:
		e->state = TCP_UP;
		break;
	case REFUSED:
		e->state = TCP_BROKEN;
		e->error = ECONNREFUSED;
		break;
	}
	changed(e);
out:
	free(s);
}

/* The time when a segment that leaves now arrives at the other machine. */
static uint64_t arrival(struct tcp_end *to, uint32_t from)
{
	uint64_t at_ns = sim_now_ns() + to->delay_ns;
	unsigned int i;

	if (sim_fault(20) && !to->pipe)
		at_ns += sim_between(0, LATE_MOST_NS);
	for (i = 0; i < n_cuts; i++)
		if ((cuts[i].addr == to->addr || cuts[i].addr == from) && !to->pipe &&
		    !cuts[i].gone && sim_now_ns() < cuts[i].until_ns && at_ns < cuts[i].until_ns)
			at_ns = cuts[i].until_ns + to->delay_ns;
	if (at_ns <= to->last_ns)
		at_ns = to->last_ns + 1;
	to->last_ns = at_ns;
	return at_ns;
}

static void pass(struct tcp_end *to, uint32_t from, int what, const void *bytes, size_t size)
{
	struct segment *s;

	if (is_gone(from) || is_gone(to->addr))
		return;
	s = malloc(sizeof(*s) + size);
	sim_require(s, "no memory");
	s->to = to;
	s->what = what;
	s->size = size;
	if (size)
		memcpy(s->bytes, bytes, size);
	sim_at(arrival(to, from), arrive, s, 0);
}

void tcp_send(struct tcp_end *to, enum tcp_sign sign, const void *bytes, size_t size)
{
	static const int what[] = {[TCP_BYTES] = BYTES, [TCP_END] = END, [TCP_RESET] = RESET};

	pass(to, to->peer_addr, what[sign], bytes, size);
}

/* The connection request of this end arrives at the other machine. */
static void take_request(void *arg, uint64_t unused)
{
	struct tcp_end *e = arg, *l = tcp_listener(e->peer_addr, e->peer_port), *theirs;

	if (is_gone(e->addr) || is_gone(e->peer_addr) || e->fd < 0)
		return;
	if (!l || l->n_waiting == TCP_BACKLOG) {
		pass(e, e->peer_addr, REFUSED, NULL, 0);
		return;
	}
	theirs = tcp_new(l->addr);
	theirs->port = l->port;
	theirs->state = TCP_UP;
	tcp_pair(e, theirs);
	l->waiting[l->n_waiting++] = theirs;
	pass(e, e->peer_addr, ARRIVED, NULL, 0);
	changed(l);
}

void tcp_start_connect(struct tcp_end *e)
{
	e->delay_ns = sim_between(DELAY_MIN_NS, DELAY_MAX_NS);
	sim_at(arrival(e, e->peer_addr), take_request, e, 0);
}

bool tcp_readable(const void *arg)
{
	const struct tcp_end *e = arg;

	return e->n_waiting || e->n_received || e->ended || e->state == TCP_BROKEN;
}

bool tcp_writable(const void *arg)
{
	const struct tcp_end *e = arg;

	return (e->state == TCP_UP && e->under_way < TCP_BUFFER) || e->state == TCP_BROKEN;
}

/* Closes one end of a stream. As a kernel does, it sends a reset if received bytes were not
 * read. */
void tcp_closed(void *arg)
{
	struct tcp_end *e = arg;
	unsigned int i;

	e->fd = -1;
	e->closed = true;
	for (i = 0; i < e->n_waiting; i++) {
		e->waiting[i]->closed = true;
		tcp_send(e->waiting[i]->peer, TCP_RESET, NULL, 0);
	}
	e->n_waiting = 0;
	if (e->peer && e->state == TCP_UP)
		tcp_send(e->peer, e->n_received || e->at_once ? TCP_RESET : TCP_END, NULL, 0);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Hostile peers beside the honest ones, each a process on a machine of its own. They connect to the
 * ports of the controller and of the daemon at random moments, and send what no honest peer sends.
 * In seeds with TLS a hostile peer has a valid key. Its messages are then right except for the
 * permissions of that key. Functions of cluster.c call this file, and check that hostile peers
 * leave no trace.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <openssl/ssl.h>
#include "cluster.h"
#include "lib/net/hostport.h"
#include "lib/net/lines.h"
#include "lib/net/wait.h"
#include "network.h"
#include "selftests/fakes/tls_hostile.h"
#include "sim.h"

#define HOSTILE      0x58 /* distinguishes the random numbers of hostile peers from others */
#define ATTACKS_MOST 24
#define PIECES_MOST  4
/* connections of a hostile peer at a time; the controller allows 16 per address */
#define OPEN_MOST  20
#define FLOOD_MOST 64 /* connections that a hostile peer makes in a row */
/* time for which a hostile peer waits for a connection, a handshake or room to send */
#define PATIENCE_MS 200
#define PIECE_MOST  (INC_MEMBER_LINE_MAX + 4096)
/* number of requests; their answers are more than a socket has room for */
#define QUESTIONS 150

/* How a hostile peer ends a connection. END_STAY leaves it open. END_STAY is the last value, so
 * that all smaller values end the connection. */
enum end { END_CLOSE, END_RESET, END_SHUT, END_STAY, N_ENDS };

struct connection {
	int fd; /* descriptor of the connection; -1: none */
	uint16_t port;
	struct tls_hostile *tls; /* TLS state of the connection; NULL: it has no TLS */
};

static struct hostile {
	struct process process;
	struct rng rng;
	struct inc_tls *tls;
	/* the honest host whose address the hostile peer names when it joins its own job */
	unsigned int host;
	struct connection open[OPEN_MOST];
	char out[PIECE_MOST]; /* the bytes of the peer's next message */
} hostiles[CLUSTER_HOSTILE_MOST];

/* --- messages --- */

/* The lines below have placeholders. For a job of honest ranks these are its name (%J), its size
 * (%W), one of its ranks (%R) and that rank's address (%A). Numbers of an honest group and
 * communicator are %G and %C. The address of an honest host is %H. */

/* Lines that are no valid messages. */
static const char *const shapes[] = {
	"[]\n",
	"7\n",
	"\"G\"\n",
	"null\n",
	"{}\n",
	"\n",
	"{\"type\":7}\n",
	"{\"type\":[\"G\"]}\n",
	"{\"type\":\"no such type\"}\n",
	"{\"type\":\"G\",\"version\":3,\"job\":{\"%J\":1},\"rank\":\"%R\"}\n",
	"{\"type\":\"G\",\"version\":3,\"job\":\"%J\",\"rank\":%W,\"world_size\":%W,\"addrs\":[\"%"
	"A\"]}\n",
	"{\"type\":\"G\",\"version\":3,\"job\":\"%J\",\"rank\":%R,\"world_size\":%W,\"addrs\":["
	"\"10.0.0.1\"]}\n",
	"{\"type\":\"G\",\"version\":3,\"job\":\"%J\",\"rank\":%R,\"world_size\":%W,\"addrs\":\"%"
	"A\"}\n",
	"{\"type\":\"G\",\"version\":3,\"job\":\"%J\",\"rank\":%R,\"world_size\":100000,\"addrs\":["
	"\"%A\"]}\n",
	"{\"type\":\"C\",\"comm\":-1}\n",
	"{\"type\":\"failed\",\"communicator\":%C,\"errno\":7}\n",
	"{\"type\":\"resume\",\"version\":3,\"job\":\"%J\",\"group\":%G,\"communicators\":{}}\n",
	"{\"type\":\"hello\",\"version\":3,\"switch\":[\"s0\"]}\n",
	"{\"type\":\"hello\",\"switch\":\"s0\",\"communicators\":[%C]}\n",
};

/* Valid messages whose sender is not allowed to send them. */
static const char *const foreign[] = {
	"{\"type\":\"ready\",\"communicator\":%C}\n",
	"{\"type\":\"D\",\"communicator\":%C}\n",
	"{\"type\":\"failed\",\"communicator\":%C,\"rank\":%R,\"errno\":\"EIO\",\"message\":\"x\"}"
	"\n",
	"{\"type\":\"failed\",\"comm\":0,\"errno\":\"EIO\",\"message\":\"x\"}\n",
	"{\"type\":\"event\",\"switch\":\"s0\",\"event\":\"unresponsive\",\"communicator\":%C,"
	"\"rank\":%R}\n",
	"{\"type\":\"configured\",\"seq\":1,\"communicator\":%C}\n",
	"{\"type\":\"removed\",\"seq\":2,\"communicator\":%C}\n",
	"{\"type\":\"error\",\"seq\":1,\"errno\":\"EIO\",\"message\":\"x\"}\n",
	"{\"type\":\"G\",\"version\":1,\"job\":\"%J\",\"rank\":%R,\"world_size\":%W,\"addrs\":[\"%"
	"A\"]}\n",
	"{\"type\":\"G\",\"version\":3,\"job\":\"%J\",\"rank\":%R,\"world_size\":%W,\"addrs\":[\"%"
	"A\"],"
	"\"derive\":{\"how\":\"shrink\",\"of\":%G,\"round\":0}}\n",
	"{\"type\":\"hello\",\"version\":1,\"switch\":\"s0\",\"communicators\":[]}\n",
	"{\"type\":\"hello\",\"version\":3,\"switch\":\"s9\",\"communicators\":[%C]}\n",
	"{\"type\":\"bye\"}\n",
};

/* Messages that are valid except that the sender's key does not allow them. */
static const char *const wrong_key[] = {
	"{\"type\":\"G\",\"version\":3,\"job\":\"%J\",\"rank\":%R,\"world_size\":%W,\"addrs\":[\"%"
	"A\"]}\n",
	"{\"type\":\"resume\",\"version\":3,\"job\":\"%J\",\"rank\":%R,\"world_size\":%W,\"addrs\":"
	"[\"%A\"],"
	"\"group\":%G,\"communicators\":[{\"communicator\":%C,\"comm\":0,\"switch\":\"s0\","
	"\"transport\":\"soft\",\"own_qp\":77,\"payload\":256,\"slots\":1}]}\n",
	"{\"type\":\"mode\",\"switch\":\"s0\",\"mode\":\"termination\"}\n",
	"{\"type\":\"hello\",\"version\":3,\"switch\":\"s0\",\"communicators\":[]}\n",
};

/* A hostile peer makes its own job with these messages, and then names groups and communicators of
 * other jobs. */
static const char *const own_job[] = {
	"{\"type\":\"G\",\"version\":3,\"job\":\"" CLUSTER_JOB_HOSTILE
	"\",\"rank\":0,\"world_size\":1,\"addrs\":[\"%H\"]}\n",
	"{\"type\":\"C\",\"comm\":0,\"transport\":\"soft\",\"own_qp\":77,\"own_psn\":1,\"own_"
	"port\":7,"
	"\"payload\":256,"
	"\"window\":1}\n",
};

static const char *const questions[] = {
	"groups", "communicators", "switches", "tree", "status", "ports", "connections", "metrics",
};

static void put(char *out, size_t *n, const char *text)
{
	const size_t len = strlen(text);

	memcpy(out + *n, text, len);
	*n += len;
}

/* Replaces the placeholders in the line by current names and numbers of the honest jobs. */
static size_t fill_in(struct hostile *h, const char *line, char *out)
{
	const struct cluster_group *g = &cluster.group[rng_below(&h->rng, cluster.n_groups)];
	const unsigned int rank = rng_below(&h->rng, g->n_ranks);
	uint32_t group, communicator;
	char text[32];
	size_t n = 0;

	controller_numbers(&group, &communicator);
	for (; *line; line++) {
		if (*line != '%') {
			out[n++] = *line;
			continue;
		}
		switch (*++line) {
		case 'J':
			put(out, &n, g->job);
			continue;
		case 'A':
			snprintf(text, sizeof(text), "10.77.%u.1", rank);
			break;
		case 'H':
			snprintf(text, sizeof(text), "10.77.%u.1", h->host);
			break;
		default:
			snprintf(text, sizeof(text), "%u",
				 *line == 'W'   ? g->n_ranks
				 : *line == 'R' ? rank
				 : *line == 'G' ? group
						: communicator);
			break;
		}
		put(out, &n, text);
	}
	return n;
}

#define ANY(h, list) ((list)[rng_below(&(h)->rng, sizeof(list) / sizeof((list)[0]))])

static size_t fill_random(struct hostile *h, char *out, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		out[i] = rng_below(&h->rng, 256);
	return n;
}

static size_t half_hello(struct hostile *h, char *out)
{
	size_t n = fill_in(
		h, "{\"type\":\"hello\",\"version\":3,\"switch\":\"s0\",\"communicators\":[]}",
		out);

	/* the length of at most n bytes leaves out the newline */
	return 1 + rng_below(&h->rng, n - 1);
}

static size_t garbage_behind(struct hostile *h, char *out)
{
	size_t n = 0;

	put(out, &n, "{\"type\":\"ping\"}\n");
	return n + fill_random(h, out + n, 1 + rng_below(&h->rng, 200));
}

/* Makes a line of about the greatest length, or with brackets nested too deeply. */
static size_t long_line(struct hostile *h, char *out)
{
	const size_t n = INC_MEMBER_LINE_MAX - 10 + rng_below(&h->rng, 20);

	memset(out, rng_below(&h->rng, 2) ? '[' : 'x', n);
	out[n] = '\n';
	return n + 1;
}

static size_t http(struct hostile *h, char *out)
{
	static const char *const requests[] = {
		"GET /metrics HTTP/1.1\r\n\r\n",
		"GET /metrics HTTP/1.0\r\n\r\n",
		"POST /metrics HTTP/1.1\r\nContent-Length: 100000\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nX: ",
		"GET",
	};
	size_t n = 0;

	put(out, &n, ANY(h, requests));
	return n;
}

/* --- connections --- */

static void wait_ms(unsigned int ms)
{
	inc_wait_poll(NULL, 0, (int)ms);
}

static bool wait_for(const struct connection *c, short what)
{
	struct pollfd pfd = {.fd = c->fd, .events = what};

	return inc_wait_poll(&pfd, 1, PATIENCE_MS) > 0;
}

static bool send_bytes(const struct connection *c, const char *bytes, size_t n)
{
	ssize_t sent;

	while (n) {
		sent = wait_for(c, POLLOUT) ? send(c->fd, bytes, n, MSG_NOSIGNAL) : -1;
		if (sent < 0)
			return false;
		bytes += sent;
		n -= sent;
	}
	return true;
}

static bool flush(const struct connection *c)
{
	size_t n;
	const void *bytes = tls_hostile_output(c->tls, &n);
	const bool good = send_bytes(c, bytes, n);

	tls_hostile_sent(c->tls);
	return good;
}

/* Sends bytes on the connection: as TLS records if its handshake is done, else plain. */
static bool say(const struct connection *c, const char *bytes, size_t n)
{
	size_t part;

	if (!c->tls)
		return send_bytes(c, bytes, n);
	if (!tls_hostile_done(c->tls))
		return false;
	for (; n; bytes += part, n -= part) {
		part = n < TLS_HOSTILE_RECORD_MAX ? n : TLS_HOSTILE_RECORD_MAX;
		tls_hostile_record(c->tls, SSL3_RT_APPLICATION_DATA, bytes, part);
		if (!flush(c))
			return false;
	}
	return true;
}

/* Reads all that the peer has sent so far. */
static void read_answers(const struct connection *c)
{
	char bytes[4096];
	ssize_t n;

	while ((n = recv(c->fd, bytes, sizeof(bytes), 0)) > 0)
		if (c->tls)
			tls_hostile_take(c->tls, bytes, n);
}

static void shake_hands(struct connection *c)
{
	unsigned int turn;

	for (turn = 0; turn < 4 && !tls_hostile_done(c->tls); turn++) {
		if (!flush(c) || !wait_for(c, POLLIN))
			return;
		read_answers(c);
	}
	flush(c);
}

static struct connection *connect_to(struct hostile *h, uint16_t port, uint32_t addr, bool tls)
{
	const struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = addr};
	struct connection *c;

	for (c = h->open; c < h->open + OPEN_MOST && c->fd >= 0; c++)
		;
	if (c == h->open + OPEN_MOST)
		return NULL;
	cluster_figures.hostile_connections++;
	*c = (struct connection){
		.fd = inc_os.stream.connect((const struct sockaddr *)&in, sizeof(in)),
		.port = port};
	if (tls)
		c->tls = tls_hostile_new(h->tls);
	return c;
}

static void end_connection(struct connection *c, enum end how)
{
	if (how == END_STAY)
		return;
	if (how == END_SHUT) {
		shutdown(c->fd, SHUT_WR);
		wait_ms(1);
	}
	if (how == END_RESET)
		tcp_reset_at_close(c->fd);
	if (c->tls)
		tls_hostile_free(c->tls);
	close(c->fd);
	*c = (struct connection){.fd = -1};
}

/* --- attacks --- */

/* Waits up to three seconds; short waits are as frequent as long ones. */
static void pause_a_while(struct hostile *h)
{
	const uint64_t us = rng_below(&h->rng, 1u << (4 + rng_below(&h->rng, 18)));
	const struct timespec ts = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	inc_os.wait.poll(NULL, 0, &ts);
}

/* TLS records that OpenSSL never sends. */
static bool wrong_records(struct hostile *h, const struct connection *c)
{
	char bytes[64];

	if (!tls_hostile_done(c->tls))
		return false;
	switch (rng_below(&h->rng, 4)) {
	case 0:
		tls_hostile_flood(c->tls);
		break;
	case 1:
		tls_hostile_half(c->tls);
		break;
	case 2:
		tls_hostile_raw(c->tls, bytes, fill_random(h, bytes, sizeof(bytes)));
		break;
	case 3:
		tls_hostile_record(c->tls, SSL3_RT_CHANGE_CIPHER_SPEC + rng_below(&h->rng, 4),
				   bytes, fill_random(h, bytes, rng_below(&h->rng, sizeof(bytes))));
		break;
	}
	return flush(c);
}

/* Sends many questions and does not read the answers. */
static bool ask(struct hostile *h, const struct connection *c, char *out)
{
	unsigned int i;
	bool good = true;

	for (i = 0; good && i < QUESTIONS; i++) {
		const int n = sprintf(out, "{\"type\":\"A\",\"what\":\"%s\"}\n", ANY(h, questions));

		good = say(c, out, n);
	}
	return good;
}

/* Waits until there is a communicator, because a line about other jobs' communicators has an effect
 * only then. */
static void await_communicator(void)
{
	uint32_t group, communicator = 1;
	unsigned int ms;

	for (ms = 0; communicator == 1 && ms < PATIENCE_MS; ms++) {
		controller_numbers(&group, &communicator);
		if (communicator == 1)
			wait_ms(1);
	}
}

static bool join_and_say(struct hostile *h, const struct connection *c, char *out)
{
	bool good = true;
	unsigned int i;

	for (i = 0; good && i < 2; i++) {
		good = say(c, out, fill_in(h, own_job[i], out));
		pause_a_while(h);
	}
	await_communicator();
	for (i = rng_below(&h->rng, 4); good && i; i--)
		good = say(c, out, fill_in(h, ANY(h, foreign), out));
	return good;
}

/* Sends one piece of an attack. Returns false if the connection is closed. Most pieces leave it
 * open, so that others can follow. */
static bool send_piece(struct hostile *h, const struct connection *c)
{
	static const enum piece {
		RANDOM,
		HALF,
		GARBAGE,
		LONG,
		SHAPE,
		FOREIGN,
		ASK,
		OWN_JOB,
		/* the pieces from here on need keys */
		WRONG_KEY,
		RECORDS,
	} pieces[] = {RANDOM,    HALF,      GARBAGE,   LONG,      SHAPE,   SHAPE,   SHAPE,
		      FOREIGN,   FOREIGN,   FOREIGN,   FOREIGN,   ASK,     OWN_JOB, OWN_JOB,
		      WRONG_KEY, WRONG_KEY, WRONG_KEY, WRONG_KEY, RECORDS, RECORDS};
	const unsigned int n = sizeof(pieces) / sizeof(pieces[0]);
	const unsigned int n_plain = n - 6; /* number of pieces that need no keys */
	char *const out = h->out;

	if (c->port == CLUSTER_METRICS_PORT && rng_below(&h->rng, 3))
		return say(c, out, http(h, out));
	switch (pieces[rng_below(&h->rng, c->tls ? n : n_plain)]) {
	case RANDOM:
		return say(c, out, fill_random(h, out, 1 + rng_below(&h->rng, 2000)));
	case HALF:
		return say(c, out, half_hello(h, out));
	case GARBAGE:
		return say(c, out, garbage_behind(h, out));
	case LONG:
		return say(c, out, long_line(h, out));
	case SHAPE:
		return say(c, out, fill_in(h, ANY(h, shapes), out));
	case FOREIGN:
		await_communicator();
		return say(c, out, fill_in(h, ANY(h, foreign), out));
	case ASK:
		return ask(h, c, out);
	case OWN_JOB:
		return join_and_say(h, c, out);
	case WRONG_KEY:
		await_communicator();
		return say(c, out, fill_in(h, ANY(h, wrong_key), out));
	case RECORDS:
		return wrong_records(h, c);
	}
	return false;
}

/* Makes connections one after the other, and sends nothing on most of them. */
static void flood(struct hostile *h, uint16_t port, uint32_t addr)
{
	unsigned int n = rng_below(&h->rng, FLOOD_MOST);
	struct connection *c;

	while (n--) {
		c = connect_to(h, port, addr, cluster.tls && rng_below(&h->rng, 2));
		if (!c)
			c = &h->open[rng_below(&h->rng, OPEN_MOST)];
		if (c->tls && rng_below(&h->rng, 4) == 0)
			shake_hands(c);
		end_connection(c, rng_below(&h->rng, N_ENDS));
	}
}

static void attack(struct hostile *h)
{
	static const uint16_t ports[] = {INC_PORT_MEMBERS, INC_PORT_MEMBERS, INC_PORT_SWITCHES,
					 CLUSTER_METRICS_PORT};
	const uint16_t port = ports[rng_below(&h->rng, cluster.metrics ? 4 : 3)];
	const bool of_daemon = port == CLUSTER_METRICS_PORT && rng_below(&h->rng, 2);
	const unsigned int sw = cluster.n_switches > 1 ? rng_below(&h->rng, cluster.n_switches) : 0;
	const uint32_t addr = of_daemon ? cluster.sw[sw].process.addr : controller.process.addr;
	/* In seeds with keys, the peer mostly uses its own key. The port for metrics needs no
	 * key. */
	const bool tls = cluster.tls && port != CLUSTER_METRICS_PORT && rng_below(&h->rng, 8);
	unsigned int pieces = 1 + rng_below(&h->rng, PIECES_MOST);
	const bool reads = rng_below(&h->rng, 2);
	struct connection *c;

	if (!rng_below(&h->rng, 8)) {
		flood(h, port, addr);
		return;
	}
	c = connect_to(h, port, addr, tls);
	if (!c) {
		end_connection(&h->open[rng_below(&h->rng, OPEN_MOST)],
			       rng_below(&h->rng, END_STAY));
		return;
	}
	if (tls)
		shake_hands(c);
	while (pieces-- && send_piece(h, c)) {
		if (reads)
			read_answers(c);
		pause_a_while(h);
	}
	end_connection(c, rng_below(&h->rng, N_ENDS));
}

static void run(void *arg)
{
	const struct inc_tls_files files = {.key = CLUSTER_KEY_HOSTILE};
	struct hostile *h = arg;
	unsigned int n = 1 + rng_below(&h->rng, ATTACKS_MOST), i;
	struct inc_err err;

	if (cluster.tls) {
		h->tls = inc_tls_client(&files, &err);
		sim_require(h->tls, "%s", err.msg);
	}
	while (n-- && !cluster.ranks_through) {
		pause_a_while(h);
		attack(h);
	}
	for (i = 0; i < OPEN_MOST; i++)
		if (h->open[i].fd >= 0)
			end_connection(&h->open[i], rng_below(&h->rng, END_STAY));
	inc_tls_free(h->tls);
	sim_note(h->process.name, "has ended", 0, 0, 0);
}

void cluster_hostile_start(void)
{
	unsigned int i, k;

	for (i = 0; i < cluster.hostiles; i++) {
		struct hostile *h = &hostiles[i];

		*h = (struct hostile){.rng.state = rng_mix(sim_seed(), HOSTILE << 8 | i)};
		snprintf(h->process.name, sizeof(h->process.name), "x%u", i % 10);
		h->process.addr = htonl(0x0a4dfe01 + i);
		h->host = rng_below(&h->rng, cluster.hosts);
		for (k = 0; k < OPEN_MOST; k++)
			h->open[k].fd = -1;
		cluster_figures.hostile_peers++;
		task_new(&h->process, run, h);
	}
}

bool cluster_hostile_ended(void)
{
	unsigned int i;

	for (i = 0; i < cluster.hostiles; i++)
		if (task_alive_of(&hostiles[i].process))
			return false;
	return true;
}

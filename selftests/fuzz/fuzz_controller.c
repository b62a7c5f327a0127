// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 1500
 *
 * Target: the real controller on socket pairs, with members, tools and switches that send anything,
 * and with a fresh state for each input. An input is lines. The first letter selects the
 * connection: "a" to "h" are members and tools, "A" to "D" are switches. The rest is sent there as
 * a line. The rest "." closes the connection. "$" stands for the last communicator that a switch
 * was given, and "#" for the last request to the switch. A host, a switch or a tool must be able to
 * read each line of the controller.
 *
 * Each input runs twice, plainly and over TLS. In the second run a rest that begins with "!" is
 * sent as it is, below TLS.
 *
 * Two honest members have a group at the same time. After each line each of them sends a request,
 * which must be answered, and receives nothing else. The view that a tool gets of their group must
 * stay the same. OpenSSL's queue of errors, which all connections of the thread share, must stay
 * empty.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <openssl/err.h>
#include "controller/net/ctl.h"
#include "controller/net/address_limit.h"
#include "lib/base/clock.h"
#include "lib/base/os.h"
#include "lib/net/lines.h"
#include "lib/net/tls_link.h"
#include "selftests/control/fabric.h"
#include "selftests/fakes/tls_hostile.h"
#include "selftests/fuzz/fuzz.h"
#include "userspace/config.h"

#define MEMBERS  8
#define SWITCHES 4
#define HONEST   2
#define TURNS    8  /* greatest number of turns of the event loop after a line */
#define KEY_MOST 80 /* bytes of a line of a key file */

enum { KEY_ADMIN, KEY_S0, KEY_S1, KEY_MEMBER, N_KEYS };

static const char topology[] = "name: fuzz\n" TWO_SWITCHES;

static const char *const identities[N_KEYS] = {"admin", "switch:s0", "switch:s1", "member"};
/* keys of the peers and of the controller; NULL while the controller has no keys */
static struct inc_tls *key[N_KEYS], *all_keys;

struct peer {
	int fd;                    /* descriptor of the peer; -1: not connected */
	struct inc_tls_link *link; /* TLS link of the peer; NULL: a connection without TLS */
	struct inc_lines lines;
};

static struct inc_ctl ctl;
static struct peer peers[MEMBERS + SWITCHES];
static struct peer honest[HONEST];
static char *shown; /* the controller's answer to a question about the honest members' group */
static uint32_t drawn;
static long long last_comm, last_seq;

/* Makes the numbers that the controller draws predictable, so that inputs can contain them. */
static int draw(void *out, size_t size, bool wait)
{
	fuzz_require(size == sizeof(drawn), "%zu random bytes", size);
	drawn += 2;
	memcpy(out, &drawn, size);
	return 0;
}

static struct inc_tls *make_keys(struct inc_tls *(*side)(const struct inc_tls_files *files,
							 struct inc_err *err),
				 int from, int to)
{
	char text[N_KEYS * KEY_MOST];
	struct inc_tls_files files;
	struct inc_err err = {""};
	struct inc_tls *made;
	size_t n = 0;

	for (int i = from; i < to; i++)
		n += snprintf(text + n, KEY_MOST, "%s %032d\n", identities[i], i);
	files = (struct inc_tls_files){.key = fuzz_file(text, n)};
	fuzz_require(!chmod(files.key, 0600), "no mode");
	made = side(&files, &err);
	fuzz_require(made, "%s", err.msg);
	return made;
}

static void set_up(void)
{
	if (all_keys)
		return;
	all_keys = make_keys(inc_tls_server, 0, N_KEYS);
	for (int i = 0; i < N_KEYS; i++)
		key[i] = make_keys(inc_tls_client, i, i + 1);
}

/* Sends the bytes that the peer's end of TLS has for the controller. */
static void flush(struct peer *peer)
{
	size_t n;
	const void *bytes = inc_tls_link_output(peer->link, &n);

	send(peer->fd, bytes, n, MSG_NOSIGNAL);
	inc_tls_link_sent(peer->link);
}

static void peer_send(struct peer *peer, const char *text, size_t n)
{
	struct inc_err err;

	if (!peer->link || *text == '!') {
		send(peer->fd, text, n, MSG_NOSIGNAL);
		return;
	}
	/* a link that has failed cannot send anything */
	if (!inc_tls_link_write(peer->link, text, n, &err))
		flush(peer);
}

/* Receives bytes of the controller, like recv(). arrived: set if any bytes came, also those of
 * TLS. */
static ssize_t peer_recv(struct peer *peer, void *space, size_t room, bool *arrived)
{
	struct inc_err err;
	char bytes[1 << 14];
	ssize_t n;

	for (;;) {
		n = peer->link ? inc_tls_link_read(peer->link, space, room, &err) : 0;
		if (n)
			return n > 0 ? n : 0;
		n = recv(peer->fd, peer->link ? bytes : space, peer->link ? sizeof(bytes) : room,
			 0);
		*arrived |= n > 0;
		if (n <= 0 || !peer->link)
			return n;
		if (inc_tls_link_take(peer->link, bytes, n, &err))
			return 0;
		flush(peer);
	}
}

/* Connects a peer. address: the peer's address, by which the controller distinguishes hosts. with:
 * the peer's key, for a run over TLS; NULL: the caller itself speaks TLS. */
static void dial(struct peer *peer, uint32_t address, bool is_switch, struct inc_tls *with)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
	int ends[2];

	fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
		     "no sockets");
	peer->fd = ends[0];
	peer->lines = (struct inc_lines){.max_line = INC_ANSWER_MAX};
	(is_switch ? inc_switch_accept : inc_client_accept)(NULL, ends[1], (struct sockaddr *)&from,
							    sizeof(from), &ctl);
	if (ctl.tls && with) {
		struct inc_err err = {""};

		peer->link = inc_tls_link_new(with, NULL, &err);
		fuzz_require(peer->link, "%s", err.msg);
		flush(peer);
	}
}

static void hang_up(struct peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	inc_tls_link_free(peer->link);
	inc_lines_free(&peer->lines);
	*peer = (struct peer){.fd = -1};
}

/* --- the honest members --- */

/* The next object that the controller has sent to an honest member. Returns NULL if there is
 * none. */
static json_t *next_object(struct peer *peer)
{
	struct inc_err err = {""};
	bool arrived = false;
	json_t *object = NULL;
	size_t room;
	char *space;
	ssize_t n;
	int ret;

	while (!(ret = inc_lines_next(&peer->lines, &object, &err))) {
		space = inc_lines_space(&peer->lines, &room);
		n = peer_recv(peer, space, room, &arrived);
		fuzz_require(n, "an honest member's connection is closed");
		if (n < 0)
			return NULL;
		inc_lines_filled(&peer->lines, n);
	}
	fuzz_require(ret > 0, "to an honest member: %s", err.msg);
	return object;
}

/* Waits for the controller's answer to the peer's request. */
static json_t *await(struct peer *peer)
{
	json_t *object = NULL;

	for (int k = 0; k < TURNS && !object; k++) {
		event_base_loop(ctl.base, EVLOOP_NONBLOCK);
		object = next_object(peer);
	}
	return object;
}

/* Sends a request, and returns the answer, which the caller releases by json_decref(). Nothing may
 * have arrived before the answer. */
static json_t *ask(struct peer *peer, const char *question, const char *type)
{
	json_t *object = next_object(peer);

	fuzz_require(!object, "an honest member receives %s", json_dumps(object, 0));
	peer_send(peer, question, strlen(question));
	object = await(peer);
	fuzz_require(object && !strcmp(inc_message_type(object), type), "%s is answered by %s",
		     question, object ? json_dumps(object, 0) : "nothing");
	return object;
}

/* The view that a tool gets of the honest members' group. It leaves out the group's age and the
 * usage of other members of the job. */
static char *show_group(void)
{
	json_t *answer = ask(&honest[0], "{\"type\":\"A\",\"what\":\"groups\"}\n", "A"), *row;
	char *text = NULL;
	size_t i;

	json_array_foreach (json_object_get(answer, "data"), i, row) {
		if (strcmp(json_string_value(json_object_get(row, "job")), "honest") != 0 ||
		    json_object_get(row, "of"))
			continue;
		json_object_del(row, "age_s");
		json_object_del(row, "job_usage");
		free(text);
		text = json_dumps(row, JSON_SORT_KEYS);
	}
	json_decref(answer);
	fuzz_require(text, "the honest members' group is not shown");
	return text;
}

static void begin_honest(void)
{
	char text[200];

	/* the group gets the number before the first one that inputs of the corpus contain */
	ctl.core.group_numbers.first--;
	ctl.core.group_numbers.next--;
	for (int i = 0; i < HONEST; i++) {
		dial(&honest[i], MEMBERS + SWITCHES + i, false, key[KEY_MEMBER]);
		snprintf(text, sizeof(text),
			 "{\"type\":\"G\",\"version\":3,\"job\":\"honest\",\"rank\":%d,"
			 "\"world_size\":%d,\"addrs\":[\"10.77.%d.1\"],\"host\":\"n%d\"}\n",
			 i, HONEST, i, i);
		json_decref(ask(&honest[i], "{\"type\":\"ping\"}\n", "pong"));
		peer_send(&honest[i], text, strlen(text));
	}
	for (int i = 0; i < HONEST; i++) {
		json_t *object = await(&honest[i]);

		fuzz_require(object && !strcmp(inc_message_type(object), "G"),
			     "the honest members have no group");
		json_decref(object);
	}
	shown = show_group();
}

static void check_honest(void)
{
	for (int i = 0; i < HONEST; i++)
		json_decref(ask(&honest[i], "{\"type\":\"ping\"}\n", "pong"));
	fuzz_require(!ERR_peek_error(), "OpenSSL's queue has %lx", ERR_peek_error());
}

static void end_honest(void)
{
	char *now = show_group();

	fuzz_require(!strcmp(now, shown), "the honest members' group was %s and is %s", shown, now);
	free(now);
	free(shown);
	for (int i = 0; i < HONEST; i++)
		hang_up(&honest[i]);
}

static void begin(bool tls)
{
	struct inc_err err = {""};
	unsigned int i;

	memset(&ctl, 0, sizeof(ctl));
	ctl.opt = (struct inc_ctl_options){
		.group_timeout_ms = 60000,
		.client_timeout_ms = 60000,
		.switch_timeout_ms = 60000,
		.peer_connections = MEMBERS + SWITCHES,
		.max_clients = MEMBERS + HONEST,
		.job_communicators = 4,
		.job_slots = 2048,
	};
	TAILQ_INIT(&ctl.clients);
	drawn = 0x1000;
	inc_os.random = draw;
	last_comm = last_seq = 0;
	ctl.max_links = SWITCHES;
	ctl.tls = tls ? all_keys : NULL;
	ctl.started_at_ms = inc_now_ms();
	ctl.base = event_base_new();
	fuzz_require(ctl.base && !inc_timeouts_start(&ctl.timeouts, ctl.base) &&
			     !inc_topology_parse("fuzz", topology, sizeof(topology) - 1, &ctl.topo,
						 &err),
		     "%s", err.msg);
	fuzz_require(!inc_links_init(&ctl) && !inc_carry_start(&ctl, &err), "no controller");
	for (i = 0; i < MEMBERS + SWITCHES; i++)
		peers[i].fd = -1;
	begin_honest();
}

static void end(void)
{
	unsigned int i;

	end_honest();
	for (i = 0; i < MEMBERS + SWITCHES; i++)
		hang_up(&peers[i]);
	inc_clients_free(&ctl);
	inc_queries_free(&ctl);
	inc_links_free(&ctl);
	inc_carry_stop(&ctl);
	inc_address_limits_free(&ctl);
	inc_ndjson_drain_stop(NULL);
	inc_timeouts_stop(&ctl.timeouts);
	event_base_free(ctl.base);
	inc_topology_free(ctl.topo);
}

/* Checks that the object is valid by one of the message tables of its type. */
static void check_message(const json_t *object)
{
	const char *type = inc_message_type(object);
	struct inc_err err = {"no such message"};
	bool taken = false;
	int id;

	for (id = 0; id < INC_MSG_MAX && !taken; id++) {
		const struct inc_message *m = &inc_messages[id];
		void *out;

		if (strcmp(m->type, type) != 0 || !strcmp(m->to, "controller"))
			continue;
		out = calloc(1, m->schema.size ?: 1);
		taken = !inc_schema_read_json(&m->schema, object, out, &err);
		free(out);
	}
	fuzz_require(taken, "the controller sends a message that no table accepts: %s: %s",
		     json_dumps(object, 0), err.msg);
}

static void check_configure(const json_t *object)
{
	struct inc_comm_conf *conf = calloc(1, sizeof(*conf));
	struct inc_err err = {""};

	fuzz_require(!inc_config_json(object, conf, &err), "a switch would refuse %s: %s",
		     json_dumps(object, 0), err.msg);
	last_comm = conf->communicator;
	free(conf);
}

/* Reads and checks everything that has arrived at the peer. Returns false if nothing has
 * arrived. */
static bool read_all(struct peer *peer, bool is_switch)
{
	json_t *object;
	struct inc_err err = {""};
	bool heard = false;
	size_t room;
	char *space;
	ssize_t n;
	int ret;

	for (;;) {
		while ((ret = inc_lines_next(&peer->lines, &object, &err)) > 0) {
			check_message(object);
			if (is_switch && !strcmp(inc_message_type(object), "configure"))
				check_configure(object);
			if (is_switch)
				last_seq = json_integer_value(json_object_get(object, "seq"))
						   ?: last_seq;
			json_decref(object);
		}
		fuzz_require(!ret, "the controller sends a line that is not JSON: %s", err.msg);
		space = inc_lines_space(&peer->lines, &room);
		n = peer_recv(peer, space, room, &heard);
		if (n <= 0)
			break;
		inc_lines_filled(&peer->lines, n);
	}
	if (!n)
		hang_up(peer);
	return heard || !n;
}

/* Runs the event loop until nothing has arrived in two turns. */
static void turn(void)
{
	unsigned int i, k, quiet = 0;

	for (k = 0; k < TURNS && quiet < 2; k++) {
		bool heard = false;

		event_base_loop(ctl.base, EVLOOP_NONBLOCK);
		for (i = 0; i < MEMBERS + SWITCHES; i++)
			if (peers[i].fd >= 0)
				heard |= read_all(&peers[i], i >= MEMBERS);
		quiet = heard ? 0 : quiet + 1;
	}
}

/* Returns the line with its "$" and "#" replaced, and with a newline. */
static char *fill_in(const char *line, size_t *len)
{
	char *out = NULL;
	FILE *f = open_memstream(&out, len);

	for (; *line; line++) {
		if (*line == '$' || *line == '#')
			fprintf(f, "%lld", *line == '$' ? last_comm : last_seq);
		else
			fputc(*line, f);
	}
	fputc('\n', f);
	fclose(f);
	return out;
}

static void send_line(unsigned int i, const char *line)
{
	size_t len;
	char *text;

	if (!strcmp(line, ".")) {
		hang_up(&peers[i]);
		return;
	}
	if (peers[i].fd < 0)
		dial(&peers[i], i, i >= MEMBERS,
		     key[i < MEMBERS ? KEY_ADMIN : KEY_S0 + (i - MEMBERS) * 2 / SWITCHES]);
	text = fill_in(line, &len);
	/* sending fails if the controller has closed the connection */
	peer_send(&peers[i], text, len);
	free(text);
}

/* A peer with a valid key floods the controller with new keys, or leaves in the middle of a TLS
 * message. So its connection ends with errors of OpenSSL. */
static void break_off(bool flood)
{
	struct tls_hostile *h = tls_hostile_new(key[KEY_ADMIN]);
	/* the connection of this peer is closed first, so that the controller has room for a new
	 * one */
	struct peer *peer = &peers[0];
	const void *bytes;
	char answer[4096];
	size_t size;
	ssize_t n;

	hang_up(peer);
	turn();
	dial(peer, 0, false, NULL);
	for (int k = 0; k < TURNS; k++) {
		if (k == TURNS / 2) {
			fuzz_require(tls_hostile_done(h), "no handshake");
			(flood ? tls_hostile_flood : tls_hostile_half)(h);
		}
		bytes = tls_hostile_output(h, &size);
		send(peer->fd, bytes, size, MSG_NOSIGNAL);
		tls_hostile_sent(h);
		event_base_loop(ctl.base, EVLOOP_NONBLOCK);
		n = recv(peer->fd, answer, sizeof(answer), 0);
		if (n > 0)
			tls_hostile_take(h, answer, n);
		check_honest();
	}
	hang_up(peer);
	turn();
	check_honest();
	tls_hostile_free(h);
}

static void run(struct fuzz_bytes bytes, bool tls)
{
	char *line;

	begin(tls);
	while ((line = fuzz_take_line(&bytes))) {
		if (*line >= 'a' && *line < 'a' + MEMBERS)
			send_line(*line - 'a', line + 1);
		else if (*line >= 'A' && *line < 'A' + SWITCHES)
			send_line(MEMBERS + *line - 'A', line + 1);
		free(line);
		turn();
		check_honest();
	}
	if (tls)
		break_off(last_seq & 1);
	end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fuzz_bytes bytes = {data, size};

	set_up();
	run(bytes, false);
	run(bytes, true);
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 1500
 * The controller with members, tools and switches that say anything: the real one, on socket pairs,
 * with a fresh state for each input. An input is lines: the first letter says whose connection,
 * "a" to "h" of members and tools, "A" to "D" of switches, and the rest is sent there, as a line; a
 * rest of "." closes it. "$" is the number of the last communicator that a switch was told of, and
 * "#" that of the last request to the switch. Each line that the controller answers must be one
 * that its reader takes: a host, a switch or a tool.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include "controller/ctl.h"
#include "controller/net/remote.h"
#include "lib/base/clock.h"
#include "lib/net/lines.h"
#include "selftests/fuzz/fuzz.h"
#include "userspace/config.h"

#define MEMBERS  8
#define SWITCHES 4
#define TURNS    8 /* of the loop after a line, at most */

static const char topology[] =
	"name: fuzz\n"
	"hosts: [{name: h0, ip: 10.77.0.1}, {name: h1, ip: 10.77.1.1}, {name: h2, ip: 10.77.2.1}]\n"
	"switches:\n"
	"- {name: s0, root: true, ports: [{name: p0, ip: 10.77.0.254, peer: h0},"
	" {name: p1, ip: 10.77.1.254, peer: h1}, {name: t, ip: 10.78.0.1, peer: s1}]}\n"
	"- {name: s1, ports: [{name: p0, ip: 10.77.2.254, peer: h2},"
	" {name: t, ip: 10.78.0.2, peer: s0}]}\n"
	"links: []\n";

struct peer {
	int fd; /* -1: not connected */
	struct inc_lines lines;
};

static struct inc_ctl ctl;
static struct peer peers[MEMBERS + SWITCHES];
static uint32_t drawn;
static long long last_comm, last_seq;

/* Numbers that an input can know beforehand. */
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags)
{
	fuzz_require(len == sizeof(drawn), "%zu random bytes", len);
	drawn += 2;
	memcpy(buf, &drawn, len);
	return len;
}

static void begin(void)
{
	struct inc_err err = {""};
	unsigned int i;

	memset(&ctl, 0, sizeof(ctl));
	ctl.opt = (struct inc_ctl_options){
		.group_timeout_ms = 60000,
		.client_timeout_ms = 60000,
		.switch_timeout_ms = 60000,
		.peer_connections = MEMBERS + SWITCHES,
		.max_clients = MEMBERS,
		.job_communicators = 4,
		.job_slots = 2048,
	};
	TAILQ_INIT(&ctl.clients);
	drawn = 0x1000;
	last_comm = last_seq = 0;
	ctl.max_links = SWITCHES;
	ctl.started_at_ms = inc_now_ms();
	ctl.base = event_base_new();
	fuzz_require(ctl.base && !inc_topology_parse("fuzz", topology, sizeof(topology) - 1,
						     &ctl.topo, &err),
		     "%s", err.msg);
	fuzz_require(!inc_switches_init(&ctl) && !inc_numbers_init(&ctl.group_numbers, &err) &&
			     !inc_numbers_init(&ctl.comm_numbers, &err),
		     "no controller");
	for (i = 0; i < MEMBERS + SWITCHES; i++)
		peers[i].fd = -1;
}

static void hang_up(struct peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	inc_lines_free(&peer->lines);
	peer->fd = -1;
}

static void end(void)
{
	unsigned int i;

	for (i = 0; i < MEMBERS + SWITCHES; i++)
		hang_up(&peers[i]);
	inc_clients_free(&ctl);
	inc_groups_free(&ctl);
	inc_queries_free(&ctl);
	inc_switches_free(&ctl);
	inc_remotes_free(&ctl);
	inc_numbers_free(&ctl.group_numbers);
	inc_numbers_free(&ctl.comm_numbers);
	inc_ndjson_drain_stop(NULL);
	event_base_free(ctl.base);
	inc_topology_free(ctl.topo);
}

static void dial(unsigned int i)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(i)};
	int ends[2];

	fuzz_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
		     "no sockets");
	peers[i].fd = ends[0];
	peers[i].lines = (struct inc_lines){.max_line = INC_ANSWER_MAX};
	if (i < MEMBERS)
		inc_client_accept(NULL, ends[1], (struct sockaddr *)&from, sizeof(from), &ctl);
	else
		inc_switch_accept(NULL, ends[1], (struct sockaddr *)&from, sizeof(from), &ctl);
}

/* Whether one of the tables that it can be of takes it. */
static void check_said(const json_t *object)
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
	fuzz_require(taken, "the controller says what nobody understands: %s: %s",
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

/* False: there was nothing. */
static bool hear(struct peer *peer, bool is_switch)
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
			check_said(object);
			if (is_switch && !strcmp(inc_message_type(object), "configure"))
				check_configure(object);
			if (is_switch)
				last_seq = json_integer_value(json_object_get(object, "seq"))
						   ?: last_seq;
			json_decref(object);
		}
		fuzz_require(!ret, "the controller says no line of JSON: %s", err.msg);
		space = inc_lines_space(&peer->lines, &room);
		n = recv(peer->fd, space, room, 0);
		if (n <= 0)
			break;
		heard = true;
		inc_lines_filled(&peer->lines, n);
	}
	if (!n)
		hang_up(peer);
	return heard || !n;
}

/* Until two turns of the loop have brought nothing. */
static void turn(void)
{
	unsigned int i, k, quiet = 0;

	for (k = 0; k < TURNS && quiet < 2; k++) {
		bool heard = false;

		event_base_loop(ctl.base, EVLOOP_NONBLOCK);
		for (i = 0; i < MEMBERS + SWITCHES; i++)
			if (peers[i].fd >= 0)
				heard |= hear(&peers[i], i >= MEMBERS);
		quiet = heard ? 0 : quiet + 1;
	}
}

/* The line with its numbers put in, and a newline. */
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

static void say(unsigned int i, const char *line)
{
	size_t len;
	char *text;

	if (!strcmp(line, ".")) {
		hang_up(&peers[i]);
		return;
	}
	if (peers[i].fd < 0)
		dial(i);
	text = fill_in(line, &len);
	/* who has been refused is no longer there */
	send(peers[i].fd, text, len, MSG_NOSIGNAL);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	char *line;

	begin();
	while ((line = fuzz_take_line(&bytes))) {
		if (*line >= 'a' && *line < 'a' + MEMBERS)
			say(*line - 'a', line + 1);
		else if (*line >= 'A' && *line < 'A' + SWITCHES)
			say(MEMBERS + *line - 'A', line + 1);
		free(line);
		turn();
	}
	end();
	return 0;
}

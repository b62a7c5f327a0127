/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inc-controller --discover: waits for switches, asks each one for its neighbours, and prints the
 * topology file that follows from the answers (discovered.h). It is no controller: it has no
 * topology and no database, and configures nothing. A switch is never welcomed, because a welcome
 * would make it remove its communicators. So it goes on, and tries to connect again. Everything
 * runs on one thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>
#include <event2/event.h>
#include "controller/ctl_options.h"
#include "controller/discovered.h"
#include "controller/net/authorization.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/os.h"
#include "lib/base/stdout.h"
#include "lib/conf/messages.h"
#include "lib/net/lines.h"
#include "lib/net/listen.h"
#include "lib/net/loop.h"
#include "lib/net/ndjson.h"
#include "lib/topology/topology.h"

#define ASK_MS   500 /* time between two questions to all switches */
#define BACKLOG  512
#define MOST     (INC_TOPO_MAX_SWITCHES + 64) /* connections at a time */
#define LINE_MS  5000
#define QUESTION "neighbours"

const struct inc_opt inc_discover_options[] = {
	INC_OPT_HEADING("Discovery"),
	{.name = "discover",
	 .help = "wait for switches, ask each one for its neighbours, print a topology file, and "
		 "end; "
		 "inc-switchd must run on the switches with this machine as their controller, and "
		 "no "
		 "controller here",
	 INC_OPT_FLAG(struct inc_discover_command, wanted)},
	{.name = "seconds",
	 .value = "S",
	 .preset = "10",
	 .help = "how long --discover waits for switches",
	 INC_OPT_NUMBER(struct inc_discover_command, seconds, 1, 3600)},
	{},
};

struct visitor;

struct search {
	const struct inc_ctl_options *opt;
	struct event_base *base;
	struct inc_tls *tls; /* NULL: switches need no key */
	struct inc_timer *ask, *end;
	uint64_t began_at_ns;
	struct event *signals[2];
	LIST_HEAD(, visitor) visitors;
	unsigned int n_visitors;
	json_t *answers; /* {switch: its last answer} */
	json_t *refused; /* {reason: true} of hellos that were refused, so that each is logged once
			  */
	bool interrupted;
};

/* A connection on the switch port. */
struct visitor {
	struct search *search;
	struct inc_ndjson *conn;
	char name[INC_TOPO_NAME_MAX]; /* "": no hello yet */
	LIST_ENTRY(visitor) entry;
};

static void visitor_free(struct visitor *visitor)
{
	LIST_REMOVE(visitor, entry);
	visitor->search->n_visitors--;
	inc_ndjson_free(visitor->conn);
	free(visitor);
}

static void ask(const struct visitor *visitor)
{
	struct inc_msg_query query = {.what = QUESTION};

	inc_ndjson_send_new(visitor->conn, inc_message_new(INC_MSG_QUERY, &query));
}

/* Refuses a hello, and closes the connection. The switch tries again, so the log has each reason
 * once. */
static void refuse(struct visitor *visitor, int code, const char *why)
{
	json_t *refused = visitor->search->refused;

	if (!json_object_get(refused, why) && json_object_size(refused) < MOST) {
		json_object_set_new(refused, why, json_true());
		inc_warn("%s: hello refused: %s", inc_ndjson_peer(visitor->conn), why);
	}
	inc_ndjson_send_error(visitor->conn, code, NULL, "%s", why);
	visitor_free(visitor);
}

/* Ends another connection that has sent this switch's hello, because it may be the dead one of an
 * earlier attempt. */
static void replace(const struct visitor *visitor, const char *name)
{
	struct visitor *other;

	LIST_FOREACH (other, &visitor->search->visitors, entry) {
		if (other != visitor && !strcmp(other->name, name)) {
			visitor_free(other);
			return;
		}
	}
}

static void take_hello(struct visitor *visitor, const json_t *object)
{
	struct inc_msg_hello said = {};
	struct inc_err err;
	int ret = inc_first_message_read(visitor->conn, INC_MSG_HELLO, object, &said, &said.version,
					 &err);

	ret = ret ?: inc_authorize_switch(inc_ndjson_identity(visitor->conn), said.node, &err);
	if (!ret && !inc_topology_is_name(said.node))
		ret = inc_err_set(
			&err, EINVAL,
			"'%.64s' is no name for a topology (at most %d letters, digits, - "
			"and _): inc-switchd --name",
			said.node, INC_TOPO_NAME_LEN);
	if (ret) {
		refuse(visitor, -ret, err.msg);
		return;
	}
	replace(visitor, said.node);
	if (!json_object_get(visitor->search->answers, said.node))
		inc_info("switch %s is here, from %s", said.node, inc_ndjson_peer(visitor->conn));
	snprintf(visitor->name, sizeof(visitor->name), "%.15s", said.node);
	ask(visitor);
}

static void on_message(struct inc_ndjson *conn, json_t *object, void *arg)
{
	struct visitor *visitor = arg;
	const char *type = inc_message_type(object);
	json_t *data = json_object_get(object, "data");

	if (inc_message_is(type, INC_MSG_PING)) {
		inc_ndjson_send_new(conn, inc_message_new(INC_MSG_PONG, NULL));
	} else if (inc_message_is(type, INC_MSG_HELLO) && !*visitor->name) {
		take_hello(visitor, object);
	} else if (!*visitor->name) {
		refuse(visitor, EPROTO,
		       "this controller only looks for switches (--discover), and takes no jobs");
	} else if (inc_message_is(type, INC_MSG_ANSWER) && json_is_array(data)) {
		json_object_set(visitor->search->answers, visitor->name, data);
	} else if (inc_message_is(type, INC_MSG_ERROR)) {
		inc_warn("switch %s does not answer: %s", visitor->name,
			 json_string_value(json_object_get(object, "message")) ?: "an error");
	}
}

static void on_closed(struct inc_ndjson *conn, int code, const char *reason, void *arg)
{
	inc_debug("%s: %s", inc_ndjson_peer(conn), reason);
	visitor_free(arg);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int len,
		      void *arg)
{
	static const struct inc_ndjson_ops ops = {.message = on_message, .closed = on_closed};
	static const struct inc_ndjson_limits limits = {.max_line = INC_SWITCH_LINE_MAX,
							.max_write = INC_SWITCH_LINE_MAX,
							.message_timeout_ms = LINE_MS};
	struct search *search = arg;
	struct visitor *visitor = search->n_visitors < MOST ? calloc(1, sizeof(*visitor)) : NULL;
	struct inc_err err;

	if (!visitor) {
		close(fd);
		return;
	}
	visitor->search = search;
	visitor->conn = inc_ndjson_new(search->base, fd, &limits, &ops, visitor, &err);
	if (!visitor->conn) {
		free(visitor);
		return;
	}
	LIST_INSERT_HEAD(&search->visitors, visitor, entry);
	search->n_visitors++;
	if (search->tls && inc_ndjson_secure(visitor->conn, search->tls, NULL, &err))
		visitor_free(visitor);
}

/* Asks all switches again, because each one has introduced itself to the others meanwhile. Shows on
 * a terminal how far the search has come. */
static void on_ask(void *arg)
{
	struct search *search = arg;
	const struct visitor *visitor;

	inc_log_progress(
		"%llu of %u s: switches so far: %zu",
		(unsigned long long)((inc_now_ns() - search->began_at_ns) / INC_NSEC_PER_SEC),
		search->opt->discover.seconds, json_object_size(search->answers));

	LIST_FOREACH (visitor, &search->visitors, entry) {
		if (*visitor->name)
			ask(visitor);
	}
	inc_timer_arm(search->ask, ASK_MS);
}

static void on_end(void *arg)
{
	const struct search *search = arg;

	event_base_loopbreak(search->base);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct search *search = arg;

	search->interrupted = true;
	event_base_loopbreak(search->base);
}

static int start_timers(struct search *search, struct inc_err *err)
{
	static const int numbers[] = {SIGINT, SIGTERM};

	search->ask = inc_timer_new(search->base, on_ask, search);
	search->end = inc_timer_new(search->base, on_end, search);
	if (!search->ask || !search->end || inc_timer_arm(search->ask, ASK_MS) ||
	    inc_timer_arm(search->end, search->opt->discover.seconds * 1000))
		return inc_err_set(err, ENOMEM, "out of memory");
	for (int i = 0; i < 2; i++) {
		search->signals[i] = evsignal_new(search->base, numbers[i], on_signal, search);
		if (!search->signals[i] || event_add(search->signals[i], NULL))
			return inc_err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

/* Listens, and collects answers until the time is over or a signal comes. Returns 0, or -errno with
 * the reason. */
static int collect(struct search *search, struct inc_err *err)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(search->opt->switch_port)};
	unsigned int port = search->opt->switch_port;
	struct evconnlistener *l = NULL;
	struct sockaddr_storage own;
	socklen_t len;
	int ret;

	inet_pton(AF_INET, search->opt->listen, &at.sin_addr);
	ret = inc_listener_open(search->base, (struct sockaddr *)&at, sizeof(at), BACKLOG,
				on_accept, search, &l);
	if (ret)
		return inc_err_set(
			err, -ret,
			"cannot listen on %s:%u: %s; a controller that runs here has the "
			"port, so stop it, or use --switch-port",
			search->opt->listen, search->opt->switch_port, strerror(-ret));
	if (!inc_os.stream.own(evconnlistener_get_fd(l), &own, &len))
		port = ntohs(((const struct sockaddr_in *)&own)->sin_port);
	ret = start_timers(search, err);
	if (!ret) {
		inc_info("waiting %u s for switches at %s:%u", search->opt->discover.seconds,
			 search->opt->listen, port);
		search->began_at_ns = inc_now_ns();
		ret = inc_loop.run(search->base) ? inc_err_set(err, EIO, "the event loop failed")
						 : 0;
		inc_log_progress_end();
	}
	evconnlistener_free(l);
	return ret;
}

/* Ends all connections. A switch logs the reason, and tries its controllers again. */
static void dismiss(struct search *search)
{
	while (!LIST_EMPTY(&search->visitors)) {
		struct visitor *visitor = LIST_FIRST(&search->visitors);

		inc_ndjson_send_error(visitor->conn, EAGAIN, NULL,
				      "this controller has only looked for switches (--discover)");
		inc_ndjson_flush(visitor->conn);
		visitor_free(visitor);
	}
	inc_ndjson_drain_stop(NULL);
}

/* ---- printing ---- */

/* Prints a value in one line, without comments. The texts are names and addresses, which need no
 * quotes. */
static void print_flow(FILE *out, const json_t *value)
{
	const json_t *item;
	const char *key;
	bool more = false;
	size_t i;

	if (json_is_string(value)) {
		fputs(json_string_value(value), out);
	} else if (json_is_array(value)) {
		json_array_foreach (value, i, item) {
			fputs(i ? ", " : "[", out);
			print_flow(out, item);
		}
		fputc(']', out);
	} else if (json_is_object(value)) {
		json_object_foreach ((json_t *)value, key, item) {
			if (!strcmp(key, INC_FOUND_NOTE))
				continue;
			fprintf(out, "%s%s: ", more ? ", " : "{", key);
			print_flow(out, item);
			more = true;
		}
		fputc('}', out);
	} else if (json_is_boolean(value)) {
		fputs(json_is_true(value) ? "true" : "false", out);
	} else {
		fprintf(out, "%lld", (long long)json_integer_value(value));
	}
}

static void print_list(FILE *out, const char *indent, const json_t *list)
{
	const json_t *item;
	size_t i;

	json_array_foreach (list, i, item) {
		const char *text = json_string_value(json_object_get(item, INC_FOUND_NOTE));

		fputs(indent, out);
		if (json_object_size(item) > (text ? 1 : 0)) {
			fputs("- ", out);
			print_flow(out, item);
			fputs(text ? "  " : "", out);
		}
		fprintf(out, text ? "# %s\n" : "\n", text);
	}
}

static void print_switches(FILE *out, const json_t *list)
{
	const json_t *item;
	size_t i;

	json_array_foreach (list, i, item) {
		const char *text = json_string_value(json_object_get(item, INC_FOUND_NOTE));

		fprintf(out, "  - name: %s\n", json_string_value(json_object_get(item, "name")));
		if (json_object_get(item, "root"))
			fprintf(out, "    root: true  # %s\n", text);
		fputs("    ports:\n", out);
		print_list(out, "      ", json_object_get(item, "ports"));
	}
}

static void print_yaml(FILE *out, size_t n_switches, const json_t *topology, const json_t *notes)
{
	const json_t *item;
	const char *key;
	size_t i;

	fprintf(out, "# Found by inc-controller --discover at %zu %s. Check what is a guess.\n",
		n_switches, n_switches == 1 ? "switch" : "switches");
	json_array_foreach (notes, i, item)
		fprintf(out, "# %s\n", json_string_value(item));
	json_object_foreach ((json_t *)topology, key, item) {
		fprintf(out, "%s:%s", key, json_is_array(item) ? "\n" : " ");
		if (!strcmp(key, "switches")) {
			print_switches(out, item);
		} else if (json_is_array(item)) {
			print_list(out, "  ", item);
		} else {
			print_flow(out, item);
			fputc('\n', out);
		}
	}
}

/* Moves the comments of a list's objects to the notes, and removes objects that are nothing else.
 */
static void move_comments(json_t *list, const char *of, json_t *notes)
{
	json_t *item;
	char text[400];

	for (size_t i = json_array_size(list); i-- > 0;) {
		const char *name, *said;

		item = json_array_get(list, i);
		name = json_string_value(json_object_get(item, "name")) ?: "";
		said = json_string_value(json_object_get(item, INC_FOUND_NOTE));
		if (said) {
			snprintf(text, sizeof(text), "%s%s%s: %s", of, *of && *name ? " " : "",
				 name, said);
			json_array_append_new(notes, json_string(text));
			json_object_del(item, INC_FOUND_NOTE);
		}
		move_comments(json_object_get(item, "ports"), name, notes);
		if (!json_object_size(item))
			json_array_remove(list, i);
	}
}

static void print_json(json_t *topology, json_t *notes)
{
	static const char *const lists[] = {"hosts", "switches", "links"};
	json_t *all;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		move_comments(json_object_get(topology, lists[i]),
			      strcmp(lists[i], "links") ? "" : "a link", notes);
	all = json_pack("{sO, sO}", "topology", topology, "notes", notes);
	json_dumpf(all, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(all);
}

/* Prints the topology, and checks it as inc-controller does when it starts. */
static int print_checked(const struct search *search, json_t *topology, json_t *notes,
			 struct inc_err *err)
{
	struct inc_topology *read = NULL;
	struct inc_err why;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int ret;

	if (!out)
		return inc_err_set(err, ENOMEM, "out of memory");
	print_yaml(out, json_object_size(search->answers), topology, notes);
	if (fclose(out)) {
		free(text);
		return inc_err_set(err, ENOMEM, "out of memory");
	}
	ret = inc_topology_parse("topology", text, len, &read, &why);
	inc_topology_free(read);
	if (search->opt->plan.json)
		print_json(topology, notes);
	else
		fwrite(text, 1, len, stdout);
	free(text);
	if (ret)
		inc_err_set(err, -ret, "what is printed must be corrected: %s", why.msg);
	return inc_stdout_flush(ret ? NULL : err) ?: ret;
}

static int print_topology(const struct search *search, struct inc_err *err)
{
	json_t *topology = NULL, *notes = NULL;
	int ret = inc_discovered_topology(search->answers, &topology, &notes, err);

	ret = ret ?: print_checked(search, topology, notes, err);
	json_decref(topology);
	json_decref(notes);
	return ret;
}

static int run(struct search *search, struct inc_err *err)
{
	int ret;

	search->base = event_base_new();
	search->answers = json_object();
	search->refused = json_object();
	if (!search->base || !search->answers || !search->refused)
		return inc_err_set(err, ENOMEM, "out of memory");
	if (inc_tls_wanted(&search->opt->tls)) {
		search->tls = inc_tls_server(&search->opt->tls, err);
		if (!search->tls)
			return -EINVAL;
	}
	ret = collect(search, err);
	if (!ret && search->interrupted)
		return -ECANCELED;
	if (!ret && !json_object_size(search->answers))
		ret = inc_err_set(
			err, ENOENT,
			"no switch came to %s:%u within %u s: start 'inc-switchd "
			"--controller HOST:%u' with its key on each switch, or wait longer "
			"(--seconds)",
			search->opt->listen, search->opt->switch_port,
			search->opt->discover.seconds, search->opt->switch_port);
	return ret ?: print_topology(search, err);
}

int inc_discover(const struct inc_ctl_options *opt)
{
	struct search search = {.opt = opt};
	struct inc_err err;
	int ret;

	signal(SIGPIPE, SIG_IGN);
	LIST_INIT(&search.visitors);
	ret = run(&search, &err);
	if (ret && ret != -ECANCELED)
		inc_error("%s", err.msg);
	dismiss(&search);
	for (int i = 0; i < 2; i++)
		if (search.signals[i])
			event_free(search.signals[i]);
	inc_timer_free(search.ask);
	inc_timer_free(search.end);
	inc_tls_free(search.tls);
	if (search.base)
		event_base_free(search.base);
	json_decref(search.answers);
	json_decref(search.refused);
	libevent_global_shutdown();
	return ret ? 1 : 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* incctl: shows the state of the controller and the switches, as text or as JSON. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "lib/net/netdev.h"
#include "lib/net/hostport.h"
#include "lib/net/tls.h"
#include "controller/incctl/incctl.h"
#include "lib/base/clock.h"
#include "lib/base/opt.h"
#include "lib/base/stdout.h"

/* A command of this program. */
struct view {
	bool controller_only;
	/* function that prints the answer; NULL: the command is `mode` or `check`, which print no
	 * answer */
	void (*print)(const json_t *data);
	/* text for an answer without a row; NULL: the answer has a row for each switch */
	const char *none;
	bool examines; /* the command is `check` */
};

/* Whether the command is `mode`, which changes a switch. */
static bool is_mode(const struct view *view)
{
	return !view->print && !view->examines;
}

#define VIEW(only, function, text) \
	(&(const struct view){.controller_only = only, .print = function, .none = text})
#define NO_COMM "there is no communicator"

static const struct inc_command commands[] = {
	{"groups", "jobs, their members and states",
	 .own = VIEW(true, incctl_print_groups, "there is no group")},
	{"communicators", "communicators and their connections",
	 .own = VIEW(false, incctl_print_communicators, NO_COMM)},
	{"switches", "switches of the topology, connected or absent, and what each can do",
	 .own = VIEW(true, incctl_print_switches, NULL)},
	{"mode",
	 "changes what a switch does with the communicators that are made from now on: mode SWITCH "
	 "passthrough|termination|auto|default",
	 .own = VIEW(true, NULL, NULL)},
	{"connections", "queue pairs of the switches",
	 .own = VIEW(false, incctl_print_connections, "no switch has a connection")},
	{"ports", "ports of the switches", .own = VIEW(false, incctl_print_ports, NULL)},
	{"counters", "every packet received, by what became of it (--check)",
	 .own = VIEW(false, incctl_print_counters, NULL)},
	{"events", "the last events of the switches, and of the controller itself",
	 .own = VIEW(false, incctl_print_events, "there is no event")},
	{"waiting", "which chunk, group or new communicator waits for which rank, since when",
	 .own = VIEW(false, incctl_print_waiting, "nothing waits for a rank")},
	{"status", "version and age of the switches, what is in use",
	 .own = VIEW(false, incctl_print_status, NULL)},
	{"tree",
	 "the switches of each communicator, and what has passed between them (--interval, --dot, "
	 "--svg)",
	 .own = VIEW(true, incctl_print_tree, NO_COMM)},
	{"config", "the configuration of the switches, as YAML that inc-switchd --config reads",
	 .own = VIEW(false, incctl_print_config, NULL)},
	{"metrics", "all figures of the switches as Prometheus text",
	 .own = VIEW(false, incctl_print_metrics, NULL)},
	{"check",
	 "examines this machine as a switch, a host or the controller's, and names each problem "
	 "with the command that repairs it (--port, --nic, --topology)",
	 .own = &(const struct view){.examines = true}},
	{"top", "live rates and what is in use, until Ctrl-C (--interval, --once)",
	 .own = VIEW(false, incctl_print_top, NULL)},
	{},
};

struct settings {
	struct incctl_target target;
	char path[128]; /* path of the local socket of a switch, from option --switch */
	bool json, yaml, check, dot, svg, once;
	double interval_s;
	uint32_t communicator;
	struct incctl_check examine;
	const char *which, *mode; /* arguments behind the command */
};

static int take_switch(void *settings, const char *text, struct inc_err *err)
{
	struct settings *s = settings;

	if (!*text || strchr(text, '/') || strlen(text) > 64)
		return inc_err_set(err, EINVAL, "'%.300s' is not the name of a switch", text);
	snprintf(s->path, sizeof(s->path), "/run/inc/%s.sock", text);
	s->target.socket = s->path;
	return 0;
}

static int take_interval(void *seconds, const char *text, struct inc_err *err)
{
	return inc_opt_seconds(text, 0, 86400, seconds, err);
}

static const struct inc_opt options[] = {
	{.name = "controller",
	 .letter = 'c',
	 .value = "HOST[:PORT][,...]",
	 .help = "the controller to ask, or a list, of which the one that leads answers (default: "
		 "INCCL_CONTROLLER, or 127.0.0.1:" INC_STR(INC_PORT_MEMBERS) ")",
	 INC_OPT_TEXT(struct settings, target.controller, inc_hostports_check)},
	{.name = "switch",
	 .letter = 's',
	 .value = "INSTANCE",
	 .help = "ask one switch on this machine (/run/inc/INSTANCE.sock)",
	 INC_OPT_TAKE_WHOLE(take_switch)},
	{.name = "socket",
	 .letter = 'S',
	 .value = "PATH",
	 .help = "the same by the path of its socket",
	 INC_OPT_TEXT(struct settings, target.socket, inc_socket_path_check)},
	{.name = "timeout-ms",
	 .value = "MS",
	 .preset = "10000",
	 .help = "for the whole answer",
	 INC_OPT_NUMBER(struct settings, target.timeout_ms, 1, 86400000)},
	{.name = "json",
	 .letter = 'j',
	 .help = "the data as JSON; top: one object a line for each interval",
	 INC_OPT_FLAG(struct settings, json)},
	{.name = "yaml",
	 .letter = 'y',
	 .help = "config: as YAML, also without this",
	 INC_OPT_FLAG(struct settings, yaml)},
	{.name = "check",
	 .help = "counters: exit 1 where the books do not balance",
	 INC_OPT_FLAG(struct settings, check)},
	{.name = "interval",
	 .letter = 'i',
	 .value = "SECONDS",
	 .preset = "1",
	 .help = "top and tree: the time over which rates are taken; tree: 0: none are",
	 INC_OPT_TAKE(struct settings, interval_s, take_interval)},
	{.name = "once",
	 .help = "top: one interval, and the end",
	 INC_OPT_FLAG(struct settings, once)},
	{.name = "port",
	 .value = "IFNAME",
	 .help = "check: a port of a switch that does not run yet; a running switch names its "
		 "ports itself",
	 INC_OPT_LIST(struct settings, examine.port, inc_ifname_check)},
	{.name = "nic",
	 .value = "IFNAME",
	 .help = "check: an interface of a host",
	 INC_OPT_LIST(struct settings, examine.nic, inc_ifname_check)},
	{.name = "topology",
	 .value = "FILE",
	 .help = "check: compare this machine with the topology, and examine the neighbours that "
		 "it names",
	 INC_OPT_TEXT(struct settings, examine.topology, inc_path_check)},
	{.name = "dot", .help = "tree: for dot(1)", INC_OPT_FLAG(struct settings, dot)},
	{.name = "svg", .help = "tree: as a picture", INC_OPT_FLAG(struct settings, svg)},
	{.value = "COMMAND", .required = true, INC_OPT_COMMAND},
	{.value = "WHICH",
	 .help = "tree: the communicator of this number alone; mode: the switch",
	 INC_OPT_TEXT(struct settings, which, NULL)},
	{.value = "MODE",
	 .help = "mode: passthrough, termination, auto, or default to take back what was set",
	 INC_OPT_TEXT(struct settings, mode, NULL)},
	{},
};

static const struct inc_program program = {
	.name = "incctl",
	.man_section = 1,
	.brief = "ask the controller and the switches what they know",
	.about = "Shows what the controller and the switches know, as text or as JSON.",
	.groups = {{options, 0}, {inc_tls_options, offsetof(struct settings, target.tls)}},
	.commands = commands,
	.exits = "0 ok; 1 failure, a switch that does not answer, a problem that check has found "
		 "or, with --check, books that do not balance; 2 wrong command line.",
};

/* Returns the exit code for an answer. It is 1 if a switch did not answer or, with --check, has
 * received packets that no counter explains. */
static int judge(const struct view *view, const json_t *data, bool check)
{
	json_t *entry, *error;
	int ret = 0;
	size_t i;

	if (view->controller_only)
		return 0;
	json_array_foreach (data, i, entry) {
		const char *name = json_string_value(json_object_get(entry, "switch"));

		error = json_object_get(entry, "error");
		if (error) {
			fprintf(stderr, "incctl: switch %s: %s\n", name ? name : "?",
				json_string_value(error) ? json_string_value(error) : "error");
			ret = 1;
		} else if (check && !json_is_true(json_object_get(json_object_get(entry, "data"),
								  "balanced"))) {
			fprintf(stderr, "incctl: switch %s: the books do not balance\n",
				name ? name : "?");
			ret = 1;
		}
	}
	if (check && !json_array_size(data)) {
		fprintf(stderr, "incctl: no switch to check\n");
		ret = 1;
	}
	return ret;
}

/* Flushes stdout. Returns ret, or 1 if that fails. */
static int flush(int ret)
{
	struct inc_err err;

	if (!inc_stdout_flush(&err))
		return ret;
	fprintf(stderr, "incctl: %s\n", err.msg);
	return 1;
}

/* Counts what a view has shown of an answer: the rows of all switches, or the controller's. An
 * error of a switch counts as a row, because judge() reports it. */
static size_t count_rows(const json_t *data)
{
	const json_t *entry, *rows, *row, *missing;
	size_t n = 0, i, k;

	json_array_foreach (data, i, entry) {
		rows = json_object_get(entry, "data");
		n += !json_is_array(rows);
		json_array_foreach (rows, k, row) {
			/* incctl_waiting() has removed the peers that do not explain a wait */
			missing = json_object_get(row, "missing");
			n += !missing || json_array_size(missing);
		}
	}
	return n;
}

/* Reports on stderr that there is nothing to show. A person could mistake an empty output for a
 * failure, and a program that reads the output needs no other text there. */
static void note_absence(const struct view *view, size_t n_rows)
{
	if (view->none && !n_rows)
		fprintf(stderr, "incctl: %s\n", view->none);
}

static void print_json(const json_t *data)
{
	json_dumpf(data, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	putchar('\n');
}

static json_t *ask(const struct settings *s, const char *what)
{
	struct inc_err err;
	json_t *data = incctl_ask(&s->target, what, s->communicator, &err);

	if (!data)
		fprintf(stderr, "incctl: %s\n", err.msg);
	return data;
}

/* Prints which ranks are missing in groups and communicators that have not begun. Only the
 * controller knows this. Returns the number of lines, or -EIO. */
static int print_group_waits(const struct settings *s)
{
	json_t *groups = s->target.socket ? NULL : ask(s, "groups");
	size_t n;

	if (s->target.socket)
		return 0;
	if (!groups)
		return -EIO;
	incctl_printable(groups);
	n = incctl_print_group_waits(groups);
	json_decref(groups);
	return (int)n;
}

static int run(const struct inc_command *command, const struct settings *s)
{
	const struct view *view = command->own;
	json_t *data = ask(s, command->name), *shown;
	int ret, waits = 0;

	if (!data)
		return 1;
	shown = view->print == incctl_print_config ? incctl_config(data) : json_incref(data);
	if (s->json)
		print_json(shown);
	incctl_printable(shown);
	if (view->print == incctl_print_waiting && !s->json)
		incctl_waiting(shown);
	if (!s->json)
		view->print(shown);
	if (view->print == incctl_print_waiting && !s->json)
		waits = print_group_waits(s);
	json_decref(shown);
	ret = flush(waits < 0 ? 1 : judge(view, data, s->check));
	if (!s->json && waits >= 0)
		note_absence(view, count_rows(data) + waits);
	json_decref(data);
	return ret;
}

static int sample(const struct settings *s, struct incctl_sample *out)
{
	struct inc_err err;
	int ret = incctl_sample(&s->target, "connections", s->communicator, out, &err);

	if (ret)
		fprintf(stderr, "incctl: %s\n", err.msg);
	return ret;
}

/* Prints the controller's trees with figures of the switches. The figures are read twice, because
 * rates are their growth between the two. */
static int run_tree(const struct view *view, const struct settings *s)
{
	static const struct view connections = {.print = incctl_print_connections};
	const uint64_t pause_ns = s->interval_s * INC_NSEC_PER_SEC;
	const struct timespec pause = {pause_ns / INC_NSEC_PER_SEC, pause_ns % INC_NSEC_PER_SEC};
	struct incctl_sample before = {}, now = {};
	json_t *trees = ask(s, "tree");
	struct inc_err err;
	int ret = 1;

	if (!trees || (pause_ns && sample(s, &before)))
		goto out;
	if (pause_ns)
		nanosleep(&pause, NULL);
	if (sample(s, &now))
		goto out;
	if (s->communicator && !json_array_size(trees)) {
		fprintf(stderr, "incctl: there is no communicator %u\n", s->communicator);
		goto out;
	}
	if (incctl_tree(trees, &before, &now, &err)) {
		fprintf(stderr, "incctl: %s\n", err.msg);
		goto out;
	}
	if (s->json)
		print_json(trees);
	incctl_printable(trees);
	if (s->dot)
		incctl_print_dot(trees);
	else if (s->svg)
		incctl_print_svg(trees);
	else if (!s->json)
		incctl_print_tree(trees);
	ret = flush(judge(&connections, now.data, false));
	if (!s->json)
		note_absence(view, json_array_size(trees));
out:
	json_decref(trees);
	json_decref(before.data);
	json_decref(now.data);
	return ret;
}

static int set_mode(const struct settings *s)
{
	struct inc_err err;

	if (incctl_set_mode(&s->target, s->which, s->mode, &err)) {
		fprintf(stderr, "incctl: %s\n", err.msg);
		return 1;
	}
	return 0;
}

/* Checks the arguments behind a command. */
static int check_arguments(const struct inc_command *command, struct settings *s)
{
	const struct view *view = command->own;
	const bool tree = view->print == incctl_print_tree;
	struct inc_err err;
	uint64_t number = 0;

	if (is_mode(view) && (!s->which || !s->mode))
		return inc_usage(
			"mode needs the name of a switch, and passthrough, termination, auto or "
			"default");
	if (is_mode(view))
		return 0;
	if (s->which && !tree)
		return inc_usage("%s takes no argument, but '%.64s' is given", command->name,
				 s->which);
	if (s->mode)
		return inc_usage("tree takes the number of one communicator, but '%.64s' is given, "
				 "too",
				 s->mode);
	if (s->which && inc_opt_number(s->which, 1, UINT32_MAX, &number, &err))
		return inc_usage("%s", err.msg);
	s->communicator = number;
	return 0;
}

/* An option was given to a command that does not have it. */
static int other_command(const char *option, const char *owner, const struct inc_command *command)
{
	return inc_usage("%s is an option of %s, and %s does not have it", option, owner,
			 command->name);
}

/* Checks options that belong to one command, or that exclude each other. */
static int check_use(const struct inc_command *command, struct settings *s)
{
	const struct view *view = command->own;
	const struct incctl_check *examine = &s->examine;
	const bool tree = view->print == incctl_print_tree;

	if (check_arguments(command, s))
		return -EINVAL;
	if (s->check && view->print != incctl_print_counters)
		return other_command("--check", "counters", command);
	if (s->yaml && view->print != incctl_print_config)
		return other_command("--yaml", "config", command);
	if (s->yaml && s->json)
		return inc_usage("--json and --yaml exclude each other");
	if ((s->dot || s->svg) && !tree)
		return other_command(s->dot ? "--dot" : "--svg", "tree", command);
	if (s->dot + s->svg + (tree && s->json) > 1)
		return inc_usage("--dot, --svg and --json exclude each other");
	if ((examine->port.count || examine->nic.count || examine->topology) && !view->examines)
		return other_command(examine->port.count  ? "--port"
				     : examine->nic.count ? "--nic"
							  : "--topology",
				     "check", command);
	if (s->once && view->print != incctl_print_top)
		return other_command("--once", "top", command);
	if (!(s->interval_s > 0) && view->print == incctl_print_top)
		return inc_usage("top needs an --interval above 0");
	if (s->target.socket && view->controller_only)
		return inc_usage("only the controller can answer %s, so --switch and --socket have "
				 "no use",
				 command->name);
	return 0;
}

/* Runs a command. Returns the exit code. */
static int carry_out(const struct inc_command *command, struct settings *s)
{
	const struct view *view = command->own;

	if (view->examines) {
		s->examine.json = s->json;
		return incctl_check(&s->target, &s->examine);
	}
	if (view->print == incctl_print_top)
		return incctl_top(&s->target,
				  &(struct incctl_top){s->interval_s, s->once, s->json});
	if (is_mode(view))
		return set_mode(s);
	return view->print == incctl_print_tree ? run_tree(view, s) : run(command, s);
}

/* Whether the program was called by its link inc-check, which is `incctl check`. */
static bool is_inc_check(const char *path)
{
	const char *name = strrchr(path, '/');

	return !strcmp(name ? name + 1 : path, "inc-check");
}

/* Returns the command line with the command check as its first argument, or NULL. */
static char **with_check(int argc, char **argv)
{
	static char check[] = "check";
	char **line = calloc(argc + 2, sizeof(*line));

	if (!line)
		return NULL;
	line[0] = argv[0];
	line[1] = check;
	memcpy(line + 2, argv + 1, (argc - 1) * sizeof(*line));
	return line;
}

int main(int argc, char **argv)
{
	const struct inc_command *command;
	struct settings s = {};
	char **line = NULL;
	int ret;

	if (argc && is_inc_check(argv[0]))
		line = with_check(argc, argv);
	ret = inc_opt_parse(&program, line ? argc + 1 : argc, line ?: argv, &s, &command);
	if (ret >= 0)
		goto out;
	if (check_use(command, &s)) {
		ret = 2;
		goto out;
	}
	if (!s.target.controller)
		s.target.controller = getenv("INCCL_CONTROLLER");
	s.examine.names_controller = s.target.controller && *s.target.controller;
	if (!s.examine.names_controller)
		s.target.controller = "127.0.0.1";
	if (!inc_tls_wanted(&s.target.tls))
		s.target.tls = inc_tls_of_environment();
	ret = carry_out(command, &s);
out:
	inc_opt_list_free(&s.examine.port);
	inc_opt_list_free(&s.examine.nic);
	free(line);
	return ret;
}

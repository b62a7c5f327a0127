/* SPDX-License-Identifier: BSD-2-Clause */
/* incctl: what the controller and the switches know, as text or as JSON. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include "lib/net/hostport.h"
#include "controller/incctl/incctl.h"
#include "lib/base/opt.h"
#include "lib/base/printable.h"

static const struct command {
	const char *name;
	bool controller_only;
	void (*print)(const json_t *data);
	const char *help;
} commands[] = {
	{"groups", true, incctl_print_groups, "jobs, their members and states"},
	{"communicators", false, incctl_print_communicators, "communicators and their connections"},
	{"switches", true, incctl_print_switches, "switches of the topology, connected or absent"},
	{"connections", false, incctl_print_connections, "queue pairs of the switches"},
	{"ports", false, incctl_print_ports, "ports of the switches"},
	{"counters", false, incctl_print_counters,
	 "every packet received, by what became of it (--check)"},
	{"events", false, incctl_print_events, "the last events of the switches"},
	{"waiting", false, incctl_print_waiting, "which chunk waits for which rank, since when"},
	{"status", false, incctl_print_status, "version, mode and age of the switches"},
	{"config", false, incctl_print_config,
	 "what the switches have, as YAML that inc-switchd --config reads"},
};

static void usage(FILE *out)
{
	fputs("usage: incctl [options] COMMAND\n\n", out);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(out, "  %-14s %s\n", commands[i].name, commands[i].help);
	fputs("\n"
	      "  --controller HOST[:PORT]  whom to ask (INCCL_CONTROLLER, or 127.0.0.1:52200)\n"
	      "  --switch INSTANCE         ask one switch on this machine "
	      "(/run/inc/INSTANCE.sock)\n"
	      "  --socket PATH             the same by the path of its socket\n"
	      "  --timeout-ms MS           for the whole answer (10000)\n"
	      "  --json                    the data as JSON\n"
	      "  --yaml                    config: as YAML, also without this\n"
	      "  --check                   counters: exit 1 where the books do not balance\n"
	      "  --help\n",
	      out);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

/* 1 where a switch did not answer, or, if asked for, where received packets are missing */
static int judge(const struct command *command, const json_t *data, bool check)
{
	json_t *entry, *error;
	int ret = 0;
	size_t i;

	if (command->controller_only)
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

static int run(const struct command *command, const struct incctl_target *target, bool json,
	       bool check)
{
	struct inc_err err;
	json_t *data = incctl_ask(target, command->name, &err), *shown;
	int ret;

	if (!data) {
		fprintf(stderr, "incctl: %s\n", err.msg);
		return 1;
	}
	shown = command->print == incctl_print_config ? incctl_config(data) : json_incref(data);
	if (json) {
		json_dumpf(shown, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		putchar('\n');
	}
	inc_printable_json(shown);
	if (!json)
		command->print(shown);
	json_decref(shown);
	ret = judge(command, data, check);
	json_decref(data);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "incctl: stdout: %s\n", strerror(errno));
		return 1;
	}
	return ret;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"controller", required_argument, NULL, 'c'},
		{"switch", required_argument, NULL, 's'},
		{"socket", required_argument, NULL, 'S'},
		{"timeout-ms", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},
		{"yaml", no_argument, NULL, 'y'},
		{"check", no_argument, NULL, 'k'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct incctl_target target = {.timeout_ms = 10000};
	const struct command *command;
	bool json = false, yaml = false, check = false;
	char path[128];
	int c;

	target.controller = getenv("INCCL_CONTROLLER");
	if (!target.controller || !*target.controller)
		target.controller = "127.0.0.1";
	while ((c = getopt_long(argc, argv, "c:s:S:jh", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			if (inc_hostport_opt("--controller", optarg))
				return 2;
			target.controller = optarg;
			break;
		case 's':
			if (!*optarg || strchr(optarg, '/') || strlen(optarg) > 64) {
				inc_usage("--switch: '%s' is not the name of a switch", optarg);
				return 2;
			}
			snprintf(path, sizeof(path), "/run/inc/%s.sock", optarg);
			target.socket = path;
			break;
		case 'S':
			if (!*optarg || strlen(optarg) >= sizeof((struct sockaddr_un){}.sun_path)) {
				inc_usage("--socket: '%s' is not the path of a socket", optarg);
				return 2;
			}
			target.socket = optarg;
			break;
		case 't':
			if (inc_opt_uint("--timeout-ms", optarg, 1, 86400000, &target.timeout_ms))
				return 2;
			break;
		case 'j':
			json = true;
			break;
		case 'y':
			yaml = true;
			break;
		case 'k':
			check = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			return 2;
		}
	}
	if (optind == argc) {
		usage(stderr);
		return 2;
	}
	command = find_command(argv[optind]);
	if (!command || optind + 1 < argc) {
		inc_usage("%s '%s'", command ? "unexpected argument" : "no command",
			  command ? argv[optind + 1] : argv[optind]);
		return 2;
	}
	if (check && command->print != incctl_print_counters) {
		inc_usage("--check belongs to counters");
		return 2;
	}
	if (yaml && (json || command->print != incctl_print_config)) {
		inc_usage(json ? "--json and --yaml exclude each other"
			       : "--yaml belongs to config");
		return 2;
	}
	if (target.socket && command->controller_only) {
		inc_usage("only the controller knows %s", command->name);
		return 2;
	}
	return run(command, &target, json, check);
}

// SPDX-License-Identifier: BSD-2-Clause
/* inc-lab: network namespaces as hosts, switches and the cables between them. */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wordexp.h>
#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "topo/lab.h"

static struct lab lab; /* large, one per process */

static void usage(FILE *f)
{
	fputs("usage: inc-lab up FILE [--name NAME] [--json] [--switch-args ARGS]\n"
	      "                  [--controller-args ARGS] [--napi threaded[:CPU]]\n"
	      "       inc-lab run [--name NAME] [--env K=V] [--ranks LIST] [--hosts LIST]\n"
	      "                  [--no-prefix] [--only RANK] [--timeout SECONDS] -- CMD...\n"
	      "       inc-lab exec [--name NAME] NODE -- CMD...\n"
	      "       inc-lab wire [--name NAME] WIRE stats|SPEC...\n"
	      "       inc-lab status [--name NAME] [--json]\n"
	      "       inc-lab down [--name NAME]\n"
	      "       inc-lab list [--json]\n"
	      "A lab is a topology file made of network namespaces: hosts, switches with an\n"
	      "inc-switchd each, an inc-controller, and an inc-wire where a link has a wire.\n"
	      "  up      makes it and prints its name (random unless --name says)\n"
	      "  run     CMD on every host with INCCL_RANK, INCCL_WORLD_SIZE, INCCL_CONTROLLER,\n"
	      "          INCCL_JOB and INCCL_ADDR set; ends with the worst exit code, with 124\n"
	      "          after --timeout. --ranks 0,2-3 starts these alone, --hosts 0,2-3 makes\n"
	      "          a smaller world of these hosts, numbered from 0. Lines of output begin\n"
	      "          with [RANK]; --no-prefix leaves that out, --only shows one rank's.\n"
	      "          --env K=V (repeatable) goes into the commands' environment\n"
	      "  exec    CMD on a node: a host, a switch, 'controller' or a wire\n"
	      "  wire    faults for a wire, such as h0-s0 drop=up:0 (inc-wire --help)\n"
	      "  status  the nodes and whether the lab is ready\n"
	      "  down    ends and removes everything, whatever state it is in\n"
	      "  list    the labs of this machine\n"
	      "Without --name, the only lab that is up is meant.\n"
	      "  --switch-args ARGS     more arguments for each inc-switchd\n"
	      "  --controller-args ARGS the same for inc-controller\n"
	      "  --napi threaded[:CPU]  the switches' ports in threads, pinned to one CPU\n",
	      f);
}

static int fail(const struct inc_err *err)
{
	inc_error("%s", err->msg);
	return 1;
}

static int take_name(const char **name, const char *text)
{
	if (!lab_name_ok(text))
		return inc_usage("--name: '%s': a name has 1 to %d letters, digits, '-' or '_'",
				 text, LAB_NAME_MAX - 1);
	*name = text;
	return 0;
}

/* More arguments, in one text; what a shell could not split is told now. */
static int take_words(const char **words, const char *option, const char *text)
{
	wordexp_t w;

	if (wordexp(text, &w, WRDE_NOCMD | WRDE_UNDEF))
		return inc_usage("%s: cannot split '%s' into words", option, text);
	wordfree(&w);
	*words = text;
	return 0;
}

/* "threaded" or "threaded:CPU" */
static int take_napi(struct lab_up_options *up, const char *text)
{
	static const char word[] = "threaded";
	unsigned int cpu, cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t n = sizeof(word) - 1;

	if (strncmp(text, word, n) || (text[n] && text[n] != ':'))
		return inc_usage("--napi: '%s' is not threaded or threaded:CPU", text);
	up->napi_threaded = true;
	if (!text[n])
		return 0;
	if (inc_opt_uint("--napi threaded", text + n + 1, 0,
			 (cpus < CPU_SETSIZE ? cpus : CPU_SETSIZE) - 1, &cpu))
		return -EINVAL;
	up->napi_cpu = cpu;
	return 0;
}

static void on_interrupt(int sig)
{
	lab_interrupted = sig;
}

static int cmd_up(int argc, char **argv)
{
	static const struct option options[] = {{"name", required_argument, NULL, 'n'},
						{"json", no_argument, NULL, 'j'},
						{"switch-args", required_argument, NULL, 's'},
						{"controller-args", required_argument, NULL, 'c'},
						{"napi", required_argument, NULL, 't'},
						{NULL, 0, NULL, 0}};
	struct lab_up_options up = {.napi_cpu = -1};
	struct sigaction sa = {.sa_handler = on_interrupt};
	const char *name = NULL;
	struct inc_err err = {{0}};
	bool json = false;
	int c, ret = 0;

	while (!ret && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			ret = take_name(&name, optarg);
			break;
		case 'j':
			json = true;
			break;
		case 's':
			ret = take_words(&up.switch_args, "--switch-args", optarg);
			break;
		case 'c':
			ret = take_words(&up.controller_args, "--controller-args", optarg);
			break;
		case 't':
			ret = take_napi(&up, optarg);
			break;
		default:
			return 2;
		}
	}
	if (!ret && optind != argc - 1)
		ret = inc_usage("up wants one topology file");
	if (ret)
		return 2;
	if (geteuid())
		return inc_err_set(&err, EPERM, "making namespaces needs root"), fail(&err);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	if (lab_init(&lab, name, &err) || lab_read_topology(&lab, argv[optind], &err) ||
	    lab_up(&lab, &up, &err))
		return fail(&err);
	if (json) {
		json_t *o = lab_to_json(&lab);

		json_dumpf(o, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(o);
	} else {
		puts(lab.name);
	}
	free(lab.links);
	if (fflush(stdout)) {
		/* nobody learnt the name: nobody could take it down */
		inc_error("stdout: %s", strerror(errno));
		lab.links = NULL;
		if (lab_down(&lab, &err))
			inc_warn("%s", err.msg);
		return 1;
	}
	return 0;
}

static int take_timeout(double *seconds, const char *text)
{
	char *end;

	*seconds = strtod(text, &end);
	if (end == text || *end || !(*seconds > 0 && *seconds < 1e6))
		return inc_usage("--timeout: '%s' is not a number of seconds above 0", text);
	return 0;
}

static int cmd_run(int argc, char **argv)
{
	static const struct option options[] = {
		{"name", required_argument, NULL, 'n'},    {"env", required_argument, NULL, 'e'},
		{"ranks", required_argument, NULL, 'r'},   {"hosts", required_argument, NULL, 'h'},
		{"no-prefix", no_argument, NULL, 'p'},     {"only", required_argument, NULL, 'o'},
		{"timeout", required_argument, NULL, 't'}, {NULL, 0, NULL, 0}};
	char *env[argc]; /* no more of them than words */
	struct lab_run_options run = {.only = -1, .env = env};
	const char *name = NULL;
	struct inc_err err = {{0}};
	unsigned int only;
	int c, ret = 0;

	while (!ret && (c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			ret = take_name(&name, optarg);
			break;
		case 'e':
			if (strchr(optarg, '=') > optarg)
				run.env[run.n_env++] = optarg;
			else
				ret = inc_usage("--env: '%s' is not K=V", optarg);
			break;
		case 'r':
			run.ranks = optarg;
			break;
		case 'h':
			run.hosts = optarg;
			break;
		case 'p':
			run.no_prefix = true;
			break;
		case 'o':
			ret = inc_opt_uint("--only", optarg, 0, LAB_NODES - 1, &only);
			run.only = only;
			break;
		case 't':
			ret = take_timeout(&run.timeout_s, optarg);
			break;
		default:
			return 2;
		}
	}
	if (!ret && optind == argc)
		ret = inc_usage("run wants -- CMD");
	if (ret || lab_run_check(&run))
		return 2;
	if (lab_load(&lab, name, &err))
		return fail(&err);
	return lab_run(&lab, &run, argv + optind);
}

/* The --name of the simple commands, and --json where json is given. */
static int simple_options(int argc, char **argv, const char **name, bool *json)
{
	static const struct option options[] = {{"name", required_argument, NULL, 'n'},
						{"json", no_argument, NULL, 'j'},
						{NULL, 0, NULL, 0}};
	int c;

	*name = NULL;
	while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (c == 'n') {
			if (take_name(name, optarg))
				return 2;
		} else if (c == 'j' && json) {
			*json = true;
		} else {
			if (c == 'j')
				inc_usage("no --json with this command");
			return 2;
		}
	}
	return 0;
}

static int cmd_exec(int argc, char **argv)
{
	struct inc_err err = {{0}};
	const char *name, *node;

	if (simple_options(argc, argv, &name, NULL))
		return 2;
	if (optind == argc) {
		inc_usage("exec wants NODE -- CMD");
		return 2;
	}
	node = argv[optind++];
	if (optind < argc && !strcmp(argv[optind], "--"))
		optind++;
	if (optind == argc) {
		inc_usage("exec wants NODE -- CMD");
		return 2;
	}
	if (!lab_load(&lab, name, &err))
		lab_exec(&lab, node, argv + optind, &err);
	fail(&err);
	return 126;
}

static int cmd_wire(int argc, char **argv)
{
	char program[PATH_MAX], sock[PATH_MAX], **args;
	const struct lab_node *node;
	struct inc_err err = {{0}};
	const char *name;
	int n = 3;

	if (simple_options(argc, argv, &name, NULL))
		return 2;
	if (argc - optind < 2) {
		inc_usage("wire wants WIRE stats|SPEC...");
		return 2;
	}
	if (lab_load(&lab, name, &err))
		return fail(&err);
	node = lab_find(&lab, argv[optind++]);
	if (!node || node->role != LAB_WIRE) {
		inc_err_set(&err, ENOENT, "lab %s has no wire %s (see inc-lab status)", lab.name,
			    argv[optind - 1]);
		return fail(&err);
	}
	args = calloc(argc + 4, sizeof(*args));
	if (!args)
		return 1;
	lab_find_program("inc-wire", program);
	lab_path(&lab, node, "sock", sock);
	args[0] = program;
	args[1] = "ctl";
	args[2] = sock;
	while (optind < argc)
		args[n++] = argv[optind++];
	execvp(program, args);
	inc_err_set(&err, errno, "%s: %s", program, strerror(errno));
	return fail(&err);
}

static void print_status(json_t *o, const char *ready)
{
	json_t *node;
	size_t i;

	printf("lab %s, %s, %s\n", lab.name, lab.topology, ready);
	printf("%-12s %-10s %-24s %-14s %s\n", "node", "role", "namespace", "address", "process");
	json_array_foreach (json_object_get(o, "nodes"), i, node) {
		const char *addr = json_string_value(json_object_get(node, "addr"));
		const char *mgmt = json_string_value(json_object_get(node, "mgmt"));
		char process[32] = "";

		if (lab.nodes[i].role != LAB_HOST)
			snprintf(process, sizeof(process), "%s",
				 json_is_true(json_object_get(node, "alive")) ? "running"
									      : "ENDED");
		if (lab.nodes[i].pid)
			snprintf(process + strlen(process), sizeof(process) - strlen(process),
				 " (%d)", lab.nodes[i].pid);
		printf("%-12s %-10s %-24s %-14s %s\n", lab.nodes[i].name,
		       lab_role_names[lab.nodes[i].role], lab.nodes[i].netns,
		       addr ? addr : (mgmt ? mgmt : "-"), process);
	}
}

static int cmd_status(int argc, char **argv)
{
	bool json = false, all = true, unknown;
	json_t *o, *node, *switches;
	struct inc_err err = {{0}};
	const char *name;
	size_t i;
	int ret;

	if (simple_options(argc, argv, &name, &json))
		return 2;
	if (optind != argc) {
		inc_usage("unexpected argument '%s'", argv[optind]);
		return 2;
	}
	if (lab_load(&lab, name, &err))
		return fail(&err);
	o = lab_to_json(&lab);
	ret = lab_ask(&lab, "switches", &switches, &err);
	/* the namespaces are root's: to others the controller cannot be asked, which says nothing
	 */
	unknown = ret == -EPERM || ret == -EACCES;
	json_array_foreach (json_object_get(o, "nodes"), i, node) {
		bool alive = lab_alive(&lab.nodes[i]);

		if (lab.nodes[i].role == LAB_HOST)
			continue;
		json_object_set_new(node, "alive", json_boolean(alive));
		all = all && alive;
	}
	json_object_set_new(o, "ready",
			    unknown && all ? json_null() : json_boolean(all && switches));
	json_object_set_new(o, "switches", switches ? switches : json_null());
	if (json) {
		json_dumpf(o, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		print_status(o, !all       ? "NOT READY"
				: unknown  ? "not known whether ready"
				: switches ? "ready"
					   : "NOT READY");
	}
	json_decref(o);
	if (unknown) {
		inc_error("whether lab %s is ready: %s", lab.name, err.msg);
		return 1;
	}
	return 0;
}

static int cmd_down(int argc, char **argv)
{
	struct inc_err err = {{0}};
	const char *name;

	if (simple_options(argc, argv, &name, NULL))
		return 2;
	if (optind != argc) {
		inc_usage("unexpected argument '%s'", argv[optind]);
		return 2;
	}
	if (lab_load(&lab, name, &err))
		return fail(&err);
	if (geteuid())
		return inc_err_set(&err, EPERM, "taking lab %s down needs root", lab.name),
		       fail(&err);
	/* half a lab is worse than a late end */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	return lab_down(&lab, &err) ? fail(&err) : 0;
}

static int cmd_list(int argc, char **argv)
{
	bool json = false;
	const char *name;
	json_t *names, *o;
	size_t i;

	if (simple_options(argc, argv, &name, &json))
		return 2;
	if (name) {
		inc_usage("no --name with this command");
		return 2;
	}
	if (optind != argc) {
		inc_usage("unexpected argument '%s'", argv[optind]);
		return 2;
	}
	names = lab_names();
	if (json) {
		json_dumpf(names, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		json_array_foreach (names, i, o)
			puts(json_string_value(o));
	}
	json_decref(names);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = {{"up", cmd_up},     {"run", cmd_run},       {"exec", cmd_exec},
			{"wire", cmd_wire}, {"status", cmd_status}, {"down", cmd_down},
			{"list", cmd_list}};

	inc_log_init("inc-lab");
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help"))) {
		usage(stdout);
		return 0;
	}
	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name)) {
			if (argc > 2 && !strcmp(argv[2], "--help")) {
				usage(stdout);
				return 0;
			}
			return commands[i].run(argc - 1, argv + 1);
		}
	if (argc > 1)
		inc_usage("'%s' is no command", argv[1]);
	else
		usage(stderr);
	return 2;
}

// SPDX-License-Identifier: BSD-2-Clause
/* inc-lab makes network namespaces, which stand for hosts and switches, and the cables between
 * them. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wordexp.h>
#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "lib/base/stdout.h"
#include "topo/lab.h"

/* limit of the queues of each end of a cable, which is the number from which inc-switchd receives
 * NAKs */
#define MAX_QUEUES 16

static struct lab lab; /* the lab that this process works on; static, because the struct is large */

/* The values of the command line of inc-lab. Each command uses some of them. */
struct settings {
	const char *name;
	bool json;
	const char *file;
	struct lab_up_options up;
	struct lab_run_options run;
	struct lab_mpi_options mpi;
	const char *node;
	struct inc_opt_list specs;
	char **command;
};

static int fail(const struct inc_err *err)
{
	inc_error("%s", err->msg);
	return 1;
}

/* Checks more arguments for a daemon. They are given as one text, which must split into words as in
 * a shell. */
static int check_words(const char *text, struct inc_err *err)
{
	wordexp_t w;

	if (wordexp(text, &w, WRDE_NOCMD | WRDE_UNDEF))
		return inc_err_set(err, EINVAL, "cannot split '%.300s' into words", text);
	wordfree(&w);
	return 0;
}

static int check_env(const char *text, struct inc_err *err)
{
	return strchr(text, '=') > text ? 0 : inc_err_set(err, EINVAL, "'%.300s' is not K=V", text);
}

/* Parses "threaded" or "threaded:CPU". */
static int take_napi(void *options, const char *text, struct inc_err *err)
{
	static const char word[] = "threaded";
	unsigned int cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct lab_up_options *up = options;
	size_t n = sizeof(word) - 1;
	uint64_t cpu;

	if (strncmp(text, word, n) || (text[n] && text[n] != ':'))
		return inc_err_set(err, EINVAL, "'%.300s' is not threaded or threaded:CPU", text);
	up->napi_threaded = true;
	if (!text[n])
		return 0;
	if (inc_opt_number(text + n + 1, 0, (cpus < CPU_SETSIZE ? cpus : CPU_SETSIZE) - 1, &cpu,
			   err))
		return -EINVAL;
	up->napi_cpu = cpu;
	return 0;
}

static int take_timeout(void *seconds, const char *text, struct inc_err *err)
{
	return inc_opt_seconds(text, 0.001, 604800, seconds, err);
}

static void on_interrupt(int sig)
{
	lab_interrupted = sig;
}

static void print_json(json_t *o)
{
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

static int cmd_up(struct settings *s)
{
	struct sigaction sa = {.sa_handler = on_interrupt};
	struct inc_err err = {{0}};

	if (geteuid())
		return inc_err_set(&err, EPERM, "making namespaces needs root"), fail(&err);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	if (lab_init(&lab, s->name, &err) || lab_read_topology(&lab, s->file, &err) ||
	    lab_up(&lab, &s->up, &err))
		return fail(&err);
	if (s->json)
		print_json(lab_to_json(&lab));
	else
		puts(lab.name);
	free(lab.links);
	if (inc_stdout_flush(&err)) {
		/* take the lab down again, because no user could take it down by its name if the
		 * name were not printed */
		inc_error("%s", err.msg);
		lab.links = NULL;
		if (lab_down(&lab, &err))
			inc_warn("%s", err.msg);
		return 1;
	}
	return 0;
}

static int cmd_run(struct settings *s)
{
	struct inc_err err = {{0}};

	if (lab_load(&lab, s->name, &err))
		return fail(&err);
	return lab_run(&lab, &s->run, s->command);
}

static int cmd_exec(struct settings *s)
{
	struct inc_err err = {{0}};

	if (!lab_load(&lab, s->name, &err))
		lab_exec(&lab, s->node, s->command, &err);
	fail(&err);
	return 126;
}

static int cmd_mpirun(struct settings *s)
{
	struct inc_err err = {{0}};

	if (lab_load(&lab, s->name, &err))
		return fail(&err);
	return lab_mpirun(&lab, &s->mpi, &s->run, s->command);
}

static int cmd_agent(struct settings *s)
{
	struct inc_err err = {{0}};

	if (!lab_load(&lab, s->name, &err))
		lab_agent(&lab, s->node, s->mpi.no_switch, s->command, &err);
	fail(&err);
	return 126;
}

static int cmd_wire(struct settings *s)
{
	char program[PATH_MAX], sock[PATH_MAX], **args;
	const struct lab_node *node;
	struct inc_err err = {{0}};
	unsigned int n = 0;

	if (lab_load(&lab, s->name, &err))
		return fail(&err);
	node = lab_find(&lab, s->node);
	if (!node || node->role != LAB_WIRE) {
		inc_err_set(&err, ENOENT, "lab %s has no wire %s (see inc-lab status)", lab.name,
			    s->node);
		return fail(&err);
	}
	args = calloc(s->specs.count + 4, sizeof(*args));
	if (!args)
		return 1;
	lab_find_program("inc-wire", program);
	lab_path(&lab, node, "sock", sock);
	args[n++] = program;
	args[n++] = "ctl";
	args[n++] = sock;
	for (unsigned int i = 0; i < s->specs.count; i++)
		args[n++] = (char *)s->specs.text[i];
	execvp(program, args);
	inc_err_set(&err, errno, "%s: %s", program, strerror(errno));
	free(args);
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

		if (lab_has_process(&lab.nodes[i]))
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

static int cmd_status(struct settings *s)
{
	bool all = true, unknown;
	json_t *o, *node, *switches;
	struct inc_err err = {{0}};
	size_t i;
	int ret;

	if (lab_load(&lab, s->name, &err))
		return fail(&err);
	o = lab_to_json(&lab);
	ret = lab_ask(&lab, "switches", &switches, &err);
	/* the state of switches is unknown to users other than root, because only root may enter
	 * the namespace to query the controller */
	unknown = ret == -EPERM || ret == -EACCES;
	json_array_foreach (json_object_get(o, "nodes"), i, node) {
		bool alive = lab_alive(&lab.nodes[i]);

		if (!lab_has_process(&lab.nodes[i]))
			continue;
		json_object_set_new(node, "alive", json_boolean(alive));
		all = all && alive;
	}
	json_object_set_new(o, "ready",
			    unknown && all ? json_null() : json_boolean(all && switches));
	json_object_set_new(o, "switches", switches ? switches : json_null());
	if (s->json) {
		print_json(o);
	} else {
		print_status(o, !all       ? "NOT READY"
				: unknown  ? "not known whether ready"
				: switches ? "ready"
					   : "NOT READY");
		json_decref(o);
	}
	if (unknown) {
		inc_error("whether lab %s is ready: %s", lab.name, err.msg);
		return 1;
	}
	return 0;
}

static int cmd_down(struct settings *s)
{
	struct inc_err err = {{0}};
	char name[LAB_NAME_MAX];
	int lock;

	if (lab_load(&lab, s->name, &err))
		return fail(&err);
	if (geteuid())
		return inc_err_set(&err, EPERM, "taking lab %s down needs root", lab.name),
		       fail(&err);
	/* ignore signals to finish in any case, because half a lab is worse than a late end */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* read the file again, now that no other process changes the lab */
	snprintf(name, sizeof(name), "%s", lab.name);
	if (lab_lock(&lab, &err))
		return fail(&err);
	lock = lab.lock;
	if (lab_load(&lab, name, &err))
		return fail(&err);
	lab.lock = lock;
	return lab_down(&lab, &err) ? fail(&err) : 0;
}

static int cmd_list(struct settings *s)
{
	json_t *names = lab_names(), *o;
	size_t i;

	if (s->json) {
		print_json(names);
		return 0;
	}
	json_array_foreach (names, i, o)
		puts(json_string_value(o));
	json_decref(names);
	return 0;
}

static const struct inc_opt name_option[] = {
	{.name = "name",
	 .value = "NAME",
	 .help = "of the lab (default: the only one there is)",
	 INC_OPT_TEXT(struct settings, name, lab_name_check)},
	{},
};

static const struct inc_opt json_option[] = {
	{.name = "json",
	 .help = "print it as one line of JSON",
	 INC_OPT_FLAG(struct settings, json)},
	{},
};

static const struct inc_opt up_options[] = {
	{.name = "name",
	 .value = "NAME",
	 .help = "of the lab (default: a random one)",
	 INC_OPT_TEXT(struct settings, name, lab_name_check)},
	{.name = "switch-args",
	 .value = "ARGS",
	 .help = "more arguments for each inc-switchd",
	 INC_OPT_TEXT(struct settings, up.switch_args, check_words)},
	{.name = "controller-args",
	 .value = "ARGS",
	 .help = "the same for inc-controller",
	 INC_OPT_TEXT(struct settings, up.controller_args, check_words)},
	{.name = "insecure",
	 .help = "without keys; by default the programs of the lab prove their identity to its "
		 "controller by keys that exist as long as the lab",
	 INC_OPT_FLAG(struct settings, up.insecure)},
	{.name = "napi",
	 .value = "threaded[:CPU]",
	 .help = "receive on the switches' ports in threads, pinned to CPU if one is given",
	 INC_OPT_TAKE(struct settings, up, take_napi)},
	{.name = "queues",
	 .value = "N",
	 .help = "receive and send queues of each end of a cable (default 1)",
	 INC_OPT_NUMBER(struct settings, up.queues, 1, MAX_QUEUES)},
	{.value = "FILE", .required = true, INC_OPT_TEXT(struct settings, file, NULL)},
	{},
};

static const struct inc_opt run_options[] = {
	{.name = "env",
	 .value = "K=V",
	 .help = "goes into the commands' environment",
	 INC_OPT_LIST(struct settings, run.env, check_env)},
	{.name = "ranks",
	 .value = "LIST",
	 .help = "start these alone, such as 0,2-3",
	 INC_OPT_TEXT(struct settings, run.ranks, lab_list_check)},
	{.name = "hosts",
	 .value = "LIST",
	 .help = "a smaller world of these hosts, numbered from 0",
	 INC_OPT_TEXT(struct settings, run.hosts, lab_list_check)},
	{.name = "per-host",
	 .value = "N",
	 .help = "ranks on each host, with consecutive numbers (default: 1)",
	 INC_OPT_NUMBER(struct settings, run.per_host, 1, LAB_RANKS)},
	{.name = "no-prefix",
	 .help = "lines of output do not begin with [RANK]",
	 INC_OPT_FLAG(struct settings, run.no_prefix)},
	{.name = "only",
	 .value = "RANK",
	 .help = "show this rank's standard output alone; errors of all",
	 INC_OPT_NUMBER(struct settings, run.only, 0, LAB_RANKS - 1)},
	{.name = "timeout",
	 .value = "SECONDS",
	 .help = "end it after that, with exit code 124",
	 INC_OPT_TAKE(struct settings, run.timeout_s, take_timeout)},
	{.value = "CMD", .required = true, INC_OPT_REST(struct settings, command)},
	{},
};

static const struct inc_opt no_switch_option[] = {
	{.name = "no-switch",
	 .help = "MPI alone: without INCCL_CONTROLLER, and the library for MPI is not preloaded",
	 INC_OPT_FLAG(struct settings, mpi.no_switch)},
	{},
};

static const struct inc_opt mpirun_options[] = {
	{.name = "ranks",
	 .letter = 'n',
	 .value = "RANKS",
	 .help = "number of ranks (default: one per host)",
	 INC_OPT_NUMBER(struct settings, mpi.ranks, 1, 4096)},
	{.name = "per-host",
	 .value = "RANKS",
	 .help = "ranks of a host at most; hosts are filled in their order (default: as even as "
		 "possible)",
	 INC_OPT_NUMBER(struct settings, mpi.per_host, 1, 4096)},
	{.name = "mpich",
	 .help = "run by MPICH's launcher, hydra (default: Open MPI's)",
	 INC_OPT_FLAG(struct settings, mpi.mpich)},
	{.name = "component",
	 .help = "Open MPI loads mca_coll_inccl.so (default: libinccl-mpi.so is preloaded)",
	 INC_OPT_FLAG(struct settings, mpi.component)},
	{.name = "mgmt",
	 .help = "MPI's own messages use the lab's management network (default: the lab's links)",
	 INC_OPT_FLAG(struct settings, mpi.mgmt)},
	{.name = "env",
	 .value = "K=V",
	 .help = "goes into the ranks' environment",
	 INC_OPT_LIST(struct settings, run.env, check_env)},
	{.name = "timeout",
	 .value = "SECONDS",
	 .help = "end it after that, with exit code 124",
	 INC_OPT_TAKE(struct settings, run.timeout_s, take_timeout)},
	{.value = "PROGRAM", .required = true, INC_OPT_REST(struct settings, command)},
	{},
};

static const struct inc_opt agent_options[] = {
	{.value = "HOST", .required = true, INC_OPT_TEXT(struct settings, node, NULL)},
	{.value = "CMD", .required = true, INC_OPT_REST(struct settings, command)},
	{},
};

static const struct inc_opt exec_options[] = {
	{.value = "NODE", .required = true, INC_OPT_TEXT(struct settings, node, NULL)},
	{.value = "CMD", .required = true, INC_OPT_REST(struct settings, command)},
	{},
};

static const struct inc_opt wire_options[] = {
	{.value = "WIRE", .required = true, INC_OPT_TEXT(struct settings, node, NULL)},
	{.value = "stats|SPEC", .required = true, INC_OPT_LIST(struct settings, specs, NULL)},
	{},
};

struct act {
	int (*run)(struct settings *s);
};

#define ACT(function) (&(const struct act){function})

static const struct inc_command commands[] = {
	{"up",
	 "makes a lab and prints its name",
	 {{json_option, 0}, {up_options, 0}},
	 .own = ACT(cmd_up)},
	{"run",
	 "CMD on every host with INCCL_RANK, INCCL_WORLD_SIZE, INCCL_CONTROLLER, INCCL_JOB and "
	 "INCCL_ADDR set; ends with the worst exit code",
	 {{name_option, 0}, {run_options, 0}},
	 .own = ACT(cmd_run)},
	{"exec",
	 "CMD on a node: a host, a switch, 'controller' or a wire",
	 {{name_option, 0}, {exec_options, 0}},
	 .own = ACT(cmd_exec)},
	{"mpirun",
	 "an MPI PROGRAM on the hosts, by Open MPI or MPICH, over the lab's links",
	 {{name_option, 0}, {no_switch_option, 0}, {mpirun_options, 0}},
	 .own = ACT(cmd_mpirun)},
	{"agent",
	 "CMD in a shell on HOST, which is a name or address, as ssh does it for mpirun",
	 {{name_option, 0}, {no_switch_option, 0}, {agent_options, 0}},
	 .own = ACT(cmd_agent)},
	{"wire",
	 "faults for a wire, such as h0-s0 drop=up:0 (inc-wire --help)",
	 {{name_option, 0}, {wire_options, 0}},
	 .own = ACT(cmd_wire)},
	{"status",
	 "the nodes and whether the lab is ready",
	 {{name_option, 0}, {json_option, 0}},
	 .own = ACT(cmd_status)},
	{"down",
	 "ends and removes everything, whatever state it is in",
	 {{name_option, 0}},
	 .own = ACT(cmd_down)},
	{"list", "the labs of this machine", {{json_option, 0}}, .own = ACT(cmd_list)},
	{},
};

static const struct inc_program program = {
	.name = "inc-lab",
	.man_section = 1,
	.brief = "labs of network namespaces: hosts, switches and the cables between them",
	.about = "A lab is a topology file made of network namespaces: hosts, switches with an "
		 "inc-switchd each, an inc-controller, and an inc-wire where a link has a wire.",
	.commands = commands,
	.exits = "0 ok, 1 failure, 2 wrong command line. run and exec end with the command's; with "
		 "124 "
		 "after --timeout, 126 where exec could not start it.",
};

int main(int argc, char **argv)
{
	struct settings s = {.up.napi_cpu = -1, .up.queues = 1, .run.only = -1};
	const struct inc_command *command;
	const struct act *act;
	struct inc_err err;
	int ret;

	inc_log_init("inc-lab");
	ret = inc_opt_parse(&program, argc, argv, &s, &command);
	if (ret < 0) {
		act = command->own;
		ret = act->run(&s);
	}
	inc_opt_list_free(&s.run.env);
	inc_opt_list_free(&s.specs);
	if (!ret && inc_stdout_flush(&err))
		ret = fail(&err);
	return ret;
}

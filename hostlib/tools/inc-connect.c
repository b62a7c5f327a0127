/* SPDX-License-Identifier: BSD-2-Clause */
/* inc-connect: the connection service from the command line. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/tools/connect_tool.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "lib/base/stdout.h"
#include "lib/net/hostport.h"
#include "lib/net/scrape.h"

/* Size of the largest message in bytes. The default number of such buffers needs as much memory as
 * a socket may lock. */
#define MAX_MESSAGE (8u << 20)

static const struct inc_opt_word modes[] = {
#define MODE(number, word) {word, number},
	CONNECT_MODES(MODE)
#undef MODE
		{},
};

static const struct inc_opt config_option[] = {
	{.name = "config",
	 .value = "FILE",
	 .help = "zones, devices, settings of the queue pair (docs/connect.md; default: all "
		 "defaults)",
	 INC_OPT_TEXT(struct connect_tool, config, inc_path_check)},
	{},
};

static const struct inc_opt serve_options[] = {
	{.name = "listen",
	 .value = "ADDRESS[:PORT]",
	 .help = "address to listen on, port 0: any free one (default: all, port " INC_STR(
		 INC_CONNECT_PORT) ")",
	 INC_OPT_TEXT(struct connect_tool, listen, inc_scrape_check)},
	{.name = "metrics",
	 .value = "ADDRESS[:PORT]",
	 .help = "answer GET /metrics there over HTTP with all figures, as Prometheus reads them; "
		 "without a port: any free one, which the log names (default: nowhere)",
	 INC_OPT_TEXT(struct connect_tool, figures_at, inc_scrape_check)},
	{.name = "allow-no-usable-devices",
	 .help = "serve where no port is active, too: queries are answered with an empty list",
	 INC_OPT_FLAG(struct connect_tool, allow_no_usable_devices)},
	{},
};

static const struct inc_opt client_options[] = {
	{.name = "timeout-ms",
	 .value = "MS",
	 .preset = INC_STR(INC_CONNECT_TIMEOUT_MS),
	 .help = "time limit of the query or the connection; afterwards of any time without "
		 "progress",
	 INC_OPT_NUMBER(struct connect_tool, timeout_ms, 1, 86400000)},
	{.name = "json",
	 .help = "print the result as one line of JSON",
	 INC_OPT_FLAG(struct connect_tool, json)},
	{.value = "HOST",
	 .required = true,
	 INC_OPT_TEXT(struct connect_tool, host, inc_hostport_check)},
	{},
};

static const struct inc_opt query_options[] = {
	{.name = "stats",
	 .help = "print the service's counters instead, as Prometheus text",
	 INC_OPT_FLAG(struct connect_tool, figures)},
	{},
};

static const struct inc_opt connect_options[] = {
	{.name = "mode",
	 .preset = "send",
	 .help = "messages, RDMA WRITE or RDMA READ",
	 INC_OPT_WORD(struct connect_tool, mode, modes)},
	{.name = "bytes",
	 .value = "SIZE",
	 .preset = "64",
	 .help = "size of each, with a suffix K, M or G; messages: up to 8M, and with --config up "
		 "to its buf_size",
	 INC_OPT_SIZE(struct connect_tool, bytes)},
	{.name = "iters",
	 .letter = 'n',
	 .value = "N",
	 .preset = "1000",
	 .help = "operations, which are timed one by one, and then all together",
	 INC_OPT_NUMBER(struct connect_tool, iters, 1, 1000000)},
	{},
};

static int check_query(void *settings)
{
	const struct connect_tool *tool = settings;

	return tool->figures && tool->json ? inc_usage("--stats and --json exclude each other") : 0;
}

static int check_connect(void *settings)
{
	const struct connect_tool *tool = settings;
	const uint64_t most = tool->mode == CONNECT_SEND ? MAX_MESSAGE : CONNECT_MEMORY_MAX;

	if (tool->bytes >= 1 && tool->bytes <= most)
		return 0;
	return inc_usage("--bytes %llu is not from 1 to %llu", (unsigned long long)tool->bytes,
			 (unsigned long long)most);
}

/* Properties of a command. */
struct command_traits {
	/* function that carries out the command, and returns an exit code */
	int (*run)(struct connect_tool *tool);
	bool logs;        /* the command prints the lines that the context logs */
	bool asks_only;   /* the command only asks services, so it needs no RDMA device */
	bool json_errors; /* with --json, the command prints failures as JSON, too */
};

#define TRAITS(function, ...) (&(const struct command_traits){.run = (function), ##__VA_ARGS__})

static int query(struct connect_tool *tool);

static const struct inc_command commands[] = {
	{"serve", "answer queries and accept connections, until Ctrl-C",
	 .groups = {{config_option, 0}, {serve_options, 0}},
	 .own = TRAITS(connect_serve, .logs = true)},
	{"query", "print which ports a service has",
	 .groups = {{client_options, 0}, {query_options, 0}}, .check = check_query,
	 .own = TRAITS(query, .asks_only = true)},
	{"connect",
	 "connect to a service; print which ports there are, which were chosen and why the others "
	 "were not, latency and bandwidth",
	 .groups = {{config_option, 0}, {connect_options, 0}, {client_options, 0}},
	 .check = check_connect, .own = TRAITS(connect_try, .json_errors = true)},
	{},
};

static const struct inc_program program = {
	.name = "inc-connect",
	.man_section = 1,
	.brief = "connect RDMA ports of two machines, given a TCP address",
	.about = "Tries the connection service (docs/connect.md): the one side serves, the other "
		 "asks which RDMA ports there are, and connects a queue pair of its own to one "
		 "there. HOST is a name or an address, with :PORT where it is not " INC_STR(
			 INC_CONNECT_PORT) ".",
	.commands = commands,
	.notes = "serve prints one line once it listens: ready port PORT.\n\n"
		 "Latency is half a round trip of a message, and the time from the call to the "
		 "completion of a READ or WRITE, each for itself. Bandwidth, in Gbit/s (10^9), is "
		 "that of all of them under way together. Both sides sleep while they wait.",
};

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	const struct connect_tool *tool = arg;

	inc_log_progress(
		"waiting for %s: %llu s so far", tool->host,
		(unsigned long long)((inc_now_ns() - tool->began_at_ns) / INC_NSEC_PER_SEC));
}

void connect_wait(struct connect_tool *tool)
{
	const struct timeval tick = {.tv_usec = 250000};
	struct event *timer = event_new(tool->base, -1, EV_PERSIST, on_tick, tool);

	tool->began_at_ns = inc_now_ns();
	on_tick(-1, 0, tool);
	if (timer) /* otherwise there is no memory, and nothing is shown */
		event_add(timer, &tick);
	event_base_dispatch(tool->base);
	if (timer)
		event_free(timer);
	inc_log_progress_end();
}

/* The result of a query, which its callback passes to the function that waits for it. */
struct answer {
	const struct connect_tool *tool;
	int error;
};

static void end_query(struct answer *a, int error, const char *why)
{
	if (error)
		inc_error("%s", why);
	a->error = error;
	event_base_loopbreak(a->tool->base);
}

static void devices_received(void *arg, int error, const char *why,
			     const struct inc_connect_devices *devices)
{
	struct answer *a = arg;

	if (!error)
		connect_print_devices(a->tool, devices);
	end_query(a, error, why);
}

static void figures_received(void *arg, int error, const char *why, const char *figures)
{
	if (!error)
		fputs(figures, stdout);
	end_query(arg, error, why);
}

/* Returns an exit code. */
static int query(struct connect_tool *tool)
{
	struct answer a = {.tool = tool};
	struct inc_err why = {};
	INC_CONNECT_OPTS(inc_connect_request_opts, opts, .timeout_ms = tool->timeout_ms, .arg = &a,
			 .error = why.msg, .error_size = sizeof(why.msg));
	struct inc_connect_request *request;
	int err;

	err = tool->figures
		      ? inc_connect_ask_figures(tool->ctx, tool->host, &opts, figures_received,
						&request)
		      : inc_connect_query(tool->ctx, tool->host, &opts, devices_received, &request);
	if (err)
		inc_error("%s", why.msg);
	else
		connect_wait(tool);
	return err || a.error ? 1 : 0;
}

static void log_line(void *ctx, const char *line)
{
	inc_info("%s", line);
}

/* Creates the context. If --bytes is larger than the default buffers, and no file sets their size,
 * the context gets buffers of that size. */
static int create(struct connect_tool *tool, const struct command_traits *traits)
{
	struct inc_connect_settings settings;
	struct inc_err why = {};
	INC_CONNECT_OPTS(inc_connect_opts, opts, .config = tool->config,
			 .allow_no_usable_devices =
				 tool->allow_no_usable_devices || traits->asks_only,
			 .error = why.msg, .error_size = sizeof(why.msg),
			 .log = traits->logs ? log_line : NULL);
	int err;

	inc_connect_settings_init(&settings, sizeof(settings));
	if (!tool->config && tool->mode == CONNECT_SEND && tool->bytes > settings.buf_size) {
		settings.buf_size = tool->bytes;
		opts.settings = &settings;
	}
	tool->base = event_base_new();
	if (!tool->base)
		err = inc_err_set(&why, ENOMEM, "starting: %s", strerror(ENOMEM));
	else
		err = inc_connect_create(tool->base, &opts, &tool->ctx);
	if (err)
		inc_error("%s", why.msg);
	if (err && traits->json_errors && tool->json)
		connect_print_json(tool, &(struct connect_outcome){.error = err, .why = why.msg});
	return err;
}

int main(int argc, char **argv)
{
	const struct inc_command *command;
	struct connect_tool tool = {};
	const struct command_traits *traits;
	struct inc_err err;
	int ret;

	inc_log_init("inc-connect");
	ret = inc_opt_parse(&program, argc, argv, &tool, &command);
	if (ret >= 0)
		return ret;
	/* Writing to a closed connection or pipe must fail with EPIPE and not end the program. */
	signal(SIGPIPE, SIG_IGN);
	traits = command->own;
	ret = create(&tool, traits) ? 1 : traits->run(&tool);
	inc_connect_destroy(tool.ctx);
	if (tool.base)
		event_base_free(tool.base);
	libevent_global_shutdown();
	if (inc_stdout_flush(&err)) {
		inc_error("%s", err.msg);
		ret = 1;
	}
	return ret;
}

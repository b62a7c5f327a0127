// SPDX-License-Identifier: BSD-2-Clause
/* Parses the command line of inc-wire, and runs `inc-wire ctl`, which sends faults to a running
 * wire. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "lib/base/opt.h"
#include "lib/base/stdout.h"
#include "lib/net/hostport.h"
#include "lib/net/netdev.h"
#include "topo/wire_priv.h"

#define ASK_TRIES 10

/* Checks a SPEC before it is sent to a wire, so that a wrong one is an error of the command line.
 * Only the wire knows how many more faults it can hold. */
static int check_spec(const char *spec, struct inc_err *err)
{
	struct wire_line lines[WIRE_DIRS] = {};
	int ret = wire_set(lines, spec, err);

	for (int d = 0; d < WIRE_DIRS; d++)
		wire_line_free(&lines[d]);
	return ret;
}

static int check_netns(const char *text, struct inc_err *err)
{
	if (*text && strlen(text) <= NAME_MAX)
		return 0;
	return inc_err_set(err, EINVAL, "'%.300s' is not the name of a namespace", text);
}

static int check_stats(const char *text, struct inc_err *err)
{
	struct stat st;
	int ret = inc_path_check(text, err);

	if (!ret && !stat(text, &st) && S_ISFIFO(st.st_mode))
		ret = inc_err_set(err, EINVAL, "%.300s is a FIFO, whose reader could stop the wire",
				  text);
	return ret;
}

static const struct inc_opt options[] = {
	{.name = "host",
	 .value = "IF",
	 .required = true,
	 .help = "the end that 'up' is from",
	 INC_OPT_TEXT(struct wire_args, ifname[WIRE_UP], inc_ifname_check)},
	{.name = "switch",
	 .value = "IF",
	 .required = true,
	 .help = "the end that 'up' is to",
	 INC_OPT_TEXT(struct wire_args, ifname[WIRE_DOWN], inc_ifname_check)},
	{.name = "netns",
	 .value = "NAME",
	 .help = "the namespace that holds both interfaces",
	 INC_OPT_TEXT(struct wire_args, netns, check_netns)},
	{.name = "set",
	 .value = "SPEC",
	 .help = "a property of the wire, or a fault",
	 INC_OPT_LIST(struct wire_args, specs, check_spec)},
	{.name = "seed",
	 .value = "N",
	 .preset = "1",
	 .help = "of the random decisions",
	 INC_OPT_NUMBER(struct wire_args, seed, 0, UINT64_MAX)},
	{.name = "control",
	 .value = "SOCKET",
	 .help = "takes SPECs at run time, and 'stats'",
	 INC_OPT_TEXT(struct wire_args, control_path, inc_socket_path_check)},
	{.name = "stats",
	 .value = "FILE",
	 .help = "counts as JSON, written at SIGUSR1 and at the end",
	 INC_OPT_TEXT(struct wire_args, stats_path, check_stats)},
	INC_OPT_HEADING(
		"A SPEC for both directions, or with up: or down: before the value (corrupt, "
		"reorder, burst and mark with a direction want a decimal point):"),
	INC_OPT_TERM("rate=MBIT", "Mbit/s that the wire carries"),
	INC_OPT_TERM("delay_us=N", "from end to end"),
	INC_OPT_TERM("queue_kib=N", "room for frames that wait for the rate"),
	INC_OPT_TERM("queue_frames=N", "the same as a number of frames; 0: no limit but queue_kib"),
	INC_OPT_TERM("mark_frames=N", "a frame that finds N others waiting gets CE (ECN); 0: none"),
	INC_OPT_TERM("loss=P", "probability for a frame to be lost"),
	INC_OPT_TERM("duplicate=P", "to arrive twice"),
	INC_OPT_TERM("corrupt=P", "to have a wrong bit behind its Ethernet header"),
	INC_OPT_TERM("corrupt_eth=P", "to have one in its MAC addresses"),
	INC_OPT_TERM("corrupt_any=P", "to have one anywhere, its EtherType included"),
	INC_OPT_TERM("reorder=P", "to be overtaken"),
	INC_OPT_TERM("mark=P", "to get CE; a frame whose sender cannot react (ECN 0) never does"),
	INC_OPT_TERM("burst=P", "to be the first of " INC_STR(WIRE_BURST_FRAMES) " lost in a row"),
	INC_OPT_TERM("down_ms=N", "nothing passes for so long from now on; the carrier stays"),
	INC_OPT_HEADING("A SPEC for the N-th RoCE data packet of a direction (up or down) from now "
			"on, counted from 0; drop-ack= and so on: for the N-th ACK or NAK:"),
	INC_OPT_TERM("drop=DIR:N[,N...]", "the same for dup=, corrupt=, corrupt-eth=, "
					  "corrupt-any=, reorder=, burst= and mark="),
	INC_OPT_TERM("delay=DIR:N[,N...]@MS", "arrives so much later"),
	INC_OPT_TERM("clear", "disarms what has not struck yet, ends a burst"),
	INC_OPT_HEADING("Other options:"),
	{},
};

static const struct inc_opt ctl_options[] = {
	{.value = "SOCKET",
	 .required = true,
	 INC_OPT_TEXT(struct wire_args, control_path, inc_socket_path_check)},
	{.value = "stats|SPEC", .required = true, INC_OPT_LIST(struct wire_args, specs, NULL)},
	{},
};

/* Makes the text of the request from the SPECs of `inc-wire ctl`, and checks that the wire would
 * accept it. */
static int check_request(void *settings)
{
	struct wire_args *args = settings;
	struct inc_err err;
	char *at = args->request;
	size_t left = sizeof(args->request);

	for (unsigned int i = 0; i < args->specs.count; i++) {
		const char *spec = args->specs.text[i];
		size_t n;

		/* the word "stats" is no SPEC, and a request for statistics has no other word */
		if ((args->specs.count > 1 || strcmp(spec, "stats")) && check_spec(spec, &err))
			return inc_usage("%s", err.msg);
		n = snprintf(at, left, "%s%s", i ? " " : "", spec);
		if (n >= left)
			return inc_usage("the SPECs are too long for one command");
		at += n;
		left -= n;
	}
	return 0;
}

static const struct inc_command commands[] = {
	{.name = "ctl",
	 .help = "hands SPECs to the running wire with that --control SOCKET, or prints its counts",
	 .groups = {{ctl_options, 0}},
	 .check = check_request},
	{},
};

static const struct inc_program program = {
	.name = "inc-wire",
	.man_section = 1,
	.brief = "a cable with faults, between two interfaces",
	.about = "A wire between two interfaces; 'up' is from --host to --switch.",
	.groups = {{options, 0}},
	.commands = commands,
};

int wire_parse(int argc, char **argv, struct wire_args *args)
{
	const struct inc_command *command;
	int ret = inc_opt_parse(&program, argc, argv, args, &command);

	args->is_ctl = ret < 0 && command;
	return ret;
}

void wire_socket_address(struct sockaddr_un *sun, const char *path)
{
	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	strncpy(sun->sun_path, path, sizeof(sun->sun_path) - 1);
}

/* Prints the wire's answer to the request; returns the exit code. */
static int print_answer(const char *answer)
{
	struct inc_err err;

	if (answer[0] == '{') {
		puts(answer);
		if (!inc_stdout_flush(&err))
			return 0;
		answer = err.msg;
	}
	if (!strcmp(answer, "ok"))
		return 0;
	fprintf(stderr, "inc-wire: %s\n", answer);
	return 1;
}

/* Sends one request to the wire. Returns the length of the answer, or -errno. */
static ssize_t ask(const struct wire_args *args, char *answer, size_t size)
{
	struct timeval limit = {.tv_sec = 5};
	struct sockaddr_un sun;
	ssize_t n = -1;
	int fd;

	wire_socket_address(&sun, args->control_path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) &&
	    !connect(fd, (struct sockaddr *)&sun, sizeof(sun)) &&
	    send(fd, args->request, strlen(args->request), MSG_NOSIGNAL) >= 0)
		n = recv(fd, answer, size, 0);
	if (n < 0)
		n = -errno;
	if (fd >= 0)
		close(fd);
	return n;
}

int wire_ctl(const struct wire_args *args)
{
	char answer[WIRE_MESSAGE_MAX];
	ssize_t n = -EPIPE;

	/* On a busy machine the wire, which forwards frames first, may have closed the
	 * connection before it read the request. Then the request is sent again. */
	for (int i = 0; i < ASK_TRIES && (n == -EPIPE || n == -ECONNRESET); i++)
		n = ask(args, answer, sizeof(answer) - 1);
	if (n < 0) {
		fprintf(stderr, "inc-wire: %s: %s\n", args->control_path, strerror(-n));
		return 1;
	}
	answer[n] = 0;
	return print_answer(answer);
}

// SPDX-License-Identifier: BSD-2-Clause
/* The command line of inc-wire, and `inc-wire ctl`, which hands a running wire its faults. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include "lib/base/opt.h"
#include "topo/wire.h"

int wire_socket_address(struct sockaddr_un *sun, const char *path)
{
	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(sun->sun_path))
		return -ENAMETOOLONG;
	strcpy(sun->sun_path, path);
	return 0;
}

static void usage(FILE *f)
{
	fputs("usage: inc-wire --host IF --switch IF [options]\n"
	      "       inc-wire ctl SOCKET stats|SPEC...\n"
	      "A wire between two interfaces; 'up' is from --host to --switch.\n"
	      "  --netns NAME       the namespace that holds both interfaces\n"
	      "  --set SPEC         may be repeated; SPEC is one of\n"
	      "      rate=MBIT delay_us=N queue_kib=N loss=P duplicate=P corrupt=P\n"
	      "      corrupt_eth=P reorder=P\n"
	      "                     for both directions, or with up: or down: before the value\n"
	      "                     (corrupt and reorder with a direction want a decimal point)\n"
	      "      drop=DIR:N[,N...] dup= corrupt= corrupt-eth= reorder=\n"
	      "      delay=DIR:N[,N...]@MS\n"
	      "                     the N-th RoCE data packet of that direction from now on,\n"
	      "                     counted from 0; drop-ack= and so on: the N-th ACK or NAK\n"
	      "      clear          disarm what has not struck yet\n"
	      "  --seed N           of the random decisions (1)\n"
	      "  --control SOCKET   takes SPECs at run time, and 'stats'\n"
	      "  --stats FILE       counts as JSON, written at SIGUSR1 and at the end\n",
	      f);
}

/* A spec that no wire would take is a wrong command line, told before anybody is asked. */
static int check_spec(const char *option, const char *spec)
{
	struct wire_line lines[WIRE_DIRS] = {};
	struct inc_err err;
	int ret = wire_set(lines, spec, &err);

	for (int d = 0; d < WIRE_DIRS; d++)
		wire_line_free(&lines[d]);
	return ret ? inc_usage("%s%s", option, err.msg) : 0;
}

int wire_ctl(int argc, char **argv)
{
	struct timeval limit = {.tv_sec = 5};
	struct sockaddr_un sun;
	char buf[4096] = "";
	ssize_t n;
	int fd;

	if (argc == 2 && !strcmp(argv[1], "--help")) {
		usage(stdout);
		return 0;
	}
	if (argc > 1 && argv[1][0] == '-') {
		inc_usage("ctl takes no options: '%s'", argv[1]);
		return 2;
	}
	if (argc < 3) {
		inc_usage("ctl wants SOCKET stats|SPEC...");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		/* (how many faults a wire can still hold is its own to say) */
		if ((argc > 3 || strcmp(argv[i], "stats")) &&
		    check_spec("", argv[i])) /* "stats" stands alone */
			return 2;
		if (strlen(buf) + strlen(argv[i]) + 2 > sizeof(buf)) {
			inc_usage("the SPECs are too long for one command");
			return 2;
		}
		if (i > 2)
			strcat(buf, " ");
		strcat(buf, argv[i]);
	}
	if (wire_socket_address(&sun, argv[1])) {
		inc_usage("%s: too long for the path of a socket", argv[1]);
		return 2;
	}
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
	    connect(fd, (struct sockaddr *)&sun, sizeof(sun)) ||
	    send(fd, buf, strlen(buf), MSG_NOSIGNAL) < 0 ||
	    (n = recv(fd, buf, sizeof(buf) - 1, 0)) < 0) {
		fprintf(stderr, "inc-wire: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	close(fd);
	buf[n] = 0;
	if (buf[0] == '{') {
		puts(buf);
		return 0;
	}
	if (strcmp(buf, "ok")) {
		fprintf(stderr, "inc-wire: %s\n", buf);
		return 1;
	}
	return 0;
}

static int check_args(const struct wire_args *args)
{
	static const char *const names[WIRE_DIRS] = {"--host", "--switch"};
	struct sockaddr_un sun;
	struct stat st;

	for (int d = 0; d < WIRE_DIRS; d++) {
		if (!args->ifname[d])
			return inc_usage("%s is missing", names[d]);
		if (!*args->ifname[d] || strlen(args->ifname[d]) >= IF_NAMESIZE)
			return inc_usage("%s: '%s' is not the name of an interface", names[d],
					 args->ifname[d]);
	}
	if (args->netns && (!*args->netns || strlen(args->netns) > NAME_MAX))
		return inc_usage("--netns: '%s' is not the name of a namespace", args->netns);
	if (args->control_path &&
	    (!*args->control_path || wire_socket_address(&sun, args->control_path)))
		return inc_usage("--control: '%s' is not the path of a socket", args->control_path);
	if (args->stats_path && inc_opt_path("--stats", args->stats_path))
		return -EINVAL;
	if (args->stats_path && !stat(args->stats_path, &st) && S_ISFIFO(st.st_mode))
		return inc_usage("--stats: %s is a FIFO, whose reader could stop the wire",
				 args->stats_path);
	return 0;
}

int wire_parse(int argc, char **argv, struct wire_args *args)
{
	static const struct option options[] = {{"host", required_argument, NULL, 'h'},
						{"switch", required_argument, NULL, 's'},
						{"netns", required_argument, NULL, 'n'},
						{"set", required_argument, NULL, 'S'},
						{"seed", required_argument, NULL, 'r'},
						{"control", required_argument, NULL, 'c'},
						{"stats", required_argument, NULL, 't'},
						{"help", no_argument, NULL, 'H'},
						{NULL, 0, NULL, 0}};
	int c, ret = 0;

	while (!ret && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'h':
			args->ifname[WIRE_UP] = optarg;
			break;
		case 's':
			args->ifname[WIRE_DOWN] = optarg;
			break;
		case 'n':
			args->netns = optarg;
			break;
		case 'S':
			ret = check_spec("--set ", optarg);
			args->specs[args->n_specs++] = optarg;
			break;
		case 'r':
			ret = inc_opt_number("--seed", optarg, 0, UINT64_MAX, &args->seed);
			break;
		case 'c':
			args->control_path = optarg;
			break;
		case 't':
			args->stats_path = optarg;
			break;
		case 'H':
			usage(stdout);
			return 0;
		default:
			return 2;
		}
	}
	if (!ret && optind != argc)
		ret = inc_usage("unexpected argument '%s'", argv[optind]);
	return ret || check_args(args) ? 2 : -1;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "lib/net/hostport.h"
#include "lib/base/opt.h"
#include "userspace/switchd.h"

_Static_assert(sizeof(struct inc_buf) == 2304, "what the help says of a row");

static const char usage_text[] =
	"usage: inc-switchd --config FILE [OPTIONS]\n"
	"       inc-switchd --controller HOST[:PORT] --port IFNAME... [OPTIONS]\n"
	"\n"
	"A switch that adds up what its ports receive (AllReduce over RoCEv2): loads the XDP\n"
	"programs, attaches them, and looks after what they leave to user space.\n"
	"\n"
	"  --config FILE          run from a static file (docs/control.md, \"Switch\")\n"
	"  --controller HOST[:PORT]  fetch the configuration there (port 52311)\n"
	"  --name NAME            name of the switch; with --config: which one of the file\n"
	"                         (default: the file's only one, or the host's name)\n"
	"  --instance NAME        names pins, lock and socket: /sys/fs/bpf/inc/NAME,\n"
	"                         /run/inc/NAME.lock, /run/inc/NAME.sock (default: the name)\n"
	"  --port IFNAME          a port; repeat it (default with --config: as in the file)\n"
	"  --mode native|generic  XDP in the driver (default) or in the generic path, slower\n"
	"  --attach auto|libxdp|bpf_link  how to attach (default auto: libxdp, so that other\n"
	"                         XDP programs can live on the port, else a bpf_link)\n"
	"  --max-groups N --max-connections N --max-rows N   sizes of the maps (64, 1024,\n"
	"                         16384; a row is 2304 bytes, a communicator takes children\n"
	"                         times slots rows)\n"
	"  --rto-min-ms N --rto-max-ms N   bounds of the resend timer (5, 1000)\n"
	"  --ack-delay-ms N       how long an ACK may be owed (2)\n"
	"  --no-icrc-check        do not check the ICRC of received packets (for measuring)\n"
	"  --ready-fd N           write \"ready\" and a newline there when up, then close it\n"
	"  --check                only check the file, touch nothing\n"
	"  --help, --version\n"
	"\n"
	"Logs to stderr; INC_LOG_LEVEL=error|warn|info|debug, INC_LOG_JSON=1. SIGTERM, SIGINT,\n"
	"SIGHUP and SIGQUIT stop it and leave nothing behind. Exit codes: 0 stopped,\n"
	"1 failure, 2 usage.\n";

enum {
	OPT_CONFIG = 256,
	OPT_CONTROLLER,
	OPT_NAME,
	OPT_INSTANCE,
	OPT_PORT,
	OPT_MODE,
	OPT_ATTACH,
	OPT_MAX_COMMS,
	OPT_MAX_CONNS,
	OPT_MAX_ROWS,
	OPT_RTO_MIN,
	OPT_RTO_MAX,
	OPT_ACK_DELAY,
	OPT_NO_ICRC,
	OPT_READY_FD,
	OPT_CHECK,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option options[] = {
	{"config", required_argument, NULL, OPT_CONFIG},
	{"controller", required_argument, NULL, OPT_CONTROLLER},
	{"name", required_argument, NULL, OPT_NAME},
	{"instance", required_argument, NULL, OPT_INSTANCE},
	{"port", required_argument, NULL, OPT_PORT},
	{"mode", required_argument, NULL, OPT_MODE},
	{"attach", required_argument, NULL, OPT_ATTACH},
	{"max-groups", required_argument, NULL, OPT_MAX_COMMS},
	{"max-connections", required_argument, NULL, OPT_MAX_CONNS},
	{"max-rows", required_argument, NULL, OPT_MAX_ROWS},
	{"rto-min-ms", required_argument, NULL, OPT_RTO_MIN},
	{"rto-max-ms", required_argument, NULL, OPT_RTO_MAX},
	{"ack-delay-ms", required_argument, NULL, OPT_ACK_DELAY},
	{"no-icrc-check", no_argument, NULL, OPT_NO_ICRC},
	{"ready-fd", required_argument, NULL, OPT_READY_FD},
	{"check", no_argument, NULL, OPT_CHECK},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

static int take_option(int c, const char *value, struct inc_options *opt)
{
	struct inc_settings *s = &opt->settings;
	uint32_t fd;

	switch (c) {
	case OPT_CONFIG:
		opt->config = value;
		return inc_opt_path("--config", value);
	case OPT_CONTROLLER:
		opt->controller = value;
		return inc_hostport_opt("--controller", value);
	case OPT_NAME:
		opt->name = value;
		break;
	case OPT_INSTANCE:
		opt->instance = value;
		break;
	case OPT_PORT:
		if (!*value || strlen(value) >= IF_NAMESIZE)
			return inc_usage("--port: '%s' is not an interface name", value);
		if (!inc_settings_add_port(s, value))
			return inc_usage("--port: at most %d ports", INC_MAX_PORTS);
		break;
	case OPT_MODE:
		s->mode_given = true;
		s->generic = !strcmp(value, "generic");
		if (!s->generic && strcmp(value, "native"))
			return inc_usage("--mode: '%s' is not native or generic", value);
		break;
	case OPT_ATTACH:
		if (!strcmp(value, "auto"))
			opt->attach = INC_ATTACH_AUTO;
		else if (!strcmp(value, "libxdp"))
			opt->attach = INC_ATTACH_LIBXDP;
		else if (!strcmp(value, "bpf_link"))
			opt->attach = INC_ATTACH_BPF_LINK;
		else
			return inc_usage("--attach: '%s' is not auto, libxdp or bpf_link", value);
		break;
	case OPT_MAX_COMMS:
		return inc_opt_uint("--max-groups", value, 1, INC_MAX_COMMS, &s->max_comms);
	case OPT_MAX_CONNS:
		return inc_opt_uint("--max-connections", value, 1, INC_MAX_CONNS,
				    &s->max_connections);
	case OPT_MAX_ROWS:
		return inc_opt_uint("--max-rows", value, 1, INC_MAX_ROWS, &s->max_rows);
	case OPT_RTO_MIN:
		return inc_opt_uint("--rto-min-ms", value, 1, 60000, &s->rto_min_ms);
	case OPT_RTO_MAX:
		return inc_opt_uint("--rto-max-ms", value, 1, 60000, &s->rto_max_ms);
	case OPT_ACK_DELAY:
		return inc_opt_uint("--ack-delay-ms", value, 1, 1000, &s->ack_delay_ms);
	case OPT_NO_ICRC:
		opt->skip_icrc = true;
		break;
	case OPT_READY_FD:
		if (inc_opt_uint("--ready-fd", value, 0, INT_MAX, &fd))
			return -EINVAL;
		if (fcntl(fd, F_GETFD) < 0)
			return inc_usage("--ready-fd %u: %s", fd, strerror(errno));
		opt->ready_fd = fd;
		break;
	case OPT_CHECK:
		opt->check_only = true;
		break;
	default:
		return -EINVAL;
	}
	return 0;
}

static int check_options(const struct inc_options *opt)
{
	const struct inc_settings *s = &opt->settings;
	struct inc_err err;

	if (opt->config && opt->controller)
		return inc_usage("--config and --controller exclude each other");
	if (!opt->config && !opt->controller)
		return inc_usage("--config or --controller is needed");
	if (opt->controller && !s->n_ports)
		return inc_usage("--controller needs --port");
	if (opt->check_only && !opt->config)
		return inc_usage("--check needs --config");
	if (opt->instance && inc_instance_name_check(opt->instance, &err))
		return inc_usage("--instance: %s", err.msg);
	if (opt->name && inc_instance_name_check(opt->name, &err))
		return inc_usage("--name: %s", err.msg);
	if ((s->rto_max_ms ?: INC_DEF_RTO_MAX_MS) < (s->rto_min_ms ?: INC_DEF_RTO_MIN_MS))
		return inc_usage("--rto-max-ms is below --rto-min-ms");
	return 0;
}

int inc_options_parse(int argc, char **argv, struct inc_options *opt, int *exit_code)
{
	int c, ret = 0;

	memset(opt, 0, sizeof(*opt));
	opt->ready_fd = -1;
	while (!ret && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == OPT_HELP || c == OPT_VERSION) {
			if (c == OPT_HELP)
				fputs(usage_text, stdout);
			else
				printf("inc-switchd protocol %d abi %d\n", INC_SWITCHD_PROTOCOL,
				       INC_ABI_VERSION);
			*exit_code = 0;
			return 1;
		}
		ret = take_option(c, optarg, opt);
	}
	if (!ret && optind < argc)
		ret = inc_usage("unexpected argument '%s'", argv[optind]);
	ret = ret ?: check_options(opt);
	*exit_code = 2;
	return ret ? 1 : 0;
}

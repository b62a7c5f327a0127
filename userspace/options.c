/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the command line of inc-switchd. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include "lib/base/opt.h"
#include "lib/base/spin.h"
#include "lib/net/tls.h"
#include "lib/net/netdev.h"
#include "lib/net/hostport.h"
#include "userspace/switchd.h"

_Static_assert(sizeof(struct inc_buf) == 2304, "the help names the size of a row");

static const struct inc_opt_word xdp_modes[] = {
	{INC_XDP_NATIVE, INC_XDP_IN_DRIVER}, {INC_XDP_GENERIC, INC_XDP_IN_STACK}, {}};
static const struct inc_opt_word steering_choices[] = {
	{"auto", INC_STEERING_AUTO}, {"on", INC_STEERING_ON}, {"off", INC_STEERING_OFF}, {}};
static const struct inc_opt_word attachments[] = {{"auto", INC_ATTACH_AUTO},
						  {"libxdp", INC_ATTACH_LIBXDP},
						  {"bpf_link", INC_ATTACH_BPF_LINK},
						  {}};

static int take_port(void *settings, const char *text, struct inc_err *err)
{
	int ret = inc_ifname_check(text, err);

	if (!ret && !inc_settings_add_port(settings, text))
		ret = inc_err_set(err, EINVAL, "at most %d ports", INC_MAX_PORTS);
	return ret;
}

static int take_mode(void *settings, const char *text, struct inc_err *err)
{
	struct inc_settings *s = settings;

	for (uint32_t i = 0; inc_modes_of_switch[i]; i++) {
		if (strcmp(text, inc_modes_of_switch[i]) == 0) {
			s->mode_given = true;
			s->mode = i;
			return 0;
		}
	}
	if (strcmp(text, INC_XDP_NATIVE) && strcmp(text, INC_XDP_GENERIC))
		return inc_err_set(err, EINVAL, "'%.64s' is not %s or %s", text,
				   inc_modes_of_switch[INC_PASSTHROUGH],
				   inc_modes_of_switch[INC_TERMINATION]);
	inc_settings_old_xdp(s, strcmp(text, INC_XDP_GENERIC) == 0, "--mode");
	return 0;
}

static int take_metrics(void *settings, const char *text, struct inc_err *err)
{
	struct inc_settings *s = settings;
	int ret = inc_settings_check_metrics(text, err);

	if (ret)
		return ret;
	s->metrics_given = true;
	strcpy(s->metrics, text);
	return 0;
}

static int take_poll(void *settings, const char *text, struct inc_err *err)
{
	struct inc_settings *s = settings;
	uint64_t us = 0;
	int ret = inc_opt_number(text, 0, INC_SPIN_MAX_US, &us, err);

	s->poll_given = true;
	s->poll_us = us;
	return ret;
}

static const struct inc_opt options[] = {
	{.name = "config",
	 .value = "FILE",
	 .help = "run from a static file (docs/control.md, \"Switch\")",
	 INC_OPT_TEXT(struct inc_options, config, inc_path_check)},
	{.name = "controller",
	 .value = "HOST[:PORT][,...]",
	 .help = "fetch the configuration there (port " INC_STR(INC_PORT_SWITCHES) ")",
	 INC_OPT_TEXT(struct inc_options, controller, inc_hostports_check)},
	{.name = "name",
	 .value = "NAME",
	 .help = "name of the switch; with --config: which one of the file (default: the file's "
		 "only one, or the host's name)",
	 INC_OPT_TEXT(struct inc_options, name, inc_instance_name_check)},
	{.name = "instance",
	 .value = "NAME",
	 .help = "names pins, lock and socket: " INC_PIN_ROOT "/NAME, " INC_RUN_DIR
		 "/NAME.lock, " INC_RUN_DIR "/NAME.sock (default: the name)",
	 INC_OPT_TEXT(struct inc_options, instance, inc_instance_name_check)},
	{.name = "port",
	 .value = "IFNAME",
	 .help = "a port (repeatable; default with --config: as in the file)",
	 INC_OPT_TAKE(struct inc_options, settings, take_port)},
	{.name = "mode",
	 .value = "passthrough|termination",
	 .help = "mode of communicators that do not set one. passthrough (default) adds packets "
		 "in XDP on their way; termination ends the hosts' connections and adds whole "
		 "messages",
	 INC_OPT_TAKE(struct inc_options, settings, take_mode)},
	{.name = "xdp",
	 .help = "in passthrough mode: XDP in the driver (default) or in the generic path, slower",
	 INC_OPT_WORD(struct inc_options, xdp, xdp_modes)},
	{.name = "steering",
	 .help = "in passthrough mode: whether one CPU, chosen by load, handles all packets of a "
		 "communicator. auto (default): where a port has several receive queues",
	 INC_OPT_WORD(struct inc_options, steering, steering_choices)},
	{.name = "threads",
	 .value = "N",
	 .help = "threads that add messages in termination mode (default " INC_STR(
		 INC_DEF_THREADS) "); each communicator belongs to one",
	 INC_OPT_NUMBER(struct inc_options, settings.threads, 1, INC_MAX_THREADS)},
	{.name = "attach",
	 .help = "how to attach; auto (default): libxdp, so that other XDP programs can live on "
		 "the port, else a bpf_link",
	 INC_OPT_WORD(struct inc_options, attach, attachments)},
	{.name = "poll-us",
	 .value = "N",
	 .help = "microseconds for which a thread of termination mode polls before it sleeps "
		 "(default " INC_STR(
			 INC_SPIN_DEF_US) "; 0: not at all); it stops where that does not pay",
	 INC_OPT_TAKE(struct inc_options, settings, take_poll)},
	{.name = "max-communicators",
	 .alias = "max-groups",
	 .value = "N",
	 .help = "communicators that the maps have room for (default " INC_STR(INC_DEF_COMMS) ")",
	 INC_OPT_NUMBER(struct inc_options, settings.max_comms, 1, INC_MAX_COMMS)},
	{.name = "max-connections",
	 .value = "N",
	 .help = "connections of all communicators (default " INC_STR(INC_DEF_CONNS) ")",
	 INC_OPT_NUMBER(struct inc_options, settings.max_connections, 1, INC_MAX_CONNS)},
	{.name = "max-rows",
	 .value = "N",
	 .help = "contribution rows (default " INC_STR(
		 INC_DEF_ROWS) "); a row is 2304 bytes, a "
			       "communicator takes connections times slots rows",
	 INC_OPT_NUMBER(struct inc_options, settings.max_rows, 1, INC_MAX_ROWS)},
	{.name = "rto-min-ms",
	 .value = "N",
	 .help = "lower bound of the resend timer (default " INC_STR(INC_DEF_RTO_MIN_MS) ")",
	 INC_OPT_NUMBER(struct inc_options, settings.rto_min_ms, 1, INC_MAX_RTO_MS)},
	{.name = "rto-max-ms",
	 .value = "N",
	 .help = "upper bound of the resend timer (default " INC_STR(INC_DEF_RTO_MAX_MS) ")",
	 INC_OPT_NUMBER(struct inc_options, settings.rto_max_ms, 1, INC_MAX_RTO_MS)},
	{.name = "ack-delay-ms",
	 .value = "N",
	 .help = "longest delay of an ACK that no result carries (default " INC_STR(
		 INC_DEF_ACK_DELAY_MS) ")",
	 INC_OPT_NUMBER(struct inc_options, settings.ack_delay_ms, 1, INC_MAX_ACK_DELAY_MS)},
	{.name = "metrics",
	 .value = "ADDRESS[:PORT]",
	 .help = "answer GET /metrics there over HTTP with all figures, as Prometheus reads them; "
		 "without a port: any free one, which the log names (default: nowhere)",
	 INC_OPT_TAKE(struct inc_options, settings, take_metrics)},
	{.name = "no-icrc-check",
	 .help = "do not check the ICRC of received packets (for measuring)",
	 INC_OPT_FLAG(struct inc_options, skip_icrc)},
	{.name = "fresh",
	 .help = "remove what a daemon of this instance left when it was killed, or stopped by "
		 "SIGUSR1 (default: take it over, so that jobs go on)",
	 INC_OPT_FLAG(struct inc_options, fresh)},
	{.name = "ready-fd",
	 .value = "N",
	 .help = "write \"ready\" and a newline there when up, then close it",
	 INC_OPT_NUMBER(struct inc_options, ready_fd, 0, INT_MAX)},
	{.name = "check",
	 .help = "only check the file, and change nothing",
	 INC_OPT_FLAG(struct inc_options, check_only)},
	{},
};

static int check(void *settings)
{
	struct inc_options *opt = settings;
	struct inc_settings *s = &opt->settings;
	struct inc_err err;

	if (opt->config && opt->controller)
		return inc_usage("--config and --controller exclude each other");
	if (!opt->config && !opt->controller)
		return inc_usage("--config or --controller is needed");
	if (inc_tls_wanted(&opt->tls) && !opt->controller)
		return inc_usage("keys are for a --controller");
	if (opt->controller && !s->n_ports)
		return inc_usage("--controller needs --port");
	if (opt->check_only && !opt->config)
		return inc_usage("--check needs --config");
	/* check the timers here if the command line alone decides; otherwise the file may have one
	 * of them, and config.c checks both */
	if ((opt->controller || (s->rto_min_ms && s->rto_max_ms)) &&
	    inc_settings_check_timers(s, &err))
		return inc_usage("%s", err.msg);
	if (opt->ready_fd >= 0 && fcntl(opt->ready_fd, F_GETFD) < 0)
		return inc_usage("--ready-fd %d: %s", opt->ready_fd, strerror(errno));
	if (opt->xdp != INC_XDP_UNSAID) {
		s->xdp_given = true;
		s->generic = opt->xdp == INC_XDP_IN_STACK;
	}
	if (opt->steering != INC_STEERING_UNSAID) {
		s->steering_given = true;
		s->steering = opt->steering;
	}
	return 0;
}

static const char *const forms[] = {"--config FILE [OPTIONS]",
				    "--controller HOST[:PORT] --port IFNAME... [OPTIONS]", NULL};

static const struct inc_program program = {
	.name = "inc-switchd",
	.man_section = 8,
	.brief = "a switch that adds up what its ports receive",
	.about = "A switch that adds up what its ports receive (AllReduce over RoCEv2): loads the "
		 "XDP programs, attaches them, and looks after what they leave to user space.",
	.forms = forms,
	.groups = {{options, 0}, {inc_tls_options, offsetof(struct inc_options, tls)}},
	.notes =
		"Logs to stderr; INC_LOG_LEVEL=error|warn|info|debug, INC_LOG_JSON=1. SIGTERM, "
		"SIGINT, SIGHUP and SIGQUIT stop it and leave nothing behind. SIGUSR1 stops it and "
		"leaves what works without it, in passthrough mode, to the next one of the "
		"instance: for an upgrade. The next one takes over what a killed one left, too. It "
		"refuses if its abi (--version) differs.",
	.exits = "0 stopped, 1 failure, 2 wrong command line.",
	.version = "protocol " INC_STR(INC_CONTROL_VERSION) " abi " INC_STR(INC_ABI_VERSION),
	.check = check,
};

int inc_options_parse(int argc, char **argv, struct inc_options *opt)
{
	*opt = (struct inc_options){.ready_fd = -1, .steering = INC_STEERING_UNSAID};
	return inc_opt_parse(&program, argc, argv, opt, NULL);
}

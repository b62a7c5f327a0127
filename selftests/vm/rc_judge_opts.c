/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line options of rc_judge. */
#include "lib/base/opt.h"
#include "selftests/vm/rc_judge.h"

static const struct inc_opt_word modes[] = {{"send", false}, {"write", true}, {}};

static const struct inc_opt options[] = {
	{.name = "communicator",
	 .value = "N",
	 .preset = "0",
	 .help = "its number in the switch",
	 INC_OPT_NUMBER(struct judge_opts, communicator, 0, JUDGE_MAX_COMMUNICATORS - 1)},
	{.name = "hosts",
	 .value = "N",
	 .preset = "2",
	 INC_OPT_NUMBER(struct judge_opts, hosts, 1, JUDGE_MAX_HOSTS)},
	{.name = "payload",
	 .value = "BYTES",
	 .preset = "1024",
	 INC_OPT_NUMBER(struct judge_opts, payload, 256, 2048)},
	{.name = "message-packets",
	 .value = "N",
	 .preset = "1",
	 INC_OPT_NUMBER(struct judge_opts, message_packets, 1, 64)},
	{.name = "window",
	 .value = "MESSAGES",
	 .preset = "64",
	 INC_OPT_NUMBER(struct judge_opts, window, 1, 4096)},
	{.name = "slots",
	 .value = "N",
	 .preset = "256",
	 INC_OPT_NUMBER(struct judge_opts, slots, 1, 4096)},
	{.name = "bytes",
	 .value = "N",
	 .preset = "65536",
	 .help = "of each collective",
	 INC_OPT_NUMBER(struct judge_opts, bytes, 4, 64 << 20)},
	{.name = "collectives",
	 .value = "N",
	 .preset = "4",
	 INC_OPT_NUMBER(struct judge_opts, collectives, 1, 1000000)},
	{.name = "mode", .preset = "send", INC_OPT_WORD(struct judge_opts, write, modes)},
	{.name = "psn",
	 .value = "N",
	 .preset = "0",
	 .help = "of the first contribution; host h adds 1000 h",
	 INC_OPT_NUMBER(struct judge_opts, psn, 0, 0xffffff)},
	{.name = "result-psn",
	 .value = "N",
	 .preset = "0",
	 .help = "of the first result; host h adds 1000 h",
	 INC_OPT_NUMBER(struct judge_opts, result_psn, 0, 0xffffff)},
	{.name = "late-us",
	 .value = "N",
	 .preset = "0",
	 .help = "host 0 posts each receive so much after its send",
	 INC_OPT_NUMBER(struct judge_opts, late_us, 0, 10000000)},
	{.name = "timeout",
	 .value = "N",
	 .preset = "18", /* ACK timeout of 1.07 s */
	 .help = "of the queue pairs, as ibv_modify_qp(3) has it",
	 INC_OPT_NUMBER(struct judge_opts, timeout, 1, 31)},
	{.name = "retry-cnt",
	 .value = "N",
	 .preset = "6",
	 .help = "the same",
	 INC_OPT_NUMBER(struct judge_opts, retry_cnt, 0, 7)},
	{.name = "min-rnr-timer",
	 .value = "N",
	 .preset = "12",
	 .help = "the same",
	 INC_OPT_NUMBER(struct judge_opts, min_rnr_timer, 0, 31)},
	{.name = "limit",
	 .value = "SECONDS",
	 .preset = "60",
	 INC_OPT_NUMBER(struct judge_opts, limit_s, 1, 3600)},
	{},
};

static int check(void *settings)
{
	const struct judge_opts *opts = settings;

	return opts->bytes % 4 ? inc_usage("--bytes: not a multiple of 4") : 0;
}

static const struct inc_program program = {
	.name = "rc_judge",
	.about = "Raw verbs against a switch with a static configuration. Every rxe device of this "
		 "machine is a host (rxeI with 10.77.I.1). Prints what the switch's file is to "
		 "have and waits for a line on stdin; then runs AllReduces and prints one JSON "
		 "object.",
	.groups = {{options, 0}},
	.check = check,
};

int judge_parse(int argc, char **argv, struct judge_opts *opts)
{
	*opts = (struct judge_opts){};
	return inc_opt_parse(&program, argc, argv, opts, NULL);
}

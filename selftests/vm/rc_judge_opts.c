/* SPDX-License-Identifier: BSD-2-Clause */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/vm/rc_judge.h"

static const char help[] =
	"usage: rc_judge --config FILE [options]\n"
	"Raw verbs against a switch with a static configuration. Every rxe device of this machine "
	"is\n"
	"a host (rxeI with 10.77.I.1). Writes the switch's FILE, says 'ready' and waits for a line "
	"on\n"
	"stdin; then runs AllReduces and prints one JSON object.\n"
	"  --hosts N (2)            --payload BYTES (1024)    --message-packets N (1)\n"
	"  --window MESSAGES (64)   --slots N (256)           --bytes N (65536)\n"
	"  --collectives N (4)      --mode send|write         --psn N  --result-psn N (0)\n"
	"  --late-us N (0): host 0 posts each receive N us after its send\n"
	"  --timeout N (18)  --retry-cnt N (6)  --min-rnr-timer N (12)  --limit SECONDS (60)\n";

enum { O_NUMBER = 0, O_MODE = 1, O_CONFIG, O_HELP, O_FIRST };

int judge_parse(int argc, char **argv, struct judge_opts *opts)
{
	unsigned long bytes = 65536, psn = 0, result_psn = 0;
	struct {
		const char *name;
		unsigned int *value;
		unsigned int min, max;
	} numbers[] = {
		{"hosts", &opts->hosts, 1, JUDGE_MAX_HOSTS},
		{"payload", &opts->payload, 256, 2048},
		{"message-packets", &opts->message_packets, 1, 64},
		{"window", &opts->window, 1, 4096},
		{"slots", &opts->slots, 1, 4096},
		{"collectives", &opts->collectives, 1, 1000000},
		{"late-us", &opts->late_us, 0, 10000000},
		{"timeout", &opts->timeout, 1, 31},
		{"retry-cnt", &opts->retry_cnt, 0, 7},
		{"min-rnr-timer", &opts->min_rnr_timer, 0, 31},
		{"limit", &opts->limit_s, 1, 3600},
	};
	struct {
		const char *name;
		unsigned long *value;
	} longs[] = {{"bytes", &bytes}, {"psn", &psn}, {"result-psn", &result_psn}};
	const unsigned int n = sizeof(numbers) / sizeof(numbers[0]);
	struct option options[32] = {{"mode", required_argument, NULL, O_MODE},
				     {"config", required_argument, NULL, O_CONFIG},
				     {"help", no_argument, NULL, O_HELP}};
	unsigned int i, k = 3;
	char *end;
	int c;

	*opts = (struct judge_opts){.hosts = 2,
				    .payload = 1024,
				    .message_packets = 1,
				    .window = 64,
				    .slots = 256,
				    .collectives = 4,
				    .timeout = 18, /* 1.07 s */
				    .retry_cnt = 6,
				    .min_rnr_timer = 12,
				    .limit_s = 60};
	for (i = 0; i < n + 3; i++)
		options[k++] = (struct option){i < n ? numbers[i].name : longs[i - n].name,
					       required_argument, NULL, O_FIRST + i};
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == O_HELP) {
			fputs(help, stdout);
			return 1;
		}
		if (c == O_MODE && (!strcmp(optarg, "write") || !strcmp(optarg, "send"))) {
			opts->write = optarg[0] == 'w';
			continue;
		}
		if (c == O_CONFIG) {
			opts->config = optarg;
			continue;
		}
		if (c < O_FIRST)
			goto usage;
		unsigned long v = strtoul(optarg, &end, 0);

		i = c - O_FIRST;
		if (*end || end == optarg || (i < n && (v < numbers[i].min || v > numbers[i].max)))
			goto usage;
		if (i < n)
			*numbers[i].value = v;
		else
			*longs[i - n].value = v;
	}
	opts->bytes = bytes;
	opts->psn = psn & 0xffffff;
	opts->result_psn = result_psn & 0xffffff;
	if (optind == argc && opts->config && bytes && bytes % 4 == 0 && bytes <= 64 << 20)
		return 0;
usage:
	fputs(help, stderr);
	return 2;
}

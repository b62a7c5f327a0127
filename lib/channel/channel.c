/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include "lib/channel/channel.h"

/* The settings of a switch's queue pairs, for the same reasons as those of hosts (docs/verbs.md).
 * The timeout of one retransmission is 0.54 s, and all of them take 3.8 s. No device takes a
 * retry_cnt of 6 for unlimited retries. A peer without a posted receive is only slow, because it
 * waits for others, so a switch retries for ever after RNR NAKs. */
const struct inc_channel_verbs_settings inc_channel_verbs_of_switch = {
	.gid_index = -1,
	.timeout = 17,
	.retry_cnt = 6,
	.rnr_retry = 7,
	.min_rnr_timer = INC_CHANNEL_RNR_TIMER,
	.hop_limit = 64,
	.pkey_index = -1,
	.max_rd_atomic = 1,
	.port_down_ms = 2000,
};

void inc_channel_log(void *ctx, enum inc_log_level level, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	inc_log(level, "%s", text);
}

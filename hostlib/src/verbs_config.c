/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings of the verbs transport, of which soft endpoints have traffic_class and sl. docs/verbs.md
 * is their reference. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/src/endpoint.h"
#include "lib/conf/comm_conf.h"

/* Default ACK timeout of verbs: 0.54 s per try, 3.8 s in all. The switch acknowledges a
 * contribution as soon as it has stored it, whatever the other ranks do. So silence means a lost
 * last packet (other losses are found by NAK) or a dead switch. The timeout is not shorter, because
 * rxe of Linux 6.1 may get its packet numbers wrong when it resends a packet that is being
 * acknowledged at that moment (docs/verbs.md). */
static const struct inc_channel_verbs_settings defaults = {
	.gid_index = -1,
	.timeout = 17,
	.retry_cnt = 6,
	.rnr_retry = 6,
	.min_rnr_timer = 12,
	.hop_limit = 64,
	.max_rd_atomic = 1,
	.port_down_ms = 2000,
	.cache_mib = 1024,
};

static const struct {
	const char *key;
	size_t offset;
	long min, max;
} numbers[] = {
/* clang-format off */
#define N(field, min, max, text) \
	{#field, offsetof(struct inc_channel_verbs_settings, field), min, max},
	INC_VERBS_SHARED_KEYS(N)
	N(port, 0, 255, )
	N(rnr_retry, 0, 6, )
	N(port_down_ms, 0, 600000, )
	N(cache_mib, 0, 1 << 20, )
#undef N
	/* clang-format on */
};

static int set(struct inc_channel_verbs_settings *config, const char *from, const char *key,
	       const char *value, struct inc_err *err)
{
	char *end;
	size_t i;
	long v;

	if (!strcmp(key, "device")) {
		if (!*value || strlen(value) >= sizeof(config->device))
			return inc_err_set(err, EINVAL, "%s: device '%s' is no device name", from,
					   value);
		strcpy(config->device, value);
		return 0;
	}
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strcmp(key, numbers[i].key))
			continue;
		errno = 0;
		v = strtol(value, &end, 0);
		if (errno || end == value || *end || v < numbers[i].min || v > numbers[i].max)
			return inc_err_set(err, EINVAL, "%s: %s=%s: want a number from %ld to %ld",
					   from, key, value, numbers[i].min, numbers[i].max);
		if (!strcmp(key, "traffic_class") && !inc_traffic_class_good(v))
			return inc_err_set(err, EINVAL, "%s: %s=%s: want %s", from, key, value,
					   INC_TRAFFIC_CLASS_TEXT);
		*(int *)((char *)config + numbers[i].offset) = v;
		return 0;
	}
	return inc_err_set(err, EINVAL, "%s: no setting '%s'", from, key);
}

static int apply(struct inc_channel_verbs_settings *config, const char *from, const char *text,
		 struct inc_err *err)
{
	char *copy, *save, *item, *value;
	int ret = 0;

	copy = strdup(text);
	if (!copy)
		return inc_err_set(err, ENOMEM, "%s: %s", from, strerror(ENOMEM));
	for (item = strtok_r(copy, ", ", &save); item && !ret; item = strtok_r(NULL, ", ", &save)) {
		value = strchr(item, '=');
		if (value) {
			*value++ = 0;
			ret = set(config, from, item, value, err);
		} else {
			ret = inc_err_set(err, EINVAL, "%s: '%s' is not key=value", from, item);
		}
	}
	free(copy);
	return ret;
}

int inccl_verbs_settings(const char *options, struct inc_channel_verbs_settings *config,
			 struct inc_err *err)
{
	const char *env = getenv("INCCL_VERBS");
	int ret = 0;

	*config = defaults;
	if (env)
		ret = apply(config, "INCCL_VERBS", env, err);
	if (!ret && options)
		ret = apply(config, "verbs options", options, err);
	return ret;
}

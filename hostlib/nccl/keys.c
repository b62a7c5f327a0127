/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/keys.h"
#include "lib/base/clock.h"
#include "lib/conf/comm_conf.h"
#include "lib/proto/frame.h"

/* unit of ACK timeouts: code n of the IBTA means 4.096 us * 2^n */
#define ACK_TIMEOUT_UNIT_NS 4096u
#define FOR_EVER_ON_RXE     7

const struct ha_setting ha_settings[] = {
#define NUMBER(type, member, name, instead, unit, def, least, most, text) \
	{name, instead, unit, def, least, most, text},
#define TEXT(member, name, text) {name, NULL, NULL, 0, 0, 0, text},
	HA_NUMBERS(NUMBER) HA_TEXTS(TEXT)
#undef NUMBER
#undef TEXT
		{0}};

static const char *read_text(const char *name)
{
	const char *text = name ? getenv(name) : NULL;

	return text && *text ? text : NULL;
}

/* Reads a decimal number without blanks around it. Returns whether the setting can have it. */
static bool parse_number(const struct ha_setting *setting, const char *text, int64_t *value)
{
	const char *digits = text + (*text == '-');
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 10);
	/* the first character must be a digit, because strtoll() also accepts blanks and a plus */
	return *digits >= '0' && *digits <= '9' && !*end && !errno && *value >= setting->least &&
	       *value <= setting->most;
}

const char *ha_setting_source(const struct ha_setting *setting, const char **text)
{
	int64_t value;

	*text = read_text(setting->name);
	if (*text)
		return setting->name;
	*text = read_text(setting->instead);
	return *text && parse_number(setting, *text, &value) ? setting->instead : NULL;
}

/* Reads a numeric setting from its environment variable. */
static int read_number(const struct ha_setting *setting, int64_t *value, struct inc_err *err)
{
	const char *text, *name = ha_setting_source(setting, &text);

	*value = setting->def;
	if (name && !parse_number(setting, text, value))
		return inc_err_set(err, EINVAL, "%s: '%.64s' is not a number from %lld to %lld",
				   name, text, (long long)setting->least, (long long)setting->most);
	return 0;
}

/* Checks that a text names a file of its own for each process of a host, whose number can be found
 * in the name. Returns what is wrong, or NULL. */
static const char *fault_of_file(const char *text)
{
	const char *name = strrchr(text, '/'), *behind_host = NULL, *number = NULL, *at;
	const size_t len = strlen(text), ending = strlen(".prom");
	bool beside = false;

	if (*text != '/')
		return "is not an absolute path";
	if (len < ending || strcmp(text + len - ending, ".prom"))
		return "does not end in .prom, so node_exporter would not read it";
	for (at = text; (at = strchr(at, '%')); at += 2) {
		if (at[1] == 'p') {
			if (number || at < name)
				return "has %p twice, or in a directory's name";
			number = at;
			beside = at == behind_host || isdigit((unsigned char)at[-1]) ||
				 isdigit((unsigned char)at[2]);
		} else if (at[1] == 'h') {
			beside = beside || (number && at == number + 2);
			behind_host = at + 2;
		} else if (at[1] != '%') {
			return "has a % that is neither %p, %h nor %%";
		}
	}
	if (!number)
		return "has no %p";
	return beside ? "has a digit or %h beside %p, so the number cannot be found in it" : NULL;
}

/* Checks what the texts and several settings together must be. */
static int check(const struct ha_config *config, struct inc_err *err)
{
	const char *fault = config->metrics ? fault_of_file(config->metrics) : NULL;

	if (config->transport && strcmp(config->transport, "soft") &&
	    strcmp(config->transport, "verbs"))
		return inc_err_set(err, EINVAL,
				   "HA_NCCL_TRANSPORT: '%.64s' is not one of verbs, soft",
				   config->transport);
	if (fault)
		return inc_err_set(err, EINVAL,
				   "HA_NCCL_METRICS: '%.64s' %s; an example is "
				   "/var/lib/prometheus/node-exporter/nccl-%%p.prom",
				   config->metrics, fault);
	if (config->heartbeat_ms >= config->rto_ms)
		return inc_err_set(err, EINVAL,
				   "HA_NCCL_HEARTBEAT_MS: %u is not less than HA_NCCL_RTO_MS, %u, "
				   "so no message would be repeated",
				   config->heartbeat_ms, config->rto_ms);
	if (ha_config_is_soft(config) && !inc_traffic_class_good(config->traffic_class))
		return inc_err_set(err, EINVAL,
				   "NCCL_IB_TC: %u with HA_NCCL_TRANSPORT=soft: want %s",
				   config->traffic_class, INC_TRAFFIC_CLASS_TEXT);
	return 0;
}

/* Whether libinccl accepts the number. -1 is the default of NCCL_IB_GID_INDEX, which libinccl has,
 * too. */
static bool suits_libinccl(const char *key, int64_t number)
{
	return number >= 0 && (strcmp(key, "traffic_class") || inc_traffic_class_good(number));
}

/* Writes the settings of CollNet's queue pairs (keys.h). */
static void write_verbs(char text[HA_VERBS_TEXT])
{
	static const struct {
		const char *name, *key;
	} pairs[] = {{"HA_NCCL_QP_TIMEOUT", "timeout"},
		     {"HA_NCCL_QP_RETRY_CNT", "retry_cnt"},
		     {"NCCL_IB_GID_INDEX", "gid_index"},
		     {"NCCL_IB_TC", "traffic_class"},
		     {"NCCL_IB_SL", "sl"},
		     {"NCCL_IB_PKEY", "pkey_index"}};
	const struct ha_setting *setting;
	const char *value;
	int64_t number;
	size_t i;

	text[0] = '\0';
	for (setting = ha_settings; setting->name; setting++)
		for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
			if (!strcmp(setting->name, pairs[i].name) &&
			    ha_setting_source(setting, &value) &&
			    parse_number(setting, value, &number) &&
			    suits_libinccl(pairs[i].key, number))
				snprintf(text + strlen(text), HA_VERBS_TEXT - strlen(text),
					 ",%s=%lld", pairs[i].key, (long long)number);
		}
}

int ha_config_read(struct ha_config *config, struct inc_err *err)
{
	const struct ha_setting *setting = ha_settings;
	int64_t value;
	int ret;

#define NUMBER(type, member, ...)                  \
	ret = read_number(setting++, &value, err); \
	if (ret)                                   \
		return ret;                        \
	config->member = (type)value;
	HA_NUMBERS(NUMBER)
#undef NUMBER
#define TEXT(member, name, text) config->member = read_text(name);
	HA_TEXTS(TEXT)
#undef TEXT
	write_verbs(config->verbs);
	return check(config, err);
}

bool ha_config_is_soft(const struct ha_config *config)
{
	return config->transport && !strcmp(config->transport, "soft");
}

uint64_t ha_config_window_ns(const struct ha_config *config)
{
	const uint64_t timeout_ns = (uint64_t)ACK_TIMEOUT_UNIT_NS << config->qp_timeout;

	/* a device without retries gives up at the first timeout */
	return timeout_ns * (config->qp_retry_cnt ?: 1);
}

bool ha_config_doubts(const struct ha_config *config, bool rxe, struct inc_err *why)
{
	const uint64_t window_ns = ha_config_window_ns(config);
	bool any = false;

	why->msg[0] = '\0';
	if (config->rto_ms * INC_NSEC_PER_MSEC <= 2 * window_ns) {
		inc_err_add(why,
			    "HA_NCCL_RTO_MS: %u is not more than twice the %llu ms in which the "
			    "device itself gives up (HA_NCCL_QP_TIMEOUT %u, HA_NCCL_QP_RETRY_CNT "
			    "%u; devices stretch that up to fourfold): paths may be left without "
			    "need",
			    config->rto_ms, (unsigned long long)(window_ns / INC_NSEC_PER_MSEC),
			    config->qp_timeout, config->qp_retry_cnt);
		any = true;
	}
	if (rxe && config->qp_retry_cnt == FOR_EVER_ON_RXE) {
		inc_err_add(why,
			    "HA_NCCL_QP_RETRY_CNT: %u is for ever on rxe, so only HA_NCCL_RTO_MS "
			    "detects a dead path; use 6",
			    config->qp_retry_cnt);
		any = true;
	}
	if (!inc_traffic_class_good(config->traffic_class)) {
		inc_err_add(why,
			    "NCCL_IB_TC: %u marks each packet as one that a router has delayed "
			    "(ECN 3), so the devices may send slowly, and CollNet does not have "
			    "it; use %u",
			    config->traffic_class, config->traffic_class & ~INC_ECN_MASK);
		any = true;
	}
	return any;
}

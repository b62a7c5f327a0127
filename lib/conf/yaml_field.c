/* SPDX-License-Identifier: BSD-2-Clause */
/* Typed fields of YAML mappings. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "lib/conf/yaml_priv.h"

const char *inc_yaml_text(const struct inc_yaml_node *node)
{
	if (!node || node->node->type != YAML_SCALAR_NODE)
		return NULL;
	return (const char *)node->node->data.scalar.value;
}

int inc_yaml_want_map(const struct inc_yaml_node *node, struct inc_err *err)
{
	if (node && node->node->type == YAML_MAPPING_NODE)
		return 0;
	return inc_yaml_error(node, err, node ? "is not a mapping" : "a mapping is missing");
}

int inc_yaml_want_seq(const struct inc_yaml_node *node, struct inc_err *err)
{
	if (node && node->node->type == YAML_SEQUENCE_NODE)
		return 0;
	return inc_yaml_error(node, err, node ? "is not a sequence" : "a sequence is missing");
}

/* 1 and *text where the field is there, 0 where it may be and is absent, -EINVAL */
static int scalar(const struct inc_yaml_node *map, const char *key, bool required,
		  const struct inc_yaml_node **node, const char **text, struct inc_err *err)
{
	int ret = inc_yaml_want_map(map, err);

	if (ret)
		return ret;
	*node = inc_yaml_get(map, key);
	if (!*node)
		return required ? inc_yaml_error(map, err, "'%s' is missing", key) : 0;
	*text = inc_yaml_text(*node);
	if (!*text)
		return inc_yaml_error(*node, err, "is not a single value");
	if (!**text)
		return inc_yaml_error(*node, err, "is empty");
	return 1;
}

int inc_yaml_get_str(const struct inc_yaml_node *map, const char *key, bool required,
		     const char **out, struct inc_err *err)
{
	const struct inc_yaml_node *node;
	const char *text;
	int ret = scalar(map, key, required, &node, &text, err);

	if (ret <= 0)
		return ret;
	*out = text;
	return 0;
}

int inc_yaml_get_u64(const struct inc_yaml_node *map, const char *key, bool required, uint64_t min,
		     uint64_t max, uint64_t *out, struct inc_err *err)
{
	const struct inc_yaml_node *node;
	unsigned long long value;
	const char *text;
	char *end;
	int ret = scalar(map, key, required, &node, &text, err);

	if (ret <= 0)
		return ret;
	/* strtoull takes blanks and signs, and reads 010 as octal: none of that here */
	if (*text < '0' || *text > '9')
		return inc_yaml_error(node, err, "'%.64s' is not a whole number", text);
	errno = 0;
	value = strtoull(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
	if (*end)
		return inc_yaml_error(node, err, "'%.64s' is not a whole number", text);
	if (errno || value < min || value > max)
		return inc_yaml_error(node, err, "%.64s is not between %llu and %llu", text,
				      (unsigned long long)min, (unsigned long long)max);
	*out = value;
	return 0;
}

int inc_yaml_get_double(const struct inc_yaml_node *map, const char *key, bool required, double min,
			double max, double *out, struct inc_err *err)
{
	const struct inc_yaml_node *node;
	const char *text;
	double value;
	char *end;
	int ret = scalar(map, key, required, &node, &text, err);

	if (ret <= 0)
		return ret;
	value = strtod(text, &end);
	if (end == text || *end || !isfinite(value) || *text == ' ')
		return inc_yaml_error(node, err, "'%.64s' is not a number", text);
	if (value < min || value > max)
		return inc_yaml_error(node, err, "%.64s is not between %g and %g", text, min, max);
	*out = value;
	return 0;
}

int inc_yaml_get_bool(const struct inc_yaml_node *map, const char *key, bool required, bool *out,
		      struct inc_err *err)
{
	static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
	const struct inc_yaml_node *node;
	const char *text;
	int ret = scalar(map, key, required, &node, &text, err);

	if (ret <= 0)
		return ret;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*out = i & 1;
			return 0;
		}
	}
	return inc_yaml_error(node, err, "'%.64s' is neither true nor false", text);
}

int inc_yaml_get_ipv4(const struct inc_yaml_node *map, const char *key, bool required,
		      struct in_addr *out, struct inc_err *err)
{
	const struct inc_yaml_node *node;
	struct in_addr addr;
	const char *text;
	int ret = scalar(map, key, required, &node, &text, err);

	if (ret <= 0)
		return ret;
	if (inet_pton(AF_INET, text, &addr) != 1)
		return inc_yaml_error(node, err, "'%.64s' is not an IPv4 address", text);
	*out = addr;
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int inc_yaml_get_mac(const struct inc_yaml_node *map, const char *key, bool required,
		     uint8_t out[6], struct inc_err *err)
{
	const struct inc_yaml_node *node;
	const char *text;
	uint8_t mac[6];
	int ret = scalar(map, key, required, &node, &text, err);

	if (ret <= 0)
		return ret;
	if (strlen(text) != 17)
		goto bad;
	for (int i = 0; i < 6; i++) {
		int high = hex_digit(text[3 * i]), low = hex_digit(text[3 * i + 1]);

		if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != ':'))
			goto bad;
		mac[i] = high << 4 | low;
	}
	memcpy(out, mac, sizeof(mac));
	return 0;
bad:
	return inc_yaml_error(node, err, "'%.64s' is not a MAC address (02:00:00:00:00:01)", text);
}

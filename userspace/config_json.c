/* SPDX-License-Identifier: BSD-2-Clause */
/* The config object of a "configure" message. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "lib/proto/roce.h"
#include "userspace/config.h"

static int get_u32(const json_t *map, const char *where, const char *key, bool required,
		   uint64_t min, uint64_t max, uint32_t *out, struct inc_err *err)
{
	const json_t *v = json_object_get(map, key);

	if (!v && !required)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < (json_int_t)min ||
	    (uint64_t)json_integer_value(v) > max)
		return inc_err_set(err, EINVAL,
				   "%s%s: must be an integer from %" PRIu64 " to %" PRIu64, where,
				   key, min, max);
	*out = json_integer_value(v);
	return 0;
}

static int get_u16(const json_t *map, const char *where, const char *key, bool required,
		   uint64_t min, uint64_t max, uint16_t *out, struct inc_err *err)
{
	uint32_t v = *out;
	int ret = get_u32(map, where, key, required, min, max, &v, err);

	*out = v;
	return ret;
}

static int get_bool(const json_t *map, const char *where, const char *key, bool *out,
		    struct inc_err *err)
{
	const json_t *v = json_object_get(map, key);

	if (!v)
		return 0;
	/* the original documents write 0 and 1 */
	if (json_is_integer(v) && (json_integer_value(v) == 0 || json_integer_value(v) == 1)) {
		*out = json_integer_value(v);
		return 0;
	}
	if (!json_is_boolean(v))
		return inc_err_set(err, EINVAL, "%s%s: must be true or false", where, key);
	*out = json_is_true(v);
	return 0;
}

static int get_ip(const json_t *map, const char *where, const char *key, struct in_addr *out,
		  struct inc_err *err)
{
	const char *text = json_string_value(json_object_get(map, key));

	if (!text || inet_pton(AF_INET, text, out) != 1)
		return inc_err_set(err, EINVAL, "%s%s: must be an IPv4 address", where, key);
	if (!inc_addr_unicast(ntohl(out->s_addr)))
		return inc_err_set(err, EINVAL, "%s%s: %s is not a unicast address", where, key,
				   text);
	return 0;
}

static int get_mac(const json_t *map, const char *where, const char *key, uint8_t out[6],
		   bool *given, struct inc_err *err)
{
	const json_t *v = json_object_get(map, key);
	const char *text = json_string_value(v);
	int n = 0;

	if (!v)
		return 0;
	if (!text ||
	    sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &out[0], &out[1], &out[2],
		   &out[3], &out[4], &out[5], &n) != 6 ||
	    n != 17 || text[n])
		return inc_err_set(err, EINVAL, "%s%s: must be a MAC address", where, key);
	*given = true;
	return 0;
}

static int read_conn(const json_t *v, const char *where, struct inc_conn_conf *c,
		     struct inc_err *err)
{
	const char *port = json_string_value(json_object_get(v, "my_name"));
	bool up = false;
	int ret;

	*c = (struct inc_conn_conf){.own_port = INC_ROCE_UDP_PORT,
				    .peer_port = INC_ROCE_UDP_PORT,
				    .pkey = INC_PKEY_DEFAULT};
	if (!json_is_object(v))
		return inc_err_set(err, EINVAL, "%s must be an object", where);
	if (!port || !*port || strlen(port) >= IF_NAMESIZE)
		return inc_err_set(err, EINVAL, "%smy_name: must be an interface name", where);
	strcpy(c->port, port);
	ret = get_bool(v, where, "up", &up, err);
	if (!ret && up)
		return inc_err_set(err, EOPNOTSUPP,
				   "%sup: a parent switch: this switch can only be a root", where);
	ret = ret ?: get_u32(v, where, "host_id", true, 0, INC_MAX_CHILDREN - 1, &c->rank, err);
	ret = ret ?: get_ip(v, where, "my_ip", &c->own_ip, err);
	ret = ret ?: get_ip(v, where, "peer_ip", &c->peer_ip, err);
	ret = ret ?: get_mac(v, where, "my_mac", c->own_mac, &c->has_own_mac, err);
	ret = ret ?: get_mac(v, where, "peer_mac", c->peer_mac, &c->has_peer_mac, err);
	ret = ret ?: get_u16(v, where, "my_port", false, 1, UINT16_MAX, &c->own_port, err);
	ret = ret ?: get_u16(v, where, "peer_port", false, 1, UINT16_MAX, &c->peer_port, err);
	ret = ret ?: get_u32(v, where, "my_qp", true, 2, INC_QPN_MASK - 1, &c->own_qp, err);
	ret = ret ?: get_u32(v, where, "peer_qp", true, 2, INC_QPN_MASK - 1, &c->peer_qp, err);
	ret = ret ?: get_u32(v, where, "my_psn", true, 0, INC_PSN_MASK, &c->own_psn, err);
	ret = ret ?: get_u32(v, where, "psn", true, 0, INC_PSN_MASK, &c->peer_psn, err);
	ret = ret ?: get_u16(v, where, "pkey", false, 1, UINT16_MAX, &c->pkey, err);
	return ret ?: get_bool(v, where, "udp_csum", &c->udp_csum, err);
}

int inc_config_json(const json_t *config, struct inc_comm_conf *out, struct inc_err *err)
{
	const json_t *list = json_object_get(config, "connections"), *v;
	char where[40];
	bool root = true;
	size_t i;
	int ret;

	memset(out, 0, sizeof(*out));
	if (!json_is_object(config))
		return inc_err_set(err, EINVAL, "config: must be an object");
	ret = get_u32(config, "", "communicator", true, 0, UINT32_MAX, &out->communicator, err);
	ret = ret ?: get_u32(config, "", "communicator", false, 0, UINT32_MAX, &out->comm, err);
	ret = ret ?: get_u32(config, "", "payload", true, 256, INC_MAX_PAYLOAD, &out->payload, err);
	ret = ret ?: get_u32(config, "", "slots", true, 1, INC_MAX_SLOTS, &out->slots, err);
	ret = ret ?: get_bool(config, "", "root", &root, err);
	if (ret)
		return ret;
	if (!root)
		return inc_err_set(err, EOPNOTSUPP, "root: this switch can only be a root");
	if (!json_is_array(list) || !json_array_size(list) ||
	    json_array_size(list) > INC_MAX_CHILDREN)
		return inc_err_set(err, EINVAL, "connections: must be a list of 1 to %d",
				   INC_MAX_CHILDREN);
	json_array_foreach (list, i, v) {
		snprintf(where, sizeof(where), "connections[%zu].", i);
		ret = read_conn(v, where, &out->conn[i], err);
		if (ret)
			return ret;
		out->children++;
	}
	return 0;
}

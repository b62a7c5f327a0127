/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/log.h"
#include "lib/reduce/many.h"
#include "lib/reduce/operate.h"
#include "userspace/interface.h"
#include "userspace/term/capabilities.h"

/* Reads the port's address, to which hosts send. Returns 0 or -errno. */
static int address_of(const char *ifname, struct inc_addr *out)
{
	struct ifaddrs *list;

	if (getifaddrs(&list))
		return -errno;
	*out = inc_interface_first_address(ifname, list);
	freeifaddrs(list);
	return inc_addr_given(*out) ? 0 : -EADDRNOTAVAIL;
}

/* Adds the endpoints of one port to the switch's capabilities. Returns whether an endpoint may be
 * missing for want of memory or descriptors. */
static bool add_port(const char *ifname, struct inc_msg_engine *out, struct inc_err *why)
{
	struct inc_channel_offer offer;
	struct inc_msg_offer *o;
	struct inc_addr ip = {};
	bool lacks = false;
	uint32_t kind;
	int ret = address_of(ifname, &ip);

	if (ret) {
		inc_err_add(why, "port %s has no address", ifname);
		return inc_err_is_shortage(ret);
	}
	for (kind = 0; kind < INC_N_ENDPOINT_KINDS; kind++) {
		const struct inc_channel_device_opts opts = {.ifname = ifname, .own_ip = ip};
		const struct inc_channel_ops *ops = inc_term_kinds[kind];
		struct inc_err reason;

		if (!ops || out->n_endpoints == INC_MAX_ENDPOINTS)
			continue;
		ret = ops->probe(&opts, &offer, &reason);
		if (ret) {
			inc_err_add(why, "%s", reason.msg);
			lacks |= inc_err_is_shortage(ret);
			continue;
		}
		o = &out->endpoints[out->n_endpoints++];
		*o = (struct inc_msg_offer){.kind = kind,
					    .payload = offer.payload_bytes,
					    .message_bytes = offer.max_message_bytes};
		snprintf(o->port, sizeof(o->port), "%s", ifname);
		snprintf(o->device, sizeof(o->device), "%s", offer.device);
	}
	return lacks;
}

static void add_kernels(struct inc_msg_engine *out)
{
	struct inc_msg_kernel *k;
	uint32_t op, type;

	for (op = 0; op < INC_N_WIRE_OPERATORS; op++) {
		k = &out->kernels[out->n_kernels++];
		k->op = op;
		for (type = 0; type < INC_N_WIRE_DTYPES; type++)
			if (inc_can_reduce(op, type))
				k->types[k->n_types++] = type;
	}
	snprintf(out->set, sizeof(out->set), "%s", inc_reduce_set());
}

int inc_term_capabilities(const struct inc_settings *settings, struct inc_msg_engine *out,
			  struct inc_err *err)
{
	struct inc_err why = {};
	bool lacks = false;
	uint32_t i;

	for (i = 0; i < settings->n_ports; i++)
		lacks |= add_port(settings->port[i], out, &why);
	if (!out->n_endpoints)
		return inc_err_set(err, lacks ? ENOMEM : EOPNOTSUPP,
				   "no port can end connections: %.400s",
				   why.msg[0] ? why.msg : "there is no port");
	if (why.msg[0])
		inc_debug("endpoints of termination mode: %s", why.msg);
	add_kernels(out);
	out->verbs = true;
	return lacks;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Creates, connects and frees communicators of termination mode. comm_run.c has their work, and
 * comm_view.c their figures. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/roce/requester.h"
#include "userspace/term/comm_priv.h"

static uint32_t buffer_bytes(const struct inc_comm_conf *conf)
{
	return conf->message_packets * conf->payload;
}

/*
 * The number of receives that are posted with each peer. A peer may send message m + window as soon
 * as it has result m, although other peers have not acknowledged that result. If the receive for
 * that message were not posted, the peer would get an RNR NAK. So there are two windows of
 * receives. They have room for at least 2 * INC_ACK_EVERY packets, because soft hosts acknowledge
 * once in INC_ACK_EVERY packets.
 */
static uint32_t receives_of(const struct inc_comm_conf *conf)
{
	uint32_t receives = 2 * conf->messages;

	while (receives * conf->message_packets < 2 * INC_ACK_EVERY)
		receives *= 2;
	return receives;
}

size_t inc_term_comm_bytes(const struct inc_comm_conf *conf)
{
	return inc_term_pool_bytes(conf->n_conns * receives_of(conf), buffer_bytes(conf));
}

const char *comm_what(const struct comm_end *end, char buf[COMM_WHAT])
{
	const uint32_t communicator = end->cm->conf.communicator;

	if (end->conf.up)
		snprintf(buf, COMM_WHAT, "communicator %u, parent", communicator);
	else
		snprintf(buf, COMM_WHAT, "communicator %u, rank %u", communicator, end->conf.rank);
	return buf;
}

/* Whether connection a comes before connection b in the communicator's order: children by their
 * ranks, then the parent. */
static bool before(const struct inc_conn_conf *a, const struct inc_conn_conf *b)
{
	return a->up != b->up ? b->up : a->rank < b->rank;
}

static int add_ends(struct inc_term_comm *cm, const struct inc_comm_conf *conf, struct inc_err *err)
{
	uint32_t i, k;

	if (!conf->n_conns || conf->n_conns > INC_COMM_MAX_CONNECTIONS)
		return inc_err_set(err, EINVAL, "communicator %u: %u connections",
				   conf->communicator, conf->n_conns);
	for (i = 0; i < conf->n_conns; i++) {
		for (k = i; k && before(&conf->conn[i], &cm->end[k - 1].conf); k--)
			cm->end[k].conf = cm->end[k - 1].conf;
		cm->end[k].conf = conf->conn[i];
	}
	cm->n_ends = conf->n_conns;
	cm->n_children = cm->n_ends - cm->end[cm->n_ends - 1].conf.up;
	for (i = 0; i < cm->n_ends; i++) {
		struct comm_end *end = &cm->end[i];

		end->cm = cm;
		end->peer = i;
		if (end->conf.up && i < cm->n_children)
			return inc_err_set(err, EINVAL, "communicator %u: two parents",
					   conf->communicator);
	}
	return 0;
}

static int make_node(struct inc_term_comm *cm, struct inc_err *err)
{
	struct inc_term_child *child = calloc(INC_COMM_MAX_CONNECTIONS, sizeof(*child));
	const struct inc_term_conf conf = {
		.communicator = cm->conf.communicator,
		.receives = cm->receives,
		.has_parent = cm->n_children < cm->n_ends,
		.n_children = cm->n_children,
		.child = child,
	};
	uint32_t c;
	int ret;

	if (!child)
		return inc_err_set(err, ENOMEM, "communicator %u: no memory",
				   cm->conf.communicator);
	for (c = 0; c < cm->n_children; c++) {
		const struct inc_conn_conf *conn = &cm->end[c].conf;

		child[c].is_switch = inc_conn_to_switch(conn);
		if (conn->has_ranks)
			child[c].ranks = conn->ranks;
		else
			inc_ranks_add(&child[c].ranks, conn->rank);
	}
	ret = inc_term_new(&conf, &cm->node, err);
	free(child);
	return ret;
}

/* Returns the end with the lowest number that uses the same device as this end. */
static struct comm_end *first_of_device(struct comm_end *end)
{
	uint32_t i = 0;

	while (end->cm->end[i].dev != end->dev)
		i++;
	return &end->cm->end[i];
}

/* Extends the error message of a device by the peer's name and the port in front. */
static int name_device(const struct comm_end *end, int ret, struct inc_err *err)
{
	char what[COMM_WHAT];
	struct inc_err why;

	if (!ret || !err)
		return ret;
	why = *err;
	return inc_err_set(err, -ret, "%s, port %s: %s", comm_what(end, what), end->conf.port,
			   why.msg);
}

static int open_device(struct comm_end *end, struct inc_err *err)
{
	const struct inc_term_comm *cm = end->cm;
	const struct inc_term_device_want want = {
		.ops = cm->opts.kinds[end->conf.own.kind],
		.ifname = end->conf.port,
		.own_ip = end->conf.own.ip,
		.udp_port = end->conf.own.udp_port,
	};
	size_t bytes;
	void *memory = inc_term_pool_memory(cm->pool, &bytes);
	struct inc_channel_device *dev;
	char what[COMM_WHAT];
	int ret;

	if (!want.ops)
		return inc_err_set(err, EOPNOTSUPP,
				   "%s: this switch has no endpoints of the kind %s",
				   comm_what(end, what), inc_endpoint_kinds[end->conf.own.kind]);
	ret = inc_term_devices_get(cm->opts.devices, &want, &dev, err);
	if (ret)
		return name_device(end, ret, err);
	end->dev = dev;
	if (first_of_device(end) == end)
		ret = dev->ops->map(dev, memory, bytes, INC_CHANNEL_RECEIVE, &end->memory, err);
	end->owns_memory = !ret && first_of_device(end) == end;
	if (ret) {
		end->dev = NULL;
		inc_term_devices_put(cm->opts.devices, dev);
	}
	return name_device(end, ret, err);
}

static int choose_psn(struct inc_conn_conf *conn, struct inc_err *err)
{
	return conn->has_own_psn ? 0 : inc_random24(&conn->own.psn, err);
}

/* Returns the requirement for the solicited event bit in messages of this peer. In a child switch's
 * partial sums the bit shows the byte order. Numbers that were added in the wrong order would make
 * a wrong sum, and nothing else shows that (docs/protocol.md). */
static enum inc_channel_se se_of(const struct inc_conn_conf *conn, bool network)
{
	if (conn->up || !inc_conn_to_switch(conn))
		return INC_CHANNEL_SE_ANY;
	return network ? INC_CHANNEL_SE_HAS : INC_CHANNEL_SE_LACKS;
}

/* Fills in the settings of an end's queue pair: those that its connection has, and otherwise those
 * of a switch. */
static void set_verbs(const struct inc_verbs_conf *conf, struct inc_channel_verbs_settings *out)
{
	*out = inc_channel_verbs_of_switch;
#define _(name, min, max, text) \
	if (conf->has_##name)   \
		out->name = conf->name;
	INC_VERBS_SWITCH_KEYS(_)
#undef _
}

/* Stores what the end's channel uses, for queries. */
static void keep_verbs(struct comm_end *end, const struct inc_channel_verbs_settings *used,
		       const struct inc_channel_own *own)
{
	struct inc_channel_verbs_settings found = *used;

	end->verbs = end->conf.verbs;
	if (end->conf.own.kind != INC_ENDPOINT_VERBS)
		return;
	found.gid_index = own->gid_index;
	found.pkey_index = own->pkey_index;
#define _(key, min, max, text)      \
	end->verbs.key = found.key; \
	end->verbs.has_##key = true;
	INC_VERBS_SWITCH_KEYS(_)
#undef _
}

/* Checks that a host is in the partition of a P_Key that the settings name. Otherwise the devices
 * of both would drop each other's packets without a report. */
static int check_pkey(const struct comm_end *end, uint16_t pkey, struct inc_err *err)
{
	const struct inc_conn_conf *conn = &end->conf;
	char what[COMM_WHAT];

	if (inc_conn_to_switch(conn) || !conn->verbs.has_pkey_index ||
	    !((pkey ^ conn->pkey) & INC_PKEY_BITS))
		return 0;
	return inc_err_set(
		err, EINVAL,
		"%s, port %s: pkey_index %u is the P_Key 0x%04x, and the host has 0x%04x: "
		"change pkey_index of the host (INCCL_VERBS) or of this port",
		comm_what(end, what), conn->port, conn->verbs.pkey_index, pkey, conn->pkey);
}

static int open_channel(struct comm_end *end, struct inc_err *err)
{
	const struct inc_comm_conf *conf = &end->cm->conf;
	struct inc_conn_conf *conn = &end->conf;
	const bool network = conf->byte_order == INC_ORDER_NETWORK;
	struct inc_channel_verbs_settings verbs;
	char what[COMM_WHAT];
	struct inc_channel_own own;
	int ret = choose_psn(conn, err);
	const struct inc_channel_opts opts = {
		.own = conn->own,
		.ifname = conn->port,
		.pkey = conn->pkey,
		.payload = conf->payload,
		.max_message_bytes = buffer_bytes(conf),
		.messages = end->cm->receives,
		.se = conn->up && network,
		.peer_se = se_of(conn, network),
		.verbs = &verbs,
		.class_seen = comm_on_class,
		.memory = &first_of_device(end)->memory,
		.what = comm_what(end, what),
		.ctx = end,
	};

	set_verbs(&conn->verbs, &verbs);
	ret = ret ?: end->dev->ops->make(end->dev, &opts, &end->ch, &own, err);
	ret = ret ?: check_pkey(end, own.pkey, err);
	if (ret)
		return ret;
	keep_verbs(end, &verbs, &own);
	conn->own = own.end;
	conn->pkey = own.pkey;
	conn->has_own_psn = true;
	return 0;
}

/* Posts the first receive with each peer, then the second, and so on, so that the buffers posted
 * last are adjacent. Soft endpoints fill these first, and they have memory already (pool.h). */
static int post_receives(struct inc_term_comm *cm, struct inc_err *err)
{
	char what[COMM_WHAT];
	uint32_t i, k;
	int ret;

	for (k = 0; k < cm->receives; k++)
		for (i = 0; i < cm->n_ends; i++) {
			struct comm_end *end = &cm->end[i];

			ret = end->dev->ops->post(end->ch, inc_term_pool_take(cm->pool));
			if (ret)
				return inc_err_set(err, -ret, "%s: no receives: %s",
						   comm_what(end, what), strerror(-ret));
		}
	return 0;
}

static int make_pool(struct inc_term_comm *cm, struct inc_err *err)
{
	struct inc_err why;
	int ret = inc_term_pool_new(cm->n_ends * cm->receives, buffer_bytes(&cm->conf), &cm->pool,
				    &why);

	return ret ? inc_err_set(err, -ret, "communicator %u: %s", cm->conf.communicator, why.msg)
		   : 0;
}

/* Copies the configurations of the ends, with the numbers that they have got, back into conf, whose
 * connections may have another order. */
static void tell_own(const struct inc_term_comm *cm, struct inc_comm_conf *conf)
{
	uint32_t i, k;

	for (i = 0; i < conf->n_conns; i++)
		for (k = 0; k < cm->n_ends; k++)
			if (conf->conn[i].up == cm->end[k].conf.up &&
			    conf->conn[i].rank == cm->end[k].conf.rank)
				conf->conn[i] = cm->end[k].conf;
}

int inc_term_comm_new(const struct inc_term_comm_opts *opts, struct inc_comm_conf *conf,
		      struct inc_term_comm **out, struct inc_err *err)
{
	struct inc_term_comm *cm = calloc(1, sizeof(*cm));
	uint32_t i;
	int ret;

	if (!cm)
		return inc_err_set(err, ENOMEM, "communicator %u: no memory", conf->communicator);
	cm->opts = *opts;
	cm->conf = *conf;
	cm->receives = receives_of(conf);
	cm->form.native_floats = conf->floats == INC_FLOATS_NATIVE;
	cm->form.swapped = inc_order_is_foreign(conf->byte_order);
	ret = add_ends(cm, conf, err);
	ret = ret ?: make_node(cm, err);
	ret = ret ?: make_pool(cm, err);
	for (i = 0; !ret && i < cm->n_ends; i++)
		ret = open_device(&cm->end[i], err);
	for (i = 0; !ret && i < cm->n_ends; i++)
		ret = open_channel(&cm->end[i], err);
	ret = ret ?: post_receives(cm, err);
	if (ret) {
		inc_term_comm_free(cm);
		return ret;
	}
	tell_own(cm, conf);
	*out = cm;
	return 0;
}

static int connect_end(struct comm_end *end, struct inc_err *err)
{
	const struct inc_conn_conf *conn = &end->conf;
	const bool is_host = !inc_conn_to_switch(conn);
	const bool is_device = conn->peer.kind == INC_ENDPOINT_VERBS;
	const struct inc_channel_peer peer = {
		.end = conn->peer,
		.any_ip_id = is_device,
		.results_acknowledge = is_host && !is_device,
		.is_switch = !is_host,
	};
	char what[COMM_WHAT];
	int ret = end->dev->ops->connect(end->ch, &peer, err);

	end->connected = !ret;
	if (!ret)
		inc_debug("%s: %s to %s, queue pair %u to %u", comm_what(end, what),
			  inc_endpoint_kinds[conn->own.kind], inc_endpoint_kinds[conn->peer.kind],
			  conn->own.qpn, conn->peer.qpn);
	return ret;
}

int inc_term_comm_start(struct inc_term_comm *cm, struct inc_err *err)
{
	uint32_t i;
	int ret = 0;

	/* stop if the communicator has ended, because a device may have failed since it was
	 * created */
	for (i = 0; !ret && !cm->ended && i < cm->n_ends; i++)
		if (cm->end[i].conf.peer.qpn)
			ret = connect_end(&cm->end[i], err);
	return ret;
}

static struct comm_end *find_end(struct inc_term_comm *cm, const struct inc_msg_peer *of)
{
	uint32_t i;

	for (i = 0; i < cm->n_ends; i++)
		if (cm->end[i].conf.up == of->up && (of->up || cm->end[i].conf.rank == of->rank))
			return &cm->end[i];
	return NULL;
}

int inc_term_comm_connect(struct inc_term_comm *cm, const struct inc_msg_peer *peer, uint32_t n,
			  struct inc_err *err)
{
	struct comm_end *end;
	char what[COMM_WHAT];
	uint32_t i, k;
	int ret = 0;

	for (i = 0; i < n; i++) {
		end = find_end(cm, &peer[i]);
		if (!end)
			return inc_err_set(err, ENOENT, "communicator %u has no connection %s %u",
					   cm->conf.communicator,
					   peer[i].up ? "up, of rank" : "to rank", peer[i].rank);
		if (end->connected)
			return inc_err_set(err, EALREADY, "%s is connected", comm_what(end, what));
		for (k = 0; k < i; k++)
			if (find_end(cm, &peer[k]) == end)
				return inc_err_set(err, EALREADY, "%s stands twice",
						   comm_what(end, what));
	}
	for (i = 0; !ret && !cm->ended && i < n; i++) {
		end = find_end(cm, &peer[i]);
		inc_rc_end_update(&end->conf.peer, &peer[i].peer);
		end->conf.has_peer_psn = true;
		ret = connect_end(end, err);
	}
	return ret;
}

void inc_term_comm_free(struct inc_term_comm *cm)
{
	uint32_t i;

	for (i = 0; i < cm->n_ends; i++)
		if (cm->end[i].ch)
			cm->end[i].dev->ops->shut(cm->end[i].ch, 0);
	for (i = cm->n_ends; i--;) {
		struct comm_end *end = &cm->end[i];

		if (!end->dev)
			continue;
		if (end->owns_memory)
			end->dev->ops->unmap(end->dev, &end->memory);
		inc_term_devices_put(cm->opts.devices, end->dev);
	}
	inc_term_free(cm->node);
	inc_term_pool_free(cm->pool);
	free(cm);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* How a rank gets a communicator's connection to its switch, for which it asks the controller. The
 * ranks that another one leads do not ask (hostlib/node). Called by comm.c and hostlib/node, on the
 * thread that creates the communicator. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/numbers.h"
#include "lib/base/thread.h"
#include "lib/reduce/floats.h"
#include "hostlib/src/internal.h"

/* A host with fewer CPUs than this asks for one channel, unless its caller asks for more. */
#define CHANNELS_CPUS_LEAST 4

/* Opens the transport that the caller has chosen, or with "auto" the best one that can be
 * opened. */
static int open_endpoint(struct inccl_communicator *comm, enum inccl_transport_kind kind,
			 struct inccl_endpoint **ep, struct inccl_own *own, struct inc_err *err)
{
	const struct inccl_communicator_opts *opts = &comm->settings;
	struct inccl_group *group = comm->group;
	struct inccl_open_opts open = {
		.addr = comm->lanes.own,
		.payload = opts->payload,
		.message_packets = opts->message_packets ?: 1,
		.window_messages = opts->window,
		.options = opts->verbs,
		.log = inccl_log_forward,
		.log_ctx = comm,
	};
	const struct inccl_transport *t;
	struct inc_err why;
	int ret;

	ret = inccl_env_start_psn(&open.start_psn, err);
	if (ret)
		return ret;
	ret = inc_err_set(err, EOPNOTSUPP, "transport: not in this build of the library");
	for (t = inccl_transports; t->channel; t++) {
		const char *name = t->channel->name;

		if (kind != INCCL_TRANSPORT_AUTO && kind != t->kind)
			continue;
		why.msg[0] = 0;
		ret = inccl_endpoint_probe(t, &open, &why);
		inccl_log_line(group->log, "transport %s: %s%s%s", name,
			       ret ? "not usable" : "usable", why.msg[0] ? ": " : "", why.msg);
		if (ret) {
			inc_err_set(err, -ret, "transport %s: %s", name, why.msg);
			/* a wrong setting is reported, because another transport would hide the
			 * mistake */
			if (ret == -EINVAL)
				return ret;
			continue;
		}
		ret = inccl_endpoint_open(t, &open, ep, own, err);
		if (!ret) {
			inccl_log_line(group->log, "transport %s on %s", name, own->device);
			return 0;
		}
		inccl_log_line(group->log, "transport %s: %s", name, err->msg);
	}
	return ret;
}

/* Sets how many messages and packets may be under way: what this rank can have, within the limits
 * of the controller's answer MADE. Returns the number of slots that these messages need. */
static unsigned int agree_on_messages(struct inccl_communicator *comm,
				      const struct inc_msg_made *made, const struct inccl_own *own)
{
	const unsigned int asked = comm->settings.message_packets ?: 1;
	/* a packet with a larger payload needs twice as much memory of the receive buffer */
	const unsigned int most =
		made->payload > INC_MAX_PAYLOAD ? own->most_packets / 2 : own->most_packets;

	comm->message_packets = made->message_packets ?: asked;
	/* the window has as many packets as the caller has asked for, in messages of the agreed
	 * size */
	comm->window_messages = own->window_messages * asked / comm->message_packets ?: 1;
	comm->messages = made->messages ?: made->slots;
	if (made->mode == INC_TREE_TERMINATION && !comm->settings.window)
		comm->window_messages = most / comm->message_packets ?: 1;
	if (made->messages && comm->window_messages > made->messages)
		comm->window_messages = made->messages;
	return comm->window_messages * comm->message_packets;
}

/* Checks the controller's answer MADE against what this rank has asked for, and stores it. */
static int apply_made(struct inccl_communicator *comm, const struct inc_msg_made *made,
		      const struct inccl_own *own, struct inc_channel_peer *peer,
		      struct inc_err *err)
{
	const struct inc_msg_endpoint *conn = &made->connection;
	const unsigned int least = agree_on_messages(comm, made, own);
	const unsigned int most = made->mode == INC_TREE_TERMINATION
					  ? own->payload
					  : inc_min(own->payload, INC_MAX_PAYLOAD);
	char ip[INC_ADDR_TEXT];

	if (made->payload > most || made->slots < least)
		return inc_err_set(err, EPROTO,
				   "controller %s: answer to 'C': payload %u, %u slots: this rank "
				   "can take %u at most, and needs %u at least",
				   comm->group->controller, made->payload, made->slots, most,
				   least);
	comm->mode = made->mode;
	comm->native_floats = made->floats == INC_FLOATS_NATIVE;
	peer->end = conn->peer;
	peer->payload = made->payload;
	peer->packets = made->slots;
	peer->by_message = inccl_steps_are_messages(comm);
	peer->answers_probes = made->probes;
	peer->reorder = made->probes && made->reorder;
	peer->rto_min_ns = made->rto_min_ms * INC_NSEC_PER_MSEC;
	peer->messages = comm->messages;
	inc_addr_text(conn->peer.ip, ip);
	snprintf(comm->peer, sizeof(comm->peer), "%s (%s)", conn->node, ip);
	peer->name = comm->peer;
	comm->granted = made->channels;
	comm->number = made->communicator;
	comm->payload = made->payload;
	comm->slots = made->slots;
	comm->own = own->end;
	memcpy(comm->node, conn->node, sizeof(comm->node));
	memcpy(comm->device, own->device, sizeof(comm->device));
	memcpy(comm->tree, made->tree, sizeof(comm->tree));
	memcpy(comm->choice, made->choice, sizeof(comm->choice));
	memcpy(comm->slow, made->slow, sizeof(comm->slow));
	comm->slow_floats = made->slow_floats;
	return inccl_rails_take(comm, made, err);
}

/* Returns the number of channels for which this rank asks. If it is 0, the controller chooses by
 * the switches, which a host with few CPUs must not allow. Such a host has one for each NIC. */
static unsigned int wanted_channels(const struct inccl_communicator *comm,
				    const struct inccl_survey *survey)
{
	if (comm->lead)
		return 1;
	if (comm->settings.channels || inc_cpus() >= CHANNELS_CPUS_LEAST)
		return comm->settings.channels;
	return survey->usable ?: 1;
}

static int ask(struct inccl_communicator *comm, const struct inccl_own *own,
	       const struct inccl_survey *survey, struct control_wait *wait,
	       struct inccl_limit *limit, struct inc_err *err)
{
	struct inc_msg_ask msg = {
		.comm = comm->index,
		.own = own->end,
		.payload = inc_min(own->payload, INC_MAX_PAYLOAD),
		/* sent only if it differs from payload, because an earlier controller knows only
		 * that field */
		.termination_payload = own->payload > INC_MAX_PAYLOAD ? own->payload : 0,
		.message_packets = comm->settings.message_packets,
		.window = own->window_messages,
		.pkey = own->pkey,
		.udp_csum = own->udp_csum,
		.reorder = own->reorder,
		.byte_order = inccl_wire_order(comm),
		.floats = INC_FLOATS_NATIVE,
		.channels = wanted_channels(comm, survey),
		.has_own_ip = comm->group->rails.n,
		.own_ip = comm->lanes.own,
		.n_rails = survey->n,
	};
	int ret;

	ret = inccl_use(comm->settings.use, &msg.use, &msg.has_use, err);
	if (ret)
		return ret;
	memcpy(msg.rails, survey->rail, sizeof(msg.rails));
	comm->transport = comm->ep->ops->name;
	snprintf(msg.transport, sizeof(msg.transport), "%s", comm->transport);
	return inccl_control_call(comm->group, INC_MSG_ASK, &msg, wait, limit, err);
}

const char *inccl_comm_floats(const struct inccl_communicator *comm)
{
	return inc_float_forms[comm->native_floats ? INC_FLOATS_NATIVE : INC_FLOATS_FIXED];
}

void inccl_comm_log_slow(struct inccl_communicator *comm, bool floats)
{
	if (!*comm->slow || comm->slow_floats != floats)
		return;
	inccl_log_line(comm->group->log, "slow: communicator %lld: %s", comm->number, comm->slow);
	comm->slow[0] = '\0';
}

/* Requests a connection from the controller, and connects the endpoint. Sets *again to the address
 * from which this rank shall ask again, if the controller names one. Called under the group's
 * lock. */
static int get_connection(struct inccl_communicator *comm, const struct inccl_own *own,
			  const struct inccl_survey *survey, struct inc_addr *again,
			  struct inccl_limit *limit, struct inc_err *err)
{
	struct control_wait wait = {.id = INC_MSG_MADE, .index = comm->index, .number = -1};
	struct inc_channel_peer peer = {0};
	int ret;

	ret = ask(comm, own, survey, &wait, limit, err);
	comm->refused = wait.refused;
	*again = ret == -EAGAIN ? wait.own_ip : (struct inc_addr){};
	if (ret)
		return ret;
	ret = apply_made(comm, &wait.answer.made, own, &peer, err);
	if (ret)
		return ret;
	return inccl_endpoint_connect(comm->ep, &peer, err);
}

int inccl_comm_start(struct inccl_communicator *comm, struct inccl_limit *limit,
		     struct inc_err *err)
{
	struct inccl_group *group = comm->group;
	struct control_wait start = {
		.id = INC_MSG_START, .index = comm->index, .number = comm->number};
	int ret;

	comm->is_ready = true;
	ret = inccl_control_call(group, INC_MSG_READY, &(struct inc_msg_number){comm->number},
				 &start, limit, err);
	comm->refused = start.refused;
	comm->is_ready = !start.refused;
	if (ret)
		return ret;
	/* the communicator may have received a failure while no caller waited, so that `start` does
	 * not have it */
	if (comm->error) {
		comm->refused = true;
		return inc_err_set(err, comm->error, "%s", comm->error_text);
	}
	inccl_log_line(group->log,
		       "communicator %lld: %s, %s, tree %s (%s%s%s, floats %s), payload %u, window "
		       "%u x %u, %u slots",
		       comm->number, comm->device, comm->peer, comm->tree,
		       inc_tree_modes[comm->mode], *comm->choice ? ", auto: " : "", comm->choice,
		       inccl_comm_floats(comm), comm->payload, comm->window_messages,
		       comm->message_packets, comm->slots);
	inccl_comm_log_slow(comm, false);
	return 0;
}

int inccl_comm_list(struct inccl_communicator *comm, struct inc_err *err)
{
	struct inccl_group *group = comm->group;

	/* a communicator that is listed gets the group's failures itself */
	if (comm->is_listed)
		return 0;
	if (group->error)
		return inc_err_set(err, group->error, "%s", group->error_text);
	comm->is_listed = true;
	comm->next = group->comms;
	group->comms = comm;
	return 0;
}

/* Gives the communicator another endpoint. A listed communicator always has one. */
static void set_endpoint(struct inccl_communicator *comm, struct inccl_endpoint *ep)
{
	struct inccl_endpoint *old;

	pthread_mutex_lock(&comm->lock);
	old = comm->ep;
	comm->ep = ep;
	pthread_mutex_unlock(&comm->lock);
	if (old)
		inccl_endpoint_close(old);
}

/* Opens an endpoint at the address in comm->lanes, and asks for its connection. */
static int join_by(struct inccl_communicator *comm, enum inccl_transport_kind kind,
		   const struct inccl_survey *survey, struct inc_addr *again,
		   struct inccl_limit *limit, struct inc_err *err)
{
	struct inccl_group *group = comm->group;
	struct inccl_own own = {0};
	struct inccl_endpoint *ep;
	int ret = open_endpoint(comm, kind, &ep, &own, err);

	inccl_log_deliver(group->log);
	*again = (struct inc_addr){};
	if (ret)
		return ret;
	comm->settings.transport = ep->transport->kind;
	set_endpoint(comm, ep);
	pthread_mutex_lock(&group->lock);
	ret = inccl_comm_list(comm, err) ?: get_connection(comm, &own, survey, again, limit, err);
	pthread_mutex_unlock(&group->lock);
	inccl_log_deliver(group->log);
	return ret;
}

int inccl_comm_join_network(struct inccl_communicator *comm, struct inccl_limit *limit,
			    struct inc_err *err)
{
	const enum inccl_transport_kind kind = comm->settings.transport;
	struct inccl_survey survey;
	struct inc_addr again;
	int ret;

	inccl_rails_choose(comm, &survey);
	ret = join_by(comm, kind, &survey, &again, limit, err);
	/* another rank cannot use that NIC; each further time another NIC has failed meanwhile */
	for (unsigned int i = 0; inc_addr_given(again) && i < INC_MAX_RAILS; i++) {
		comm->lanes.own = again;
		ret = join_by(comm, kind, &survey, &again, limit, err);
	}
	return ret;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A path over UDP (HA_NCCL_TRANSPORT=soft), for machines without RDMA devices. It has a socket of
 * its own, with one posted channel of lib/channel. path.c calls the functions here for a path whose
 * member `soft` is not NULL, on the same threads.
 *
 * A channel moves messages of up to PIECE_BYTES, and it has no RDMA WRITE. The form of a message
 * shows what it is:
 *
 *	immediate data	a piece of the payload with this sequence. The last piece, and no other one,
 *			is shorter than PIECE_BYTES, and may be empty.
 *	HA_MSG_BYTES	a control message
 *	size of a slot	a description, which goes into the sender's ring
 *	no bytes	a probe
 *
 * No address that travels is written to. A receiver knows from its own descriptions where the
 * payload of a sequence belongs, and a payload without a description fails the path. So a peer can
 * write into memory of open receives only.
 *
 * A channel repeats packets for ever, but a device gives up when its retries are over. So a path is
 * dead when its peer has answered nothing for as long.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "hostlib/nccl/path.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/channel/channel.h"
#include "lib/proto/roce.h"

#define PIECE_BYTES 4096u
/* Most messages under way in each direction. Their bytes fit into a socket's buffer of the usual
 * size, because a user who is not root cannot have a larger one. */
#define AHEAD        32u
#define BUFFER_BYTES (1 << 20)
#define RTO_MIN_NS   (5 * INC_NSEC_PER_MSEC)
#define RTO_MAX_NS   (100 * INC_NSEC_PER_MSEC)
/* A longer time between two polls does not count as the peer's silence. */
#define ABSENT_NS (20 * INC_NSEC_PER_MSEC)
/* room for all writes of a path, for descriptions that wait, and for control messages */
#define MAX_WORK (HA_WRITES + HA_SLOTS + HA_MSGS_AHEAD)
/* One poll brings AHEAD messages and AHEAD acknowledgements at most, and the path may die. */
#define MAX_EVENTS (2 * AHEAD + 1)

enum outgoing_kind { PAYLOAD, DESCRIPTION, PROBE, CONTROL };

/* A payload, description, probe or control message to send. */
struct outgoing {
	enum outgoing_kind kind;
	uint64_t wr_id;
	const uint8_t *buffer;
	uint32_t bytes, immediate;
	uint32_t sent, acked; /* numbers of its messages */
};

/* A receive that this end has described on this path. */
struct described {
	bool open;
	uint32_t sequence, bytes;
	uint8_t *buffer;
};

struct ha_soft {
	struct inc_channel_device *device; /* NULL, like the channel: the path is over */
	struct inc_channel *channel;
	struct inc_channel_opts opts;
	struct ha_slot_wire *ring;
	/* A ring of work that is not acknowledged, in order. Of the first `sending` all messages
	 * are sent. */
	struct outgoing work[MAX_WORK];
	unsigned int first, works, sending;
	unsigned int under_way; /* messages that are sent and not acknowledged */
	struct described place[HA_SLOTS];
	/* the payload whose pieces are arriving; its place is open */
	bool landing;
	uint32_t landing_sequence, landed_bytes;
	/* a ring of events that were not polled yet */
	struct ha_path_event event[MAX_EVENTS];
	unsigned int first_event, events;
	unsigned int msgs_in; /* control messages that the last turn has received */
	uint64_t window_ns;
	uint64_t answers, heard_at_ns, turned_at_ns;
	char why[256]; /* the reason why the channel has failed */
	struct ha_slot_wire description[HA_SLOTS];
	uint8_t msg_out[HA_MSGS_AHEAD][HA_MSG_BYTES], msg_in[AHEAD][HA_MSG_BYTES];
	/* Buffers that have received a message. The next turn posts them again, so that no turn
	 * brings more than AHEAD messages, whatever the peer does. */
	unsigned int spent;
	void *spent_buffer[AHEAD];
	uint8_t buffer[AHEAD][PIECE_BYTES];
};

static const struct inc_channel_ops *const ops = &inc_channel_soft;

/* ---- events --------------------------------------------------------------------------------- */

static void add_event(struct ha_soft *soft, const struct ha_path_event *event)
{
	soft->event[(soft->first_event + soft->events++) % MAX_EVENTS] = *event;
}

/* Marks the path as dead, which is reported once. */
static void die(struct ha_path *path, const char *why)
{
	if (path->fenced || path->dead)
		return;
	path->dead = true;
	add_event(path->soft, &(struct ha_path_event){.kind = HA_PATH_DEAD, .why = why});
}

static void close_channel(struct ha_path *path)
{
	struct ha_soft *soft = path->soft;

	if (soft->device && path->watcher)
		epoll_ctl(path->watcher, EPOLL_CTL_DEL, ha_soft_fd(path), NULL);
	if (soft->channel)
		ops->shut(soft->channel, 0);
	if (soft->device)
		ops->close(soft->device);
	soft->channel = NULL;
	soft->device = NULL;
}

/* ---- sending -------------------------------------------------------------------------------- */

static struct outgoing *work_at(struct ha_soft *soft, unsigned int i)
{
	return &soft->work[(soft->first + i) % MAX_WORK];
}

static uint32_t messages_of(const struct outgoing *w)
{
	return w->kind == PAYLOAD ? w->bytes / PIECE_BYTES + 1 : 1;
}

static void remove_first(struct ha_soft *soft)
{
	soft->first = (soft->first + 1) % MAX_WORK;
	soft->works--;
	soft->sending -= soft->sending > 0;
}

static void free_msg(struct ha_path *path, const struct outgoing *w)
{
	path->free_msgs |= 1u << ((w->buffer - path->soft->msg_out[0]) / HA_MSG_BYTES);
	path->msgs--;
}

/* The peer has acknowledged the oldest message. */
static void on_sent(void *ctx)
{
	struct ha_path *path = ctx;
	struct ha_soft *soft = path->soft;
	struct outgoing *w = work_at(soft, 0);

	soft->under_way--;
	if (++w->acked < messages_of(w))
		return;
	if (w->kind == CONTROL)
		free_msg(path, w);
	else
		add_event(soft, &(struct ha_path_event){
					.kind = HA_PATH_COMPLETED, .wr_id = w->wr_id, .ok = true});
	remove_first(soft);
}

/* Sends messages as far as the peer has room for them. If that fails, the channel reports its
 * end. */
static void send_more(struct ha_path *path)
{
	struct ha_soft *soft = path->soft;
	uint32_t at, bytes;
	struct outgoing *w;

	while (!path->dead && soft->sending < soft->works && soft->under_way < AHEAD) {
		w = work_at(soft, soft->sending);
		at = w->sent * PIECE_BYTES;
		bytes = w->bytes - at < PIECE_BYTES ? w->bytes - at : PIECE_BYTES;
		if (ops->send(soft->channel, bytes ? w->buffer + at : NULL, bytes,
			      w->kind == PAYLOAD, w->immediate))
			return;
		soft->under_way++;
		if (++w->sent == messages_of(w))
			soft->sending++;
	}
	ops->flush(soft->device);
}

/* Adds work. Work for a path that is over is taken as well, and fails in the next poll, as a queue
 * pair in state ERR does it. */
static int add_work(struct ha_path *path, const struct outgoing *w)
{
	struct ha_soft *soft = path->soft;

	if (soft->works == MAX_WORK)
		return -EAGAIN;
	*work_at(soft, soft->works++) = *w;
	if (w->kind == CONTROL)
		path->msgs++;
	else
		path->writes++;
	if (soft->channel)
		send_more(path);
	return 0;
}

int ha_soft_write(struct ha_path *path, uint64_t wr_id, const void *buffer, uint32_t bytes,
		  uint32_t immediate)
{
	if (bytes > path->max_message_bytes)
		return -EMSGSIZE;
	if (path->writes >= HA_WRITES)
		return -EAGAIN;
	return add_work(path, &(struct outgoing){.kind = PAYLOAD,
						 .wr_id = wr_id,
						 .buffer = buffer,
						 .bytes = bytes,
						 .immediate = immediate});
}

int ha_soft_describe(struct ha_path *path, uint64_t wr_id, const struct ha_slot *slot)
{
	struct ha_soft *soft = path->soft;
	const unsigned int i = slot->sequence % HA_SLOTS;

	soft->place[i] = (struct described){.open = true,
					    .sequence = slot->sequence,
					    .bytes = slot->bytes,
					    .buffer = (uint8_t *)(uintptr_t)slot->address};
	ha_slot_encode(slot, &soft->description[i]);
	return add_work(path, &(struct outgoing){.kind = DESCRIPTION,
						 .wr_id = wr_id,
						 .buffer = (const uint8_t *)&soft->description[i],
						 .bytes = sizeof(soft->description[i])});
}

int ha_soft_probe(struct ha_path *path, uint64_t wr_id)
{
	if (path->writes >= HA_WRITES)
		return -EAGAIN;
	return add_work(path, &(struct outgoing){.kind = PROBE, .wr_id = wr_id});
}

int ha_soft_send(struct ha_path *path, const uint8_t msg[HA_MSG_BYTES])
{
	struct ha_soft *soft = path->soft;
	unsigned int i;

	if (!path->free_msgs)
		return -EAGAIN;
	i = __builtin_ctz(path->free_msgs);
	path->free_msgs &= ~(1u << i);
	memcpy(soft->msg_out[i], msg, HA_MSG_BYTES);
	return add_work(path, &(struct outgoing){.kind = CONTROL,
						 .buffer = soft->msg_out[i],
						 .bytes = HA_MSG_BYTES});
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void add_arrival(struct ha_path *path, const struct ha_path_event *event)
{
	path->receives++;
	add_event(path->soft, event);
}

static void land(struct ha_path *path, const struct inc_channel_message *m)
{
	struct ha_soft *soft = path->soft;
	struct described *place = &soft->place[m->imm % HA_SLOTS];

	if (!soft->landing) {
		soft->landing = true;
		soft->landing_sequence = m->imm;
		soft->landed_bytes = 0;
	}
	if (!place->open || place->sequence != m->imm || soft->landing_sequence != m->imm) {
		die(path, "a payload came that no receive waits for");
		return;
	}
	if (m->length > place->bytes - soft->landed_bytes) {
		die(path, "a payload is longer than its receive");
		return;
	}
	if (m->length)
		memcpy(place->buffer + soft->landed_bytes, m->buffer, m->length);
	soft->landed_bytes += m->length;
	if (m->length == PIECE_BYTES)
		return;
	soft->landing = place->open = false;
	add_arrival(path, &(struct ha_path_event){.kind = HA_PATH_LANDED,
						  .ok = true,
						  .sequence = m->imm,
						  .bytes = soft->landed_bytes});
}

static void take_control(struct ha_path *path, const struct inc_channel_message *m)
{
	struct ha_soft *soft = path->soft;
	uint8_t *msg = soft->msg_in[soft->msgs_in++];

	memcpy(msg, m->buffer, HA_MSG_BYTES);
	add_arrival(path, &(struct ha_path_event){
				  .kind = HA_PATH_MSG, .ok = true, .bytes = m->length, .msg = msg});
}

static void take_description(struct ha_soft *soft, const struct inc_channel_message *m)
{
	struct ha_slot_wire wire;

	memcpy(&wire, m->buffer, sizeof(wire));
	soft->ring[ntohl(wire.sequence) % HA_SLOTS] = wire;
}

static void on_message(void *ctx, const struct inc_channel_message *m)
{
	struct ha_path *path = ctx;
	struct ha_soft *soft = path->soft;

	soft->spent_buffer[soft->spent++] = m->buffer;
	if (path->dead)
		return;
	if (m->has_imm)
		land(path, m);
	else if (m->length == HA_MSG_BYTES)
		take_control(path, m);
	else if (m->length == sizeof(struct ha_slot_wire) && soft->ring)
		take_description(soft, m);
	else if (m->length)
		die(path, "a message of a wrong length");
}

static void on_lost(void *ctx, const struct inc_channel_loss *loss)
{
	struct ha_path *path = ctx;

	memcpy(path->soft->why, loss->text, sizeof(path->soft->why));
	die(path, path->soft->why);
}

/* Declares the path dead if the peer has answered nothing for too long. */
static void check_silence(struct ha_path *path, uint64_t now_ns)
{
	struct ha_soft *soft = path->soft;
	struct inc_channel_figures f;
	uint64_t answers;

	if (now_ns - soft->turned_at_ns > ABSENT_NS)
		soft->heard_at_ns += now_ns - soft->turned_at_ns;
	soft->turned_at_ns = now_ns;
	ops->figures(soft->channel, &f);
	answers = f.rx_packets + f.acks_received + f.naks_received + f.rnrs_received;
	if (!soft->under_way || answers != soft->answers) {
		soft->answers = answers;
		soft->heard_at_ns = now_ns;
	} else if (!path->dead && now_ns - soft->heard_at_ns > soft->window_ns) {
		snprintf(soft->why, sizeof(soft->why),
			 "the peer has not answered for %u ms (HA_NCCL_QP_RETRY_CNT times "
			 "HA_NCCL_QP_TIMEOUT)",
			 (unsigned int)(soft->window_ns / INC_NSEC_PER_MSEC));
		die(path, soft->why);
	}
}

/* Receives, acknowledges and sends what there is. */
static void turn(struct ha_path *path)
{
	struct ha_soft *soft = path->soft;

	while (soft->spent)
		ops->post(soft->channel, soft->spent_buffer[--soft->spent]);
	soft->msgs_in = 0;
	ops->progress(soft->device);
	send_more(path);
	check_silence(path, inc_now_ns());
	if (path->dead)
		close_channel(path);
}

/* Takes the oldest work of a path that is over. Returns whether that is an event. */
static bool give_up_first(struct ha_path *path, struct ha_path_event *event)
{
	struct outgoing w = *work_at(path->soft, 0);

	remove_first(path->soft);
	if (w.kind == CONTROL) {
		free_msg(path, &w);
		return false;
	}
	path->writes--;
	*event = (struct ha_path_event){.kind = HA_PATH_COMPLETED,
					.wr_id = w.wr_id,
					.flushed = true,
					.why = "the path is over"};
	return true;
}

unsigned int ha_soft_poll(struct ha_path *path, struct ha_path_event *events, unsigned int max)
{
	struct ha_soft *soft = path->soft;
	unsigned int n = 0;

	/* events that the caller had no room for come first, so that their number has a limit */
	if (!soft->events && soft->channel)
		turn(path);
	for (; n < max && soft->events; soft->events--) {
		events[n] = soft->event[soft->first_event];
		soft->first_event = (soft->first_event + 1) % MAX_EVENTS;
		path->writes -= events[n].kind == HA_PATH_COMPLETED;
		path->receives -= events[n].kind == HA_PATH_LANDED || events[n].kind == HA_PATH_MSG;
		n++;
	}
	while (n < max && !soft->channel && soft->works)
		n += give_up_first(path, &events[n]);
	return n;
}

/* ---- creation and destruction ---------------------------------------------------------------- */

static void ignore_line(void *ctx, enum inc_log_level level, const char *format, ...)
{
}

/* Makes the channel with this payload of a packet, which is the same at both ends. */
static int make_channel(struct ha_path *path, uint32_t payload, struct inc_err *err)
{
	struct ha_soft *soft = path->soft;
	struct inc_channel_own own;
	int ret;

	soft->opts.payload = payload;
	ret = ops->make(soft->device, &soft->opts, &soft->channel, &own, err);
	if (ret)
		return ret;
	soft->opts.own = own.end;
	for (unsigned int i = 0; i < AHEAD; i++)
		ops->post(soft->channel, soft->buffer[i]);
	return 0;
}

int ha_soft_make(struct ha_path *path, const struct ha_path_opts *opts,
		 const struct ha_place *place, struct inc_err *err)
{
	static const struct inc_channel_handler handler = {
		.message = on_message, .sent = on_sent, .lost = on_lost};
	struct inc_channel_device_opts device = {.rto_min_ns = RTO_MIN_NS,
						 .rto_max_ns = RTO_MAX_NS,
						 .buffer_bytes = BUFFER_BYTES,
						 .handler = &handler,
						 .log = ignore_line};
	struct ha_soft *soft = calloc(1, sizeof(*soft));
	uint32_t psn;
	int ret;

	if (!soft)
		return inc_err_set(err, ENOMEM, "%s: %s", path->what, strerror(ENOMEM));
	path->soft = soft;
	soft->ring = opts->ring;
	memcpy(device.own_ip.byte, place->gid, sizeof(device.own_ip));
	ret = inc_random24(&psn, err) ?: ops->open(&device, &soft->device, err);
	if (ret)
		return ret;
	soft->opts = (struct inc_channel_opts){.own = {.ip = device.own_ip, .psn = psn},
					       .pkey = INC_PKEY_DEFAULT,
					       .max_message_bytes = PIECE_BYTES,
					       .messages = AHEAD,
					       .what = path->what,
					       .ctx = path};
	ret = make_channel(path, place->mtu_bytes, err);
	if (ret)
		return ret;
	path->own = (struct ha_path_info){
		.attempt = path->attempt,
		.rail = path->rail,
		.qpn = soft->opts.own.qpn,
		.psn = psn,
		.mtu_bytes = place->mtu_bytes,
		.link_layer = HA_LINK_SOFT,
		.lid = soft->opts.own.udp_port,
		.pkey = place->pkey,
		.ring = opts->ring ? 1 : 0,
	};
	memcpy(path->own.gid, place->gid, sizeof(path->own.gid));
	path->max_message_bytes = place->max_message_bytes;
	return 0;
}

int ha_soft_enter(struct ha_path *path, const struct ha_path_info *peer,
		  const struct ha_config *config, struct inc_err *err)
{
	struct ha_soft *soft = path->soft;
	struct inc_channel_peer to = {
		.end = {.udp_port = peer->lid, .qpn = peer->qpn, .psn = peer->psn}};
	int ret = 0;

	if (peer->link_layer != HA_LINK_SOFT)
		return inc_err_set(err, EPROTO,
				   "%s: this end has HA_NCCL_TRANSPORT=soft, and the peer has not",
				   path->what);
	if (!soft->ring && !peer->ring)
		return inc_err_set(err, EPROTO, "%s: the peer has no ring", path->what);
	if (peer->mtu_bytes < soft->opts.payload) {
		ops->shut(soft->channel, 0);
		soft->channel = NULL;
		ret = make_channel(path, peer->mtu_bytes, err);
	}
	if (ret)
		return ret;
	memcpy(to.end.ip.byte, peer->gid, sizeof(to.end.ip));
	path->peer = *peer;
	ops->set_class(soft->channel, config->traffic_class);
	soft->window_ns = ha_config_window_ns(config);
	soft->turned_at_ns = soft->heard_at_ns = inc_now_ns();
	return ops->connect(soft->channel, &to, err);
}

int ha_soft_fence(struct ha_path *path)
{
	path->fenced = true;
	close_channel(path);
	return 0;
}

void ha_soft_destroy(struct ha_path *path)
{
	close_channel(path);
	free(path->soft);
}

int ha_soft_fd(const struct ha_path *path)
{
	return path->soft->device ? ops->fd(path->soft->device, NULL) : -1;
}

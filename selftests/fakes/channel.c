/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "lib/base/thread.h"
#include "selftests/fakes/channel.h"

/* channels that a test may make between two calls of fake_channel_reset() */
#define CHANNELS  1024
#define FIRST_QPN 0x100
#define WINDOW    64
#define FILL      0xdb /* pattern that fills each posted buffer */

struct fake_channel_device {
	/* must be the first member, because pointers to it are cast to this struct */
	struct inc_channel_device head;
	struct inc_channel_device_opts opts;
	uint32_t number;
	int fd;
};

enum what { GIVEN, ACKNOWLEDGED, LOST };

/* An event of a channel that progress() has not reported yet. */
struct happened {
	enum what what;
	struct fake_channel_message m;
	enum inc_channel_reason reason;
};

struct sending {
	/* the engine's buffer, which must not change until the send is acknowledged */
	const uint8_t *buffer;
	struct fake_channel_message m; /* the bytes at the time of the send */
};

struct fake_channel {
	/* must be the first member, because pointers to it are cast to this struct */
	struct inc_channel head;
	void *ctx;
	struct fake_channel_state s;
	bool lost, refuse_sends;
	uint8_t *posted[WINDOW]; /* posted buffers, by the number of the receive */
	struct sending sends[WINDOW];
	uint64_t timeouts; /* of the engine's messages */
	uint64_t taken;    /* number of sends that the peer has received */
	uint64_t reported; /* number of acknowledgements that progress() has reported */
	struct happened happened[4 * WINDOW];
	uint32_t n_happened;
};

/* Protects all static data of this file, except data that only the workers' threads use. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_channel *channels[CHANNELS];
static struct fake_channel_state closed[CHANNELS];
static uint32_t n_channels;
static struct fake_channels_open now_open;
static struct fake_channel_device *devices[64];
static uint32_t n_devices;

/* Ends the program if the condition is false, because an endpoint cannot return an error of the
 * engine or of a test. */
#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

void fake_channel_reset(void)
{
	CHECK(!now_open.channels && !now_open.devices && !now_open.maps);
	n_channels = n_devices = 0;
}

struct fake_channels_open fake_channels_open(void)
{
	struct fake_channels_open found;

	pthread_mutex_lock(&lock);
	found = now_open;
	pthread_mutex_unlock(&lock);
	return found;
}

static struct fake_channel *channel_of(uint32_t qpn)
{
	CHECK(qpn >= FIRST_QPN && qpn - FIRST_QPN < n_channels);
	return channels[qpn - FIRST_QPN];
}

static struct fake_channel_device *device_of(struct inc_channel_device *dev)
{
	return (struct fake_channel_device *)dev;
}

static struct fake_channel *of(const struct inc_channel *ch)
{
	return (struct fake_channel *)ch;
}

static void happen(struct fake_channel *ch, const struct happened *h)
{
	CHECK(ch->n_happened < 4 * WINDOW);
	ch->happened[ch->n_happened++] = *h;
	inc_signal_fd(device_of(ch->head.dev)->fd);
}

/* --- the functions that the engine calls --------------------------------------------------- */

static int fake_channel_probe(const struct inc_channel_device_opts *opts,
			      struct inc_channel_offer *out, struct inc_err *why)
{
	*out = (struct inc_channel_offer){.payload_bytes = 1024,
					  .max_message_bytes = FAKE_CHANNEL_MAX_MESSAGE};
	snprintf(out->device, sizeof(out->device), "channels of %s", opts->ifname);
	return 0;
}

/* Binds a UDP port, as a socket does: each port belongs to one device, and 0 selects a free one.
 * The caller holds the lock. */
static int bind_device(struct fake_channel_device *d)
{
	uint32_t i, place = 0;

	d->number = n_devices++;
	if (!d->opts.udp_port)
		d->opts.udp_port = 20000 + d->number;
	for (i = 0; i < 64; i++)
		if (!devices[i])
			place = i;
		else if (inc_addr_same(devices[i]->opts.own_ip, d->opts.own_ip) &&
			 devices[i]->opts.udp_port == d->opts.udp_port)
			return -EADDRINUSE;
	CHECK(!devices[place]);
	devices[place] = d;
	now_open.devices++;
	return 0;
}

static int fake_channel_device_open(const struct inc_channel_device_opts *opts,
				    struct inc_channel_device **out, struct inc_err *err)
{
	struct fake_channel_device *d = calloc(1, sizeof(*d));
	int ret;

	CHECK(d);
	if (!strcmp(opts->ifname, "broken")) {
		free(d);
		return inc_err_set(err, ENODEV, "port %s is broken", opts->ifname);
	}
	d->head.ops = &fake_channel_ops;
	d->opts = *opts;
	d->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK(d->fd >= 0);
	pthread_mutex_lock(&lock);
	ret = bind_device(d);
	pthread_mutex_unlock(&lock);
	if (ret) {
		close(d->fd);
		free(d);
		return inc_err_set(err, -ret, "port %s: address in use", opts->ifname);
	}
	*out = &d->head;
	return 0;
}

static void fake_channel_device_close(struct inc_channel_device *dev)
{
	struct fake_channel_device *d = device_of(dev);
	uint32_t i = 0;

	pthread_mutex_lock(&lock);
	while (devices[i] != d)
		i++;
	devices[i] = NULL;
	now_open.devices--;
	pthread_mutex_unlock(&lock);
	close(d->fd);
	free(d);
}

static int fake_channel_map(struct inc_channel_device *dev, void *addr, size_t len,
			    enum inc_channel_access access, struct inc_channel_region *region,
			    struct inc_err *err)
{
	*region = (struct inc_channel_region){.addr = addr, .len = len};
	pthread_mutex_lock(&lock);
	now_open.maps++;
	pthread_mutex_unlock(&lock);
	return 0;
}

static void fake_channel_unmap(struct inc_channel_device *dev, struct inc_channel_region *region)
{
	pthread_mutex_lock(&lock);
	now_open.maps--;
	pthread_mutex_unlock(&lock);
}

static int fake_channel_make(struct inc_channel_device *dev, const struct inc_channel_opts *opts,
			     struct inc_channel **out, struct inc_channel_own *own,
			     struct inc_err *err)
{
	struct fake_channel *ch = calloc(1, sizeof(*ch));

	CHECK(ch && opts->messages <= WINDOW &&
	      opts->max_message_bytes <= FAKE_CHANNEL_MAX_MESSAGE);
	ch->head.dev = dev;
	ch->ctx = opts->ctx;
	ch->s.opts = *opts;
	ch->s.verbs = *opts->verbs;
	ch->s.opts.verbs = NULL; /* the caller's memory */
	ch->s.open = true;
	ch->s.device = device_of(dev)->number;
	pthread_mutex_lock(&lock);
	CHECK(n_channels < CHANNELS);
	now_open.channels++;
	*own = (struct inc_channel_own){.end = opts->own, .pkey = opts->pkey};
	if (opts->verbs->pkey_index == FAKE_CHANNEL_PKEY_INDEX)
		own->pkey = FAKE_CHANNEL_PKEY;
	own->end.qpn = FIRST_QPN + n_channels;
	own->end.udp_port = device_of(dev)->opts.udp_port;
	ch->s.opts.own.qpn = own->end.qpn;
	channels[n_channels++] = ch;
	pthread_mutex_unlock(&lock);
	*out = &ch->head;
	return 0;
}

static int fake_channel_connect(struct inc_channel *channel, const struct inc_channel_peer *peer,
				struct inc_err *err)
{
	struct fake_channel *ch = of(channel);

	CHECK(!ch->s.connected);
	pthread_mutex_lock(&lock);
	ch->s.connected = true;
	ch->s.peer = *peer;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Checks that posted buffers still have the pattern, and that buffers under way have the bytes of
 * the send. */
static void check_buffers(const struct fake_channel *ch)
{
	uint64_t m;

	for (m = ch->s.received; m < ch->s.posted; m++)
		CHECK(*ch->posted[m % WINDOW] == FILL);
	for (m = ch->reported; m < ch->s.sent; m++) {
		const struct sending *s = &ch->sends[m % WINDOW];

		CHECK(!s->m.length || !memcmp(s->buffer, s->m.bytes, s->m.length));
	}
}

static void fake_channel_shut(struct inc_channel *channel, uint8_t syndrome)
{
	struct fake_channel *ch = of(channel);
	uint32_t i;

	pthread_mutex_lock(&lock);
	check_buffers(ch);
	i = ch->s.opts.own.qpn - FIRST_QPN;
	closed[i] = ch->s;
	closed[i].open = false;
	closed[i].told = syndrome;
	channels[i] = NULL;
	now_open.channels--;
	pthread_mutex_unlock(&lock);
	free(ch);
}

static int fake_channel_post(struct inc_channel *channel, void *buffer)
{
	struct fake_channel *ch = of(channel);

	pthread_mutex_lock(&lock);
	CHECK(buffer && ch->s.posted - ch->s.received < ch->s.opts.messages);
	ch->posted[ch->s.posted++ % WINDOW] = buffer;
	*(uint8_t *)buffer = FILL;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int fake_channel_send(struct inc_channel *channel, const void *buffer, uint32_t length,
			     bool has_imm, uint32_t imm)
{
	struct fake_channel *ch = of(channel);
	struct sending *s = &ch->sends[ch->s.sent % WINDOW];
	int ret = 0;

	pthread_mutex_lock(&lock);
	CHECK(ch->s.connected && !buffer == !length && length <= ch->s.opts.max_message_bytes);
	CHECK(ch->s.sent - ch->reported < ch->s.opts.messages);
	*s = (struct sending){.buffer = buffer,
			      .m = {.length = length, .has_imm = has_imm, .imm = imm}};
	if (length)
		memcpy(s->m.bytes, buffer, length);
	ch->s.sent++;
	if (ch->refuse_sends) {
		happen(ch, &(struct happened){.what = LOST, .reason = INC_CHANNEL_REFUSED});
		ret = -EPIPE;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

static void fake_channel_flush(struct inc_channel_device *dev)
{
}

static bool fake_channel_arm(struct inc_channel_device *dev)
{
	return false;
}

static int fake_channel_fd(const struct inc_channel_device *dev, short *events)
{
	return ((const struct fake_channel_device *)dev)->fd;
}

static uint64_t fake_channel_deadline(const struct inc_channel_device *dev)
{
	return UINT64_MAX;
}

/* Removes the oldest event of a channel of the device; NULL: there is none. */
static struct fake_channel *next(struct inc_channel_device *dev, struct happened *out)
{
	struct fake_channel *ch, *found = NULL;
	uint32_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; !found && i < n_channels; i++) {
		ch = channels[i];
		if (!ch || ch->head.dev != dev || ch->lost || !ch->n_happened)
			continue;
		found = ch;
		*out = ch->happened[0];
		memmove(ch->happened, ch->happened + 1, --ch->n_happened * sizeof(*out));
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void report_message(struct fake_channel *ch, const struct happened *h)
{
	const struct inc_channel_handler *handler = device_of(ch->head.dev)->opts.handler;
	struct inc_channel_message m = {
		.has_imm = h->m.has_imm, .imm = h->m.imm, .length = h->m.length};
	bool changed;

	pthread_mutex_lock(&lock);
	changed = ch->s.rx_tos != h->m.tos;
	ch->s.rx_tos = h->m.tos;
	CHECK(ch->s.received < ch->s.posted);
	m.buffer = ch->posted[ch->s.received++ % WINDOW];
	CHECK(*(uint8_t *)m.buffer == FILL);
	memcpy(m.buffer, h->m.bytes, h->m.length);
	pthread_mutex_unlock(&lock);
	if (changed)
		ch->s.opts.class_seen(ch->ctx, h->m.tos);
	handler->message(ch->ctx, &m);
}

static bool fake_channel_progress(struct inc_channel_device *dev)
{
	const struct inc_channel_handler *handler = device_of(dev)->opts.handler;
	struct fake_channel *ch;
	struct happened h;

	inc_drain_fd(device_of(dev)->fd);
	while ((ch = next(dev, &h))) {
		switch (h.what) {
		case GIVEN:
			report_message(ch, &h);
			break;
		case ACKNOWLEDGED:
			pthread_mutex_lock(&lock);
			check_buffers(ch);
			ch->reported++;
			pthread_mutex_unlock(&lock);
			handler->sent(ch->ctx);
			break;
		case LOST:
			ch->lost = true;
			handler->lost(ch->ctx,
				      &(struct inc_channel_loss){.reason = h.reason,
								 .error = EIO,
								 .text = "the test has broken it"});
			break;
		}
	}
	return false;
}

static void fake_channel_set_class(struct inc_channel *channel, uint8_t traffic_class)
{
	struct fake_channel *ch = (struct fake_channel *)of(channel);

	pthread_mutex_lock(&lock);
	ch->s.verbs.traffic_class = traffic_class;
	pthread_mutex_unlock(&lock);
}

static void fake_channel_figures(const struct inc_channel *channel, struct inc_channel_figures *out)
{
	const struct fake_channel *ch = of(channel);

	pthread_mutex_lock(&lock);
	*out = (struct inc_channel_figures){.rx_packets = ch->s.given + ch->timeouts,
					    .tx_packets = ch->s.sent,
					    .retransmits = 7 + ch->timeouts,
					    .timeouts = ch->timeouts,
					    .timeouts_in_a_row = ch->timeouts,
					    .srtt_ns = 33000};
	pthread_mutex_unlock(&lock);
}

/* Every device reports the same figures, so that the test recognises sums. */
static void fake_channel_device_figures(const struct inc_channel_device *dev,
					struct inc_channel_device_figures *out)
{
	*out = (struct inc_channel_device_figures){.strangers = 1, .damaged = 2};
}

const struct inc_channel_ops fake_channel_ops = {
	.probe = fake_channel_probe,
	.open = fake_channel_device_open,
	.close = fake_channel_device_close,
	.map = fake_channel_map,
	.unmap = fake_channel_unmap,
	.make = fake_channel_make,
	.connect = fake_channel_connect,
	.shut = fake_channel_shut,
	.post = fake_channel_post,
	.send = fake_channel_send,
	.flush = fake_channel_flush,
	.fd = fake_channel_fd,
	.deadline_ns = fake_channel_deadline,
	.progress = fake_channel_progress,
	.arm = fake_channel_arm,
	.set_class = fake_channel_set_class,
	.figures = fake_channel_figures,
	.device_figures = fake_channel_device_figures,
};

/* --- the functions that a test calls as a peer --------------------------------------------- */

bool fake_channel_give(uint32_t qpn, const struct fake_channel_message *m)
{
	struct fake_channel *ch;
	bool ok;

	pthread_mutex_lock(&lock);
	ch = channel_of(qpn);
	/* a closed channel drops the message */
	ok = !ch || ch->s.given < ch->s.posted;
	CHECK(!ch || ch->s.connected);
	if (ch && ok) {
		ch->s.given++;
		happen(ch, &(struct happened){.what = GIVEN, .m = *m});
	}
	pthread_mutex_unlock(&lock);
	return ok;
}

bool fake_channel_take(uint32_t qpn, struct fake_channel_message *out)
{
	struct fake_channel *ch;
	bool ok;

	pthread_mutex_lock(&lock);
	ch = channel_of(qpn);
	ok = ch && ch->taken < ch->s.sent;
	if (ok)
		*out = ch->sends[ch->taken++ % WINDOW].m;
	pthread_mutex_unlock(&lock);
	return ok;
}

bool fake_channel_acknowledge(uint32_t qpn)
{
	struct fake_channel *ch;
	bool ok;

	pthread_mutex_lock(&lock);
	ch = channel_of(qpn);
	ok = ch && ch->s.acknowledged < ch->taken;
	if (ok) {
		ch->s.acknowledged++;
		happen(ch, &(struct happened){.what = ACKNOWLEDGED});
	}
	pthread_mutex_unlock(&lock);
	return ok;
}

void fake_channel_time_out(uint32_t qpn, unsigned int times)
{
	struct fake_channel *ch;

	pthread_mutex_lock(&lock);
	ch = channel_of(qpn);
	CHECK(ch);
	ch->timeouts += times;
	pthread_mutex_unlock(&lock);
}

void fake_channel_lose(uint32_t qpn, enum inc_channel_reason reason)
{
	struct fake_channel *ch;

	pthread_mutex_lock(&lock);
	ch = channel_of(qpn);
	if (ch)
		happen(ch, &(struct happened){.what = LOST, .reason = reason});
	pthread_mutex_unlock(&lock);
}

void fake_channel_refuse_sends(uint32_t qpn)
{
	pthread_mutex_lock(&lock);
	channel_of(qpn)->refuse_sends = true;
	pthread_mutex_unlock(&lock);
}

struct fake_channel_state fake_channel_state(uint32_t qpn)
{
	struct fake_channel_state s;
	struct fake_channel *ch;

	pthread_mutex_lock(&lock);
	ch = channel_of(qpn);
	s = ch ? ch->s : closed[qpn - FIRST_QPN];
	pthread_mutex_unlock(&lock);
	return s;
}

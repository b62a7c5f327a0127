// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 20000
 *
 * Target: a soft endpoint of a switch with a peer that sends anything (rc_peer.h), in any order,
 * while time passes. An input is a list of steps of some bytes each. A delivered message must be in
 * a buffer that was posted, and consist of the bytes of the peer's packets in the order of their
 * PSNs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/channel/channel.h"
#include "lib/proto/maps.h"
#include "selftests/fuzz/soft_peer.h"

#define PAYLOAD     256
#define MAX_MESSAGE (4 * PAYLOAD)
#define MESSAGES    4
#define PEER_PSN    0xfffffe
#define OWN_PSN     500
#define STEPS       200

static struct inc_channel_device *dev;
static struct inc_channel *ch;
static struct inc_channel_own own;
static struct rc_peer peer;
static uint8_t in[MESSAGES][MAX_MESSAGE], out[MAX_MESSAGE];
static bool posted[MESSAGES];
static uint32_t taken; /* number of packets in the messages that were delivered */
static bool lost;

/* Byte i of the payload of the peer's packet with this PSN. */
static uint8_t byte_of(uint32_t psn, size_t i)
{
	return (uint8_t)((psn & INC_PSN_MASK) * 7 + i * 3 + i / 256);
}

static void on_message(void *ctx, const struct inc_channel_message *m)
{
	const size_t slot = ((const uint8_t *)m->buffer - in[0]) / MAX_MESSAGE;
	const uint8_t *bytes = m->buffer;
	uint32_t i;

	fuzz_require(!lost, "a message of a channel that is lost");
	fuzz_require(slot < MESSAGES && m->buffer == in[slot] && posted[slot],
		     "a buffer that was not posted");
	fuzz_require(m->length <= MAX_MESSAGE, "%u bytes", m->length);
	posted[slot] = false;
	for (i = 0; i < m->length; i++)
		fuzz_require(bytes[i] == byte_of(PEER_PSN + taken + i / PAYLOAD, i % PAYLOAD),
			     "byte %u of %u is not the peer's", i, m->length);
	taken += m->length ? (m->length + PAYLOAD - 1) / PAYLOAD : 1;
}

static void on_sent(void *ctx)
{
	fuzz_require(!lost, "an acknowledgement of a channel that is lost");
}

static void on_lost(void *ctx, const struct inc_channel_loss *loss)
{
	const struct inc_err err = {""};
	struct inc_err why = err;

	fuzz_require(!lost, "lost twice");
	inc_err_set(&why, loss->error, "%s", loss->text);
	fuzz_check_refusal(&why, NULL);
	lost = true;
}

static void open_device(void)
{
	static const struct inc_channel_handler handler = {on_message, on_sent, on_lost};
	const struct inc_channel_device_opts opts = {.own_ip =
							     inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
						     .rto_min_ns = INC_NSEC_PER_MSEC,
						     .rto_max_ns = 100 * INC_NSEC_PER_MSEC,
						     .handler = &handler};
	struct inc_err err = {""};

	fuzz_require(!inc_channel_soft.open(&opts, &dev, &err), "%s", err.msg);
}

static void make_channel(uint8_t how)
{
	const struct inc_channel_opts opts = {.own.psn = OWN_PSN,
					      .ifname = "lo",
					      .pkey = INC_PKEY_DEFAULT,
					      .payload = PAYLOAD,
					      .max_message_bytes = MAX_MESSAGE,
					      .messages = MESSAGES,
					      .peer_se = how & 3 ? INC_CHANNEL_SE_ANY
								 : INC_CHANNEL_SE_LACKS,
					      .what = "the peer"};
	const struct inc_channel_peer to = {.end.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
					    .end.udp_port = rc_peer_open(&peer),
					    .end.qpn = RC_PEER_QPN,
					    .end.psn = PEER_PSN,
					    .any_ip_id = how & 4,
					    .results_acknowledge = how & 8,
					    .is_switch = how & 16};
	struct inc_err err = {""};
	unsigned int i;

	fuzz_require(!inc_channel_soft.make(dev, &opts, &ch, &own, &err), "%s", err.msg);
	fuzz_require(!inc_channel_soft.connect(ch, &to, &err), "%s", err.msg);
	for (i = 0; i < MESSAGES; i++) {
		posted[i] = true;
		fuzz_require(!inc_channel_soft.post(ch, in[i]), "buffer %u is refused", i);
	}
	rc_peer_connect(&peer, own.end.udp_port, own.end.qpn, OWN_PSN, PEER_PSN);
	taken = 0;
	lost = false;
}

/* Sends packets of the peer. next: the PSN that the endpoint expects, as an honest peer would
 * count. */
static void send_packets(struct fuzz_bytes *bytes, uint32_t *next)
{
	unsigned int n = 1 + fuzz_take8(bytes) % 4, i;
	uint8_t payload[PAYLOAD + 8];

	while (n--) {
		const uint8_t opcode = fuzz_take8(bytes), flags = fuzz_take8(bytes);
		const uint32_t psn = *next + (flags & 1 ? (uint32_t)(int8_t)fuzz_take8(bytes) : 0);
		struct rc_packet p = {.opcode = opcode & 0x80 ? opcode & 0x1f : opcode % 6,
				      .psn = psn,
				      .ackreq = flags & 2,
				      .se = flags & 4,
				      .imm = opcode,
				      .payload = payload,
				      .len = PAYLOAD};

		if (flags & 16)
			p.flip_pkey = INC_PKEY_DEFAULT ^ fuzz_take16(bytes);
		if (flags & 8)
			p.flip_qpn = own.end.qpn ^ fuzz_take8(bytes);
		if (flags & 32)
			p.len = fuzz_take16(bytes) % sizeof(payload);
		if (flags & 64)
			p.flip_icrc = fuzz_take32(bytes);
		for (i = 0; i < p.len; i++)
			payload[i] = byte_of(psn, i);
		if (!rc_peer_append(&peer, &p))
			break;
		*next = psn + 1;
	}
	rc_peer_transmit(&peer);
}

static void post_again(void)
{
	unsigned int i;

	for (i = 0; i < MESSAGES; i++) {
		if (posted[i] || lost)
			continue;
		posted[i] = true;
		fuzz_require(!inc_channel_soft.post(ch, in[i]), "buffer %u is refused", i);
	}
}

/* Receives what the endpoint has sent, because the peer checks it. */
static void receive(void)
{
	struct inc_roce_packet pkt;

	while (rc_peer_receive(&peer, &pkt, 0))
		;
}

static void step(struct fuzz_bytes *bytes, uint32_t *next)
{
	switch (fuzz_take8(bytes) % 8) {
	case 0:
	case 1:
		send_packets(bytes, next);
		break;
	case 2:
		fuzz_send_ack(&peer, bytes, OWN_PSN);
		break;
	case 3:
		fuzz_send_garbage(&peer, bytes);
		break;
	case 4:
		fuzz_pass_time(bytes);
		break;
	case 5:
		post_again();
		break;
	case 6:
		if (!lost)
			inc_channel_soft.send(ch, out, 1 + fuzz_take16(bytes) % MAX_MESSAGE,
					      fuzz_take8(bytes) & 1, 7);
		break;
	default:
		*next = PEER_PSN + fuzz_take8(bytes);
	}
	inc_channel_soft.progress(dev);
	inc_channel_soft.flush(dev);
	receive();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	uint32_t next = PEER_PSN;
	unsigned int i;

	memory_os_begin();
	open_device();
	make_channel(fuzz_take8(&bytes));
	for (i = 0; i < STEPS && bytes.size; i++)
		step(&bytes, &next);
	inc_channel_soft.shut(ch, i % 2 ? INC_AETH_NAK_OPERATION : 0);
	inc_channel_soft.progress(dev);
	inc_channel_soft.close(dev);
	receive();
	rc_peer_close(&peer);
	return 0;
}

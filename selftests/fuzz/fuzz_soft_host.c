// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 12000
 *
 * Target: libinccl's soft endpoint with a switch that sends anything (rc_peer.h). The switch sends
 * results that mirror the sent packets or do not, in any order, ACKs, NAKs and random bytes, while
 * time passes. An input is a list of steps of some bytes each. Messages must complete in order,
 * with the data that the switch sent with their PSN. An endpoint that has failed must give the
 * reason in one line, and must stay failed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/src/endpoint.h"
#include "lib/proto/maps.h"
#include "selftests/fuzz/soft_peer.h"

#define PAYLOAD    256
#define SLOTS      16
#define MOST       64 /* number of messages of an input */
#define OWN_PSN    0xfffffa
#define PEER_PSN   70000
#define STEPS      300
#define REMEMBERED 64

static const struct inccl_transport soft = {INCCL_TRANSPORT_SOFT, &inc_channel_soft};
static struct rc_peer peer;
/* the last data packets that the peer has received, and the number of all of them */
static struct inc_roce_packet data_packets[REMEMBERED];
static unsigned int n_data_packets;
static struct inccl_endpoint *ep;
static struct inccl_own own;
static struct inc_channel_region region;
static uint8_t give[MOST][PAYLOAD], got[MOST][PAYLOAD];
static uint32_t lengths[MOST];
static unsigned int n_posted, n_checked;
static bool failed;

static void no_log(void *ctx, const char *fmt, ...)
{
}

static uint8_t byte_of(uint32_t psn, size_t i)
{
	return (uint8_t)((psn & INC_PSN_MASK) * 7 + i * 3 + i / 256 + 1);
}

static void open_endpoint(void)
{
	const struct inccl_open_opts opts = {.addr = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
					     .payload = PAYLOAD,
					     .message_packets = 1,
					     .window_messages = SLOTS,
					     .start_psn = OWN_PSN,
					     .log = no_log};
	struct inc_channel_peer remote = {.end.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
					  .end.qpn = RC_PEER_QPN,
					  .end.psn = PEER_PSN,
					  .payload = PAYLOAD,
					  .packets = SLOTS,
					  .name = "the switch"};
	struct inc_err err = {""};

	memory_os_begin();
	remote.end.udp_port = rc_peer_open(&peer);
	fuzz_require(!inccl_endpoint_open(&soft, &opts, &ep, &own, &err), "%s", err.msg);
	rc_peer_connect(&peer, own.end.udp_port, own.end.qpn, OWN_PSN, PEER_PSN);
	fuzz_require(!inccl_endpoint_connect(ep, &remote, &err), "%s", err.msg);
	fuzz_require(!inccl_endpoint_map(ep, got, sizeof(got), true, &region), "no region");
	memset(got, 0, sizeof(got));
	n_posted = n_checked = n_data_packets = 0;
	failed = false;
}

static void check(int ret)
{
	struct inc_err why = {""};
	unsigned int i;

	fuzz_require(ret < 0 || !failed, "an endpoint that has failed works again");
	if (ret < 0 && ret != -EAGAIN) {
		failed = true;
		memcpy(why.msg, ep->error, sizeof(ep->error));
		fuzz_check_refusal(&why, NULL);
	}
	fuzz_require(ep->completed <= n_posted, "%u of %u are complete",
		     (unsigned int)ep->completed, n_posted);
	for (; n_checked < ep->completed; n_checked++)
		for (i = 0; i < lengths[n_checked]; i++)
			fuzz_require(got[n_checked][i] == byte_of(PEER_PSN + n_checked, i),
				     "result %u is not the switch's", n_checked);
}

static void post(uint8_t how)
{
	const struct inc_channel_exchange msg = {.send = give[n_posted % MOST],
						 .recv = got[n_posted % MOST],
						 .send_len = how & 4 ? 4 : PAYLOAD,
						 .recv_len = how & 4 ? 4 : PAYLOAD,
						 .send_region = &region,
						 .recv_region = &region,
						 .imm = how,
						 .write = how & 1,
						 .has_imm = how & 2,
						 .last = how & 8};
	int ret;

	if (n_posted == MOST || failed || n_posted - ep->completed >= SLOTS)
		return;
	ret = inccl_endpoint_post(ep, &msg);
	if (!ret)
		lengths[n_posted++] = msg.recv_len;
	check(ret);
	check(inccl_endpoint_flush(ep));
}

/* Receives what the endpoint has sent, and remembers the data packets. */
static void receive(void)
{
	struct inc_roce_packet pkt;

	while (rc_peer_receive(&peer, &pkt, 0))
		if (pkt.opcode != INC_OP_ACK)
			data_packets[n_data_packets++ % REMEMBERED] = pkt;
}

/* Sends the result of one of the endpoint's last packets, with changes that the input selects. */
static void send_result(struct fuzz_bytes *bytes)
{
	const unsigned int back = 1 + fuzz_take8(bytes) % 32;
	const uint8_t lies = fuzz_take8(bytes);
	const struct inc_roce_packet *of;
	uint8_t payload[PAYLOAD + 8];
	struct rc_packet p;
	size_t i;

	if (back > n_data_packets)
		return;
	of = &data_packets[(n_data_packets - back) % REMEMBERED];
	p = (struct rc_packet){.opcode = of->opcode,
			       .psn = PEER_PSN + ((of->psn - OWN_PSN) & INC_PSN_MASK),
			       .ackreq = lies & 1,
			       .va = of->va,
			       .rkey = of->rkey,
			       .dmalen = of->dmalen,
			       .imm = of->imm,
			       .payload = payload,
			       .len = of->len};
	if (lies & 2)
		p.psn += (uint32_t)(int8_t)fuzz_take8(bytes);
	if (lies & 4)
		p.opcode = fuzz_take8(bytes) % 12;
	if (lies & 8)
		p.len = fuzz_take16(bytes) % sizeof(payload);
	if (lies & 16)
		p.imm ^= fuzz_take8(bytes);
	if (lies & 32)
		p.flip_icrc = fuzz_take8(bytes);
	if (lies & 64)
		p.rkey ^= fuzz_take8(bytes);
	for (i = 0; i < p.len; i++)
		payload[i] = byte_of(p.psn, i);
	rc_peer_send(&peer, &p);
}

static void step(struct fuzz_bytes *bytes)
{
	switch (fuzz_take8(bytes) % 6) {
	case 0:
		post(fuzz_take8(bytes));
		break;
	case 1:
	case 2:
		send_result(bytes);
		break;
	case 3:
		fuzz_send_ack(&peer, bytes, OWN_PSN);
		break;
	case 4:
		fuzz_send_garbage(&peer, bytes);
		break;
	default:
		fuzz_pass_time(bytes);
	}
	check(inccl_endpoint_progress(ep));
	receive();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	char text[200] = "";
	unsigned int i;

	open_endpoint();
	for (i = 0; i < STEPS && bytes.size; i++)
		step(&bytes);
	ep->ops->describe(ep->ch, text, sizeof(text));
	fuzz_check_shown(text, false);
	inccl_endpoint_close(ep);
	receive();
	rc_peer_close(&peer);
	return 0;
}

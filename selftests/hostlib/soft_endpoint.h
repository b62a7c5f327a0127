/* SPDX-License-Identifier: BSD-2-Clause */
/* A soft endpoint of libinccl, whose peer the test plays (selftests/fakes/rc_peer.h). */
#ifndef SELFTESTS_SOFT_ENDPOINT_H
#define SELFTESTS_SOFT_ENDPOINT_H

#include "hostlib/src/internal.h"
#include "lib/channel/soft_priv.h"
#include "selftests/fakes/rc_peer.h"

static const struct inccl_transport endpoint_soft = {INCCL_TRANSPORT_SOFT, &inc_channel_soft};

/* The soft channel of an endpoint. A test may set the channel's timers and counts. */
static inline struct soft_channel *endpoint_channel(const struct inccl_endpoint *ep)
{
	return SOFT_CH(ep->ch);
}

static inline struct inccl_transport_stats endpoint_stats(const struct inccl_endpoint *ep)
{
	struct inccl_transport_stats stats;

	inccl_endpoint_stats(ep, &stats);
	return stats;
}

/* Makes a communicator's retransmission timer long. Otherwise a busy machine causes timeouts in
 * cases about something else. */
static inline void endpoint_be_patient(struct inccl_communicator *comm)
{
	pthread_mutex_lock(&comm->lock);
	endpoint_channel(comm->ep)->tx.rto.rto_ns = INCCL_RTO_MAX_NS;
	endpoint_channel(comm->ep)->tx.rto.min_ns = INCCL_RTO_MAX_NS;
	pthread_mutex_unlock(&comm->lock);
}

/* Repeats the step as long as the condition holds. If it still holds after RECEIVE_MS, which the
 * test defines, the test fails. */
#define STEP_WHILE(condition, step)                                    \
	do {                                                           \
		const uint64_t end_ns = deadline_after_ms(RECEIVE_MS); \
                                                                       \
		while (condition) {                                    \
			step;                                          \
			assert_true(inc_now_ns() < end_ns);            \
		}                                                      \
	} while (0)

/* Vectors of packets, each of `payload` bytes. */
struct endpoint_vectors {
	uint8_t *send, *recv;
	const struct inc_channel_region *region;
	uint32_t payload;
};

/* Opens a soft endpoint on RC_PEER_ADDR and a peer, and connects them to each other. */
struct inccl_endpoint *endpoint_pair(struct rc_peer *peer, unsigned int payload, unsigned int slots,
				     uint32_t host_psn, uint32_t own_psn);
/* Options of a peer that, other than that of endpoint_pair(), receives whole messages, as a switch
 * in termination mode does, or answers probes. Both start PSNs are 0. */
struct endpoint_form {
	unsigned int payload;
	unsigned int slots;
	unsigned int message_packets;
	unsigned int messages; /* greatest number of messages in flight */
	bool answers_probes;   /* the peer receives packets, not messages, and answers probes */
	bool reorder;          /* such a peer keeps contributions and sends results in any order */
	uint64_t rto_min_ns;   /* such a peer resends no packet sooner */
};
struct inccl_endpoint *endpoint_pair_of(struct rc_peer *peer, const struct endpoint_form *form);
/* Posts messages [first, end) of one packet each, from and to their places in two vectors of one
 * region. The first one has an immediate. last: the final one ends a collective. */
void endpoint_post_packets(struct inccl_endpoint *ep, const struct endpoint_vectors *v,
			   unsigned int first, unsigned int end, bool last);
/* Receives what has arrived, and sends what is due. */
void endpoint_serve(struct inccl_endpoint *ep);
void endpoint_pair_close(struct rc_peer *peer, struct inccl_endpoint *ep);

#define MIRROR_PAYLOAD 256
#define MIRROR_SLOTS   128

/* The fixture of tests with a peer that answers probes. */
struct mirror_fixture {
	struct rc_peer peer;
	struct inccl_endpoint *ep;
	struct inc_requester *tx;
	uint8_t send[MIRROR_SLOTS * MIRROR_PAYLOAD], recv[MIRROR_SLOTS * MIRROR_PAYLOAD];
	struct inc_channel_region region;
	struct inc_roce_packet
		received[MIRROR_SLOTS]; /* their payload pointers are not valid later */
	uint32_t probe;                 /* MSN of the last probe */
};
/* Set-up of a cmocka test, after which no timeout comes, and its teardown. reorder: that of struct
 * endpoint_form. */
int mirror_setup(void **state, bool reorder);
int mirror_teardown(void **state);

#endif

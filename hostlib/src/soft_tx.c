/* SPDX-License-Identifier: BSD-2-Clause */
/* When the soft transport's requester sends, and what its responder answers. */
#include <string.h>
#include "lib/base/clock.h"
#include "hostlib/src/soft.h"

/* Is a result to come of what has been sent? None comes of a message of which a part is still here,
 * as it is where the send buffer was full in between. */
static bool result_is_due(const struct soft_endpoint *s)
{
	return s->tx.next > s->tx_done && s->rx_done < s->rx_posted &&
	       soft_result(s, s->rx_done)->kept <= s->tx.next;
}

int soft_flush(struct inccl_endpoint *ep)
{
	struct soft_endpoint *s = SOFT_EP(ep);
	struct inc_requester *q = &s->tx;
	uint64_t limit = inc_requester_limit(q), now;
	bool writable;

	if (s->failed)
		return -s->failed;
	/* Clear udp.blocked even with nothing to send: an ACK may have emptied the queue meanwhile,
	 * and soft_arm() would go on polling for POLLOUT, which is ready at once. */
	writable = inc_udp_writable(&s->udp);
	if (q->next >= limit)
		return 0;
	/* Results that are still to come will open the window further: wait until a send
	 * is worth its system call, unless there is nothing to wait for. */
	if (result_is_due(s) && q->next >= q->high && q->next >= s->tx_flush &&
	    limit - q->next < s->hold_packets)
		return 0;
	if (!writable)
		return 0;
	now = inc_now_ns();
	s->batch.n = 0;
	while (q->next < limit && !s->udp.blocked && !q->failed) {
		inc_requester_fill(q, &s->udp, &s->batch, limit, now);
		inc_batch_send(&s->batch, &s->udp, now);
	}
	soft_count(s);
	if (q->failed)
		return soft_fail(s, q->failed, "send: %s", strerrordesc_np(q->failed));
	return 0;
}

void soft_send_aeth(struct soft_endpoint *s, uint8_t syndrome, uint32_t psn)
{
	uint8_t packet[INC_ACK_PACKET_LEN];

	inc_put_ack_packet(packet, &s->tx.to, syndrome, psn, s->rx_msn);
	inc_udp_send_one(&s->udp, &s->tx.to.addr, packet, sizeof(packet));
	if (syndrome == INC_AETH_ACK)
		s->ep.stats.acks_sent++;
	else
		s->ep.stats.naks_sent++;
}

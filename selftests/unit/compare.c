// SPDX-License-Identifier: BSD-2-Clause
/* Comparisons of the switch's maps with the reference (unit.h). */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <bpf/bpf.h>
#include "unit.h"

static int differ(struct unit *u, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int differ(struct unit *u, const char *fmt, ...)
{
	size_t n;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(u->why, sizeof(u->why), fmt, ap);
	va_end(ap);
	n = strlen(u->why);
	snprintf(u->why + n, sizeof(u->why) - n, " (packet %llu, expected %s %s)",
		 (unsigned long long)u->packets, unit_verdict_name(u->want.verdict),
		 inc_counter_info[u->want.counter].name);
	return -1;
}

const char *unit_verdict_name(uint32_t verdict)
{
	static const char *const name[] = {
		[XDP_ABORTED] = "ABORTED", [XDP_DROP] = "DROP",         [XDP_PASS] = "PASS",
		[XDP_TX] = "TX",           [XDP_REDIRECT] = "REDIRECT",
	};

	return verdict <= XDP_REDIRECT ? name[verdict] : "unknown verdict";
}

int compare_frame(struct unit *u, const char *what, const struct frame *have,
		  const struct frame *want)
{
	uint32_t i;

	if (have->len == want->len && !memcmp(have->data, want->data, want->len))
		return 0;
	frame_dump("have", have);
	frame_dump("want", want);
	if (have->len != want->len)
		return differ(u, "%s: %u bytes, not %u", what, have->len, want->len);
	for (i = 0; have->data[i] == want->data[i]; i++)
		;
	return differ(u, "%s: byte %u is %02x, not %02x", what, i, have->data[i], want->data[i]);
}

int compare_verdict(struct unit *u, const struct frame *in, uint32_t verdict)
{
	if (verdict != (uint32_t)u->want.verdict) {
		compare_counters(u);
		fprintf(stderr, "counters: %s\n", u->why);
		return differ(u, "verdict %s", unit_verdict_name(verdict));
	}
	if (verdict == XDP_PASS)
		return compare_frame(u, "passed frame", &u->out_frame, in);
	if (verdict == XDP_TX)
		return compare_frame(u, "answer", &u->out_frame, &u->want.frame);
	return 0;
}

int compare_read_counters(struct unit *u, uint64_t value[INC_CTR_MAX])
{
	uint32_t keys[INC_CTR_MAX], count = INC_CTR_MAX, batch = 0, i;
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	int cpu;

	if (bpf_map_lookup_batch(u->counter_fd, NULL, &batch, keys, u->counter_buf, &count,
				 &opts) &&
	    errno != ENOENT)
		return differ(u, "inc_counter: %s", strerror(errno));
	if (count != INC_CTR_MAX)
		return differ(u, "inc_counter has %u rows, not %u", count, INC_CTR_MAX);
	for (i = 0; i < INC_CTR_MAX; i++) {
		value[keys[i]] = 0;
		for (cpu = 0; cpu < u->cpus; cpu++)
			value[keys[i]] += u->counter_buf[i * u->cpus + cpu];
	}
	return 0;
}

int compare_counters(struct unit *u)
{
	uint64_t have[INC_CTR_MAX], sum = 0;
	uint32_t id;

	if (compare_read_counters(u, have))
		return -1;
	/* the reference cannot compute how many events fit into the ring */
	if (u->hold_events)
		u->ref.counter[INC_CTR_X_EVENT_LOST] = have[INC_CTR_X_EVENT_LOST];
	for (id = 0; id < INC_CTR_MAX; id++) {
		const struct inc_counter_info *info = &inc_counter_info[id];

		if (have[id] != u->ref.counter[id])
			return differ(u, "counter %s is %llu, not %llu", info->name,
				      (unsigned long long)have[id],
				      (unsigned long long)u->ref.counter[id]);
		if (info->class != 'R' && info->class != 'X')
			sum += have[id];
	}
	if (sum != have[INC_CTR_RX])
		return differ(u, "R is %llu, but P+D+A+W+M %llu",
			      (unsigned long long)have[INC_CTR_RX], (unsigned long long)sum);
	return 0;
}

int compare_events(struct unit *u)
{
	int i;

	if (u->hold_events)
		return 0;
	if (u->events != u->want.events)
		return differ(u, "%d events, not %d", u->events, u->want.events);
	for (i = 0; i < u->events; i++) {
		const struct inc_event *h = &u->event[i], *w = &u->want.event[i];

		if (!h->time_ns || h->type != w->type || h->comm != w->comm || h->conn != w->conn ||
		    h->arg != w->arg || h->r != w->r || h->mask != w->mask)
			return differ(u,
				      "event type %u communicator %u conn %u arg %#x r %llu mask "
				      "%#x, not "
				      "type %u communicator %u conn %u arg %#x r %llu mask %#x",
				      h->type, h->comm, h->conn, h->arg, (unsigned long long)h->r,
				      h->mask, w->type, w->comm, w->conn, w->arg,
				      (unsigned long long)w->r, w->mask);
	}
	return 0;
}

#define DIFF(what, at, have, want, field)                                                         \
	do {                                                                                      \
		if ((have)->field != (want)->field)                                               \
			return differ(u, "communicator %u %s %llu: " #field " is %llu, not %llu", \
				      cm->index, what, (unsigned long long)(at),                  \
				      (unsigned long long)(have)->field,                          \
				      (unsigned long long)(want)->field);                         \
	} while (0)

int compare_comm(struct unit *u, const struct ref_comm *cm)
{
	const struct inc_comm_state *gs = &inc_switch_comm_state(u->sw)[cm->index];
	uint32_t i;

	DIFF("state", 0, gs, &cm->state, tx_next);
	DIFF("state", 0, gs, &cm->state, up_next);
	DIFF("state", 0, gs, &cm->state, error);
	DIFF("state", 0, gs, &cm->state, error_r);
	for (i = 0; i < cm->cfg.children + cm->up; i++) {
		const struct inc_conn_state *h =
			inc_switch_conn_state(u->sw) + cm->cfg.conn_base + i;
		const struct inc_conn_state *w = &cm->conn[i].state;

		DIFF("child", i, h, w, rx_next);
		DIFF("child", i, h, w, tx_acked);
		DIFF("child", i, h, w, ack_asked);
		DIFF("child", i, h, w, ack_sent);
		DIFF("child", i, h, w, msn);
		DIFF("child", i, h, w, desc);
		DIFF("child", i, h, w, open_message);
		DIFF("child", i, h, w, desc_valid);
		DIFF("child", i, h, w, nak_sent);
		DIFF("child", i, h, w, ahead);
		DIFF("child", i, h, w, ahead_asks);
		DIFF("child", i, h, w, error);
		DIFF("child", i, h, w, refusal);
		DIFF("child", i, h, w, duplicates);
		DIFF("child", i, h, w, naks_sent);
		DIFF("child", i, h, w, rnrs_sent);
		DIFF("child", i, h, w, naks_received);
		DIFF("child", i, h, w, mac.word);
		DIFF("child", i, h, w, mac_hint.word);
		DIFF("child", i, h, w, hint_psn);
		DIFF("child", i, h, w, busy);
		DIFF("child", i, h, w, acks_received);
		DIFF("child", i, h, w, ack_named);
		DIFF("child", i, h, w, traffic_class);
		DIFF("child", i, h, w, tag);
		DIFF("child", i, h, w, rx_tag);
		DIFF("child", i, h, w, becn_due);
		DIFF("child", i, h, w, cnp_due);
		DIFF("child", i, h, w, cnps);
	}
	return 0;
}

int compare_slot(struct unit *u, const struct ref_comm *cm, uint32_t slot)
{
	const struct inc_slot *h = inc_switch_slots(u->sw) + cm->cfg.sum_base + slot;

	DIFF("slot", slot, h, &cm->slot[slot], word);
	return 0;
}

static int compare_payload(struct unit *u, const struct ref_comm *cm, const char *what, uint64_t r,
			   const struct inc_buf *h, const struct inc_buf *w)
{
	uint32_t i;

	for (i = 0; i < w->len; i++)
		if (h->payload[i] != w->payload[i])
			return differ(u,
				      "communicator %u %s %llu: payload byte %u is %02x, not %02x",
				      cm->index, what, (unsigned long long)r, i, h->payload[i],
				      w->payload[i]);
	return 0;
}

static const struct inc_buf *kept_row(const struct unit *u, const struct ref_comm *cm,
				      uint32_t child, uint64_t r)
{
	return inc_switch_kept(u->sw) + cm->cfg.kept_base + ((size_t)child << cm->cfg.log2_slots) +
	       r % cm->slots;
}

int compare_contrib(struct unit *u, const struct ref_comm *cm, uint32_t child, uint64_t r)
{
	const struct inc_buf *w = ref_contrib(cm, child, r);
	const struct inc_buf *h = kept_row(u, cm, child, r);

	DIFF("contribution", r, h, w, r);
	DIFF("contribution", r, h, w, len);
	DIFF("contribution", r, h, w, desc);
	DIFF("contribution", r, h, w, opcode);
	DIFF("contribution", r, h, w, flags);
	if (frame_has_reth(w->opcode)) {
		DIFF("contribution", r, h, w, va);
		DIFF("contribution", r, h, w, rkey);
		DIFF("contribution", r, h, w, dmalen);
	}
	return compare_payload(u, cm, "contribution", r, h, w);
}

/* Are these the same ones' complement sum, one in native order and one in network order? */
static bool same_sum(uint32_t native32, uint32_t network16)
{
	uint8_t b[4];

	memcpy(b, &native32, 4);
	return (frame_sum16(b, 4, 0) % 0xffff) == network16 % 0xffff;
}

/* Compares a row that is to be sent, which must agree with the reference in all of these fields. */
static int compare_sent(struct unit *u, const struct ref_comm *cm, const char *what, uint64_t r,
			const struct inc_buf *h, const struct inc_buf *w, bool csum)
{
	DIFF(what, r, h, w, r);
	DIFF(what, r, h, w, len);
	DIFF(what, r, h, w, desc);
	if (compare_payload(u, cm, what, r, h, w))
		return -1;
	DIFF(what, r, h, w, crc);
	if (csum && !same_sum(h->csum, w->csum))
		return differ(u, "communicator %u %s %llu: checksum %08x, not %04x", cm->index,
			      what, (unsigned long long)r, h->csum, w->csum);
	return 0;
}

int compare_result(struct unit *u, const struct ref_comm *cm, uint64_t r)
{
	const struct inc_buf *w = ref_result(cm, r);
	const struct inc_buf *h = inc_switch_sums(u->sw) + cm->cfg.sum_base + r % cm->slots;

	DIFF("sum", r, h, w, opcode);
	DIFF("sum", r, h, w, flags);
	return compare_sent(u, cm, "sum", r, h, w, true);
}

int compare_passed(struct unit *u, const struct ref_comm *cm, uint64_t r)
{
	bool csum = false;
	uint32_t i;

	for (i = 0; i < cm->cfg.children; i++)
		csum |= cm->conn[i].cfg.flags & INC_CONN_F_UDP_CSUM;
	return compare_sent(u, cm, "parent's result", r, kept_row(u, cm, cm->cfg.children, r),
			    ref_contrib(cm, cm->cfg.children, r), csum);
}

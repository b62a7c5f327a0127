/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/roce/ip_id.h"

#define IP_ID_AT 4
int inc_ip_ids_init(struct inc_ip_ids *ids, const struct inc_udp_path *path, bool any)
{
	memset(ids, 0, sizeof(*ids));
	ids->any = any;
	ids->none = !inc_addr_is_ipv4(path->saddr);
	if (!any || ids->none)
		return 0;
	ids->span = calloc(INC_IP_ID_SIZES, sizeof(*ids->span));
	return ids->span ? 0 : -ENOMEM;
}

void inc_ip_ids_free(struct inc_ip_ids *ids)
{
	free(ids->span);
	ids->span = NULL;
}

void inc_ip_ids_expect(struct inc_ip_ids *ids, const struct inc_udp_path *path, size_t payload)
{
	/* the saved states are useless if the peer is an RDMA device, because it chooses a source
	 * port as well */
	if (!ids->any)
		inc_icrc_usual_init(&ids->usual, path, payload);
}

/* Xors v with changes in the span's basis, as far as they cancel bits of v, and returns the rest.
 * If the rest is 0, some ID makes the change v of the CRC, and *id is that ID. */
static uint32_t rest_of(const struct inc_ip_id_span *span, uint32_t v, uint16_t *id)
{
	unsigned int i;

	for (*id = i = 0; i < 16 && span->basis[i]; i++)
		if (v & 1u << (31 - __builtin_clz(span->basis[i]))) {
			v ^= span->basis[i];
			*id ^= span->id[i];
		}
	return v;
}

/* Computes which change of a packet's CRC each bit of the IP ID makes, and stores independent ones
 * as the basis. size: size of the packet. */
static void make_span(struct inc_ip_id_span *span, size_t size)
{
	static const uint8_t zeros[256];
	size_t behind = INC_IP_LEN + INC_UDP_LEN + size - INC_ICRC_LEN - IP_ID_AT - 2, left;
	unsigned int bit, n = 0;
	uint32_t state;
	uint16_t others;

	memset(span, 0, sizeof(*span));
	span->size = size;
	for (bit = 0; bit < 16; bit++) {
		uint8_t id[2] = {1 << bit >> 8, (1 << bit) & 0xff};

		state = inc_crc32_update(0, id, sizeof(id));
		for (left = behind; left > sizeof(zeros); left -= sizeof(zeros))
			state = inc_crc32_update(state, zeros, sizeof(zeros));
		state = rest_of(span, inc_crc32_update(state, zeros, left), &others);
		if (state) {
			span->id[n] = others ^ 1 << bit;
			span->basis[n++] = state;
		}
	}
}

static const struct inc_ip_id_span *span_of(struct inc_ip_ids *ids, size_t size)
{
	struct inc_ip_id_span *span;
	unsigned int i;

	for (i = 0; i < INC_IP_ID_SIZES; i++)
		if (ids->span[i].size == size)
			return &ids->span[i];
	span = &ids->span[ids->next_span++ % INC_IP_ID_SIZES];
	make_span(span, size);
	return span;
}

/* Returns the ID that is expected next after a packet was rejected. wrong_by: the difference of the
 * packet's CRC from that with ID 0, which shows its ID. If it shows none, the packet was damaged,
 * and the next ID counts as used. */
static uint16_t resume(struct inc_ip_ids *ids, uint32_t wrong_by, size_t size)
{
	uint16_t id;

	if (ids->gap.size != size)
		make_span(&ids->gap, size);
	if (!rest_of(&ids->gap, wrong_by, &id) &&
	    (uint16_t)(id - ids->next + INC_SEND_PACKETS) <= 2 * INC_SEND_PACKETS)
		return id + 1;
	return ids->next + 1;
}

/* Computes a packet's ICRC under the assumption that its IP ID is id. copy: where the payload is
 * copied in the same pass; NULL: nowhere. */
static uint32_t icrc_of(const struct inc_ip_ids *ids, const struct inc_udp_path *path, uint16_t id,
			const uint8_t *data, size_t len, const struct inc_payload_copy *copy)
{
	if (!copy)
		return inc_icrc_udp_usual(&ids->usual, path, id, data, len);
	return inc_icrc_udp_copy(&ids->usual, path, id, data, len, copy);
}

/* The first pass over the packet copies the payload. This function reads `copy` where it is,
 * because a copy of the struct would wait until all stores of the packet before have left the CPU.
 */
bool inc_ip_ids_check(struct inc_ip_ids *ids, const struct inc_udp_path *path, bool first,
		      const uint8_t *data, size_t size, const struct inc_payload_copy *copy)
{
	size_t len = size - INC_ICRC_LEN;
	uint16_t next = ids->next, id;
	bool counts = ids->counts[first];
	uint32_t want, crc;
	int guess;

	if (!copy->to)
		copy = NULL;
	memcpy(&want, data + len, sizeof(want));
	want = le32toh(want);
	if (ids->span) {
		crc = icrc_of(ids, path, 0, data, len, copy);
		return crc == want || !rest_of(span_of(ids, size), crc ^ want, &id);
	}
	for (guess = 0; guess < 2; guess++, counts = !counts, copy = NULL) {
		id = counts ? next : 0;
		if (guess && (!next || ids->none))
			break;
		if (icrc_of(ids, path, id, data, len, copy) == want) {
			ids->next = id + 1;
			ids->counts[first] = counts;
			return true;
		}
	}
	if (ids->none)
		return false;
	ids->next = resume(ids, inc_icrc_udp(path, 0, data, len) ^ want, size);
	return false;
}

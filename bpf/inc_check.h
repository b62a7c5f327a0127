/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies the packet into a row of inc_kept, and checks its ICRC. */
#ifndef INC_CHECK_H
#define INC_CHECK_H

#include "bpf/inc_crc.h"
#include "bpf/inc_maps.h"

/*
 * Copies the packet from its IP header to its ICRC into the row, so that the payload is in
 * row->payload, and checks the ICRC there. A row without a counted contribution may be written
 * before the check, because no program reads it until the contribution's arrival bit is set.
 */
__noinline int inc_load_checked(struct xdp_md *ctx, struct inc_buf *row, __u32 hdr_len,
				__u32 body_len)
{
	__u32 off, icrc;
	__u8 *hdr;

	if (!row || hdr_len > INC_BUF_HDR || body_len > INC_MAX_PAYLOAD)
		return 0;
	/* verifier 6.1: without inc_opaque() the compiler merges both checks of hdr_len into one
	 * check of a difference, from which the verifier learns no bounds */
	inc_opaque(hdr_len);
	if (hdr_len < INC_IP_TO_BTH_LEN)
		return 0;
	inc_opaque(body_len);
	off = offsetof(struct inc_buf, payload) - hdr_len;
	hdr = (__u8 *)row + off;
	if (bpf_xdp_load_bytes(ctx, INC_ETH_LEN, hdr, hdr_len + body_len + INC_ICRC_LEN))
		return 0;
	if (!inc_check_icrc)
		return 1;
	inc_icrc_mask(hdr);
	icrc = ~inc_crc_row(row, off, hdr_len + body_len, INC_ICRC_SEED);
	return icrc == *(__u32 *)(row->payload + body_len);
}

#endif

// SPDX-License-Identifier: BSD-2-Clause
/* Runs the egress program (unit.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "unit.h"
#include "loader/inc_crc_tables.h"
#include "inc_xdp_test.skel.h"

int egress_open(struct unit *u)
{
	struct bpf_program *prog;
	struct bpf_map *map;
	int ret = -ENOENT, fd;

	u->egress = inc_xdp_test__open();
	if (!u->egress) {
		snprintf(u->why, sizeof(u->why), "inc_xdp_test: %s", strerror(errno));
		return -errno;
	}
	bpf_object__for_each_program (prog, u->egress->obj)
		bpf_program__set_autoload(prog, prog == u->egress->progs.inc_egress_test ||
							prog == u->egress->progs.inc_bench_empty);
	bpf_object__for_each_map (map, u->egress->obj) {
		if (bpf_map__is_internal(map))
			continue;
		fd = inc_switch_map_fd(u->sw, bpf_map__name(map));
		ret = fd < 0 ? fd : bpf_map__reuse_fd(map, fd);
		if (ret)
			goto fail;
	}
	inc_crc_fill_tables(u->egress->rodata->inc_crc_table, u->egress->rodata->inc_shift_table);
	u->egress->rodata->inc_places = unit_conn_places(u);
	u->egress->rodata->inc_order_stores = INC_ORDER_STORES || u->order_stores;
	ret = inc_xdp_test__load(u->egress);
	if (!ret)
		return 0;
fail:
	snprintf(u->why, sizeof(u->why), "inc_egress_test: %s", strerror(-ret));
	return ret;
}

void egress_close(struct unit *u)
{
	inc_xdp_test__destroy(u->egress);
	u->egress = NULL;
}

int egress_run(struct unit *u, uint32_t ifindex, struct frame *copy, uint32_t *verdict)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = u->out_frame.data,
		    .data_size_in = u->out_frame.len, .data_out = copy->data,
		    .data_size_out = sizeof(copy->data), .repeat = 1);

	if (u->watch && u->watch->before(u->watch->arg))
		return -EIO;
	u->egress->bss->inc_test_egress_ifindex = ifindex;
	if (bpf_prog_test_run_opts(bpf_program__fd(u->egress->progs.inc_egress_test), &opts))
		return -errno;
	copy->len = opts.data_size_out;
	*verdict = opts.retval;
	return u->watch && u->watch->after(u->watch->arg, &u->out_frame, NULL, ifindex, *verdict,
					   copy)
		       ? -EIO
		       : 0;
}

/* Checks a copy that has no child to go to. The kernel makes such a copy if the frame has no room
 * for the sum. */
static int one_too_many(struct unit *u, uint32_t ifindex, const char *what)
{
	struct frame have;
	uint32_t verdict;

	if (egress_run(u, ifindex, &have, &verdict) || verdict != XDP_DROP) {
		snprintf(u->why, sizeof(u->why),
			 "communicator %u %s %llu: a copy too many was made", u->want.comm->index,
			 what, (unsigned long long)u->want.r);
		return -1;
	}
	if (!u->want.bare)
		u->ref.counter[INC_CTR_X_COPY_DROP]++;
	return 0;
}

static bool is_known(const struct ref_conn *c)
{
	return c->state.mac.known || c->state.mac_hint.known;
}

int egress_copies(struct unit *u)
{
	struct ref_comm *cm = u->want.comm;
	uint32_t c, verdict, ifindex, same = 0;
	unsigned long long r = u->want.r;
	struct frame have, want;
	char what[64];
	bool known;

	for (c = 0; c < cm->cfg.children; c++) {
		ifindex = cm->conn[c].cfg.ifindex;
		same = c && cm->conn[c - 1].cfg.ifindex == ifindex ? same + 1 : 1;
		snprintf(what, sizeof(what), "communicator %u copy of result %llu for child %u",
			 cm->index, r, c);
		/* if a child has sent only one packet, its source MAC address may be damaged,
		 * because no ICRC covers it; a multicast address counts as unknown */
		known = is_known(&cm->conn[c]);
		if (egress_run(u, ifindex, &have, &verdict) ||
		    verdict != (known ? XDP_PASS : XDP_DROP)) {
			snprintf(u->why, sizeof(u->why), "%s was %smade", what,
				 known ? "not " : "");
			return -1;
		}
		if (!known) {
			u->ref.counter[INC_CTR_X_COPY_DROP]++;
			continue;
		}
		ref_copy(cm, c, r, &want);
		if (compare_frame(u, what, &have, &want))
			return -1;
		frame_untag(&have);
		if (!frame_udp_csum_ok(&have)) {
			snprintf(u->why, sizeof(u->why), "%s: UDP checksum", what);
			return -1;
		}
		ref_copied(&u->ref, cm, c);
		u->ref.counter[INC_CTR_X_COPY]++;
		u->copies++;
	}
	/* the program counts the copies for each port, and a further copy has no child */
	return same > 1 || u->want.bare ? one_too_many(u, cm->conn[c - 1].cfg.ifindex, "result")
					: 0;
}

int egress_partial(struct unit *u)
{
	const struct ref_comm *cm = u->want.comm;
	const struct ref_conn *parent = &cm->conn[cm->cfg.children];
	bool known = is_known(parent);
	uint32_t verdict;
	struct frame have, want;
	char what[64];

	snprintf(what, sizeof(what), "communicator %u partial sum %llu", cm->index,
		 (unsigned long long)u->want.r);
	if (egress_run(u, parent->cfg.ifindex, &have, &verdict) ||
	    verdict != (known ? XDP_PASS : XDP_DROP)) {
		snprintf(u->why, sizeof(u->why), "%s was %smade", what, known ? "not " : "");
		return -1;
	}
	if (!known) {
		u->ref.counter[INC_CTR_X_COPY_DROP]++;
		return u->want.bare ? one_too_many(u, parent->cfg.ifindex, "partial sum") : 0;
	}
	ref_partial(cm, u->want.r, &want);
	if (compare_frame(u, what, &have, &want))
		return -1;
	frame_untag(&have);
	if (!frame_udp_csum_ok(&have)) {
		snprintf(u->why, sizeof(u->why), "%s: UDP checksum", what);
		return -1;
	}
	u->ref.counter[INC_CTR_X_COPY]++;
	u->copies++;
	return u->want.bare ? one_too_many(u, parent->cfg.ifindex, "partial sum") : 0;
}

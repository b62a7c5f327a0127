// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cases.h"

struct ref_comm *case_comm(struct unit *u, uint32_t children, uint32_t ports, uint32_t payload,
			   uint32_t slots)
{
	static uint32_t communicator = 1;
	struct inc_comm_conf spec;

	unit_spec(u, &spec, communicator++, children, ports, payload, slots);
	return unit_add_comm(u, &spec);
}

int case_data(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r, uint8_t opcode,
	      uint32_t len, uint32_t desc, bool ackreq)
{
	struct unit_packet p = {
		.r = r, .opcode = opcode, .len = len, .desc = desc, .ackreq = ackreq};
	struct frame f;

	unit_data(cm, child, &p, &f);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex);
}

int case_class(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r, uint8_t tos)
{
	struct unit_packet p = {.r = r,
				.opcode = INC_OP_SEND_ONLY_IMM,
				.len = 16,
				.desc = CASE_DESC,
				.ackreq = true};
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f;

	unit_data_spec(cm, child, &p, &s, payload);
	s.tos = tos;
	frame_build(&f, &s);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex);
}

int case_ack(struct unit *u, struct ref_comm *cm, uint32_t child, uint8_t syndrome, uint32_t psn)
{
	struct frame f;

	unit_ack(cm, child, syndrome, psn, &f);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex);
}

int case_probe(struct unit *u, struct ref_comm *cm, uint32_t child, uint32_t psn)
{
	struct frame_spec s;
	struct frame f;

	unit_ack_spec(cm, child, INC_AETH_ACK, psn, &s);
	s.ack_byte = 0x80;
	frame_build(&f, &s);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex);
}

int case_expect(struct unit *u, enum inc_counter_id counter)
{
	if (u->want.counter == counter)
		return 0;
	snprintf(u->why, sizeof(u->why), "packet %llu ended on %s, meant for %s",
		 (unsigned long long)u->packets, inc_counter_info[u->want.counter].name,
		 inc_counter_info[counter].name);
	return -1;
}

/* Whether UNIT_SKIP, a list with commas, names the case. vm/test_unit skips the cases of most
 * packets, because an emulated machine is slow. */
static bool is_skipped(const char *name)
{
	const char *list = getenv("UNIT_SKIP");
	char word[64];

	if (!list)
		return false;
	snprintf(word, sizeof(word), ",%s,", name);
	return strstr(list, word);
}

void cases_run(struct unit *u, const struct unit_case *c, const char *how)
{
	char name[64];
	uint32_t i;

	for (; c->name; c++) {
		uint64_t before = u->packets;
		int ret;

		if (is_skipped(c->name))
			continue;
		ret = c->run(u);
		if (!ret)
			ret = unit_compare_all(u);
		for (i = 0; i < REF_MAX_COMMS; i++)
			if (u->ref.comm[i] && unit_remove_comm(u, u->ref.comm[i]))
				ret = -1;
		if (ret) {
			snprintf(name, sizeof(name), "%s%s", c->name, how);
			report_fail(name, "%s", u->why);
			unit_forgive(u);
			continue;
		}
		report_ok("%s%s (%llu packets)", c->name, how,
			  (unsigned long long)(u->packets - before));
	}
}

void cases_run_all(struct unit *u, const char *how)
{
	const struct unit_case *const all[] = {
		cases_header, cases_protocol, cases_link,  cases_gap,  cases_reduce,
		cases_types,  cases_tree,     cases_edges, cases_echo, cases_tag};
	uint32_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		cases_run(u, all[i], how);
}

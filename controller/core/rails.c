/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rails: the NICs of one number of all hosts. A host may have several NICs (docs/control.md,
 * "Rails"), and each channel of a communicator uses the NICs of one rail. The channels use all
 * rails in turn on which every member has a NIC that works. So a NIC that fails is left out of the
 * next communicator by all members. Called by comm.c and group.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/endpoint.h"
#include "controller/core/group.h"
#include "lib/base/log.h"

static const struct inc_topo_host *nic_of(const struct inc_group *group, unsigned int nic)
{
	return &group->core->topo->hosts[nic];
}

static uint32_t count_addresses(const struct inc_msg_join *said)
{
	return said->n_addrs + said->n_addrs_ipv6;
}

/* Returns address i of the member, where those of IPv4 come first. */
static struct inc_addr address(const struct inc_msg_join *said, uint32_t i)
{
	return i < said->n_addrs ? said->addrs[i] : said->addrs_ipv6[i - said->n_addrs];
}

/* Finds the host that has the first of the member's addresses that `find` knows, and the NIC of the
 * lowest rail among all the member's addresses. Returns whether there is one. */
static bool find_first(const struct inc_topology *topo, const struct inc_msg_join *said,
		       int (*find)(const struct inc_topology *topo, struct inc_addr ip),
		       struct inc_join *join)
{
	const struct inc_topo_host *hosts = topo->hosts;
	bool any = false;

	for (uint32_t i = 0; i < count_addresses(said); i++) {
		int found = find(topo, address(said, i));

		if (found < 0 || (any && (hosts[found].of != join->host ||
					  hosts[found].rail > hosts[join->nic].rail)))
			continue;
		join->host = hosts[found].of;
		join->nic = found;
		any = true;
	}
	return any;
}

int inc_rails_find_host(const struct inc_core *core, const struct inc_msg_join *said,
			struct inc_join *join, struct inc_err *err)
{
	char text[2 * INC_MAX_ADDRS * (INC_ADDR_TEXT + sizeof(", "))] = "";
	size_t n = 0;

	if (find_first(core->topo, said, inc_topology_host_by_ip, join) ||
	    find_first(core->topo, said, inc_topology_draining_host, join))
		return 0;
	if (!count_addresses(said))
		return inc_err_set(err, EINVAL, "'addrs' is missing");
	for (uint32_t i = 0; i < count_addresses(said); i++) {
		n += snprintf(text + n, sizeof(text) - n, "%s", i ? ", " : "");
		n += strlen(inc_addr_text(address(said, i), text + n));
	}
	return inc_err_set(
		err, EADDRNOTAVAIL, "no host of the topology %s has %s %s, which this member has",
		core->topo->name,
		count_addresses(said) == 1 ? "the address" : "one of the addresses", text);
}

/* Finds the NIC of the member's host that has the address. */
static int find_nic(const struct inc_member *member, struct inc_addr ip, unsigned int *nic,
		    struct inc_err *err)
{
	const int found = inc_topology_nic_by_ip(member->group->core->topo, member->host, ip);
	char text[INC_ADDR_TEXT];

	if (found < 0) {
		inc_addr_text(ip, text);
		return inc_err_set(err, EADDRNOTAVAIL, "%s is no address of host %s", text,
				   nic_of(member->group, member->host)->name);
	}
	*nic = found;
	return 0;
}

/* Logs and records that the member does not use a NIC any more, or uses it again. */
static void log_change(const struct inc_member *member, const struct inc_msg_rail *rail,
		       unsigned int number)
{
	const struct inc_group *group = member->group;
	const bool out = *rail->reason;
	char ip[INC_ADDR_TEXT], text[320];
	size_t n;

	group->core->figures.nics_left_out += out;
	inc_addr_text(rail->ip, ip);
	n = snprintf(text, sizeof(text), "group %u (%s): rank %u: NIC %s (%s, rail %u) of host %s ",
		     group->number, group->job, member->rank, rail->name, ip, number,
		     nic_of(group, member->host)->name);
	if (n < sizeof(text))
		snprintf(text + n, sizeof(text) - n, "%s%s", out ? "is left out: " : "works again",
			 rail->reason);
	if (out)
		inc_warn("%s", text);
	else
		inc_info("%s", text);
	inc_core_record(group->core, out ? INC_RECORD_NIC_OUT : INC_RECORD_NIC_BACK, 0, "%s", text);
}

int inc_rails_take(struct inc_member *member, const struct inc_msg_ask *ask,
		   struct inc_comm_member *m, struct inc_err *err)
{
	unsigned int nic, number;
	int ret = 0;

	if (ask->has_own_ip)
		ret = find_nic(member, ask->own_ip, &m->route.host, err);
	m->rails = 1u << nic_of(member->group, m->route.host)->rail;
	for (uint32_t i = 0; i < ask->n_rails && !ret; i++) {
		const bool out = *ask->rails[i].reason;

		ret = find_nic(member, ask->rails[i].ip, &nic, err);
		if (ret)
			break;
		number = nic_of(member->group, nic)->rail;
		if (!out)
			m->rails |= 1u << number;
		if (out == (member->rails_out >> number & 1))
			continue;
		member->rails_out ^= 1u << number;
		log_change(member, &ask->rails[i], number);
	}
	return ret;
}

/* Refuses the member's C, because the communicator's first channel is on another rail. The member
 * asks again. */
static void send_to_rail(struct inc_comm *comm, unsigned int rank, unsigned int rail)
{
	const struct inc_member *member = &comm->group->members[rank];
	const int nic = inc_topology_nic(comm->group->core->topo, member->host, rail);
	struct inc_msg_error about = {.has_comm = true, .comm = comm->index, .has_own_ip = true};

	inc_endpoint_leave(&comm->members[rank]);
	comm->members[rank] = (struct inc_comm_member){};
	about.own_ip = nic_of(comm->group, nic)->ip;
	inc_act_refuse(member->client, EAGAIN, &about,
		       "another rank cannot use this NIC: the communicator begins with rail %u",
		       rail);
}

bool inc_comm_find_rails(struct inc_comm *comm)
{
	struct inc_group *group = comm->group;
	bool aligned = true;
	unsigned int first;

	/* channel 0 has told the members which addresses the further channels have */
	if (inc_channel_of(comm->index))
		return true;
	comm->rails = UINT32_MAX;
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (!inc_group_is_led(group, rank))
			comm->rails &= comm->members[rank].rails;
	}
	/* without a common rail each member keeps its NIC, because switches may connect them */
	if (!comm->rails)
		return true;
	first = __builtin_ctz(comm->rails);
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (inc_group_is_led(group, rank) ||
		    nic_of(group, comm->members[rank].route.host)->rail == first)
			continue;
		send_to_rail(comm, rank, first);
		aligned = false;
	}
	return aligned;
}

void inc_comm_list_rails(const struct inc_comm *comm, const struct inc_member *member,
			 struct inc_msg_made *made)
{
	for (unsigned int rail = 0; rail < INC_MAX_RAILS; rail++) {
		const int nic = comm->rails >> rail & 1 ? inc_topology_nic(comm->group->core->topo,
									   member->host, rail)
							: -1;

		if (nic >= 0)
			made->rails[made->n_rails++] = nic_of(comm->group, nic)->ip;
	}
}

void inc_rails_announce(const struct inc_member *member, struct inc_msg_joined *joined)
{
	const struct inc_topo_host *nic = nic_of(member->group, member->host);

	if (!nic->next)
		return;
	/* a library that does not know IPv6 refuses a message with such an address */
	for (;;) {
		if (!member->ipv4_alone || inc_addr_is_ipv4(nic->ip))
			joined->rails[joined->n_rails++] = nic->ip;
		if (!nic->next)
			return;
		nic = nic_of(member->group, nic->next);
	}
}

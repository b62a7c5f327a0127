/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/os.h"
#include "hostlib/src/internal.h"
#include "hostlib/src/rails.h"

/* How often, and for how many ms each time, a NIC waits for its switch's answer. */
#define ANSWER_TRIES 3
#define ANSWER_MS    100
/* The same for NICs whose switch answers TCP alone. Linux sends six ICMP errors to one address at
 * once, and then one a second, so ranks of one machine may have to wait for each other. */
#define PATIENT_TRIES 10
#define PATIENT_MS    500

void inccl_rails_set(struct inccl_group *group, const struct inc_msg_joined *joined)
{
	struct inccl_rails *rails = &group->rails;

	if (rails->chosen || joined->n_rails < 2)
		return;
	rails->n = joined->n_rails;
	for (unsigned int i = 0; i < rails->n; i++)
		rails->rail[i].addr = joined->rails[i];
}

int inccl_rails_add_address(struct inc_msg_join *msg, struct inc_addr addr, struct inc_err *err)
{
	const bool ipv4 = inc_addr_is_ipv4(addr);
	uint32_t *n = ipv4 ? &msg->n_addrs : &msg->n_addrs_ipv6;

	if (*n == INC_MAX_ADDRS)
		return inc_err_set(err, E2BIG,
				   "more than %d %s addresses: an address or an interface of "
				   "them must be named",
				   INC_MAX_ADDRS, inc_addr_family(addr));
	(ipv4 ? msg->addrs : msg->addrs_ipv6)[(*n)++] = addr;
	return 0;
}

void inccl_rails_introduce(const struct inccl_group *group, struct inc_msg_join *msg)
{
	struct inc_err unused;

	inccl_rails_add_address(msg, group->addr, &unused);
	for (unsigned int i = 0; i < group->rails.n; i++) {
		if (!inc_addr_same(group->rails.rail[i].addr, group->addr))
			inccl_rails_add_address(msg, group->rails.rail[i].addr, &unused);
	}
}

void inccl_rails_inherit(struct inccl_group *group, struct inccl_group *parent)
{
	pthread_mutex_lock(&parent->lock);
	for (unsigned int i = 0; i < group->rails.n && i < parent->rails.n; i++) {
		const struct inccl_rail *from = &parent->rails.rail[i];
		struct inccl_rail *to = &group->rails.rail[i];

		if (!inc_addr_same(to->addr, from->addr))
			continue;
		memcpy(to->name, from->name, sizeof(to->name));
		memcpy(to->reason, from->reason, sizeof(to->reason));
		to->peer = from->peer;
		to->suspect = from->suspect;
	}
	pthread_mutex_unlock(&parent->lock);
}

/* Looks at the interface that has a NIC's address. */
static void look(const struct ifaddrs *list, const struct inccl_rail *rail,
		 struct inc_msg_rail *found)
{
	const struct ifaddrs *ifa;

	for (ifa = list; ifa; ifa = ifa->ifa_next)
		if (inc_addr_same(inc_addr_of_sockaddr(ifa->ifa_addr), rail->addr))
			break;
	if (ifa)
		snprintf(found->name, sizeof(found->name), "%s", ifa->ifa_name);
	if (!ifa)
		strcpy(found->reason, "no interface has its address");
	else if (!(ifa->ifa_flags & IFF_UP))
		strcpy(found->reason, "it is down");
	else if (!(ifa->ifa_flags & IFF_RUNNING))
		strcpy(found->reason, "it has no carrier");
}

/* Returns the address of the switch to which NIC i was connected last; zeros: there was none. */
static struct inc_addr peer_of(struct inccl_group *group, unsigned int i)
{
	struct inc_addr peer;

	pthread_mutex_lock(&group->lock);
	peer = group->rails.rail[i].peer;
	pthread_mutex_unlock(&group->lock);
	return peer;
}

/* Waits for an answer to a datagram from the switch to which NIC i was connected last. */
static bool answers_udp(struct inccl_group *group, unsigned int i, unsigned int tries,
			unsigned int ms)
{
	const struct inc_addr peer = peer_of(group, i);

	while (tries--) {
		if (inc_os.udp.refuses(&group->rails.rail[i].addr, &peer, IPPORT_DISCARD, ms))
			return true;
	}
	return false;
}

/* Whether another NIC than i gets an answer to a datagram. If none does, a firewall may drop the
 * question or the answer everywhere. */
static bool another_answers_udp(struct inccl_group *group, const struct inccl_survey *survey,
				unsigned int i)
{
	for (unsigned int k = 0; k < group->rails.n; k++) {
		if (k != i && !*survey->rail[k].reason && inc_addr_given(peer_of(group, k)) &&
		    answers_udp(group, k, ANSWER_TRIES, ANSWER_MS))
			return true;
	}
	return false;
}

static const char only_tcp[] = "answers TCP, but no UDP";

/* Whether NIC i is left out already because its switch answers TCP alone. */
static bool was_only_tcp(struct inccl_group *group, unsigned int i)
{
	bool was;

	pthread_mutex_lock(&group->lock);
	was = strstr(group->rails.rail[i].reason, only_tcp);
	pthread_mutex_unlock(&group->lock);
	return was;
}

/* Asks the switch at the other end of NIC i. Returns why the NIC shall not be used, or NULL.
 * patience: how often a NIC is asked whose switch answers TCP alone; 0: such a NIC is used, until
 * the next communicator. */
static const char *find_fault(struct inccl_group *group, const struct inccl_survey *survey,
			      unsigned int i, unsigned int *patience)
{
	const struct inc_addr peer = peer_of(group, i);
	const unsigned int tries = *patience;

	if (answers_udp(group, i, ANSWER_TRIES, ANSWER_MS))
		return NULL;
	if (!inc_os.udp.answers(&group->rails.rail[i].addr, &peer, ANSWER_MS))
		return "does not answer";
	if (was_only_tcp(group, i))
		return only_tcp;
	/* this takes time from the limit for the communicator, so only one NIC is examined so */
	*patience = 0;
	if (!tries || !another_answers_udp(group, survey, i))
		return NULL;
	return answers_udp(group, i, tries, PATIENT_MS) ? NULL : only_tcp;
}

/* Checks NICs of which a communicator has failed. If no NIC gets an answer, all of them are used,
 * because a firewall may drop the question or the answer. */
static void check_suspects(struct inccl_group *group, struct inccl_survey *survey)
{
	const char *faults[INC_MAX_RAILS] = {};
	struct inccl_rails *rails = &group->rails;
	unsigned int patience = PATIENT_TRIES;
	char ip[INC_ADDR_TEXT];

	for (unsigned int i = 0; i < rails->n; i++) {
		struct inccl_rail *rail = &rails->rail[i];

		if (*survey->rail[i].reason)
			continue;
		if (rail->suspect && inc_addr_given(peer_of(group, i)))
			faults[i] = find_fault(group, survey, i, &patience);
		rail->suspect = !!faults[i];
		survey->usable += !faults[i];
	}
	for (unsigned int i = 0; i < rails->n && survey->usable; i++) {
		if (faults[i])
			snprintf(survey->rail[i].reason, sizeof(survey->rail[i].reason),
				 "the switch's port %s %s", inc_addr_text(peer_of(group, i), ip),
				 faults[i]);
	}
	for (unsigned int i = 0; i < rails->n && !survey->usable; i++)
		survey->usable += !!faults[i];
}

/* Logs which NICs are left out from now on, and which ones work again. */
static void log_changes(struct inccl_group *group, struct inccl_survey *survey)
{
	pthread_mutex_lock(&group->lock);
	for (unsigned int i = 0; i < survey->n; i++) {
		struct inccl_rail *rail = &group->rails.rail[i];
		struct inc_msg_rail *found = &survey->rail[i];
		char ip[INC_ADDR_TEXT];

		if (!*found->name)
			memcpy(found->name, rail->name, sizeof(found->name));
		memcpy(rail->name, found->name, sizeof(rail->name));
		if (!strcmp(rail->reason, found->reason))
			continue;
		memcpy(rail->reason, found->reason, sizeof(rail->reason));
		inc_addr_text(rail->addr, ip);
		if (*found->reason)
			inccl_log_line(group->log, "NIC %s (%s) of this host is left out: %s",
				       found->name, ip, found->reason);
		else
			inccl_log_line(group->log, "NIC %s (%s) of this host works again",
				       found->name, ip);
	}
	pthread_mutex_unlock(&group->lock);
}

static void survey_all(struct inccl_group *group, struct inccl_survey *survey)
{
	struct inccl_rails *rails = &group->rails;
	struct ifaddrs *list = NULL;

	if (!rails->n || getifaddrs(&list))
		return;
	survey->n = rails->n;
	for (unsigned int i = 0; i < rails->n; i++) {
		survey->rail[i].ip = rails->rail[i].addr;
		look(list, &rails->rail[i], &survey->rail[i]);
	}
	freeifaddrs(list);
	check_suspects(group, survey);
	log_changes(group, survey);
}

void inccl_rails_choose(struct inccl_communicator *comm, struct inccl_survey *survey)
{
	const struct inccl_communicator *lead = comm->lead;
	const unsigned int channel = inc_channel_of(comm->index);

	memset(survey, 0, sizeof(*survey));
	comm->lanes.own = comm->group->addr;
	if (lead) {
		comm->lanes.own =
			lead->lanes.n ? lead->lanes.addr[channel % lead->lanes.n] : lead->lanes.own;
		return;
	}
	survey_all(comm->group, survey);
	for (unsigned int i = survey->usable ? survey->n : 0; i--;) {
		if (!*survey->rail[i].reason)
			comm->lanes.own = survey->rail[i].ip;
	}
}

static struct inccl_rail *find(struct inccl_group *group, struct inc_addr addr)
{
	for (unsigned int i = 0; i < group->rails.n; i++) {
		if (inc_addr_same(group->rails.rail[i].addr, addr))
			return &group->rails.rail[i];
	}
	return NULL;
}

static bool has_lane(const struct inccl_lanes *lanes, struct inc_addr addr)
{
	for (unsigned int i = 0; i < lanes->n; i++) {
		if (inc_addr_same(lanes->addr[i], addr))
			return true;
	}
	return !lanes->n;
}

int inccl_rails_take(struct inccl_communicator *comm, const struct inc_msg_made *made,
		     struct inc_err *err)
{
	struct inccl_group *group = comm->group;
	struct inccl_rail *rail = find(group, comm->lanes.own);
	char ip[INC_ADDR_TEXT];

	if (rail)
		rail->peer = made->connection.peer.ip;
	if (comm->lead || !group->rails.n)
		return 0;
	for (unsigned int i = 0; i < made->n_rails; i++) {
		if (!find(group, made->rails[i]))
			return inc_err_set(
				err, EPROTO,
				"controller %s: answer to 'C': %s is no NIC of this host",
				group->controller, inc_addr_text(made->rails[i], ip));
		comm->lanes.addr[i] = made->rails[i];
	}
	comm->lanes.n = made->n_rails;
	for (rail = group->rails.rail; rail < group->rails.rail + group->rails.n; rail++)
		if (!*rail->reason && !has_lane(&comm->lanes, rail->addr))
			inccl_log_line(group->log,
				       "communicator %u does not use NIC %s (%s), because another "
				       "rank lacks a NIC of its rail",
				       made->communicator, rail->name,
				       inc_addr_text(rail->addr, ip));
	return 0;
}

void inccl_rails_suspect(struct inccl_communicator *comm)
{
	struct inccl_rail *rail = find(comm->group, comm->lanes.own);

	if (rail)
		rail->suspect = true;
}

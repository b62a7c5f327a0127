/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of etcd's members (etcd.h). libcurl gets them with each request, because its own
 * look-ups would hold the loop up. A request that ends would wait for the thread of its look-up,
 * for some 10 s if no name server answers. The last addresses stay in use until a look-up has
 * succeeded.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/net/lookup.h"
#include "controller/store/etcd.h"

/* least time between two look-ups of a name */
#define LOOK_UP_NS INC_NSEC_PER_SEC

struct name {
	bool number; /* the host is an address in numbers */
	struct inc_lookup *lookup;
	uint64_t looked_at_ns; /* when the last look-up was begun, by CLOCK_BOOTTIME; 0: never */
	char addresses[600];   /* as libcurl has them: HOST:PORT:ADDRESS,ADDRESS; "": none yet */
	char why[160];         /* why the last look-up has failed; "": it has not */
};

struct inc_etcd_names {
	const struct inc_hostports *members;
	struct name name[INC_HOSTPORTS_MAX];
};

void inc_etcd_name_refresh(struct inc_etcd_names *names, unsigned int member)
{
	struct name *name = &names->name[member];
	const uint64_t now_ns = inc_boot_ns();
	struct inc_err err;

	if (name->number || name->lookup ||
	    (name->looked_at_ns && now_ns - name->looked_at_ns < LOOK_UP_NS))
		return;
	name->looked_at_ns = now_ns;
	if (inc_lookup_start(&names->members->at[member], &name->lookup, &err))
		snprintf(name->why, sizeof(name->why), "%.150s", err.msg);
}

/* Writes addresses as libcurl takes them, as many as there is room for. */
static void keep_addresses(const struct inc_hostport *at, const struct addrinfo *list,
			   struct name *name)
{
	size_t n = snprintf(name->addresses, sizeof(name->addresses), "%s:%s", at->host, at->port);
	char before = ':';

	for (; list; list = list->ai_next) {
		char text[INET6_ADDRSTRLEN];
		const bool six = list->ai_family == AF_INET6;

		if (getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof(text), NULL, 0,
				NI_NUMERICHOST) ||
		    n + strlen(text) + 4 > sizeof(name->addresses))
			continue;
		n += snprintf(name->addresses + n, sizeof(name->addresses) - n,
			      six ? "%c[%s]" : "%c%s", before, text);
		before = ',';
	}
	if (before == ':')
		*name->addresses = '\0';
}

/* Takes the answer of a look-up, if there is one, and logs why there is none, once for each
 * reason. */
static void end_look_up(struct inc_etcd_names *names, unsigned int member)
{
	const struct inc_hostport *at = &names->members->at[member];
	struct name *name = &names->name[member];
	struct addrinfo *list = NULL;
	struct inc_err err = {""};
	const int ret = inc_lookup_end(name->lookup, &list, &err);

	if (ret == -EINPROGRESS)
		return;
	name->lookup = NULL;
	if (ret && strncmp(name->why, err.msg, 150) != 0)
		inc_warn("etcd %s:%s: its name cannot be looked up: %s", at->host, at->port,
			 err.msg);
	snprintf(name->why, sizeof(name->why), "%.150s", err.msg);
	if (ret)
		return;
	keep_addresses(at, list, name);
	freeaddrinfo(list);
}

/* Whether the member has an address. If not, a look-up goes on. */
bool inc_etcd_name_known(struct inc_etcd_names *names, unsigned int member)
{
	struct name *name = &names->name[member];

	/* the log names those that fail, even if no request needs them */
	for (unsigned int i = 0; i < names->members->n; i++)
		if (names->name[i].lookup)
			end_look_up(names, i);
	if (!name->number && !*name->addresses)
		inc_etcd_name_refresh(names, member);
	return name->number || *name->addresses;
}

const char *inc_etcd_name_addresses(const struct inc_etcd_names *names, unsigned int member)
{
	return names->name[member].addresses;
}

const char *inc_etcd_name_why(const struct inc_etcd_names *names, unsigned int member)
{
	const char *why = names->name[member].why;

	return *why ? why : "no answer yet";
}

int inc_etcd_names_open(const struct inc_hostports *members, struct inc_etcd_names **out,
			struct inc_err *err)
{
	struct inc_etcd_names *names = calloc(1, sizeof(*names));

	*out = names;
	if (!names)
		return inc_err_set(err, ENOMEM, "out of memory");
	names->members = members;
	for (unsigned int i = 0; i < members->n; i++) {
		struct addrinfo *list = NULL;
		const int ret = inc_lookup_number(&members->at[i], &list, err);

		if (ret && ret != -ENOENT)
			return ret;
		names->name[i].number = !ret;
		if (list)
			freeaddrinfo(list);
		inc_etcd_name_refresh(names, i);
	}
	return 0;
}

void inc_etcd_names_close(struct inc_etcd_names *names)
{
	for (unsigned int i = 0; names && i < names->members->n; i++)
		inc_lookup_cancel(names->name[i].lookup);
	free(names);
}

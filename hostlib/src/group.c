/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups: joining through the controller, and leaving. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/node/node.h"
#include "hostlib/src/internal.h"
#include "lib/base/printable.h"
#include "lib/proto/roce.h"

int inccl_group_check_limits(const struct inccl_group_opts *opts, struct inc_err *err)
{
	/* larger timeouts are rejected, because jansson and poll() use int */
	if (opts->connect_timeout_ms > INT32_MAX || opts->create_timeout_ms > INT32_MAX)
		return inc_err_set(err, EINVAL, "timeouts: at most %d ms", INT32_MAX);
	return 0;
}

/* Adds an address to those that are offered. Some machines have hundreds of IPv6 addresses, and
 * those that have IPv4 addresses as well mostly use these. So IPv6 addresses that find no room
 * beside them are counted in *left_out. */
static int offer(struct inc_msg_join *msg, struct inc_addr addr, unsigned int *left_out,
		 struct inc_err *err)
{
	if (inc_addr_is_ipv4(addr) || msg->n_addrs_ipv6 < INC_MAX_ADDRS)
		return inccl_rails_add_address(msg, addr, err);
	++*left_out;
	return 0;
}

/* Collects this machine's addresses to offer to the controller: the given one, those of the given
 * interface, or all. Only unicast addresses count, because the controller would refuse all if one
 * were not unicast. */
static int own_addresses(const struct inccl_group *group, const struct inccl_place *place,
			 struct inc_msg_join *msg, struct inc_err *err)
{
	struct ifaddrs *list, *ifa;
	unsigned int left_out = 0;
	struct inc_addr addr;
	int ret = 0;

	if (place->address) {
		ret = inc_addr_parse_host(place->address, &addr);
		if (ret == -ERANGE)
			return inc_err_set(err, EINVAL, "address '%s' %s", place->address,
					   inc_addr_fault(addr));
		if (ret)
			return inc_err_set(err, EINVAL,
					   "address '%s' is not an IPv4 or IPv6 address",
					   place->address);
		return inccl_rails_add_address(msg, addr, err);
	}
	if (getifaddrs(&list))
		return inc_err_set(err, errno, "own addresses: %s", strerror(errno));
	for (ifa = list; ifa && !ret; ifa = ifa->ifa_next) {
		if (!(ifa->ifa_flags & IFF_UP))
			continue;
		if (place->interface ? strcmp(place->interface, ifa->ifa_name) != 0
				     : (ifa->ifa_flags & IFF_LOOPBACK) != 0)
			continue;
		addr = inc_addr_of_sockaddr(ifa->ifa_addr);
		if (inc_addr_given(addr) && inc_addr_is_host(addr))
			ret = offer(msg, addr, &left_out, err);
	}
	freeifaddrs(list);
	if (left_out)
		inccl_log_line(group->log,
			       "%u IPv6 addresses of this machine are not offered to the "
			       "controller, which takes %d: if the job needs one of them, it must "
			       "be named",
			       left_out, INC_MAX_ADDRS);
	if (msg->n_addrs || msg->n_addrs_ipv6)
		return ret;
	return place->interface ? inc_err_set(err, ENODEV, "interface %s: no unicast address",
					      place->interface)
				: inc_err_set(err, EADDRNOTAVAIL,
					      "no interface has a unicast address");
}

/* Finds the name of this machine that the controller shows. Characters that a message cannot
 * contain are replaced. */
static void name_host(struct inccl_log *log, char *host, size_t size)
{
	char name[INC_CONTROL_NAME_LEN];

	gethostname(host, size - 1);
	memcpy(name, host, sizeof(name));
	inc_make_word(host);
	inc_printable(name);
	if (strcmp(name, host))
		inccl_log_line(log, "the host name '%s' is given to the controller as '%s'", name,
			       host);
}

void inccl_group_introduce(const struct inccl_group *group, struct inc_msg_join *msg)
{
	msg->version = INC_CONTROL_VERSION;
	memcpy(msg->job, group->job, sizeof(msg->job));
	msg->rank = group->rank;
	msg->world_size = group->world_size;
	name_host(group->log, msg->host, sizeof(msg->host));
}

int inccl_group_join(struct inccl_group *group, struct inc_msg_join *msg, struct inccl_limit *limit,
		     struct inc_err *err)
{
	struct control_wait wait = {.id = INC_MSG_JOINED, .index = -1, .number = -1};
	const struct inc_msg_joined *joined = &wait.answer.joined;
	struct inccl_node *node = inccl_node_offer(group, msg);
	char addr[INC_ADDR_TEXT];
	int ret;

	inccl_group_introduce(group, msg);
	pthread_mutex_lock(&group->lock);
	ret = inccl_control_call(group, INC_MSG_JOIN, msg, &wait, limit, err);
	if (!ret) {
		group->addr = joined->addr;
		inccl_rails_set(group, joined);
		group->number = joined->group;
		group->rank = joined->rank;
		group->world_size = joined->world_size;
	}
	pthread_mutex_unlock(&group->lock);
	if (!ret && group->world_size) {
		inc_addr_text(joined->addr, addr);
		inccl_log_line(group->log, "rank %d of %d in group %u (%s), address %s",
			       group->rank, group->world_size, group->number, group->job, addr);
	}
	if (ret)
		inccl_node_free(node);
	else
		ret = inccl_node_meet(group, node, joined->meeting,
				      joined->has_machine_ranks ? &joined->machine_ranks : NULL,
				      limit, err);
	inccl_log_deliver(group->log);
	return ret;
}

/* Joins a group as the caller's options ask: a new group, or with `join` a group that grows. */
static int join(struct inccl_group *group, const struct inccl_place *place,
		const struct inccl_group_opts *opts, struct inc_err *err)
{
	struct inc_msg_join msg = {.has_derive = opts->join, .derive.how = INC_DERIVE_GROW};
	int ret = own_addresses(group, place, &msg, err);
	struct inccl_limit limit = inccl_limit_ms(opts->create_timeout_ms ?: CREATE_TIMEOUT_MS);

	return ret ?: inccl_group_join(group, &msg, &limit, err);
}

void inccl_group_free(struct inccl_group *group)
{
	inccl_control_stop(group);
	inccl_node_free(group->node);
	pthread_cond_destroy(&group->changed);
	pthread_mutex_destroy(&group->lock);
	inccl_log_put(group->log);
	inc_tls_free(group->tls);
	free(group);
}

int inccl_group_new(const char *job, int rank, int world_size, struct inccl_log *log,
		    struct inccl_group **out)
{
	struct inccl_group *group = calloc(1, sizeof(*group));
	int ret;

	if (!group)
		return -ENOMEM;
	group->maker = getpid();
	group->stream.fd = group->stop_fd = -1;
	group->failed_rank = -1;
	snprintf(group->job, sizeof(group->job), "%s", job);
	group->rank = rank;
	group->world_size = world_size;
	ret = -pthread_mutex_init(&group->lock, NULL);
	if (ret)
		goto free_group;
	ret = inccl_cond_init(&group->changed);
	if (ret)
		goto destroy_lock;
	group->log = inccl_log_hold(log);
	*out = group;
	return 0;

destroy_lock:
	pthread_mutex_destroy(&group->lock);
free_group:
	free(group);
	return ret;
}

int inccl_group_create(const struct inccl_group_opts *given, struct inccl_group **out)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_group_opts opts;
	struct inccl_place place;
	struct inccl_group *group;
	struct inccl_log *log;
	struct inc_err err = {""};
	bool shares_memory;
	int ret;

	if (!out)
		return -EINVAL;
	*out = NULL;
	ret = inc_caller_opts(&opts, sizeof(opts), given);
	if (ret)
		inc_err_set(&err, -ret, INC_CALLER_OPTS_REFUSED);
	else
		ret = inccl_group_check_limits(&opts, &err);
	if (!ret)
		ret = inccl_place_resolve(&opts, &place, &err);
	if (!ret)
		ret = inccl_env_node(&shares_memory, &err);
	if (ret)
		goto explain;
	ret = inccl_log_new(opts.log, opts.log_ctx, &log);
	if (!ret) {
		ret = inccl_group_new(place.job, place.rank, place.world_size, log, &group);
		inccl_log_put(log);
	}
	if (ret) {
		inc_err_set(&err, -ret, "%s", strerror(-ret));
		goto explain;
	}
	group->shares_memory = shares_memory && !opts.no_node;
	group->rails.chosen = place.address || place.interface;
	ret = inccl_control_connect(group, &place, opts.connect_timeout_ms, &err);
	if (ret)
		goto free_group;
	ret = inccl_control_start(group);
	if (ret) {
		inc_err_set(&err, -ret, "control thread: %s", strerror(-ret));
		goto free_group;
	}
	ret = join(group, &place, &opts, &err);
	if (ret)
		goto free_group;
	*out = group;
	return 0;

free_group:
	inccl_group_free(group);
explain:
	inc_caller_explain(opts.error, opts.error_size, &err);
	return ret;
}

void inccl_group_leave(struct inccl_group *group)
{
	inccl_control_bye(group);
	inccl_group_free(group);
}

/* In a forked child the TLS session is not freed. Another thread may have been inside OpenSSL at
 * the fork, so the child may find a lock that is never released. */
void inccl_group_abandon(struct inccl_group *group)
{
	if (group->stream.fd >= 0)
		close(group->stream.fd);
	if (group->stop_fd >= 0)
		close(group->stop_fd);
	inccl_node_free(group->node);
	inccl_log_abandon(group->log);
	free(group);
}

int inccl_group_destroy(struct inccl_group *group)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_log *log;

	if (!group)
		return 0;
	if (inccl_is_inherited(group)) {
		if (group->comms)
			return -EBUSY;
		inccl_group_abandon(group);
		return 0;
	}
	pthread_mutex_lock(&group->lock);
	if (group->comms) {
		pthread_mutex_unlock(&group->lock);
		return -EBUSY;
	}
	pthread_mutex_unlock(&group->lock);
	log = inccl_log_hold(group->log);
	inccl_group_leave(group);
	inccl_log_end(log);
	inccl_log_put(log);
	return 0;
}

int inccl_group_rank(const struct inccl_group *group)
{
	if (!group)
		return -EINVAL;
	return inccl_is_inherited(group) ? -ECHILD : group->rank;
}

int inccl_group_size(const struct inccl_group *group)
{
	if (!group)
		return -EINVAL;
	return inccl_is_inherited(group) ? -ECHILD : group->world_size;
}

const char *inccl_group_error(struct inccl_group *group)
{
	const char *text;

	if (!group)
		return NULL;
	if (inccl_is_inherited(group))
		return INCCL_INHERITED_TEXT;
	pthread_mutex_lock(&group->lock);
	text = group->error ? group->error_text : NULL;
	pthread_mutex_unlock(&group->lock);
	return text;
}

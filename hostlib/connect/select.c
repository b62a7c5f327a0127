/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/select.h"
#include "lib/rdma/gid.h"

const char *inc_connect_reason_text(enum inc_connect_reason reason)
{
	static const char *const text[] = {
#define TEXT(NAME, text) [INC_CONNECT_##NAME] = text,
		INC_CONNECT_REASONS(TEXT)
#undef TEXT
	};

	return (unsigned int)reason < INC_CONNECT_N_REASONS ? text[reason] : "unknown reason";
}

const struct inc_rdma_gid *connect_gid_of(const struct inc_rdma_port_info *port)
{
	const struct inc_rdma_gid_wish wish = {
		.type = INC_RDMA_GID_ROCE_V2, .global = true, .index = -1};

	return inc_rdma_gid_find(port, &wish);
}

static bool share_zone(const struct inc_connect_port *remote, const struct connect_zones *local)
{
	uint32_t i, k;

	for (i = 0; i < remote->n_zones; i++)
		for (k = 0; k < local->n; k++)
			if (!strcmp(remote->zones[i].name, local->zone[k].name))
				return true;
	return false;
}

/* Returns the reason why the pair of ports does not fit, or INC_CONNECT_CHOSEN if it fits. */
static enum inc_connect_reason check_pair(const struct connect_config *config,
					  const struct inc_connect_port *remote,
					  const struct inc_rdma_device_info *device,
					  const struct inc_rdma_port_info *port)
{
	struct connect_zones zones;

	if ((uint32_t)port->link_layer != remote->link_layer)
		return INC_CONNECT_LINK_LAYER;
	if (!connect_port_active(port))
		return INC_CONNECT_INACTIVE;
	if (port->link_layer == INC_RDMA_LINK_ETHERNET && !connect_gid_of(port))
		return INC_CONNECT_NO_GID;
	connect_port_zones(config, device->name, port, &zones);
	return share_zone(remote, &zones) ? INC_CONNECT_CHOSEN : INC_CONNECT_NO_ZONE;
}

static uint32_t count_remote(const struct inc_connect_devices *remote)
{
	uint32_t n = 0, i;

	for (i = 0; i < remote->n_devices; i++)
		n += remote->devices[i].n_ports;
	return n;
}

static uint32_t count_local(const struct inc_rdma_list *local)
{
	uint32_t n = 0, i;

	for (i = 0; i < local->devices; i++)
		n += local->device[i].ports;
	return n;
}

/* Adds the pairs of one remote port with each local port to the list of pairs. */
static void add_pairs(const struct inc_connect_device *device, const struct inc_connect_port *port,
		      const struct inc_rdma_list *local, const struct connect_config *config,
		      struct connect_selected *selected)
{
	uint32_t i, k;

	for (i = 0; i < local->devices; i++) {
		const struct inc_rdma_device_info *ours = &local->device[i];

		for (k = 0; k < ours->ports; k++) {
			struct inc_connect_pair *pair =
				&selected->pairs[selected->choice.n_pairs++];

			*pair = (struct inc_connect_pair){
				.remote_dev = device->dev,
				.remote_port = port->port,
				.local_dev = ours->index,
				.local_port = ours->port[k].number,
				.link_layer = ours->port[k].link_layer,
				.reason = check_pair(config, port, ours, &ours->port[k]),
			};
			memcpy(pair->remote_name, device->dev_name, sizeof(pair->remote_name));
			memcpy(pair->local_name, ours->name, sizeof(pair->local_name));
		}
	}
}

/* Returns the n-th pair that has this reason. Only pairs of this link layer count, or all if it is
 * 0. */
static struct inc_connect_pair *nth(struct connect_selected *selected,
				    enum inc_connect_reason reason, uint8_t link_layer, uint64_t n)
{
	uint32_t i;

	for (i = 0; i < selected->choice.n_pairs; i++) {
		struct inc_connect_pair *pair = &selected->pairs[i];

		if (pair->reason == reason && (!link_layer || pair->link_layer == link_layer) &&
		    !n--)
			return pair;
	}
	return NULL;
}

static uint32_t count(const struct connect_selected *selected, enum inc_connect_reason reason,
		      uint8_t link_layer)
{
	uint32_t n = 0, i;

	for (i = 0; i < selected->choice.n_pairs; i++)
		n += selected->pairs[i].reason == reason &&
		     (!link_layer || selected->pairs[i].link_layer == link_layer);
	return n;
}

/* Chooses one of the pairs of ports that have the reason `fits`. There is at least one. */
static struct inc_connect_pair *choose(struct connect_selected *selected,
				       enum inc_connect_reason fits, bool prefer_infiniband)
{
	const uint32_t infiniband = count(selected, fits, INC_CONNECT_INFINIBAND);
	const uint32_t all = count(selected, fits, 0);
	const uint64_t place =
		selected->choice.counter % (infiniband && prefer_infiniband ? infiniband : all);

	if (place < infiniband)
		return nth(selected, fits, INC_CONNECT_INFINIBAND, place);
	return nth(selected, fits, INC_CONNECT_ETHERNET, place - infiniband);
}

static void name_reasons(const struct connect_selected *selected, struct inc_err *err)
{
	uint32_t i;

	for (i = 0; i < selected->choice.n_pairs; i++) {
		const struct inc_connect_pair *p = &selected->pairs[i];

		inc_err_add(err, "%s/%u to %s/%u: %s", p->local_name, p->local_port, p->remote_name,
			    p->remote_port, inc_connect_reason_text(p->reason));
	}
}

static int none_fits(const struct inc_connect_devices *remote, const struct inc_rdma_list *local,
		     const struct connect_selected *selected, struct inc_err *err)
{
	if (!count_local(local))
		return inc_err_set(err, ENODEV, "no RDMA device here");
	if (!count_remote(remote))
		return inc_err_set(err, ENODEV, "%s has no RDMA port that is active",
				   remote->hostname[0] ? remote->hostname : "the service");
	inc_err_set(err, ENODEV, "no pair of ports fits");
	name_reasons(selected, err);
	return -ENODEV;
}

int connect_select(const struct inc_connect_devices *remote, const struct inc_rdma_list *local,
		   const struct connect_config *config, uint64_t counter,
		   struct connect_selected *selected, struct inc_err *err)
{
	const size_t pairs = (size_t)count_remote(remote) * count_local(local);
	enum inc_connect_reason fits = INC_CONNECT_CHOSEN;
	struct inc_connect_pair *chosen;
	uint32_t i, k;

	*selected = (struct connect_selected){.choice.counter = counter};
	selected->pairs = calloc(pairs ?: 1, sizeof(*selected->pairs));
	if (!selected->pairs)
		return inc_err_set(err, ENOMEM, "choose a port: %s", strerror(ENOMEM));
	selected->choice.pairs = selected->pairs;
	for (i = 0; i < remote->n_devices; i++)
		for (k = 0; k < remote->devices[i].n_ports; k++)
			add_pairs(&remote->devices[i], &remote->devices[i].ports[k], local, config,
				  selected);
	if (!count(selected, fits, 0)) {
		fits = INC_CONNECT_NO_ZONE;
		if (!config->allow_unknown_zone || !count(selected, fits, 0))
			return none_fits(remote, local, selected, err);
		selected->choice.zones_ignored = true;
	}
	chosen = choose(selected, fits, config->prefer_ibdevice);
	for (i = 0; i < selected->choice.n_pairs; i++) {
		struct inc_connect_pair *pair = &selected->pairs[i];

		if (pair->reason == fits)
			pair->reason =
				config->prefer_ibdevice &&
						chosen->link_layer == INC_CONNECT_INFINIBAND &&
						pair->link_layer != INC_CONNECT_INFINIBAND
					? INC_CONNECT_NOT_INFINIBAND
					: INC_CONNECT_NOT_ITS_TURN;
	}
	chosen->reason = INC_CONNECT_CHOSEN;
	selected->chosen = chosen - selected->pairs;
	return 0;
}

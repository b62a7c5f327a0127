/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads and merges the devices of a plugin, as NCCL does when it detects the topology. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/tools/ha_perf_net.h"

/* Finds the PCI address in the path of a device in /sys, without the digit of the PCI function.
 * Returns the length of what is left. */
static size_t card_of(const char *path, const char **card)
{
	const char *slash = strrchr(path, '/');

	*card = slash ? slash + 1 : path;
	return **card ? strlen(*card) - 1 : 0;
}

/* Whether two devices are ports of one card. NCCL merges these, unless NCCL_NET_MERGE_LEVEL
 * disables that. It treats all devices without a PCI path as one card. */
static bool on_one_card(const struct ha_net_properties *a, const struct ha_net_properties *b)
{
	const char *card[2];
	size_t bytes;

	if (!a->pci_path || !b->pci_path)
		return a->pci_path == b->pci_path;
	bytes = card_of(a->pci_path, &card[0]);
	return bytes == card_of(b->pci_path, &card[1]) && !memcmp(card[0], card[1], bytes);
}

/* Asks the plugin to merge the devices of each card, as NCCL does. NCCL 2.24 and 2.25 call
 * makeVDevice even for a single device, later releases only for several. If the plugin does not
 * merge some devices, those behind the first are tried again without it. */
static int merge_cards(struct ha_net *net, const struct ha_net_properties *props, int ndev)
{
	const int most =
		net->api < 12 ? HA_NCCL_MAX_DEVICES_PER_NIC : HA_NCCL_MAX_DEVICES_PER_NIC_V12;
	bool *placed = calloc(ndev, sizeof(*placed)), merged;
	int err = placed ? 0 : inc_err_set(&net->err, ENOMEM, "no memory for %d devices", ndev);

	for (int i = 0; i < ndev && !err; i++) {
		struct ha_nccl_vdevice_v12 parts = {.ndevs = 1, .devs = {i}};

		if (placed[i])
			continue;
		for (int j = i + 1; j < ndev && parts.ndevs < most; j++)
			if (!placed[j] && on_one_card(&props[i], &props[j]))
				parts.devs[parts.ndevs++] = j;
		if (parts.ndevs == 1 && net->api != 9)
			continue;
		err = ha_net_merge(net, &parts, &merged);
		for (int k = 1; merged && k < parts.ndevs; k++)
			placed[parts.devs[k]] = true;
	}
	free(placed);
	return err;
}

int ha_survey(struct ha_net *net, int *ndev)
{
	struct ha_net_properties *props = NULL;
	int err = ha_net_devices(net, ndev);

	if (!err && *ndev <= 0)
		return inc_err_set(&net->err, ENODEV, "the plugin has no device");
	if (!err) {
		props = calloc(*ndev, sizeof(*props));
		if (!props)
			err = inc_err_set(&net->err, ENOMEM, "no memory for %d devices", *ndev);
	}
	for (int i = 0; i < *ndev && !err; i++)
		err = ha_net_properties(net, i, &props[i]);
	if (!err)
		err = merge_cards(net, props, *ndev);
	free(props);
	return err ? err : ha_net_devices(net, ndev);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/choose.h"

/* Whether the text is the PCI address of a function, such as "0000:3b:00.1": domain (4 digits or
 * more), bus, device, function. */
static bool is_pci_function(const char *text, size_t len)
{
	static const char form[] = ":xx:xx.x"; /* form of a PCI address behind its domain */
	const size_t domain = len > sizeof(form) - 1 ? len - (sizeof(form) - 1) : 0;
	size_t i;

	if (domain < 4)
		return false;
	for (i = 0; i < len; i++)
		if (i < domain || form[i - domain] == 'x' ? !isxdigit((unsigned char)text[i])
							  : text[i] != form[i - domain])
			return false;
	return true;
}

/* Returns the length of the path without its last component, and that component's length in *last.
 * It is 0 if the path has only one component. */
static size_t without_last(const char *path, size_t len, size_t *last)
{
	const char *slash = len ? memrchr(path, '/', len) : NULL;

	if (!slash)
		return 0;
	*last = len - (slash + 1 - path);
	return slash - path;
}

void ha_pci_path_trim(char *path)
{
	size_t len = strlen(path), last, rest;

	while (len) {
		rest = without_last(path, len, &last);
		if (last && rest && is_pci_function(path + rest + 1, last))
			break;
		len = rest;
	}
	path[len] = '\0';
}

/* Whether two devices with these PCI paths are functions of one card. The paths then differ in the
 * last digit only. */
static bool same_card(const char *a, const char *b)
{
	const size_t len = strlen(a);

	return len && len == strlen(b) && !memcmp(a, b, len - 1);
}

/* Returns the length of the part of a PCI path that is the same for all cards behind one PCI
 * switch. That is the path without the card's function and without the switch port before it. It is
 * 0 if the card is not behind a switch. */
static size_t switch_of(const char *path)
{
	size_t last, rest, len = without_last(path, strlen(path), &last);

	len = without_last(path, len, &last);
	rest = without_last(path, len, &last);
	return rest && is_pci_function(path + rest + 1, last) ? len : 0;
}

enum ha_affinity ha_affinity_of(const struct ha_candidate *a, const struct ha_candidate *b)
{
	const bool same_device = !strcmp(a->device, b->device);
	size_t behind;

	if (a->link_layer != b->link_layer || (same_device && a->port == b->port))
		return HA_AFFINITY_NONE;
	if (same_device || same_card(a->pci_path, b->pci_path))
		return HA_AFFINITY_PORT;
	behind = switch_of(a->pci_path);
	if (behind && behind == switch_of(b->pci_path) && !memcmp(a->pci_path, b->pci_path, behind))
		return HA_AFFINITY_SWITCH;
	return HA_AFFINITY_DEVICE;
}

unsigned int ha_choose_standby(const struct ha_candidate *candidate, unsigned int n,
			       unsigned int own, enum ha_affinity *affinity)
{
	unsigned int best = n, step, i;
	enum ha_affinity near;

	*affinity = HA_AFFINITY_NONE;
	for (step = 1; step < n; step++) {
		i = (own + step) % n;
		near = ha_affinity_of(&candidate[own], &candidate[i]);
		if (near < *affinity ||
		    (best < n && near == *affinity && candidate[i].up && !candidate[best].up)) {
			*affinity = near;
			best = i;
		}
	}
	return best;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

struct ha_budget ha_comms_budget(const struct inc_rdma_limits *limits,
				 const struct ha_config *config)
{
	const uint64_t queue_pairs = 2ull * config->expected_channels;
	const uint64_t completions =
		((uint64_t)config->wr_per_conn * config->max_recvs + config->wr_per_conn) *
		queue_pairs;
	struct ha_budget budget = {.by_queue_pairs = limits->max_qp / queue_pairs,
				   .by_completions = limits->max_cqe / completions};

	budget.comms =
		lesser(lesser(budget.by_queue_pairs, budget.by_completions), HA_MAX_COMMS) ?: 1;
	return budget;
}

/* ---- NCCL's lists of devices and interfaces ------------------------------------------------- */

#define PREFIX_BYTES 63u /* number of bytes of a name that NCCL compares */

/* Whether an entry of a list of devices matches this device and port. The entry has len bytes: a
 * name, then a colon and a port. A port that is missing, empty or -1 matches every port. A port
 * that is no number counts as 0, which no device has. */
static bool entry_matches(const char *entry, size_t len, bool whole, const char *name, int port)
{
	const char *colon = memchr(entry, ':', len);
	size_t name_len = colon ? (size_t)(colon - entry) : len;
	const char *digits = colon ? colon + 1 : entry + len;
	int own_port = digits < entry + len && *digits != ':' ? atoi(digits) : -1;

	if (name_len > PREFIX_BYTES)
		name_len = PREFIX_BYTES;
	if (strncmp(name, entry, name_len) || (whole && name[name_len]))
		return false;
	return port == -1 || own_port == -1 || port == own_port;
}

bool ha_iflist_passes(const char *list, unsigned int max_entries, const char *name, int port)
{
	bool negated = false, whole = false, found = false;
	unsigned int n = 0;
	size_t len;

	if (list && *list == '^') {
		negated = true;
		list++;
	}
	if (list && *list == '=') {
		whole = true;
		list++;
	}
	for (; list && *list && n < max_entries; list += len) {
		list += strspn(list, ",");
		len = strcspn(list, ",");
		/* NCCL ignores an entry without a name */
		if (!len || *list == ':')
			continue;
		n++;
		found = found || entry_matches(list, len, whole, name, port);
	}
	/* a list without entries allows everything, and with "^" it allows nothing */
	return (found || !n) != negated;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/choose.h"

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

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NCCL's lists of devices and interfaces (NCCL_IB_HCA, NCCL_SOCKET_IFNAME), read exactly as NCCL
 * reads them: "^" for all but these, "=" for whole names instead of prefixes, "^=" for both, then
 * NAME[:PORT] between commas. Pure.
 */
#ifndef HA_IFLIST_H
#define HA_IFLIST_H

#include <stdbool.h>

#define HA_IFLIST_DEVICES    32u /* entries that NCCL reads of NCCL_IB_HCA; more are ignored */
#define HA_IFLIST_INTERFACES 16u /* of NCCL_SOCKET_IFNAME */

/* Whether the list lets this port of this device pass; NULL: all pass. port -1: of an interface. */
bool ha_iflist_passes(const char *list, unsigned int max_entries, const char *name, int port);

#endif

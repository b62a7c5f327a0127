/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NCCL's lists of devices and interfaces (NCCL_IB_HCA, NCCL_SOCKET_IFNAME), parsed exactly as NCCL
 * does: "^" excludes the entries, "=" compares whole names instead of prefixes, "^=" does both.
 * Then follow NAME[:PORT], separated by commas. Pure functions.
 */
#ifndef HA_IFLIST_H
#define HA_IFLIST_H

#include <stdbool.h>

#define HA_IFLIST_DEVICES    32u /* most entries of NCCL_IB_HCA that NCCL reads */
#define HA_IFLIST_INTERFACES 16u /* most entries of NCCL_SOCKET_IFNAME that NCCL reads */

/* Whether a list of NCCL allows this port of this device. If the list is NULL, it allows all. port
 * is -1 for a network interface, which has none. */
bool ha_iflist_passes(const char *list, unsigned int max_entries, const char *name, int port);

#endif

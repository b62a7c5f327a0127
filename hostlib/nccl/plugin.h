/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that the plugin's tables share: the tables of the network (plugin.c) and those of
 * collectives in the network (plugin_collnet.c). NCCL calls them on any thread.
 */
#ifndef HA_PLUGIN_H
#define HA_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include "hostlib/include/inccl.h"
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/comm.h"
#include "lib/base/err.h"

#define HA_PLUGIN_NAME "HA"
#define HA_EXPORTED    __attribute__((visibility("default")))

/* Writes a line to NCCL's log. */
void ha_plugin_log(enum ha_log_level level, const char *file, int line, const char *text);
/* Converts a negative errno to an ncclResult_t, which tells whether the peer or network, the
 * caller, this machine, or the plugin is at fault. */
enum ha_nccl_result ha_plugin_result(int ret);

/* Opens the plugin for one more user. ha_plugin_finalize() ends one user, and the last one closes
 * the plugin. */
enum ha_nccl_result ha_plugin_init(ha_nccl_logger log, struct ha_plugin **out);
void ha_plugin_finalize(struct ha_plugin *plugin);
/* The plugin while it has a user, else NULL. */
struct ha_plugin *ha_plugin_now(void);

/*
 * properties.c: the devices, which both kinds of tables list in the same order. They are ports of
 * RDMA devices, or with HA_NCCL_TRANSPORT=soft network interfaces that have an IPv4 address.
 */

/* Returns the number of devices. The plugin must be open, for the other functions too. */
unsigned int ha_coll_ndevices(void);
const char *ha_coll_device_name(unsigned int dev);
/* Finds the own IPv4 address of a device on the fabric. Returns 0 or -errno. */
int ha_coll_address(unsigned int dev, char *address, size_t size, struct inc_err *err);
enum inccl_transport_kind ha_coll_transport(void);
/* Writes the settings of a device's queue pairs for CollNet, in the form of INCCL_VERBS: the device
 * itself, and what the plugin's keys have said at init (keys.h). An interface has none: "". */
#define HA_COLL_VERBS_TEXT (HA_VERBS_TEXT + INC_RDMA_NAME_SIZE + 32)
void ha_coll_verbs(unsigned int dev, char text[HA_COLL_VERBS_TEXT]);

/* The properties of a device, in the struct of each version. */
enum ha_nccl_result ha_net_properties_v8(int dev, struct ha_nccl_properties_v8 *props);
enum ha_nccl_result ha_net_properties_v9(int dev, struct ha_nccl_properties_v9 *props);
enum ha_nccl_result ha_net_properties_v11(int dev, struct ha_nccl_properties_v11 *props);
enum ha_nccl_result ha_net_properties_v12(int dev, struct ha_nccl_properties_v12 *props);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drops the privileges that inc-switchd does not need after its start. The daemon calls this on its
 * only thread, before it reads anything that others have sent.
 */
#ifndef INC_PRIVILEGES_H
#define INC_PRIVILEGES_H

#include <stdbool.h>
#include "lib/base/err.h"

/*
 * Keeps only the capabilities that a switch needs in either mode: CAP_NET_ADMIN to attach programs,
 * CAP_BPF and CAP_PERFMON to load them, and CAP_NET_RAW for AF_XDP. Programs may be loaded later,
 * when the first communicator of passthrough mode is created. This drops all other capabilities for
 * good, from the bounding set as well, so a program that this process starts has none. Before that,
 * it removes the limit on locked memory (RLIMIT_MEMLOCK), because AF_XDP rings and RDMA lock
 * memory.
 *
 * shares_ports: CAP_SYS_ADMIN is kept as well. Without it libxdp finds no program in its
 * dispatchers, not even its own, and could not detach that (inc_attach_can_share()).
 *
 * Returns 0, or -errno with the reason in err. A process that had none of these capabilities stays
 * as it is, which is no error.
 */
int inc_privileges_drop(bool shares_ports, struct inc_err *err);

#endif

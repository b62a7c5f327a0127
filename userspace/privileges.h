/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What inc-switchd may do once it has started: less than root. Called by the daemon at its start,
 * on its one thread, before it listens to anybody.
 */
#ifndef INC_PRIVILEGES_H
#define INC_PRIVILEGES_H

#include <stdbool.h>
#include "lib/base/err.h"

/*
 * Keeps of the process' capabilities those of a switch, in whatever mode it comes to be:
 * CAP_NET_ADMIN (attach programs), CAP_BPF and CAP_PERFMON (load them, also later, when a
 * communicator of the first such mode comes), CAP_NET_RAW (AF_XDP). The others go for good, from
 * the bounding set, too, and no program that it might start gets any. Memory may be locked without
 * limit from before on (RLIMIT_MEMLOCK), as rings of AF_XDP and RDMA want it.
 *
 * shares_ports: CAP_SYS_ADMIN stays as well, without which libxdp finds no program in its
 * dispatchers, its own neither, and could not take it out (inc_attach_can_share()).
 *
 * 0, or -errno and why. One that has had none of them stays as it is, which is no error.
 */
int inc_privileges_drop(bool shares_ports, struct inc_err *err);

#endif

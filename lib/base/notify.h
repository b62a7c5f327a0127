/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports to the service manager that a daemon is ready. Daemons call this on the main thread. */
#ifndef INC_NOTIFY_H
#define INC_NOTIFY_H

/*
 * Sends READY=1 to the socket that $NOTIFY_SOCKET names, as sd_notify(3) does, so that systemd
 * reports a unit of Type=notify as started. Call it when clients can connect. Does nothing if the
 * variable is not set. A failure is logged and the daemon goes on, because its clients do not need
 * the service manager.
 */
void inc_notify_ready(void);

#endif

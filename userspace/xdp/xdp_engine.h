/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine of passthrough mode. XDP programs are its data path, beside which a slow path works on
 * AF_XDP sockets. */
#ifndef INC_XDP_ENGINE_H
#define INC_XDP_ENGINE_H

#include "userspace/engine.h"

extern const struct inc_engine_ops inc_engine_xdp;

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine whose data path are XDP programs, with a slow path on AF_XDP sockets beside them. */
#ifndef INC_XDP_ENGINE_H
#define INC_XDP_ENGINE_H

#include "userspace/engine.h"

extern const struct inc_engine_ops inc_engine_xdp;

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine that is itself the other end of its peers' connections, and adds up messages. */
#ifndef INC_TERM_ENGINE_H
#define INC_TERM_ENGINE_H

#include "userspace/engine.h"

extern const struct inc_engine_ops inc_engine_term;

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine of termination mode. The switch ends the connections of its peers itself, and reduces
 * whole messages. */
#ifndef INC_TERM_ENGINE_H
#define INC_TERM_ENGINE_H

#include "userspace/engine.h"

extern const struct inc_engine_ops inc_engine_term;

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of parts of messages (messages_part.c) that the tables in messages.c contain. */
#ifndef INC_MESSAGES_PRIV_H
#define INC_MESSAGES_PRIV_H

#include "lib/conf/messages.h"
#include "lib/conf/schema.h"

extern const struct inc_schema inc_limits_schema;
extern const struct inc_schema inc_engine_schema;

#endif

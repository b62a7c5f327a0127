/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plan of a communicator before it is in the maps. inc_comm_plan.c computes the plan, and
 * inc_comm.c writes its values.
 */
#ifndef INC_COMM_PLAN_H
#define INC_COMM_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/proto/maps.h"
#include "loader/inc_loader.h"

/* The plan of a communicator, and which steps of its making have been done. If a step fails, these
 * are undone in reverse order. */
struct inc_comm_build {
	struct inc_comm_cfg cfg;
	/* connections, sorted: children first, then the parent */
	struct inc_conn_cfg conn[INC_MAX_CONNECTIONS];
	/* MAC address of each connection's peer; zeros: not known */
	union inc_mac peer[INC_MAX_CONNECTIONS];
	struct inc_root_row roots[INC_MAX_RANKS / INC_ROOTS_PER_ROW];
	uint32_t comm;    /* index of the communicator in the switch */
	uint32_t lookups; /* numbers of entries made in inc_conn_lookup, and in inc_conn_place */
	bool ports;       /* the communicator's rows of inc_comm_ports are set */
};

/* Validates all of conf, and finds free connections and rows for it. Returns 0, or -errno without
 * any change. */
int inc_comm_plan(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		  struct inc_comm_build *b, struct inc_err *err);
/* Fills in the part of a plan that depends on conf only. It looks for no free rows, and does not
 * check conf. */
int inc_comm_plan_conf(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		       struct inc_comm_build *b, struct inc_err *err);
/* Fills in the first child and the number of children on each port. The children of one port must
 * stand together, and port_child must be zero before the call. */
void inc_comm_plan_ports(struct inc_comm_build *b);
/* inc_comm.c, for inc_port.c: writes the communicator's rows of inc_comm_cfg and of
 * inc_conn_cfg. */
int inc_comm_write(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err);
/* inc_comm.c, for inc_adopt.c and inc_port.c: writes the communicator's rows of inc_comm_ports and
 * of inc_parent_port. */
int inc_comm_make_ports(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err);
/* Changes the entry of inc_conn_place for a queue pair number from old to new. If the entry has
 * another value, another connection has the place, so this leaves it unchanged. Then only
 * inc_conn_lookup leads to this connection. */
int inc_comm_set_place(struct inc_switch *sw, uint32_t qpn, uint32_t old, uint32_t new,
		       struct inc_err *err);
/* The look-up key of a connection's packets. */
struct inc_conn_key inc_conn_key_of(const struct inc_conn_cfg *c);

#endif

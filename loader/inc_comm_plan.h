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

/* The plan of a communicator, and the steps of writing it to the maps that have been done. If a
 * step fails, the steps before it are undone in reverse order. */
struct inc_comm_build {
	struct inc_comm_cfg cfg;
	/* the connections, sorted: children first, and the parent last */
	struct inc_conn_cfg conn[INC_MAX_CONNECTIONS];
	/* MAC addresses of the connections' peers; zeros: not known */
	union inc_mac peer[INC_MAX_CONNECTIONS];
	struct inc_root_row roots[INC_MAX_RANKS / INC_ROOTS_PER_ROW];
	uint32_t comm; /* index of the communicator among the switch's communicators */
	/* number of connections that have their entries in inc_conn_lookup and inc_conn_place */
	uint32_t lookups;
	bool ports; /* the communicator's rows of inc_comm_ports are set */
};

/* Makes the plan of a communicator: validates all of conf, and finds free connections and rows.
 * Returns 0, or -errno. It changes nothing in the switch. */
int inc_comm_plan(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		  struct inc_comm_build *b, struct inc_err *err);
/* Makes only the part of a plan that depends on conf. It looks for no free rows, and does not check
 * conf. */
int inc_comm_plan_conf(const struct inc_switch *sw, const struct inc_comm_conf *conf,
		       struct inc_comm_build *b, struct inc_err *err);
/* Fills in the plan's first child and number of children on each port. The children of one port
 * must stand together, and port_child must be zero before the call. */
void inc_comm_plan_ports(struct inc_comm_build *b);
/* inc_comm.c, for inc_port.c: writes the communicator's rows of inc_comm_cfg and of
 * inc_conn_cfg. */
int inc_comm_write(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err);
/* inc_comm.c, for inc_adopt.c and inc_port.c: writes the communicator's rows of inc_comm_ports and
 * of inc_parent_port. */
int inc_comm_make_ports(struct inc_switch *sw, struct inc_comm_build *b, struct inc_err *err);
/* Changes the entry of inc_conn_place for a queue pair number from old to new, which are connection
 * ids plus 1, or 0. If the entry has another value, it belongs to another connection and stays.
 * Then only inc_conn_lookup leads to this connection. */
int inc_comm_set_place(struct inc_switch *sw, uint32_t qpn, uint32_t old, uint32_t new,
		       struct inc_err *err);
/* Returns the key in inc_conn_lookup for the packets of a connection. */
struct inc_conn_key inc_conn_key_of(const struct inc_conn_cfg *c);

#endif

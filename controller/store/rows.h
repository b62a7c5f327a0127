/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of the controller's database: a struct for the rows of each. rows.c describes each
 * column once: its name, the field of the row that it is, and the values that it may have. The
 * schema and the code that writes and reads rows use that description. States, modes and names of
 * hosts are stored as words. So the file can be read by hand, and a topology file may list its
 * hosts in another order later.
 */
#ifndef INC_STORE_ROWS_H
#define INC_STORE_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "lib/base/err.h"
#include "lib/conf/messages.h"
#include "lib/proto/rc_end.h"
#include "lib/topology/topology.h"

#define INC_KEPT_STATE_MAX 16

/* The tables of the database, in the order in which they are read: a row belongs to a row of an
 * earlier table. */
enum inc_kept_table {
	INC_KEPT_NUMBERS,
	INC_KEPT_GROUPS,
	INC_KEPT_RANKS,
	INC_KEPT_COMMS,
	INC_KEPT_NODES,
	INC_KEPT_MEMBERS,
	INC_KEPT_SWITCHES,
	INC_N_KEPT_TABLES
};

/* The range of a number allocator. */
struct inc_kept_numbers {
	uint32_t kind; /* enum inc_kept_kind */
	uint32_t first, next;
};
enum inc_kept_kind { INC_KEPT_GROUP_NUMBERS, INC_KEPT_COMM_NUMBERS, INC_N_KEPT_KINDS };

struct inc_kept_group {
	uint32_t number;
	char job[INC_CONTROL_NAME_LEN];
	uint32_t world_size;
	char state[INC_KEPT_STATE_MAX];
	uint32_t over_code;
	char over[256];
	uint32_t of;
	uint32_t how; /* enum inc_derive_how */
	/* number of derivations from the group, as in inc_group.derived */
	uint32_t derived, shrunk;
};

struct inc_kept_rank {
	uint32_t number; /* number of the group */
	uint32_t rank;
	char host[INC_TOPO_NAME_MAX];
	char node[INC_CONTROL_NAME_LEN];
	uint32_t gone;
	uint32_t leader; /* rank that has the connections of this rank to switches */
};

struct inc_kept_comm {
	uint32_t number;
	uint32_t of;   /* number of the group */
	uint32_t comm; /* index of the communicator in its group */
	uint32_t place;
	char state[INC_KEPT_STATE_MAX];
	uint32_t code;
	char reason[512];
	uint32_t payload;
	uint32_t slots;
	uint32_t byte_order;
	uint32_t mode; /* enum inc_tree_mode */
	uint32_t floats;
	uint32_t message_packets;
	uint32_t messages;
	uint32_t counted; /* 0: the shape of the communicator's tree is unknown */
};

/* An end of a connection. */
struct inc_kept_end {
	struct inc_rc_end end; /* the end's numbers; its address is in the topology */
	/* queue pair number that the controller has allocated for the end; 0: none */
	uint32_t given;
};

struct inc_kept_node {
	uint32_t number; /* number of the communicator */
	uint32_t node;
	char sw[INC_TOPO_NAME_MAX];
	uint32_t mode;
	uint32_t parent; /* index of the parent node plus 1; 0: the node is the root */
	char up_port[INC_TOPO_NAME_MAX], down_port[INC_TOPO_NAME_MAX];
	uint32_t first_rank;
	/* the two ends of the connection to the parent: the node's own, and the parent's */
	struct inc_kept_end own, peer;
};

struct inc_kept_member {
	uint32_t number; /* number of the communicator */
	uint32_t rank;
	char transport[INC_CONTROL_TRANSPORT_LEN];
	uint32_t pkey;
	uint32_t udp_csum;
	uint32_t rail; /* number of the NIC of the rank's host that the connection has */
	/* the two ends of the member's connection: its own, and its switch's */
	struct inc_kept_end own, peer;
};

/* A switch about which a later controller must know something. */
struct inc_kept_switch {
	char name[INC_TOPO_NAME_MAX];
	uint32_t mode_set; /* 1: a tool has set the mode */
	uint32_t mode;     /* enum inc_mode_of_switch, or INC_AUTO */
	/* 1: its machine has closed the connection, while communicators lived in its daemon */
	uint32_t gone;
};

enum inc_kept_column_kind { INC_KEPT_NUMBER, INC_KEPT_WORD, INC_KEPT_TEXT };
struct inc_kept_column {
	const char *name;
	enum inc_kept_column_kind kind;
	size_t offset;
	size_t size;              /* size in bytes of the member of the row's struct */
	uint32_t max;             /* greatest value of a number */
	const char *const *words; /* all words that the column may have; the list ends with NULL */
};
struct inc_kept_layout {
	const char *name;
	size_t row_size;
	/* Number of the key columns, which are the first ones. No two rows have the same keys. */
	unsigned int n_keys;
	unsigned int n;
	const struct inc_kept_column *columns;
};
extern const struct inc_kept_layout inc_kept_layouts[INC_N_KEPT_TABLES];

/* Reads and writes a number of a row, at its place in the row's struct. Words are there as numbers,
 * too. */
uint32_t inc_kept_load(const struct inc_kept_column *column, const void *at);
void inc_kept_set(const struct inc_kept_column *column, void *at, uint32_t value);

/* Writes the text of a key column's value, which is at this place. */
#define INC_KEPT_KEY_BYTES 40
void inc_kept_key_text(const struct inc_kept_column *column, const void *at,
		       char text[INC_KEPT_KEY_BYTES]);
/* Makes the list of a row's values, in the order of its columns. NULL: no memory. */
json_t *inc_kept_row_json(enum inc_kept_table table, const void *row);
/* Takes a list of values into a row. database: its name, for the reason of a failure. Returns 0, or
 * -EIO if a column must not have its value. */
int inc_kept_row_take(enum inc_kept_table table, const json_t *values, void *row,
		      const char *database, struct inc_err *err);

#endif

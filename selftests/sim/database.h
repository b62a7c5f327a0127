/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The disk and the memory of the controller's database. A VFS of SQLite has the files in memory,
 * which outlive a controller that is killed. The controller is killed at writes, truncations and
 * syncs, with the chance that the scenario names. SQLite's memory belongs to the process that runs,
 * so it ends with a process that is killed.
 */
#ifndef SIM_DATABASE_H
#define SIM_DATABASE_H

/* Called once in a program, before SQLite is used. */
void database_open(void);
/* Called before a run. Empties the disk. */
void database_begin(void);

#endif

// SPDX-License-Identifier: BSD-2-Clause
/* The disk of the controller's database (cluster.h). */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "process.h"
#include "sim.h"

#define NAME_MOST 64

/* A file of the simulated disk. SQLite names the files of a database by its path. */
struct disk_file {
	struct disk_file *next;
	char name[NAME_MOST]; /* "": the file is temporary, and ends with its handle */
	uint8_t *bytes;
	sqlite3_int64 size, room;
};

struct handle {
	sqlite3_file base; /* the public part, which must be the first member */
	struct disk_file *file;
};

static struct disk_file *disk;

static struct disk_file *file_of(sqlite3_file *f)
{
	return ((struct handle *)f)->file;
}

/* --- files --- */

static struct disk_file *find(const char *name)
{
	struct disk_file *file;

	for (file = disk; file && strcmp(file->name, name) != 0; file = file->next)
		;
	return file;
}

static struct disk_file *make(const char *name)
{
	struct disk_file *file = calloc(1, sizeof(*file));

	sim_require(file && strlen(name) < NAME_MOST, "no memory for the file %s", name);
	strcpy(file->name, name);
	file->next = disk;
	disk = file;
	return file;
}

static void drop(struct disk_file *file)
{
	struct disk_file **at = &disk;

	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	free(file->bytes);
	free(file);
}

static void resize(struct disk_file *file, sqlite3_int64 size)
{
	if (size > file->room) {
		file->room = 2 * size;
		file->bytes = realloc(file->bytes, file->room);
		sim_require(file->bytes, "no memory for the file %s", file->name);
	}
	if (size > file->size)
		memset(file->bytes + file->size, 0, size - file->size);
	file->size = size;
}

static void put(struct disk_file *file, const void *bytes, sqlite3_int64 n, sqlite3_int64 at)
{
	if (at + n > file->size)
		resize(file, at + n);
	memcpy(file->bytes + at, bytes, n);
}

void database_begin(void)
{
	while (disk)
		drop(disk);
	/* SQLite draws the salts of its log from random numbers that it reads once more now */
	sqlite3_randomness(0, NULL);
}

/* --- the steps at which the controller can be killed --- */

static bool dies(void)
{
	return controller.dies_in_store && task_process() == &controller.process &&
	       sim_fault(controller.dies_in_store);
}

/* SIGKILL in the middle of a step of the database. */
static void die(const char *step)
{
	sim_note(controller.process.name, step, 0, 0, 0);
	controller.died();
	controller_kill();
}

static int on_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 at)
{
	if (dies()) {
		put(file_of(f), bytes, sim_below(n + 1), at);
		die("dies in a write");
	}
	put(file_of(f), bytes, n, at);
	return SQLITE_OK;
}

static int on_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	if (dies())
		die("dies before a truncation");
	resize(file_of(f), size);
	return SQLITE_OK;
}

static int on_sync(sqlite3_file *f, int flags)
{
	if (dies())
		die("dies before a sync");
	return SQLITE_OK;
}

/* --- operations without faults --- */

static int on_close(sqlite3_file *f)
{
	if (!file_of(f)->name[0])
		drop(file_of(f));
	return SQLITE_OK;
}

static int on_read(sqlite3_file *f, void *bytes, int n, sqlite3_int64 at)
{
	const struct disk_file *file = file_of(f);
	const sqlite3_int64 there = at < file->size ? file->size - at : 0;

	if (there >= n) {
		memcpy(bytes, file->bytes + at, n);
		return SQLITE_OK;
	}
	if (there)
		memcpy(bytes, file->bytes + at, there);
	memset((uint8_t *)bytes + there, 0, n - there);
	return SQLITE_IOERR_SHORT_READ;
}

static int on_size(sqlite3_file *f, sqlite3_int64 *size)
{
	*size = file_of(f)->size;
	return SQLITE_OK;
}

/* One controller at a time runs, so no other process can hold the lock. */
static int on_lock(sqlite3_file *f, int level)
{
	return SQLITE_OK;
}

static int on_reserved(sqlite3_file *f, int *out)
{
	*out = 0;
	return SQLITE_OK;
}

static int on_control(sqlite3_file *f, int op, void *arg)
{
	return SQLITE_NOTFOUND;
}

static int on_sector(sqlite3_file *f)
{
	return 4096;
}

static int on_device(sqlite3_file *f)
{
	return 0;
}

/* Methods of version 1 have no memory shared between processes, which a database in exclusive mode
 * does not need. */
static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = on_close,
	.xRead = on_read,
	.xWrite = on_write,
	.xTruncate = on_truncate,
	.xSync = on_sync,
	.xFileSize = on_size,
	.xLock = on_lock,
	.xUnlock = on_lock,
	.xCheckReservedLock = on_reserved,
	.xFileControl = on_control,
	.xSectorSize = on_sector,
	.xDeviceCharacteristics = on_device,
};

/* --- the disk --- */

static int on_open(sqlite3_vfs *v, sqlite3_filename name, sqlite3_file *f, int flags, int *out)
{
	struct handle *handle = (struct handle *)f;

	*handle = (struct handle){.file = name ? find(name) : NULL};
	if (!handle->file)
		handle->file = make(name ?: "");
	handle->base.pMethods = &methods;
	if (out)
		*out = flags;
	return SQLITE_OK;
}

static int on_delete(sqlite3_vfs *v, const char *name, int sync)
{
	if (dies())
		die("dies before a file is deleted");
	if (!find(name))
		return SQLITE_IOERR_DELETE_NOENT;
	drop(find(name));
	return SQLITE_OK;
}

static int on_access(sqlite3_vfs *v, const char *name, int flags, int *out)
{
	*out = find(name) != NULL;
	return SQLITE_OK;
}

static int on_path(sqlite3_vfs *v, const char *name, int n, char *out)
{
	sqlite3_snprintf(n, out, "%s", name);
	return SQLITE_OK;
}

/* The bytes need not differ between runs, because no number of a run follows from them. */
static int on_randomness(sqlite3_vfs *v, int n, char *out)
{
	memset(out, 1, n);
	return n;
}

static int on_sleep(sqlite3_vfs *v, int us)
{
	return us;
}

static int on_time(sqlite3_vfs *v, double *days)
{
	*days = 0;
	return SQLITE_OK;
}

static int on_last_error(sqlite3_vfs *v, int n, char *out)
{
	return 0;
}

static sqlite3_vfs vfs = {
	.iVersion = 1,
	.szOsFile = sizeof(struct handle),
	.mxPathname = NAME_MOST,
	.zName = "simulation",
	.xOpen = on_open,
	.xDelete = on_delete,
	.xAccess = on_access,
	.xFullPathname = on_path,
	.xRandomness = on_randomness,
	.xSleep = on_sleep,
	.xCurrentTime = on_time,
	.xGetLastError = on_last_error,
};

/* --- memory --- */

/* SQLite wants to know the size of a piece, so each piece has it in front. */
union head {
	size_t size;
	max_align_t align;
};

static void *allocate(int size)
{
	union head *h = memory_allocate(sizeof(*h) + size);

	if (!h)
		return NULL;
	h->size = size;
	return h + 1;
}

static int size_of(void *at)
{
	return at ? (int)((union head *)at)[-1].size : 0;
}

static void release(void *at)
{
	if (at)
		memory_release((union head *)at - 1);
}

static void *reallocate(void *old, int size)
{
	void *at = allocate(size);

	if (!at)
		return NULL;
	memcpy(at, old, size_of(old) < size ? size_of(old) : size);
	release(old);
	return at;
}

static int round_up(int size)
{
	return (size + 7) & ~7;
}

static int start(void *arg)
{
	return SQLITE_OK;
}

static void stop(void *arg)
{
}

void database_open(void)
{
	static const sqlite3_mem_methods memory = {
		.xMalloc = allocate,
		.xFree = release,
		.xRealloc = reallocate,
		.xSize = size_of,
		.xRoundup = round_up,
		.xInit = start,
		.xShutdown = stop,
	};

	/* SQLite's own figures of memory would go on counting what a killed process has had */
	sim_require(!sqlite3_config(SQLITE_CONFIG_MALLOC, &memory) &&
			    !sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) && !sqlite3_initialize() &&
			    !sqlite3_vfs_register(&vfs, 1),
		    "SQLite does not accept the simulation's memory and disk");
}

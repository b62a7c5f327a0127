/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A failing disk, which is linked into a controller (inc-controller-fault). It stands between
 * SQLite and the real files. Before each step that changes a file (write, truncate, sync) it reads
 * the file FILE.fault beside the database FILE:
 *
 * 	kill N   SIGKILL in the middle of the N-th step of this process: half of a write is done
 * 	full     no write is possible, because the disk is full
 * 	broken   no write is possible, because of errors
 *
 * Without that file the disk works. At its end the process writes its number of steps to
 * FILE.steps. All of this runs on the controller's only thread.
 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sqlite3.h>

struct file {
	sqlite3_file base;
	sqlite3_file *real;
};

static sqlite3_vfs *real_vfs, vfs;
static unsigned int steps;
static char database[PATH_MAX];

static void path_of(char path[PATH_MAX + 8], const char *suffix)
{
	snprintf(path, PATH_MAX + 8, "%s.%s", database, suffix);
}

static sqlite3_file *real_of(sqlite3_file *f)
{
	return ((struct file *)f)->real;
}

/* Decides how this step ends: with SQLITE_OK the step is carried out. *now: the process is killed
 * in this step. */
static int step(int *now)
{
	char path[PATH_MAX + 8], word[16] = "";
	unsigned int n = 0;
	FILE *f;

	steps++;
	*now = 0;
	path_of(path, "fault");
	f = fopen(path, "r");
	if (!f)
		return SQLITE_OK;
	if (fscanf(f, "%15s %u", word, &n) < 1)
		word[0] = '\0';
	fclose(f);
	*now = !strcmp(word, "kill") && n == steps;
	return !strcmp(word, "full")     ? SQLITE_FULL
	       : !strcmp(word, "broken") ? SQLITE_IOERR_WRITE
					 : SQLITE_OK;
}

static int on_close(sqlite3_file *f)
{
	sqlite3_file *real = real_of(f);
	int ret = real->pMethods->xClose(real);

	free(real);
	return ret;
}

static int on_read(sqlite3_file *f, void *buf, int n, sqlite3_int64 at)
{
	return real_of(f)->pMethods->xRead(real_of(f), buf, n, at);
}

static int on_write(sqlite3_file *f, const void *buf, int n, sqlite3_int64 at)
{
	int now, ret = step(&now);

	if (now) {
		real_of(f)->pMethods->xWrite(real_of(f), buf, n / 2, at);
		raise(SIGKILL);
	}
	return ret ? ret : real_of(f)->pMethods->xWrite(real_of(f), buf, n, at);
}

static int on_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	int now, ret = step(&now);

	if (now)
		raise(SIGKILL);
	return ret == SQLITE_IOERR_WRITE ? ret : real_of(f)->pMethods->xTruncate(real_of(f), size);
}

static int on_sync(sqlite3_file *f, int flags)
{
	int now, ret = step(&now);

	if (now)
		raise(SIGKILL);
	return ret == SQLITE_IOERR_WRITE ? ret : real_of(f)->pMethods->xSync(real_of(f), flags);
}

static int on_size(sqlite3_file *f, sqlite3_int64 *size)
{
	return real_of(f)->pMethods->xFileSize(real_of(f), size);
}

static int on_lock(sqlite3_file *f, int level)
{
	return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int on_unlock(sqlite3_file *f, int level)
{
	return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int on_reserved(sqlite3_file *f, int *out)
{
	return real_of(f)->pMethods->xCheckReservedLock(real_of(f), out);
}

static int on_control(sqlite3_file *f, int op, void *arg)
{
	return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int on_sector(sqlite3_file *f)
{
	return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int on_device(sqlite3_file *f)
{
	return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
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
	.xUnlock = on_unlock,
	.xCheckReservedLock = on_reserved,
	.xFileControl = on_control,
	.xSectorSize = on_sector,
	.xDeviceCharacteristics = on_device,
};

static int on_open(sqlite3_vfs *v, sqlite3_filename name, sqlite3_file *f, int flags, int *out)
{
	struct file *file = (struct file *)f;
	int ret;

	f->pMethods = NULL;
	file->real = calloc(1, real_vfs->szOsFile);
	if (!file->real)
		return SQLITE_NOMEM;
	if (name && flags & SQLITE_OPEN_MAIN_DB)
		snprintf(database, sizeof(database), "%s", name);
	ret = real_vfs->xOpen(real_vfs, name, file->real, flags, out);
	if (ret)
		free(file->real);
	else
		f->pMethods = &methods;
	return ret;
}

static void at_end(void)
{
	char path[PATH_MAX + 8];
	FILE *f;

	path_of(path, "steps");
	f = *database ? fopen(path, "w") : NULL;
	if (!f)
		return;
	fprintf(f, "%u\n", steps);
	fclose(f);
}

__attribute__((constructor)) static void take_place(void)
{
	if (sqlite3_initialize())
		abort();
	real_vfs = sqlite3_vfs_find(NULL);
	vfs = *real_vfs;
	vfs.zName = "fault";
	vfs.szOsFile = sizeof(struct file);
	vfs.pNext = NULL;
	vfs.xOpen = on_open;
	if (sqlite3_vfs_register(&vfs, 1))
		abort();
	atexit(at_end);
}

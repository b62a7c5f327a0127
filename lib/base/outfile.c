/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "lib/base/outfile.h"

static int fail(const char *path, int code, struct inc_err *err)
{
	return inc_err_set(err, code, "%s: %s", path, strerror(code));
}

/* Fills in the path of the output file. If that is a new or a regular file, fills in the path of
 * the temporary file as well. */
static int resolve(struct inc_outfile *out, const char *path, struct inc_err *err)
{
	struct stat st, link;

	memset(out, 0, sizeof(*out));
	if (stat(path, &st)) {
		if (errno != ENOENT)
			return fail(path, errno, err);
		if (!lstat(path, &link))
			return inc_err_set(err, ENOENT, "%s: a link to nothing", path);
		out->path = strdup(path);
	} else if (S_ISREG(st.st_mode)) {
		out->path = realpath(path, NULL);
		out->replaces = true;
		out->mode = st.st_mode & 0777;
		out->uid = st.st_uid;
		out->gid = st.st_gid;
		/* check that the old file may be written, because rename() checks only the
		 * permissions of the directory */
		if (out->path && faccessat(AT_FDCWD, out->path, W_OK, AT_EACCESS))
			return fail(path, errno, err);
	} else if (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode)) {
		out->path = strdup(path);
		return out->path ? 0 : fail(path, ENOMEM, err);
	} else {
		return S_ISDIR(st.st_mode)
			       ? fail(path, EISDIR, err)
			       : inc_err_set(err, EINVAL,
					     "%s: neither a file nor a FIFO or character device",
					     path);
	}
	if (!out->path)
		return fail(path, errno, err);
	if (asprintf(&out->temp, "%s.XXXXXX", out->path) < 0) {
		out->temp = NULL;
		return fail(path, ENOMEM, err);
	}
	return 0;
}

static void release(struct inc_outfile *out)
{
	free(out->path);
	free(out->temp);
	memset(out, 0, sizeof(*out));
}

int inc_outfile_check(const char *path, struct inc_err *err)
{
	struct inc_outfile out;
	int ret = resolve(&out, path, err);

	/* a file that is replaced needs a directory in which a new one may be made; dirname()
	 * changes its argument */
	if (!ret && faccessat(AT_FDCWD, out.temp ? dirname(out.temp) : out.path, W_OK, AT_EACCESS))
		ret = fail(path, errno, err);
	release(&out);
	return ret;
}

int inc_outfile_open(struct inc_outfile *out, const char *path, struct inc_err *err)
{
	int ret = resolve(out, path, err), fd;

	if (ret)
		goto release;
	fd = out->temp ? mkostemp(out->temp, O_CLOEXEC) : open(out->path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		ret = fail(path, errno, err);
		goto release;
	}
	out->f = fdopen(fd, "w");
	if (out->f) {
		errno = 0;
		return 0;
	}
	ret = fail(path, errno, err);
	close(fd);
	if (out->temp)
		unlink(out->temp);
release:
	release(out);
	return ret;
}

/* Gives the new file the owner and the permissions of the file that it replaces, or those of a new
 * file. */
static int set_mode(const struct inc_outfile *out)
{
	mode_t mask = umask(0), mode = out->mode;

	umask(mask);
	if (!out->replaces)
		mode = 0666 & ~mask;
	else if (fchown(fileno(out->f), out->uid, out->gid))
		/* the new file could not get the old file's owner and group, so only its owner
		 * keeps permissions */
		mode &= 0700;
	return fchmod(fileno(out->f), mode) ? -errno : 0;
}

int inc_outfile_close(struct inc_outfile *out, bool keep, struct inc_err *err)
{
	int ret = 0;

	/* errno is the reason if a write to the file has failed, because it was set to 0 when the
	 * file was opened */
	if (keep && (ferror(out->f) || fflush(out->f)))
		ret = errno ? -errno : -EIO;
	if (keep && !ret && out->temp) {
		ret = set_mode(out);
		if (!ret && fsync(fileno(out->f)))
			ret = -errno;
	}
	if (fclose(out->f) && keep && !ret)
		ret = -errno;
	if (keep && !ret && out->temp && rename(out->temp, out->path))
		ret = -errno;
	if (out->temp && (ret || !keep))
		unlink(out->temp);
	if (ret)
		fail(out->path, -ret, err);
	release(out);
	return ret;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the owner of a port that is in use, and the command that frees it. If a bpf_link holds a
 * program, only the link's end detaches the program. The command `ip link set xdp off` has no
 * effect on it, and a pinned link outlives its process.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "loader/inc_loader_priv.h"

/* Returns the id of a link, by its descriptor, if the link holds this XDP program on the interface.
 * Otherwise returns 0. */
static uint32_t link_id_of(int fd, uint32_t ifindex, uint32_t prog_id)
{
	struct bpf_link_info info = {};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.type != BPF_LINK_TYPE_XDP ||
	    info.xdp.ifindex != ifindex || info.prog_id != prog_id)
		return 0;
	return info.id;
}

static uint32_t find_link(uint32_t ifindex, uint32_t prog_id)
{
	uint32_t id = 0, found = 0;
	int fd;

	while (!found && !bpf_link_get_next_id(id, &id)) {
		fd = bpf_link_get_fd_by_id(id);
		if (fd < 0)
			continue;
		found = link_id_of(fd, ifindex, prog_id);
		close(fd);
	}
	return found;
}

/* Finds the instance whose pins include the link that holds the program on the interface. Returns
 * false if no instance whose pins are visible here has it. */
static bool find_instance(uint32_t ifindex, uint32_t prog_id, char name[INC_INSTANCE_LEN])
{
	char path[PATH_MAX];
	bool found = false;
	struct dirent *e;
	int fd;
	DIR *d;

	d = opendir(INC_PIN_ROOT);
	while (d && !found && (e = readdir(d))) {
		if (strlen(e->d_name) >= INC_INSTANCE_LEN)
			continue;
		snprintf(path, sizeof(path), "%s/%s/link_%u", INC_PIN_ROOT, e->d_name, ifindex);
		fd = bpf_obj_get(path);
		if (fd < 0)
			continue;
		found = link_id_of(fd, ifindex, prog_id);
		strcpy(name, e->d_name);
		close(fd);
	}
	if (d)
		closedir(d);
	return found;
}

/* The process that holds the instance's lock. 0: no process holds it. */
static int find_process(const char *instance)
{
	char path[PATH_MAX], text[32] = "";
	int fd, pid = 0;

	snprintf(path, sizeof(path), INC_LOCK_PATH, instance);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (flock(fd, LOCK_SH | LOCK_NB) && read(fd, text, sizeof(text) - 1) > 0)
		sscanf(text, "%d", &pid);
	close(fd);
	return pid;
}

int inc_taken_error(uint32_t ifindex, const char *ifname, const char *prog, uint32_t prog_id,
		    bool generic, struct inc_err *err)
{
	uint32_t link = find_link(ifindex, prog_id);
	char instance[INC_INSTANCE_LEN];
	int pid;

	if (!link)
		return inc_err_set(
			err, EBUSY,
			"interface %s is taken by XDP program '%s' (id %u), which was not "
			"attached through libxdp: detach it first (ip link set dev %s %s "
			"off)",
			ifname, prog, prog_id, ifname, generic ? "xdpgeneric" : "xdpdrv");
	if (!find_instance(ifindex, prog_id, instance))
		return inc_err_set(err, EBUSY,
				   "interface %s is taken by XDP program '%s' (id %u), which a "
				   "bpf_link holds whose owner cannot be found from here: stop its "
				   "program, or detach it (bpftool link detach id %u)",
				   ifname, prog, prog_id, link);
	pid = find_process(instance);
	if (pid)
		return inc_err_set(err, EBUSY,
				   "interface %s is taken by the switch of instance '%s': stop it "
				   "first (kill %d)",
				   ifname, instance, pid);
	return inc_err_set(err, EBUSY,
			   "interface %s is taken by what the switch of instance '%s' left when it "
			   "died: start it again, or remove its pins (rm -r %s/%s)",
			   ifname, instance, INC_PIN_ROOT, instance);
}

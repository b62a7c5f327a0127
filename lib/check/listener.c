/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds out which programs have the UDP and TCP ports that the product uses (inspect.h). */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/check/inspect.h"
#include "lib/net/hostport.h"
#include "lib/proto/roce.h"

#define TCP_LISTENS 0x0a /* the state as /proc/net/tcp prints it */

/* Returns the inode of a socket with the port that the table lists; 0: none. */
static unsigned long inode_in(const char *table, bool udp, uint16_t port)
{
	unsigned int own_port, state;
	unsigned long inode = 0, found = 0;
	FILE *file = fopen(table, "re");
	char line[512];

	while (file && !found && fgets(line, sizeof(line), file))
		if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %lu",
			   &own_port, &state, &inode) == 3 &&
		    own_port == port && (udp || state == TCP_LISTENS))
			found = inode ?: 1;
	if (file)
		fclose(file);
	return found;
}

/* Whether a process has a descriptor of the socket, whose link has this text. */
static bool has_socket(const char *pid, const char *text)
{
	char path[320], target[64];
	bool found = false;
	struct dirent *e;
	ssize_t n;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%.20s/fd/%.255s", pid, e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		found = !strcmp(target, text);
	}
	if (dir)
		closedir(dir);
	return found;
}

static void find_owner(unsigned long inode, struct inc_listener *out)
{
	char text[64], path[320];
	struct dirent *e;
	DIR *proc = opendir("/proc");
	FILE *file;

	snprintf(text, sizeof(text), "socket:[%lu]", inode);
	while (proc && !out->pid && (e = readdir(proc)))
		if (isdigit((unsigned char)e->d_name[0]) && has_socket(e->d_name, text))
			out->pid = strtoul(e->d_name, NULL, 10);
	if (proc)
		closedir(proc);
	if (!out->pid)
		return;
	snprintf(path, sizeof(path), "/proc/%u/comm", out->pid);
	file = fopen(path, "re");
	if (file && fgets(out->program, sizeof(out->program), file))
		out->program[strcspn(out->program, "\n")] = '\0';
	if (file)
		fclose(file);
}

void inc_listener_find(bool udp, uint16_t port, struct inc_listener *out)
{
	unsigned long inode;

	*out = (struct inc_listener){};
	inode = inode_in(udp ? "/proc/thread-self/net/udp" : "/proc/thread-self/net/tcp", udp,
			 port);
	if (!inode)
		inode = inode_in(udp ? "/proc/thread-self/net/udp6" : "/proc/thread-self/net/tcp6",
				 udp, port);
	out->found = inode;
	if (inode)
		find_owner(inode, out);
}

static const struct use {
	bool udp;
	uint16_t port;
	const char *item;
	const char *users[3]; /* the programs that the port is meant for */
	const char *effect, *fix;
} uses[] = {
	{true,
	 INC_ROCE_UDP_PORT,
	 "udp",
	 {"inc-switchd", "inccl-"},
	 "Soft ends here use other ports, to which RDMA devices cannot send.",
	 "stop that program"},
	{false,
	 INC_PORT_MEMBERS,
	 "tcp",
	 {"inc-controller"},
	 "inc-controller cannot start here with its default port for members.",
	 "stop that program, or start inc-controller with --member-port"},
	{false,
	 INC_PORT_SWITCHES,
	 "tcp",
	 {"inc-controller"},
	 "inc-controller cannot start here with its default port for switches.",
	 "stop that program, or start inc-controller with --switch-port"},
};

static void judge(struct inc_findings *f, const struct use *use, const struct inc_listener *l)
{
	const char *const *user = use->users;
	char where[16];

	snprintf(where, sizeof(where), "port %u", use->port);
	if (!l->found) {
		inc_find(f, INC_FINDING_OK, where, use->item, "free");
		return;
	}
	while (*user && strncmp(l->program, *user, strlen(*user)) != 0)
		user++;
	if (l->pid && *user)
		inc_find(f, INC_FINDING_OK, where, use->item, "%s (process %u) has it", l->program,
			 l->pid);
	else if (l->pid)
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, where, use->item,
				      "%s (process %u) has it", l->program, l->pid),
			     use->effect, "%s", use->fix);
	else if (use->udp && !geteuid())
		/* sockets of the kernel belong to no process */
		inc_find(f, INC_FINDING_OK, where, use->item, "the kernel has it (rxe)");
	else
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, where, use->item,
				      "a program that is not visible from here has it"),
			     use->effect, "%s (as root: ss -lnptu sport = :%u)", use->fix,
			     use->port);
}

void inc_inspect_listeners(struct inc_findings *f)
{
	struct inc_listener listener;
	size_t i;

	for (i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
		inc_listener_find(uses[i].udp, uses[i].port, &listener);
		judge(f, &uses[i], &listener);
	}
}

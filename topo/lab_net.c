// SPDX-License-Identifier: BSD-2-Clause
/* Makes namespaces, links, addresses and routes, through ip(8) in batches. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <linux/ethtool.h>
#include <linux/if_bridge.h>
#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "lib/net/hostport.h"
#include "lib/net/netdev.h"
#include "topo/lab.h"

/* Reads the end of a file, and makes one line of it. */
static void tail(int fd, char *out, size_t size)
{
	off_t end = lseek(fd, 0, SEEK_END);
	ssize_t n;

	out[0] = 0;
	if (end <= 0)
		return;
	n = pread(fd, out, size - 1, end > (off_t)size - 1 ? end - (off_t)size + 1 : 0);
	if (n < 0)
		n = 0;
	while (n && (out[n - 1] == '\n' || out[n - 1] == ' '))
		n--;
	out[n] = 0;
	for (ssize_t i = 0; i < n; i++)
		if (out[i] == '\n')
			out[i] = ';';
}

/* Starts a helper program whose input and output are these files. Returns 0 or an errno code. It
 * does not fork, because a copy of the page tables of inc-lab costs more than a helper's work. */
static int spawn(char *const argv[], int in, int out, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int ret = posix_spawn_file_actions_init(&files);

	if (ret)
		return ret;
	ret = posix_spawnattr_init(&attributes);
	if (ret)
		goto out;
	/* the helper program gets a process group of its own, so that Ctrl-C reaches only inc-lab,
	 * which then undoes the lab */
	ret = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP)
		      ?: posix_spawn_file_actions_adddup2(&files, in, 0)
		      ?: posix_spawn_file_actions_adddup2(&files, out, 1)
		      ?: posix_spawn_file_actions_adddup2(&files, out, 2)
		      ?: posix_spawnp(pid, argv[0], &files, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
out:
	posix_spawn_file_actions_destroy(&files);
	return ret;
}

/* Runs a program to its end, with text as its input. If it fails, returns -EIO with the end of its
 * output. */
static int run_command(char *const argv[], const char *text, struct inc_err *err)
{
	int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
	char words[300];
	int status, ret = 0;
	pid_t pid;

	if (in < 0 || out < 0 || write(in, text, strlen(text)) != (ssize_t)strlen(text)) {
		ret = inc_err_set(err, errno, "memfd: %s", strerror(errno));
		goto out;
	}
	lseek(in, 0, SEEK_SET);
	ret = spawn(argv, in, out, &pid);
	if (ret) {
		ret = inc_err_set(err, ret, "%s: %s", argv[0], strerror(ret));
		goto out;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		tail(out, words, sizeof(words));
		ret = inc_err_set(err, EIO, "%s failed: %s", argv[0], words);
	}
out:
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return ret;
}

/* A growing text of commands for ip(8), which runs them at once. */
struct batch {
	char *text; /* the text, owned */
	size_t len;
	FILE *f;
};

static int batch_open(struct batch *b, struct inc_err *err)
{
	b->f = open_memstream(&b->text, &b->len);
	return b->f ? 0 : inc_err_set(err, ENOMEM, "out of memory");
}

/* Runs the batch in a namespace and frees the batch. netns NULL: the present namespace. */
static int batch_run(struct batch *b, const char *netns, struct inc_err *err)
{
	char *in_ns[] = {"ip", "-n", (char *)netns, "-batch", "-", NULL};
	char *here[] = {"ip", "-batch", "-", NULL};
	int ret;

	fclose(b->f);
	ret = run_command(netns ? in_ns : here, b->text, err);
	free(b->text);
	return ret;
}

static int write_file(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* Turns GRO (generic receive offload) of a veth on or off. GRO turns on NAPI, which the veth needs
 * to receive redirected frames. */
static int set_gro(const char *ifname, bool on)
{
	struct ethtool_value gro = {.cmd = ETHTOOL_SGRO, .data = on};

	return inc_interface_ask_driver(ifname, &gro) ? -EOPNOTSUPP : 0;
}

/* Turns these offloads (ETH_FLAG_*) of an interface off. */
static int clear_flags(const char *ifname, uint32_t flags)
{
	struct ethtool_value value = {.cmd = ETHTOOL_GFLAGS};

	if (inc_interface_ask_driver(ifname, &value))
		return -EOPNOTSUPP;
	value.cmd = ETHTOOL_SFLAGS;
	value.data &= ~flags;
	return inc_interface_ask_driver(ifname, &value) ? -EOPNOTSUPP : 0;
}

/* Writes commands for the veth pairs, each end made in its namespace. Each end has n queues. If it
 * has one, one CPU at a time serves it. */
static void write_links(const struct lab *lab, unsigned int n, FILE *f)
{
	char queues[64];

	snprintf(queues, sizeof(queues), "numtxqueues %u numrxqueues %u", n, n);
	for (unsigned int i = 0; i < lab->n_nodes; i++)
		if (lab->nodes[i].role == LAB_HOST || lab->nodes[i].role == LAB_SWITCH)
			fprintf(f,
				"link add name mgmt0 netns %s type veth peer name n%u netns %s\n",
				lab->nodes[i].netns, i, lab->nodes[0].netns);
	for (unsigned int i = 0; i < lab->n_links; i++) {
		const struct lab_link *l = &lab->links[i];

		for (int e = 0; e < 2; e++) {
			const struct lab_end *a = &l->end[e], *b = &l->end[!e];

			if (l->wire >= 0)
				fprintf(f,
					"link add name %s netns %s mtu %u %s address %s type veth "
					"peer name %s netns %s mtu %u %s\n",
					a->device, lab->nodes[a->node].netns, l->mtu, queues,
					a->mac, e ? "switch" : "host", lab->nodes[l->wire].netns,
					l->mtu, queues);
			else if (!e)
				fprintf(f,
					"link add name %s netns %s mtu %u %s address %s type veth "
					"peer name %s netns %s mtu %u %s address %s\n",
					a->device, lab->nodes[a->node].netns, l->mtu, queues,
					a->mac, b->device, lab->nodes[b->node].netns, l->mtu,
					queues, b->mac);
		}
	}
}

/* Writes the addresses of one end, and permanent neighbour entries for its neighbours, because a
 * wire could lose ARP packets. */
static void write_end(const struct lab *lab, unsigned int link, const struct lab_end *end, FILE *f)
{
	const unsigned int seg = lab_segment(lab, link);

	if (lab->links[link].vlan)
		fprintf(f, "link set dev %s up\nlink add link %s name %s type vlan id %u\n",
			end->device, end->device, end->ifname, lab->links[link].vlan);
	/* no other node has the address, so the kernel need not look for duplicates for a
	 * second */
	fprintf(f, "addr add %s/%u dev %s%s\nlink set dev %s up\n", lab_ip_text(end->ip),
		lab->links[link].prefix, end->ifname, inc_addr_is_ipv4(end->ip) ? "" : " nodad",
		end->ifname);
	for (unsigned int i = 0; i < lab->n_links; i++) {
		for (int e = 0; e < 2 && lab_segment(lab, i) == seg; e++) {
			const struct lab_end *to = &lab->links[i].end[e];

			if (to != end && lab->nodes[to->node].role != LAB_BRIDGE)
				fprintf(f, "neigh add %s lladdr %s dev %s nud permanent\n",
					lab_ip_text(to->ip), to->mac, end->ifname);
		}
	}
}

static void write_ends(const struct lab *lab, unsigned int node, FILE *f)
{
	for (unsigned int i = 0; i < lab->n_links; i++) {
		for (int e = 0; e < 2; e++) {
			const struct lab_end *end = &lab->links[i].end[e];

			if (end->node != (int)node)
				continue;
			if (lab->nodes[node].role == LAB_BRIDGE)
				fprintf(f, "link set dev %s master br0 up\n", end->device);
			else
				write_end(lab, i, end, f);
		}
	}
}

/* Whether a cable of the node has an IPv6 address there. */
static bool has_ipv6(const struct lab *lab, unsigned int node)
{
	for (unsigned int i = 0; i < 2 * lab->n_links; i++) {
		const struct lab_end *end = &lab->links[i / 2].end[i % 2];

		if (end->node == (int)node && inc_addr_given(end->ip) && !inc_addr_is_ipv4(end->ip))
			return true;
	}
	return false;
}

static int setup_node(const struct lab *lab, unsigned int i, struct inc_err *err)
{
	const struct lab_node *node = &lab->nodes[i];
	struct batch b;
	int ret, old;

	old = lab_enter(node->netns);
	if (old < 0)
		return inc_err_set(err, -old, "namespace %s: %s", node->netns, strerror(-old));
	/* a node without IPv6 addresses has no IPv6, because its neighbour discovery would disturb
	 * the counters */
	if (!has_ipv6(lab, i)) {
		write_file("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
		write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
	}
	if (node->role == LAB_SWITCH) {
		write_file("/proc/sys/net/ipv4/ip_forward", "1");
		write_file("/proc/sys/net/ipv6/conf/all/forwarding", "1");
	}
	/* Until the controller listens, inc-lab tries to connect to it from here. If the kernel
	 * chose the controller's port as the source, the socket would be connected to itself, and
	 * the controller could not listen. */
	if (node->role == LAB_CONTROLLER)
		write_file("/proc/sys/net/ipv4/ip_local_reserved_ports", INC_STR(INC_PORT_MEMBERS));
	lab_leave(old);

	ret = batch_open(&b, err);
	if (ret)
		return ret;
	fprintf(b.f, "link set lo up\n");
	if (node->role == LAB_CONTROLLER) {
		fprintf(b.f, "link add br0 type bridge\nlink set br0 up\naddr add %s/24 dev br0\n",
			lab_ip_text(inc_addr_of_in(node->mgmt)));
		for (unsigned int n = 0; n < lab->n_nodes; n++)
			if (lab->nodes[n].role == LAB_HOST || lab->nodes[n].role == LAB_SWITCH)
				fprintf(b.f, "link set n%u master br0 up\n", n);
	} else if (node->role == LAB_WIRE) {
		fprintf(b.f, "link set host up\nlink set switch up\n");
	} else if (node->role == LAB_BRIDGE) {
		fprintf(b.f, "link add br0 type bridge\nlink set br0 up\n");
	} else {
		fprintf(b.f, "addr add %s/24 dev mgmt0\nlink set mgmt0 up\n",
			lab_ip_text(inc_addr_of_in(node->mgmt)));
	}
	write_ends(lab, i, b.f);
	if (node->role == LAB_HOST || node->role == LAB_SWITCH)
		lab_write_routes(lab, i, b.f);
	return batch_run(&b, node->netns, err);
}

bool lab_netns_exists(const char *netns)
{
	char path[LAB_NS_MAX + 16];

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	return !access(path, F_OK);
}

/* The lab owns every namespace that exists afterwards, also if this fails, because the caller holds
 * the lock of the names and has seen that none of them existed. */
int lab_net_namespaces(struct lab *lab, struct inc_err *err)
{
	struct batch b;
	int ret = lab_interrupted ? inc_err_set(err, EINTR, "interrupted") : batch_open(&b, err);

	if (ret)
		return ret;
	for (unsigned int i = 0; i < lab->n_nodes; i++)
		fprintf(b.f, "netns add %s\n", lab->nodes[i].netns);
	ret = batch_run(&b, NULL, err);
	for (unsigned int i = 0; i < lab->n_nodes; i++)
		lab->nodes[i].netns_made = lab_netns_exists(lab->nodes[i].netns);
	return ret;
}

/* Makes a cable's end leave tags in the frames, where XDP programs read them. A veth would
 * otherwise hand them over beside the frames. */
static int keep_tags(const struct lab *lab, const struct lab_end *end, struct inc_err *err)
{
	const char *netns = lab->nodes[end->node].netns;
	int old = lab_enter(netns), ret;

	if (old < 0)
		return inc_err_set(err, -old, "namespace %s: %s", netns, strerror(-old));
	ret = clear_flags(end->device, ETH_FLAG_TXVLAN | ETH_FLAG_RXVLAN);
	lab_leave(old);
	return ret ? inc_err_set(err, -ret, "%s in %s: turning VLAN offloads off: %s", end->device,
				 netns, strerror(-ret))
		   : 0;
}

/* Turns GRO on at an end to which a switch redirects frames. That is the end of a host or bridge,
 * or of another switch, which may have no XDP program there. */
static int turn_gro_on(const struct lab *lab, const struct lab_end *end, struct inc_err *err)
{
	const struct lab_node *node = &lab->nodes[end->node];
	const char *netns = node->netns;
	int old, ret;

	if (node->role != LAB_HOST && node->role != LAB_BRIDGE && !node->mode)
		return 0;
	old = lab_enter(netns);
	if (old < 0)
		return inc_err_set(err, -old, "namespace %s: %s", netns, strerror(-old));
	ret = set_gro(end->device, true);
	lab_leave(old);
	return ret ? inc_err_set(err, -ret, "%s in %s: turning GRO on: %s", end->device, netns,
				 strerror(-ret))
		   : 0;
}

int lab_net_up(struct lab *lab, unsigned int queues, struct inc_err *err)
{
	struct batch b;
	int ret = batch_open(&b, err);

	if (ret)
		return ret;
	write_links(lab, queues, b.f);
	ret = batch_run(&b, NULL, err);
	for (unsigned int i = 0; i < lab->n_nodes && !ret; i++)
		ret = setup_node(lab, i, err);
	for (unsigned int i = 0; i < lab->n_links && !ret; i++) {
		for (int e = 0; e < 2 && !ret; e++)
			ret = turn_gro_on(lab, &lab->links[i].end[e], err);
		for (int e = 0; e < 2 && !ret && lab->links[i].vlan; e++)
			ret = keep_tags(lab, &lab->links[i].end[e], err);
	}
	return ret;
}

int lab_net_forwards(const struct lab_node *bridge, struct inc_err *err)
{
	static char script[] = "for p in /sys/class/net/*/brport; do"
			       " read -r state <$p/state;"
			       " [ $state = $0 ] && continue;"
			       " p=${p%/brport}; echo \"port ${p##*/} does not forward\"; exit 1;"
			       " done";
	/* the script reads the /sys of the namespace, which `ip netns exec` mounts */
	char *argv[] = {"ip", "netns", "exec", (char *)bridge->netns,
			"sh", "-c",    script, INC_STR(BR_STATE_FORWARDING),
			NULL};

	return run_command(argv, "", err);
}

unsigned int lab_net_down(const struct lab *lab)
{
	/* ip goes on after a namespace that it cannot remove */
	char *argv[] = {"ip", "-force", "-batch", "-", NULL};
	unsigned int left = 0;
	struct inc_err err;
	struct batch b;

	if (batch_open(&b, &err)) {
		inc_warn("%s", err.msg);
		return 1;
	}
	for (unsigned int i = 0; i < lab->n_nodes; i++)
		if (lab->nodes[i].netns_made && lab_netns_exists(lab->nodes[i].netns))
			fprintf(b.f, "netns del %s\n", lab->nodes[i].netns);
	fclose(b.f);
	if (b.len && run_command(argv, b.text, &err))
		inc_warn("%s", err.msg);
	free(b.text);
	for (unsigned int i = 0; i < lab->n_nodes; i++)
		left += lab->nodes[i].netns_made && lab_netns_exists(lab->nodes[i].netns);
	return left;
}

/* Finds the pids of the kernel threads of threaded NAPI for an interface name. Interfaces in
 * several namespaces may have the name, so the caller uses only the threads that are new. */
static size_t napi_threads(const char *ifname, pid_t *pids, size_t max)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	char path[64], comm[64], want[32];
	size_t n = 0;

	snprintf(want, sizeof(want), "napi/%s-", ifname);
	while (proc && (e = readdir(proc)) && n < max) {
		pid_t pid = atoi(e->d_name);
		ssize_t len;
		int fd;

		if (pid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		len = read(fd, comm, sizeof(comm) - 1);
		close(fd);
		if (len <= 0)
			continue;
		comm[len] = 0;
		if (!strncmp(comm, want, strlen(want)))
			pids[n++] = pid;
	}
	if (proc)
		closedir(proc);
	return n;
}

static int port_threaded(const char *netns, const char *ifname, int cpu, struct inc_err *err)
{
	/* the command writes to the /sys of the namespace, which `ip netns exec` mounts */
	char path[64], *argv[] = {"ip", "netns",          "exec", (char *)netns, "sh",
				  "-c", "echo 1 >\"$0\"", path,   NULL};
	pid_t before[1024], after[1024];
	size_t n_before, n_after, pinned = 0;
	cpu_set_t set;
	int ret;

	snprintf(path, sizeof(path), "/sys/class/net/%s/threaded", ifname);
	n_before = napi_threads(ifname, before, 1024);
	ret = run_command(argv, "", err);
	if (ret || cpu < 0)
		return ret;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	n_after = napi_threads(ifname, after, 1024);
	for (size_t i = 0; i < n_after; i++) {
		size_t k;

		for (k = 0; k < n_before && before[k] != after[i]; k++)
			;
		if (k < n_before)
			continue;
		if (sched_setaffinity(after[i], sizeof(set), &set))
			return inc_err_set(err, errno, "NAPI thread of %s on CPU %d: %s", ifname,
					   cpu, strerror(errno));
		pinned++;
	}
	if (!pinned)
		return inc_err_set(err, ENOENT, "%s in %s: no NAPI thread appeared", ifname, netns);
	return 0;
}

int lab_napi_threaded(const struct lab *lab, const struct lab_node *node, int cpu,
		      struct inc_err *err)
{
	/* hold a lock, so that one lab at a time turns on threaded NAPI, and new threads belong to
	 * that lab */
	int lock = open(LAB_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC), ret = 0;

	if (lock < 0 || flock(lock, LOCK_EX))
		ret = inc_err_set(err, errno, "%s: %s", LAB_DIR, strerror(errno));
	for (unsigned int i = 0; i < lab->n_links && !ret; i++)
		for (int e = 0; e < 2 && !ret; e++)
			if (&lab->nodes[lab->links[i].end[e].node] == node)
				ret = port_threaded(node->netns, lab->links[i].end[e].device, cpu,
						    err);
	if (lock >= 0)
		close(lock);
	return ret;
}

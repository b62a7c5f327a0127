// SPDX-License-Identifier: BSD-2-Clause
/* Starts daemons in namespaces and programs on one node or under an MPI, sets the environment of
 * programs, and ends processes. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "lib/base/log.h"
#include "topo/lab.h"

#define KILL_GRACE_MS 5000
/* limit of the words of a launcher's command line */
#define LAB_MPI_WORDS 1024

volatile int lab_interrupted;

void lab_find_program(const char *name, char path[PATH_MAX])
{
	/* directories in which programs are searched, relative to that of inc-lab: first as built,
	 * then as installed, with daemons in sbin and libraries in lib */
	static const char *const places[] = {"", "../sbin/", "../bin/", "../lib/"};
	char self[PATH_MAX / 2];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[n > 0 ? n : 0] = 0;
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
		slash[1] = 0;
		snprintf(path, PATH_MAX, "%s%s%s", self, places[i], name);
		if (!access(path, X_OK))
			return;
	}
	/* return the bare name, for which execvp() searches PATH */
	snprintf(path, PATH_MAX, "%s", name);
}

/* Puts the directories of inc-lab and of the daemons in front of PATH, once in this process. Each
 * is put before the one before it, so inc-lab's comes first. The two differ once the programs are
 * installed. */
static void extend_path(void)
{
	static const char *const siblings[] = {"inc-controller", "inc-lab"};
	char text[PATH_MAX + 4096], program[PATH_MAX], *slash;
	static bool extended;

	for (size_t i = 0; i < sizeof(siblings) / sizeof(siblings[0]) && !extended; i++) {
		const char *path = getenv("PATH");

		lab_find_program(siblings[i], program);
		slash = strrchr(program, '/');
		if (!slash)
			continue;
		*slash = 0;
		snprintf(text, sizeof(text), "%s:%s", program, path ? path : "/usr/bin:/bin");
		setenv("PATH", text, 1);
	}
	extended = true;
}

void lab_set_env(const struct lab *lab, const struct lab_node *host, int rank, int size,
		 const char *job)
{
	char text[PATH_MAX], addr[INC_ADDR_TEXT];

	inet_ntop(AF_INET, &lab->nodes[0].mgmt, addr, sizeof(addr));
	setenv("INCCL_CONTROLLER", addr, 1);
	setenv("INC_LAB", lab->name, 1);
	if (lab_has_keys(lab)) {
		lab_key_path(lab, host ?: &lab->nodes[0], text);
		setenv("INCCL_KEY", text, 1);
	} else {
		unsetenv("INCCL_KEY");
	}
	extend_path();
	if (!host)
		return;
	inc_addr_text(host->addr, addr);
	/* a rank that is given an address uses no other NIC of its host */
	if (host->has_rails)
		unsetenv("INCCL_ADDR");
	else
		setenv("INCCL_ADDR", addr, 1);
	snprintf(text, sizeof(text), "%d", rank);
	setenv("INCCL_RANK", text, 1);
	snprintf(text, sizeof(text), "%d", size);
	setenv("INCCL_WORLD_SIZE", text, 1);
	if (job)
		setenv("INCCL_JOB", job, 1);
}

int lab_join(const char *netns)
{
	char path[LAB_NS_MAX + 16];
	int fd, ret = 0;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (setns(fd, CLONE_NEWNET))
		ret = -errno;
	close(fd);
	return ret;
}

int lab_enter(const char *netns)
{
	int old = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), ret;

	if (old < 0)
		return -errno;
	ret = lab_join(netns);
	if (ret) {
		close(old);
		return ret;
	}
	return old;
}

void lab_leave(int fd)
{
	if (setns(fd, CLONE_NEWNET))
		/* end the program, because every later step would change the wrong namespace */
		abort();
	close(fd);
}

int lab_be_mpi_host(const struct lab_node *host)
{
	int ret = lab_join(host->netns);

	if (ret)
		return ret;
	return unshare(CLONE_NEWUTS) || sethostname(host->name, strlen(host->name)) ? -errno : 0;
}

void lab_unset_rank(bool no_switch)
{
	unsetenv("INCCL_RANK");
	unsetenv("INCCL_WORLD_SIZE");
	unsetenv("INCCL_JOB");
	if (no_switch)
		unsetenv("INCCL_CONTROLLER");
}

int lab_exec(struct lab *lab, const char *name, char *const argv[], struct inc_err *err)
{
	const struct lab_node *node = lab_find(lab, name);
	int ret;

	if (!node)
		return inc_err_set(err, ENOENT, "lab %s has no node %s (see inc-lab status)",
				   lab->name, name);
	ret = lab_join(node->netns);
	if (ret)
		return inc_err_set(err, -ret, "namespace %s: %s", node->netns, strerror(-ret));
	lab_set_env(lab, node->role == LAB_HOST ? node : NULL, node->rank, lab_hosts(lab), NULL);
	execvp(argv[0], argv);
	return inc_err_set(err, errno, "%s: %s", argv[0], strerror(errno));
}

/* Returns the address by which MPI's launchers know a host. They read "ADDRESS:RANKS", so they get
 * the management address in place of an IPv6 address. */
static struct inc_addr launcher_address(const struct lab_node *host)
{
	return inc_addr_is_ipv4(host->addr) ? host->addr : inc_addr_of_in(host->mgmt);
}

int lab_agent(struct lab *lab, const char *host, bool no_switch, char *const argv[],
	      struct inc_err *err)
{
	const struct lab_node *node = NULL;
	char addr[INC_ADDR_TEXT], text[64 << 10];
	size_t n = 0;
	int ret;

	for (unsigned int i = 0; i < lab->n_nodes && !node; i++)
		if (lab->nodes[i].role == LAB_HOST &&
		    (!strcmp(lab->nodes[i].name, host) ||
		     !strcmp(inc_addr_text(launcher_address(&lab->nodes[i]), addr), host)))
			node = &lab->nodes[i];
	if (!node)
		return inc_err_set(err, ENOENT, "lab %s has no host %s (see inc-lab status)",
				   lab->name, host);
	lab_set_env(lab, node, node->rank, lab_hosts(lab), NULL);
	lab_unset_rank(no_switch);
	ret = lab_be_mpi_host(node);
	if (ret)
		return inc_err_set(err, -ret, "namespace %s: %s", node->netns, strerror(-ret));
	/* join the words for a shell, as ssh(1) does on behalf of launchers, which quote for it */
	text[0] = 0;
	for (unsigned int i = 0; argv[i]; i++) {
		n += snprintf(text + n, sizeof(text) - n, "%s%s", i ? " " : "", argv[i]);
		if (n >= sizeof(text))
			return inc_err_set(err, E2BIG, "the command is longer than %zu bytes",
					   sizeof(text));
	}
	execl("/bin/sh", "sh", "-c", text, NULL);
	return inc_err_set(err, errno, "/bin/sh: %s", strerror(errno));
}

/* The command line of a launcher while it grows, and the texts that it needs. */
struct words {
	const char *word[LAB_MPI_WORDS];
	unsigned int n;
	char program[PATH_MAX], agent[PATH_MAX + 64], hosts[LAB_NODES * 32], ranks[16];
	char library[PATH_MAX + 64];
};

/* Adds words up to a NULL. They must live as long as @w. */
static void add(struct words *w, ...)
{
	const char *word;
	va_list args;

	va_start(args, w);
	while ((word = va_arg(args, const char *)) && w->n < LAB_MPI_WORDS - 1)
		w->word[w->n++] = word;
	va_end(args);
}

/* Adds a variable for the ranks, as the text K=V. */
static void add_variable(struct words *w, bool mpich, const char *variable)
{
	const char *value = strchr(variable, '=') + 1;

	if (mpich)
		add(w, "-genv", strndup(variable, value - 1 - variable), value, NULL);
	else
		add(w, "-x", variable, NULL);
}

/* Makes "ADDRESS:RANKS,..." of the first hosts, with up to per_host ranks each. */
static void list_hosts(struct words *w, const struct lab *lab, const struct lab_mpi_options *o)
{
	unsigned int left = o->ranks;
	char addr[INC_ADDR_TEXT];
	size_t n = 0;

	for (unsigned int i = 0; i < lab->n_nodes && left; i++) {
		const unsigned int here = left < o->per_host ? left : o->per_host;

		if (lab->nodes[i].role != LAB_HOST)
			continue;
		n += snprintf(w->hosts + n, sizeof(w->hosts) - n, "%s%s:%u", n ? "," : "",
			      inc_addr_text(launcher_address(&lab->nodes[i]), addr), here);
		left -= here;
	}
}

/* Whether all hosts have IPv4 addresses at eth0. MPI's own messages use the management network
 * otherwise, because Open MPI is mostly built without IPv6. */
static bool has_ipv4(const struct lab *lab)
{
	for (unsigned int i = 0; i < lab->n_nodes; i++) {
		if (lab->nodes[i].role == LAB_HOST && !inc_addr_is_ipv4(lab->nodes[i].addr))
			return false;
	}
	return true;
}

static void add_launcher(struct words *w, const struct lab *lab, const struct lab_mpi_options *o)
{
	snprintf(w->agent, sizeof(w->agent), "%s agent --name %s%s", w->program, lab->name,
		 o->no_switch ? " --no-switch" : "");
	const char *const interface = o->mgmt || !has_ipv4(lab) ? "mgmt0" : "eth0";

	snprintf(w->ranks, sizeof(w->ranks), "%u", o->ranks);
	list_hosts(w, lab, o);
	if (o->mpich) {
		/* hydra puts these words between its program and the host */
		setenv("HYDRA_LAUNCHER_EXTRA_ARGS", w->agent + strlen(w->program) + 1, 1);
		add(w, "mpiexec.hydra", "-launcher", "rsh", "-launcher-exec", w->program, "-iface",
		    interface, "-hosts", w->hosts, "-n", w->ranks, NULL);
		return;
	}
	add(w, access("/usr/bin/mpirun.openmpi", X_OK) ? "mpirun" : "mpirun.openmpi", "--mca",
	    "plm_rsh_agent", w->agent, "--mca", "pml", "ob1", "--mca", "btl", "tcp,vader,self",
	    "--mca", "btl_tcp_if_include", interface, "--mca", "oob_tcp_if_include", interface,
	    NULL);
	/* a waiting rank must not keep its CPU, which ranks of all hosts share; files of a job go
	 * into the directory of the lab, which is removed with the lab */
	add(w, "--mca", "mpi_yield_when_idle", "1", "--mca", "orte_tmpdir_base", lab->dir, "--mca",
	    "btl_vader_backing_directory", lab->dir, "--allow-run-as-root", "--oversubscribe",
	    "--bind-to", "none", "--host", w->hosts, "-np", w->ranks, NULL);
}

/* Adds the variable by which programs find the library for MPI of this build. One that is installed
 * needs none. */
static void add_library(struct words *w, const struct lab_mpi_options *o)
{
	char path[PATH_MAX], *slash;

	lab_find_program(o->mpich       ? "libinccl-mpich.so"
			 : o->component ? "mca_coll_inccl.so"
					: "libinccl-mpi.so",
			 path);
	slash = strrchr(path, '/');
	if (!slash)
		return;
	if (o->component) {
		*slash = 0;
		snprintf(w->library, sizeof(w->library),
			 "OMPI_MCA_mca_base_component_path=SYS_DEFAULT:%s:USER_DEFAULT", path);
	} else {
		snprintf(w->library, sizeof(w->library), "LD_PRELOAD=%s", path);
	}
	add_variable(w, o->mpich, w->library);
}

int lab_mpirun(struct lab *lab, const struct lab_mpi_options *options,
	       const struct lab_run_options *limits, char *const argv[])
{
	struct lab_run_options run = {.hosts = "0", .only = -1, .no_prefix = true, .mpi = true};
	const unsigned int n_hosts = lab_hosts(lab);
	struct lab_mpi_options o = *options;
	static struct words w;

	if (o.component && o.mpich) {
		inc_usage("--component is for Open MPI, and MPICH has no components");
		return 2;
	}
	o.ranks = o.ranks ?: n_hosts;
	o.per_host = o.per_host ?: n_hosts ? (o.ranks + n_hosts - 1) / n_hosts : 1;
	if (!n_hosts || (o.ranks + o.per_host - 1) / o.per_host > n_hosts) {
		inc_usage("%u ranks, %u per host, do not fit on the %u hosts of lab %s", o.ranks,
			  o.per_host, n_hosts, lab->name);
		return 2;
	}
	lab_find_program("inc-lab", w.program);
	add_launcher(&w, lab, &o);
	if (!o.no_switch)
		add_library(&w, &o);
	for (unsigned int i = 0; i < limits->env.count; i++)
		add_variable(&w, o.mpich, limits->env.text[i]);
	for (unsigned int i = 0; argv[i]; i++)
		add(&w, argv[i], NULL);
	if (w.n == LAB_MPI_WORDS - 1) {
		inc_usage("the command, its variables and the launcher's words are more than %d",
			  LAB_MPI_WORDS - 2);
		return 2;
	}
	run.timeout_s = limits->timeout_s;
	run.no_switch = o.no_switch;
	run.no_addr = o.mpich;
	return lab_run(lab, &run, (char *const *)w.word);
}

static uint64_t start_time(pid_t pid)
{
	char path[32], buf[1024], *p;
	unsigned long long t = 0;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, buf, sizeof(buf) - 1);
		close(fd);
	}
	if (n <= 0)
		return 0;
	buf[n] = 0;
	/* search the last ')', because the name of the process may contain blanks and
	 * parentheses */
	p = strrchr(buf, ')');
	if (!p || p[1] != ' ' || p[2] == 'Z')
		return 0;
	/* behind the name stand the state (field 3) and, further on, the start time (field 22) */
	p += 2;
	for (int i = 3; i < 22 && p; i++)
		p = strchr(p + 1, ' ');
	if (p)
		t = strtoull(p, NULL, 10);
	return t;
}

bool lab_alive(struct lab_node *node)
{
	int status;

	if (!node->pid || node->ended)
		return false;
	/* succeeds only while the lab is made, because only then the process is a child of this
	 * one */
	if (waitpid(node->pid, &status, WNOHANG) == node->pid) {
		node->ended = true;
		node->child_status = status;
		return false;
	}
	return start_time(node->pid) == node->start_time;
}

/* Becomes a daemon of a node. A child of vfork(2) calls this, so it changes no memory of inc-lab
 * but *error, the reason why it cannot. */
static void daemon_main(const struct lab *lab, const struct lab_node *node, char *const argv[],
			int null, int log, volatile int *error)
{
	sigset_t none;

	/* the daemon must not inherit the lock, because it goes on when the lab is made */
	if (lab->lock >= 0)
		fcntl(lab->lock, F_SETFD, FD_CLOEXEC);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	dup2(null, 0);
	dup2(log, 1);
	dup2(log, 2);
	*error = -lab_join(node->netns);
	if (!*error) {
		execvp(argv[0], argv);
		*error = errno;
	}
	_exit(127);
}

int lab_daemon(const struct lab *lab, struct lab_node *node, char *const argv[],
	       struct inc_err *err)
{
	volatile int error = 0;
	char path[PATH_MAX];
	int log, null, ret;
	pid_t pid;

	lab_path(lab, node, "log", path);
	log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (log < 0)
		return inc_err_set(err, errno, "%s: %s", path, strerror(errno));
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0) {
		ret = inc_err_set(err, errno, "%s: %s", node->name, strerror(errno));
		goto out;
	}
	/* no fork(), because a copy of inc-lab's page tables costs more than the rest */
	pid = vfork();
	if (!pid)
		daemon_main(lab, node, argv, null, log, &error);
	if (pid < 0)
		error = errno;
	ret = error ? inc_err_set(err, error, "%s: cannot start %s: %s", node->name, argv[0],
				  strerror(error))
		    : 0;
	if (!ret) {
		node->pid = pid;
		node->start_time = start_time(pid);
		node->ended = false;
	}
	close(null);
out:
	close(log);
	return ret;
}

static int pidfd_open(pid_t pid)
{
	return syscall(SYS_pidfd_open, pid, 0);
}

/* Ends a process and waits for its end. It sends SIGTERM first, then SIGKILL. */
static void end_process(pid_t pid, int grace_ms)
{
	struct pollfd p = {.fd = pidfd_open(pid), .events = POLLIN};

	if (p.fd < 0)
		return;
	if (grace_ms) {
		syscall(SYS_pidfd_send_signal, p.fd, SIGTERM, NULL, 0);
		syscall(SYS_pidfd_send_signal, p.fd, SIGCONT, NULL, 0);
	}
	if (!grace_ms || poll(&p, 1, grace_ms) != 1) {
		if (grace_ms)
			inc_warn("process %d does not end, killing it", pid);
		syscall(SYS_pidfd_send_signal, p.fd, SIGKILL, NULL, 0);
		poll(&p, 1, KILL_GRACE_MS);
	}
	close(p.fd);
	waitpid(pid, NULL, WNOHANG);
}

/* Ends every process in one of the lab's namespaces, even if inc-lab did not start it. Returns the
 * number of these processes. */
static unsigned int kill_in_namespaces(const struct lab *lab, int grace_ms)
{
	ino_t inodes[LAB_NODES];
	unsigned int n = 0;
	struct dirent *e;
	struct stat st, own;
	DIR *proc;

	if (stat("/proc/self/ns/net", &own))
		return 0;

	for (unsigned int i = 0; i < lab->n_nodes; i++) {
		char path[LAB_NS_MAX + 16];

		snprintf(path, sizeof(path), "/run/netns/%s", lab->nodes[i].netns);
		/* the inode is 0 unless a namespace other than ours is mounted on the file, because
		 * only a mounted namespace has the device of namespaces */
		inodes[i] = !lab->nodes[i].netns_made || stat(path, &st) ||
					    st.st_dev != own.st_dev || st.st_ino == own.st_ino
				    ? 0
				    : st.st_ino;
	}
	proc = opendir("/proc");
	while (proc && (e = readdir(proc))) {
		pid_t pid = atoi(e->d_name);
		char path[64];

		if (pid <= 0 || pid == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
		if (stat(path, &st) || st.st_dev != own.st_dev)
			continue;
		for (unsigned int i = 0; i < lab->n_nodes; i++) {
			if (!inodes[i] || inodes[i] != st.st_ino)
				continue;
			end_process(pid, grace_ms);
			n++;
			break;
		}
	}
	if (proc)
		closedir(proc);
	return n;
}

unsigned int lab_kill(struct lab *lab)
{
	unsigned int left;

	/* order in which processes end: switches first, because they remove their pins, then wires
	 * and the controller */
	static const enum lab_role order[] = {LAB_SWITCH, LAB_WIRE, LAB_CONTROLLER};

	for (size_t o = 0; o < sizeof(order) / sizeof(order[0]); o++)
		for (unsigned int i = 0; i < lab->n_nodes; i++)
			if (lab->nodes[i].role == order[o] && lab_alive(&lab->nodes[i]))
				end_process(lab->nodes[i].pid, KILL_GRACE_MS);
	/* processes of `run` and `exec` may be left, and those that a damaged lab file does not
	 * list */
	left = kill_in_namespaces(lab, 1000);
	for (int i = 0; i < 10 && left; i++)
		left = kill_in_namespaces(lab, 0);
	for (unsigned int i = 0; i < lab->n_nodes; i++)
		if (lab_alive(&lab->nodes[i])) {
			inc_warn("%s: process %d does not end", lab->nodes[i].name,
				 lab->nodes[i].pid);
			left++;
		}
	return left;
}

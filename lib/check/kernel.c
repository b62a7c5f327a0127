/* SPDX-License-Identifier: BSD-2-Clause */
/* Examines the kernel, its BPF, the limits of this process, and the clocks (inspect.h). */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zlib.h>
#include "lib/check/inspect.h"

#define BPFFS "/sys/fs/bpf"

/* The oldest kernel on which inc-switchd runs in passthrough mode. */
#define OLDEST_MAJOR 6
#define OLDEST_MINOR 1

/* Descriptors that a controller of a small cluster needs, and a rank with many channels. */
#define FEW_FILES 1024

/* Reads the first line of a file. Returns false if there is none. */
static bool first_line(const char *path, char *line, size_t size)
{
	FILE *file = fopen(path, "re");
	const bool read = file && fgets(line, size, file);

	if (file)
		fclose(file);
	if (read)
		line[strcspn(line, "\n")] = '\0';
	return read;
}

static void inspect_version(struct inc_findings *f, const char *release)
{
	unsigned int major = 0, minor = 0;
	struct inc_finding *bad;

	sscanf(release, "%u.%u", &major, &minor);
	if (major > OLDEST_MAJOR || (major == OLDEST_MAJOR && minor >= OLDEST_MINOR)) {
		inc_find(f, INC_FINDING_OK, "kernel", "version", "Linux %s", release);
		return;
	}
	bad = inc_find(f, INC_FINDING_PROBLEM, "kernel", "version", "Linux %s is older than %d.%d",
		       release, OLDEST_MAJOR, OLDEST_MINOR);
	inc_find_fix(bad, "A switch cannot run in passthrough mode here.",
		     "install Linux %d.%d or newer, or start inc-switchd with --mode termination",
		     OLDEST_MAJOR, OLDEST_MINOR);
}

/* The options of the kernel's configuration that passthrough mode needs. */
static const struct option {
	const char *name, *effect;
	enum inc_finding_level level;
} needed[] = {
	{"CONFIG_BPF_SYSCALL", "No XDP program can be loaded.", INC_FINDING_PROBLEM},
	{"CONFIG_XDP_SOCKETS", "inc-switchd cannot open its slow path (AF_XDP).",
	 INC_FINDING_PROBLEM},
	{"CONFIG_BPF_JIT", "XDP programs are interpreted, which is many times slower.",
	 INC_FINDING_WARNING},
	{"CONFIG_DEBUG_INFO_BTF", "No other XDP program can share a port with the switch.",
	 INC_FINDING_WARNING},
};
#define N_NEEDED (sizeof(needed) / sizeof(needed[0]))

/* Sets has[i] for each needed option that the configuration has. */
static void read_options(gzFile file, bool has[N_NEEDED])
{
	char line[256];
	size_t i;

	while (gzgets(file, line, sizeof(line)))
		for (i = 0; i < N_NEEDED; i++) {
			const size_t n = strlen(needed[i].name);

			if (!strncmp(line, needed[i].name, n) && line[n] == '=')
				has[i] = line[n + 1] != 'n';
		}
}

static void inspect_options(struct inc_findings *f, const char *release)
{
	char path[sizeof("/boot/config-") + sizeof(((struct utsname *)0)->release)];
	bool has[N_NEEDED] = {}, all = true;
	gzFile file = gzopen("/proc/config.gz", "re");
	size_t i;

	snprintf(path, sizeof(path), "/boot/config-%s", release);
	file = file ?: gzopen(path, "re");
	if (!file) {
		inc_find(f, INC_FINDING_SKIPPED, "kernel", "configuration",
			 "neither /proc/config.gz nor %s can be read", path);
		return;
	}
	read_options(file, has);
	gzclose(file);
	for (i = 0; i < N_NEEDED; i++) {
		all &= has[i];
		if (!has[i])
			inc_find_fix(inc_find(f, needed[i].level, "kernel", "configuration",
					      "it was built without %s", needed[i].name),
				     needed[i].effect, "install a kernel with %s=y",
				     needed[i].name);
	}
	if (all)
		inc_find(f, INC_FINDING_OK, "kernel", "configuration",
			 "it has BPF, AF_XDP, a JIT compiler and BTF");
}

static void inspect_jit(struct inc_findings *f)
{
	char line[32];

	/* a kernel that always compiles has no such file */
	if (!first_line("/proc/sys/net/core/bpf_jit_enable", line, sizeof(line)) || atoi(line)) {
		inc_find(f, INC_FINDING_OK, "bpf", "jit", "programs are compiled");
		return;
	}
	inc_find_fix(inc_find(f, INC_FINDING_WARNING, "bpf", "jit", "programs are not compiled"),
		     "XDP programs are interpreted, which is many times slower.",
		     "sysctl -w net.core.bpf_jit_enable=1");
}

void inc_inspect_kernel(struct inc_findings *f)
{
	struct utsname name;

	if (uname(&name))
		return;
	inspect_version(f, name.release);
	inspect_options(f, name.release);
	inspect_jit(f);
}

static const struct capability {
	unsigned int number;
	const char *name;
} capabilities[] = {
	{CAP_NET_ADMIN, "CAP_NET_ADMIN"},
	{CAP_NET_RAW, "CAP_NET_RAW"},
	{CAP_BPF, "CAP_BPF"},
	{CAP_PERFMON, "CAP_PERFMON"},
};

/* The effective capabilities of this process, a bit for each. */
static uint64_t own_capabilities(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long bits = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &bits) == 1)
			break;
	if (file)
		fclose(file);
	/* CAP_SYS_ADMIN includes both newer ones */
	if (bits & 1ull << CAP_SYS_ADMIN)
		bits |= 1ull << CAP_BPF | 1ull << CAP_PERFMON;
	return bits;
}

/* Returns false if a capability is missing. */
static bool inspect_capabilities(struct inc_findings *f)
{
	const uint64_t own = own_capabilities();
	char missing[128] = "";
	size_t i, n = 0;

	for (i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++)
		if (!(own & 1ull << capabilities[i].number))
			n += snprintf(missing + n, sizeof(missing) - n, "%s%s", n ? ", " : "",
				      capabilities[i].name);
	if (!n) {
		inc_find(f, INC_FINDING_OK, "bpf", "capabilities",
			 "this process may load and attach XDP programs");
		return true;
	}
	inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, "bpf", "capabilities",
			      "this process lacks %s", missing),
		     "inc-switchd could not start with the same rights, and checks are left out.",
		     "run incctl check and inc-switchd as root");
	return false;
}

int inc_load_instructions(const struct bpf_insn *program, uint32_t n)
{
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_XDP,
		.insns = (uintptr_t)program,
		.insn_cnt = n,
		.license = (uintptr_t) "Dual BSD/GPL",
	};
	const int fd = syscall(__NR_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));

	return fd < 0 ? -errno : fd;
}

/* Loads a program that passes all packets, and closes it again. Returns 0 or -errno. */
static int try_load(void)
{
	const struct bpf_insn program[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	const int fd = inc_load_instructions(program, sizeof(program) / sizeof(program[0]));

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* Whether `ip netns exec` has started this process. It mounts /sys anew, and names the network
 * namespace as the source of that mount. */
static bool is_netns_exec(void)
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	const struct mntent *m;
	char path[PATH_MAX];
	bool is = false;

	while (mounts && (m = getmntent(mounts))) {
		if (strcmp(m->mnt_dir, "/sys") != 0)
			continue;
		snprintf(path, sizeof(path), "/run/netns/%s", m->mnt_fsname);
		is = !access(path, F_OK);
	}
	if (mounts)
		endmntent(mounts);
	return is;
}

bool inc_bpffs_is_private(void)
{
	struct stat own, first;
	struct statfs fs;

	if (is_netns_exec())
		return true;
	if (stat("/proc/self/ns/mnt", &own) || stat("/proc/1/ns/mnt", &first) ||
	    own.st_ino == first.st_ino)
		return false;
	if (statfs(BPFFS, &fs) || (unsigned long)fs.f_type != BPF_FS_MAGIC)
		return true; /* it is going to be mounted here alone */
	return !stat(BPFFS, &own) && !stat("/proc/1/root" BPFFS, &first) &&
	       own.st_dev != first.st_dev;
}

static void inspect_mount(struct inc_findings *f)
{
	struct statfs fs;

	if (inc_bpffs_is_private())
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, "bpf", "mount",
				      "the BPF file system at " BPFFS
				      " is private to this mount namespace"),
			     "If inc-switchd is started here, jobs end when it is upgraded or "
			     "restarted.",
			     "start inc-switchd by nsenter --net=/run/netns/NAME, and not by ip "
			     "netns exec NAME");
	else if (statfs(BPFFS, &fs) || (unsigned long)fs.f_type != BPF_FS_MAGIC)
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, "bpf", "mount",
				      "there is no BPF file system at " BPFFS),
			     "inc-switchd has to mount it, which takes CAP_SYS_ADMIN.",
			     "mount -t bpf bpf " BPFFS);
	else
		inc_find(f, INC_FINDING_OK, "bpf", "mount", "BPF file system at " BPFFS);
}

void inc_inspect_bpf(struct inc_findings *f)
{
	int ret;

	if (inspect_capabilities(f)) {
		ret = try_load();
		if (ret)
			inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, "bpf", "load",
					      "an XDP program cannot be loaded: %s",
					      strerror(-ret)),
				     "A switch cannot run in passthrough mode here.",
				     "use a kernel, container or security policy that permits "
				     "bpf(2), or inc-switchd --mode termination");
		else
			inc_find(f, INC_FINDING_OK, "bpf", "load", "an XDP program can be loaded");
	}
	inspect_mount(f);
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, "bpf", "btf",
				      "/sys/kernel/btf/vmlinux cannot be read"),
			     "No other XDP program can share a port with the switch.",
			     "install a kernel with CONFIG_DEBUG_INFO_BTF=y");
	else
		inc_find(f, INC_FINDING_OK, "bpf", "btf", "the kernel describes its types");
}

static void inspect_memlock(struct inc_findings *f, bool is_switch, bool has_rdma)
{
	const uint64_t own = own_capabilities();
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY)
		inc_find(f, INC_FINDING_OK, "limits", "memlock", "memory may be locked");
	else if (own & (1ull << CAP_SYS_RESOURCE | 1ull << CAP_IPC_LOCK))
		inc_find(f, INC_FINDING_OK, "limits", "memlock",
			 "%llu KiB, which this process may exceed",
			 (unsigned long long)limit.rlim_cur / 1024);
	else if (is_switch || has_rdma)
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, "limits", "memlock",
				      "only %llu KiB of memory may be locked",
				      (unsigned long long)limit.rlim_cur / 1024),
			     "AF_XDP sockets and registrations of RDMA devices fail with ENOMEM.",
			     "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit");
	else
		inc_find(f, INC_FINDING_OK, "limits", "memlock",
			 "%llu KiB, and neither AF_XDP nor RDMA is used here",
			 (unsigned long long)limit.rlim_cur / 1024);
}

static void inspect_files(struct inc_findings *f)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	if (limit.rlim_cur >= FEW_FILES) {
		inc_find(f, INC_FINDING_OK, "limits", "files", "%llu open files",
			 (unsigned long long)limit.rlim_cur);
		return;
	}
	inc_find_fix(
		inc_find(f, INC_FINDING_WARNING, "limits", "files", "only %llu open files",
			 (unsigned long long)limit.rlim_cur),
		"A controller with many ranks, or a rank with many channels, fails with EMFILE.",
		"ulimit -n %d, or LimitNOFILE=%d in the unit", FEW_FILES, FEW_FILES);
}

/* Reads the path of this process's control group of version 2. Returns false if it has none. */
static bool own_group(char *group, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	bool found = false;

	while (file && !found && fgets(group, size, file))
		found = !strncmp(group, "0::", 3);
	if (file)
		fclose(file);
	if (!found)
		return false;
	group[strcspn(group, "\n")] = '\0';
	memmove(group, group + 3, strlen(group + 3) + 1);
	if (!strcmp(group, "/"))
		*group = '\0';
	return true;
}

/* Finds the control group of this process, or the first one above it, that may not use its CPUs all
 * the time. Returns false if there is none. */
static bool find_quota(char path[512], char quota[64])
{
	char group[400], *end = group;

	if (!own_group(group, sizeof(group)))
		return false;
	while (end) {
		snprintf(path, 512, "/sys/fs/cgroup%s/cpu.max", group);
		if (first_line(path, quota, 64) && strncmp(quota, "max", 3) != 0)
			return true;
		end = strrchr(group, '/');
		if (end)
			*end = '\0';
	}
	return false;
}

static void inspect_cpus(struct inc_findings *f)
{
	char path[512], quota[64];

	if (!find_quota(path, quota)) {
		inc_find(f, INC_FINDING_OK, "limits", "cpus", "no control group bounds CPU time");
		return;
	}
	inc_find_fix(inc_find(f, INC_FINDING_WARNING, "limits", "cpus",
			      "the control group has %.60s microseconds of CPU time", quota),
		     "A rank, switch or controller stands still when its time is used up.",
		     "echo max >%.240s", path);
}

void inc_inspect_limits(struct inc_findings *f, bool is_switch, bool has_rdma)
{
	inspect_memlock(f, is_switch, has_rdma);
	inspect_files(f);
	inspect_cpus(f);
}

static void inspect_source(struct inc_findings *f)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	static const char *const slow[] = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"};
	char source[64];
	bool is_slow = false;
	size_t i;

	if (!first_line(path, source, sizeof(source))) {
		inc_find(f, INC_FINDING_SKIPPED, "clock", "source", "%s cannot be read", path);
		return;
	}
	for (i = 0; i < sizeof(slow) / sizeof(slow[0]); i++)
		is_slow |= !strcmp(source, slow[i]);
	if (!is_slow) {
		inc_find(f, INC_FINDING_OK, "clock", "source", "%s", source);
		return;
	}
	inc_find_fix(inc_find(f, INC_FINDING_WARNING, "clock", "source",
			      "%s takes a microsecond or more to read", source),
		     "Soft ranks and termination mode read the clock for each batch of packets.",
		     "echo tsc >%s, if available_clocksource beside it names tsc", path);
}

void inc_inspect_clocks(struct inc_findings *f)
{
	struct timex state = {};

	inspect_source(f);
	if (adjtimex(&state) < 0)
		return;
	if (!(state.status & STA_UNSYNC)) {
		inc_find(f, INC_FINDING_OK, "clock", "synchronization",
			 "the clock is synchronized");
		return;
	}
	inc_find_fix(inc_find(f, INC_FINDING_WARNING, "clock", "synchronization",
			      "the clock is not synchronized"),
		     "Times in logs and events cannot be compared between machines.",
		     "systemctl enable --now systemd-timesyncd, or chronyd");
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that loads libinccl and creates a group by INCCL_CONTROLLER: names LIBRARY
 * CONNECT_TIMEOUT_MS [given-up]. Prints the error's number and its text. With given-up, the timeout
 * must be too short for the name lookup. Then the program inspects the thread that still looks up
 * the name, creates another group in a child, unloads the library, and waits until the thread has
 * ended. test_names runs it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "hostlib/include/inccl.h"

#define PATIENCE_S 60
/* SigBlk bits of signals 32 and 33, which the C library may leave unblocked */
#define MAYBE 0x180000000

static __typeof__(inccl_group_create) *create;
static __typeof__(inccl_group_destroy) *destroy;
/* number of other threads at the start, which belong to a sanitizer */
static unsigned int at_first;

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "names: %s\n", what);
	exit(2);
}

static int make(unsigned int timeout_ms, char error[256])
{
	INCCL_OPTS(inccl_group_opts, opts, .world_size = 1, .address = "10.77.0.1",
		   .connect_timeout_ms = timeout_ms, .error = error, .error_size = 256);
	struct inccl_group *group;
	int err = create(&opts, &group);

	if (!err)
		err = destroy(group);
	return err;
}

/* Counts all threads except this one. Sets *unblocked to the signals that any of them does not
 * block. */
static unsigned int threads(unsigned long long *unblocked)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned long long mask;
	struct dirent *entry;
	char path[300], line[256];
	unsigned int n = 0;
	FILE *status;

	*unblocked = 0;
	require(dir, "no /proc");
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		status = fopen(path, "r");
		if (!status)
			continue; /* the thread has ended since it was listed */
		n++;
		while (fgets(line, sizeof(line), status))
			if (sscanf(line, "SigBlk: %llx", &mask) == 1)
				*unblocked |= ~mask;
		fclose(status);
	}
	closedir(dir);
	return n;
}

static void until_alone(void)
{
	const time_t end_at = time(NULL) + PATIENCE_S;
	unsigned long long mask;

	while (threads(&mask) > at_first) {
		require(time(NULL) < end_at, "the thread does not end");
		usleep(10000);
	}
}

static void check_given_up(void *library, unsigned int timeout_ms, int err)
{
	/* SIGKILL and SIGSTOP cannot be blocked */
	const unsigned long long never = 1ull << (9 - 1) | 1ull << (19 - 1);
	unsigned long long unblocked;
	char error[256] = "";
	pid_t child;
	int status;

	require(err == -ETIMEDOUT, "the look-up was not given up");
	require(threads(&unblocked) == at_first + 1, "no thread looks up the name any more");
	require(!(unblocked & ~never & ~(unsigned long long)MAYBE),
		"the thread does not block signals");
	child = fork();
	if (!child)
		_exit(make(timeout_ms, error) == -ETIMEDOUT ? 0 : 1);
	require(waitpid(child, &status, 0) == child && !status, "a child cannot look up names");
	require(!dlclose(library), "dlclose");
	require(threads(&unblocked) == at_first + 1,
		"the thread has ended before the library was unloaded");
	until_alone();
}

int main(int argc, char **argv)
{
	unsigned long long unblocked;
	char error[256] = "";
	void *library;
	int err;

	require(argc >= 3, "LIBRARY CONNECT_TIMEOUT_MS [given-up]");
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	require(library, "no such library");
	create = (__typeof__(create))dlsym(library, "inccl_group_create");
	destroy = (__typeof__(destroy))dlsym(library, "inccl_group_destroy");
	require(create && destroy, "not libinccl");
	at_first = threads(&unblocked);
	err = make(atoi(argv[2]), error);
	printf("%d %s\n", -err, error);
	if (argc > 3)
		check_given_up(library, atoi(argv[2]), err);
	return 0;
}

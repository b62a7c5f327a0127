// SPDX-License-Identifier: BSD-2-Clause
/* Makes a lab's name and paths, and reads and writes the file that lists the lab's parts. */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "topo/lab.h"

const char *const lab_role_names[LAB_ROLES] = {"controller", "host", "switch", "bridge", "wire"};

int lab_name_check(const char *name, struct inc_err *err)
{
	size_t n = strlen(name);
	bool good = n && n < LAB_NAME_MAX && name[0] != '-';

	for (size_t i = 0; good && i < n; i++)
		good = isalnum((unsigned char)name[i]) || strchr("-_", name[i]);
	return good ? 0
		    : inc_err_set(err, EINVAL,
				  "'%.300s': a name has 1 to %d letters, digits, '-' or '_'", name,
				  LAB_NAME_MAX - 1);
}

int lab_init(struct lab *lab, const char *name, struct inc_err *err)
{
	const char *tag = getenv("INC_LAB_TAG");
	uint32_t r;

	memset(lab, 0, sizeof(*lab));
	lab->lock = -1;
	if (name && lab_name_check(name, err))
		return -EINVAL;
	if (name) {
		strcpy(lab->name, name);
	} else {
		int ret = inc_random_bytes(&r, sizeof(r), err);

		if (ret)
			return ret;
		snprintf(lab->name, sizeof(lab->name), "inc-%06x", r & 0xffffff);
	}
	snprintf(lab->tag, sizeof(lab->tag), "%s", tag ? tag : "");
	snprintf(lab->state_path, sizeof(lab->state_path), "%s/%s.json", LAB_DIR, lab->name);
	snprintf(lab->dir, sizeof(lab->dir), "%s/%s", LAB_DIR, lab->name);
	return 0;
}

void lab_path(const struct lab *lab, const struct lab_node *node, const char *suffix,
	      char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s.%s", lab->dir, node->name, suffix);
}

void lab_instance(const struct lab *lab, const struct lab_node *node, char instance[LAB_NS_MAX])
{
	snprintf(instance, LAB_NS_MAX, "%s-%s", lab->name, node->name);
}

unsigned int lab_hosts(const struct lab *lab)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < lab->n_nodes; i++)
		n += lab->nodes[i].role == LAB_HOST;
	return n;
}

struct lab_node *lab_find(struct lab *lab, const char *name)
{
	for (unsigned int i = 0; i < lab->n_nodes; i++)
		if (!strcmp(lab->nodes[i].name, name))
			return &lab->nodes[i];
	return NULL;
}

static void set_addr(json_t *o, const char *key, struct inc_addr addr)
{
	char text[INC_ADDR_TEXT];

	if (inc_addr_given(addr))
		json_object_set_new(o, key, json_string(inc_addr_text(addr, text)));
}

json_t *lab_to_json(const struct lab *lab)
{
	json_t *out = json_object(), *nodes = json_array();
	char path[PATH_MAX], instance[LAB_NS_MAX];

	json_object_set_new(out, "name", json_string(lab->name));
	json_object_set_new(out, "tag", json_string(lab->tag));
	json_object_set_new(out, "topology", json_string(lab->topology));
	json_object_set_new(out, "dir", json_string(lab->dir));
	for (unsigned int i = 0; i < lab->n_nodes; i++) {
		const struct lab_node *node = &lab->nodes[i];
		json_t *o = json_object();

		json_object_set_new(o, "name", json_string(node->name));
		json_object_set_new(o, "role", json_string(lab_role_names[node->role]));
		json_object_set_new(o, "netns", json_string(node->netns));
		set_addr(o, "mgmt", inc_addr_of_in(node->mgmt));
		set_addr(o, "addr", node->addr);
		if (node->role == LAB_HOST)
			json_object_set_new(o, "rank", json_integer(node->rank));
		if (node->has_rails)
			json_object_set_new(o, "rails", json_true());
		if (node->role == LAB_SWITCH) {
			lab_instance(lab, node, instance);
			json_object_set_new(o, "instance", json_string(instance));
		}
		if (node->role == LAB_WIRE) {
			lab_path(lab, node, "sock", path);
			json_object_set_new(o, "control", json_string(path));
			lab_path(lab, node, "json", path);
			json_object_set_new(o, "stats", json_string(path));
		}
		if (lab_has_process(node)) {
			lab_path(lab, node, "log", path);
			json_object_set_new(o, "log", json_string(path));
		}
		if (node->pid) {
			json_object_set_new(o, "pid", json_integer(node->pid));
			json_object_set_new(o, "start_time", json_integer(node->start_time));
		}
		json_array_append_new(nodes, o);
	}
	json_object_set_new(out, "nodes", nodes);
	return out;
}

/* Writes the lab's file under a temporary name, which is stored in tmp. */
static int write_beside(const struct lab *lab, char *tmp, size_t size, struct inc_err *err)
{
	json_t *o = lab_to_json(lab);
	int fd, ret = 0;
	FILE *f;

	/* try again if a `down` has removed the empty directory between the two calls */
	do {
		if (mkdir(LAB_DIR, 0755) && errno != EEXIST) {
			ret = -errno;
			goto out;
		}
		snprintf(tmp, size, "%s.XXXXXX", lab->state_path);
		fd = mkostemp(tmp, O_CLOEXEC);
	} while (fd < 0 && errno == ENOENT);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		ret = -errno;
		goto out;
	}
	errno = 0;
	if (fchmod(fd, 0644) || json_dumpf(o, f, JSON_INDENT(1)) || fflush(f))
		ret = errno ? -errno : -EIO;
	if (fclose(f) && !ret)
		ret = -errno;
	if (ret)
		unlink(tmp);
out:
	json_decref(o);
	if (ret)
		inc_err_set(err, -ret, "%s: cannot write: %s", lab->state_path, strerror(-ret));
	return ret;
}

int lab_save(const struct lab *lab, bool create, struct inc_err *err)
{
	char tmp[PATH_MAX + 16];
	int ret = write_beside(lab, tmp, sizeof(tmp), err);

	if (ret)
		goto out;
	/* link() fails if the lab's file exists, so of two processes one wins, and the file is
	 * complete */
	if (create ? link(tmp, lab->state_path) : rename(tmp, lab->state_path))
		ret = -errno;
	if (create || ret)
		unlink(tmp);
	if (ret == -EEXIST)
		inc_err_set(err, EEXIST, "lab %s is up already (%s)", lab->name, lab->state_path);
	else if (ret)
		inc_err_set(err, -ret, "%s: cannot write: %s", lab->state_path, strerror(-ret));
out:
	if (ret && create)
		rmdir(LAB_DIR); /* removes the directory only if no other lab is in it */
	return ret;
}

static bool same_dir(int fd, const char *path)
{
	struct stat a, b;

	return !fstat(fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int lab_lock_names(struct inc_err *err)
{
	int fd;

	for (;;) {
		if (mkdir(LAB_DIR, 0755) && errno != EEXIST)
			break;
		fd = open(LAB_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0 || flock(fd, LOCK_EX))
			break;
		/* the lock counts only if the path still names the locked directory, because a
		 * `down` may have removed it before */
		if (same_dir(fd, LAB_DIR))
			return fd;
		close(fd);
	}
	return inc_err_set(err, errno, "%s: %s", LAB_DIR, strerror(errno));
}

/* Opens the directory for lab->lock. It leaves out O_CLOEXEC, because commands inherit the lock
 * (lab.h). */
static int open_dir(struct lab *lab, struct inc_err *err)
{
	lab->lock = open(lab->dir, O_RDONLY | O_DIRECTORY);
	return lab->lock < 0 ? inc_err_set(err, errno, "%s: %s", lab->dir, strerror(errno)) : 0;
}

static int wait_for_lock(const struct lab *lab, struct inc_err *err)
{
	static const struct timespec pause = {.tv_nsec = 10 * INC_NSEC_PER_MSEC};
	uint64_t deadline = inc_now_ms() + LAB_LOCK_LIMIT_S * 1000;
	bool told = false;

	while (flock(lab->lock, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK)
			return inc_err_set(err, errno, "%s: %s", lab->dir, strerror(errno));
		if (!told)
			inc_info("lab %s is being made or removed by another process: waiting for "
				 "its end",
				 lab->name);
		told = true;
		if (inc_now_ms() >= deadline)
			return inc_err_set(err, EBUSY,
					   "lab %s: still being made or removed by another "
					   "process after %d s (fuser %s names it)",
					   lab->name, LAB_LOCK_LIMIT_S, lab->dir);
		nanosleep(&pause, NULL);
	}
	return 0;
}

int lab_lock_new(struct lab *lab, struct inc_err *err)
{
	int ret = open_dir(lab, err);

	return ret ? ret : wait_for_lock(lab, err);
}

/* Opens the directory of the lab that has the name at present. */
static int open_named(struct lab *lab, struct inc_err *err)
{
	int names = lab_lock_names(err), ret;

	if (names < 0)
		return names;
	if (access(lab->state_path, F_OK)) {
		ret = inc_err_set(err, ENOENT, "no lab %s is up (%s)", lab->name, lab->state_path);
		rmdir(LAB_DIR); /* removes the directory only if no other lab is in it */
	} else if (mkdir(lab->dir, 0755) && errno != EEXIST) {
		/* the lab's directory may be missing, because an `up` was killed before it made
		 * one */
		ret = inc_err_set(err, errno, "%s: %s", lab->dir, strerror(errno));
	} else {
		ret = open_dir(lab, err);
	}
	close(names);
	return ret;
}

int lab_lock(struct lab *lab, struct inc_err *err)
{
	int ret;

	for (;;) {
		ret = open_named(lab, err);
		if (!ret)
			ret = wait_for_lock(lab, err);
		/* The lock counts only if the path still names the locked directory. The process
		 * that held the lock may have removed the lab, and another may be making the next
		 * one. */
		if (ret || same_dir(lab->lock, lab->dir))
			return ret;
		close(lab->lock);
	}
}

json_t *lab_names(void)
{
	json_t *names = json_array();
	struct dirent *e;
	DIR *dir = opendir(LAB_DIR);

	while (dir && (e = readdir(dir))) {
		size_t n = strlen(e->d_name);

		if (n > 5 && !strcmp(e->d_name + n - 5, ".json") && e->d_name[0] != '.')
			json_array_append_new(names, json_stringn(e->d_name, n - 5));
	}
	if (dir)
		closedir(dir);
	return names;
}

static int node_from_json(struct lab_node *node, json_t *o)
{
	const char *name = json_string_value(json_object_get(o, "name"));
	const char *role = json_string_value(json_object_get(o, "role"));
	const char *netns = json_string_value(json_object_get(o, "netns"));
	const char *mgmt = json_string_value(json_object_get(o, "mgmt"));
	const char *addr = json_string_value(json_object_get(o, "addr"));
	unsigned int r;

	if (!name || !role || !netns || strlen(name) >= LAB_NODE_MAX ||
	    strlen(netns) >= LAB_NS_MAX || strchr(netns, '/'))
		return -EINVAL;
	for (r = 0; r < LAB_ROLES && strcmp(role, lab_role_names[r]); r++)
		;
	if (r == LAB_ROLES || (mgmt && inet_pton(AF_INET, mgmt, &node->mgmt) != 1) ||
	    (addr && inc_addr_parse(addr, &node->addr)))
		return -EINVAL;
	node->role = r;
	strcpy(node->name, name);
	strcpy(node->netns, netns);
	node->rank = json_integer_value(json_object_get(o, "rank"));
	node->has_rails = json_is_true(json_object_get(o, "rails"));
	node->pid = json_integer_value(json_object_get(o, "pid"));
	node->start_time = json_integer_value(json_object_get(o, "start_time"));
	node->netns_made = node->pins_made = true;
	return 0;
}

/* Finds the name of the only lab. If there is not exactly one, makes a message that says what to
 * do. */
static int the_lab(char name[LAB_NAME_MAX], struct inc_err *err)
{
	json_t *names = lab_names();
	size_t n = json_array_size(names);
	int ret = 0;

	if (n == 1)
		snprintf(name, LAB_NAME_MAX, "%s", json_string_value(json_array_get(names, 0)));
	else
		ret = inc_err_set(err, n ? EINVAL : ENOENT,
				  n ? "%zu labs are up: say which with --name (see inc-lab list)"
				    : "%zu labs are up: make one with inc-lab up FILE",
				  n);
	json_decref(names);
	return ret;
}

int lab_load(struct lab *lab, const char *name, struct inc_err *err)
{
	char only[LAB_NAME_MAX];
	json_error_t jerr;
	const char *text;
	json_t *o, *nodes, *node;
	size_t i;
	int ret;

	if (!name) {
		ret = the_lab(only, err);
		if (ret)
			return ret;
		name = only;
	}
	ret = lab_init(lab, name, err);
	if (ret)
		return ret;
	if (access(lab->state_path, F_OK))
		return inc_err_set(err, ENOENT, "no lab %s is up (%s)", name, lab->state_path);
	o = json_load_file(lab->state_path, 0, &jerr);
	if (!o)
		return inc_err_set(err, EINVAL,
				   "%s: %s: the lab's file is damaged, remove it by "
				   "hand",
				   lab->state_path, jerr.text);
	lab->dir_made = true;
	text = json_string_value(json_object_get(o, "topology"));
	snprintf(lab->topology, sizeof(lab->topology), "%s", text ? text : "");
	text = json_string_value(json_object_get(o, "tag"));
	snprintf(lab->tag, sizeof(lab->tag), "%s", text ? text : "");
	nodes = json_object_get(o, "nodes");
	json_array_foreach (nodes, i, node) {
		if (i == LAB_NODES || node_from_json(&lab->nodes[i], node)) {
			ret = inc_err_set(err, EINVAL, "%s: node %zu is damaged", lab->state_path,
					  i);
			break;
		}
		lab->n_nodes++;
	}
	json_decref(o);
	return ret;
}

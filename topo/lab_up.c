// SPDX-License-Identifier: BSD-2-Clause
/* Makes a lab and removes it. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wordexp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include "lib/net/hostport.h"
#include "lib/net/stream_lines.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "topo/lab.h"

/* time limit for a node to become ready; a busy or emulated machine verifies BPF programs slowly */
#define READY_LIMIT_MS 60000
#define POLL_NS        (10 * INC_NSEC_PER_MSEC)
#define ASK_LIMIT_S    5
#define MAX_ARGS       256

/* A connection to the controller, on which one question follows another. */
struct lab_line {
	struct inc_stream stream;
	struct inc_lines lines;
	bool open;
};

/* Connects to the controller's port for members, from inside the controller's namespace. */
static int connect_member_port(const struct lab *lab)
{
	struct timeval limit = {.tv_sec = ASK_LIMIT_S};
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_port = htons(INC_PORT_MEMBERS),
				  .sin_addr = lab->nodes[0].mgmt};
	int old = lab_enter(lab->nodes[0].netns), fd, ret;

	if (old < 0)
		return old;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ret = fd < 0 ? -errno : fd;
	if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
			connect(fd, (struct sockaddr *)&sin, sizeof(sin)))) {
		ret = -errno;
		close(fd);
	}
	lab_leave(old);
	return ret;
}

static int open_stream(const struct lab *lab, struct inc_stream *stream, uint64_t deadline_ns,
		       struct inc_err *err)
{
	char path[PATH_MAX];
	const struct inc_tls_files files = {.key = path};
	struct inc_tls *tls = NULL;
	int fd = connect_member_port(lab), ret = 0;

	if (fd < 0)
		return inc_err_set(err, -fd, "%s", strerror(-fd));
	if (lab_has_keys(lab)) {
		lab_key_path(lab, &lab->nodes[0], path);
		tls = inc_tls_client(&files, err);
		ret = tls ? 0 : -EINVAL;
	}
	ret = ret ?: inc_stream_open(stream, fd, tls, NULL, deadline_ns, -1, err);
	if (ret)
		close(fd);
	inc_tls_free(tls);
	return ret;
}

/* Sends a question to the controller and returns the answer. Returns NULL, with the reason in why,
 * if there is none. */
static json_t *exchange(struct lab_line *line, const char *what, uint64_t deadline_ns,
			struct inc_err *why)
{
	json_t *answer = NULL;
	char question[128];
	int ret;

	snprintf(question, sizeof(question), "{\"type\":\"A\",\"what\":\"%s\"}\n", what);
	ret = inc_stream_send(&line->stream, question, strlen(question), deadline_ns);
	if (ret)
		inc_err_set(why, -ret, "%s", strerror(-ret));
	else
		answer = inc_stream_next(&line->stream, &line->lines, deadline_ns, why);
	return answer;
}

static void hang_up(struct lab_line *line)
{
	if (!line->open)
		return;
	inc_stream_close(&line->stream);
	inc_lines_free(&line->lines);
	line->open = false;
}

/* Asks on a line, which this connects first if it is not open. A line stays open for the next
 * question, unless this one gets no answer. */
static int ask_on(const struct lab *lab, struct lab_line *line, const char *what, json_t **data,
		  struct inc_err *err)
{
	const uint64_t deadline_ns = inc_now_ns() + ASK_LIMIT_S * INC_NSEC_PER_SEC;
	struct inc_err why;
	json_t *answer;
	int ret;

	*data = NULL;
	if (!line->open) {
		ret = open_stream(lab, &line->stream, deadline_ns, &why);
		if (ret)
			return inc_err_set(err, -ret, "controller: %s", why.msg);
		line->lines = (struct inc_lines){.max_line = INC_ANSWER_MAX};
		line->open = true;
	}
	answer = exchange(line, what, deadline_ns, &why);
	*data = json_incref(json_object_get(answer, "data"));
	if (answer && !*data)
		inc_err_set(&why, EPROTO, "%s",
			    json_string_value(json_object_get(answer, "message")) ?: "no data");
	json_decref(answer);
	if (*data)
		return 0;
	hang_up(line);
	return inc_err_set(err, EPROTO, "controller: no answer to '%s' (%s)", what, why.msg);
}

int lab_ask(const struct lab *lab, const char *what, json_t **data, struct inc_err *err)
{
	struct lab_line line = {};
	int ret = ask_on(lab, &line, what, data, err);

	hang_up(&line);
	return ret;
}

/* The next functions are conditions for wait_ready(), one for each role of a node. They return 0,
 * or -errno with the reason why the node is not ready. */
static int wire_ready(struct lab *lab, struct lab_node *node, struct inc_err *why)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	char path[PATH_MAX];
	int fd, ret = 0;

	lab_path(lab, node, "sock", path);
	if (strlen(path) >= sizeof(sun.sun_path))
		return inc_err_set(why, ENAMETOOLONG, "%s is too long for a socket", path);
	strcpy(sun.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)))
		ret = inc_err_set(why, errno, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return ret;
}

static int controller_ready(struct lab *lab, struct lab_node *node, struct inc_err *why)
{
	json_t *data;
	int ret = ask_on(lab, lab->line, "switches", &data, why);

	json_decref(data);
	return ret;
}

static int switch_ready(struct lab *lab, struct lab_node *node, struct inc_err *why)
{
	json_t *data, *sw;
	int ret = ask_on(lab, lab->line, "switches", &data, why);
	size_t i;

	if (!ret)
		ret = inc_err_set(why, ENOTCONN, "not connected to the controller");
	json_array_foreach (data, i, sw) {
		const char *name = json_string_value(json_object_get(sw, "switch"));
		const char *state = json_string_value(json_object_get(sw, "state"));

		if (name && state && !strcmp(name, node->name) && !strcmp(state, "connected"))
			ret = 0;
	}
	json_decref(data);
	return ret;
}

static int bridge_ready(struct lab *lab, struct lab_node *node, struct inc_err *why)
{
	return lab_net_forwards(node, why);
}

static void show_log(const struct lab *lab, const struct lab_node *node)
{
	char path[PATH_MAX], text[2048], *p = text;
	ssize_t n = 0;
	off_t end;
	int fd;

	lab_path(lab, node, "log", path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	end = lseek(fd, 0, SEEK_END);
	if (end > 0)
		n = pread(fd, text, sizeof(text) - 1,
			  end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0);
	close(fd);
	if (n <= 0)
		return;
	text[n] = 0;
	/* skip the first line, because the text begins in the middle of one */
	if (end > n && (p = strchr(text, '\n')))
		p++;
	fprintf(stderr, "--- the log of %s ends with:\n%s%s---\n", node->name, p ? p : text,
		text[n - 1] == '\n' ? "" : "\n");
}

/* Waits until the node is ready. Fails as soon as its process, if it has one, has ended. */
static int wait_ready(struct lab *lab, struct lab_node *node,
		      int (*ready)(struct lab *lab, struct lab_node *node, struct inc_err *why),
		      struct inc_err *err)
{
	static const struct timespec pause = {.tv_nsec = POLL_NS};
	uint64_t deadline = inc_now_ms() + READY_LIMIT_MS;
	struct inc_err why;
	int ret;

	for (;;) {
		const int not_yet = ready(lab, node, &why);
		const bool ended = lab_has_process(node) && !lab_alive(node);

		if (!not_yet && !ended)
			return 0;
		if (lab_interrupted)
			return inc_err_set(err, EINTR, "interrupted");
		if (ended) {
			ret = WIFSIGNALED(node->child_status)
				      ? inc_err_set(err, ECHILD, "%s: ended by signal %d",
						    node->name, WTERMSIG(node->child_status))
				      : inc_err_set(err, ECHILD, "%s: ended with status %d",
						    node->name, WEXITSTATUS(node->child_status));
			break;
		}
		if (inc_now_ms() >= deadline) {
			ret = inc_err_set(err, ETIMEDOUT, "%s: not ready after %d s: %s",
					  node->name, READY_LIMIT_MS / 1000, why.msg);
			break;
		}
		nanosleep(&pause, NULL);
	}
	show_log(lab, node);
	return ret;
}

static int start_wire(struct lab *lab, struct lab_node *node, struct inc_err *err)
{
	char program[PATH_MAX], sock[PATH_MAX], stats[PATH_MAX], seed[24];
	const struct lab_link *link = NULL;
	char *argv[MAX_ARGS];
	int n = 0, ret;

	for (unsigned int i = 0; i < lab->n_links; i++)
		if (lab->links[i].wire >= 0 && &lab->nodes[lab->links[i].wire] == node)
			link = &lab->links[i];
	lab_find_program("inc-wire", program);
	lab_path(lab, node, "sock", sock);
	lab_path(lab, node, "json", stats);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)link->seed);
	char *fixed[] = {program, "--host",  "host", "--switch", "switch", "--control",
			 sock,    "--stats", stats,  "--seed",   seed};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		argv[n++] = fixed[i];
	for (unsigned int i = 0; i < link->n_wire_args; i++) {
		argv[n++] = "--set";
		argv[n++] = (char *)link->wire_args[i];
	}
	argv[n] = NULL;
	ret = lab_daemon(lab, node, argv, err);
	return ret ? ret : wait_ready(lab, node, wire_ready, err);
}

/* Splits a text into words as a shell does, and appends them to argv. The words are valid as long
 * as *words. option: the option that has the text, for error messages. */
static int add_words(char **argv, int *n, const char *option, const char *text, wordexp_t *words,
		     struct inc_err *err)
{
	if (text && wordexp(text, words, WRDE_NOCMD | WRDE_UNDEF))
		return inc_err_set(err, EINVAL, "%s: cannot split '%s' into words", option, text);
	if (*n + words->we_wordc >= MAX_ARGS)
		return inc_err_set(err, E2BIG, "%s: more than %d words", option, MAX_ARGS - 1);
	for (size_t i = 0; i < words->we_wordc; i++)
		argv[(*n)++] = words->we_wordv[i];
	argv[*n] = NULL;
	return 0;
}

static int start_controller(struct lab *lab, const char *more, struct inc_err *err)
{
	char program[PATH_MAX], database[PATH_MAX], keys[PATH_MAX];
	char *argv[MAX_ARGS] = {program, "--topology", lab->topology, "--database", database};
	wordexp_t words = {0};
	int n = 5, ret;

	lab_find_program("inc-controller", program);
	lab_path(lab, &lab->nodes[0], "db", database);
	lab_keys_path(lab, keys);
	if (lab_has_keys(lab)) {
		argv[n++] = "--key";
		argv[n++] = keys;
	} else {
		argv[n++] = "--insecure";
	}
	ret = add_words(argv, &n, "--controller-args", more, &words, err);
	if (!ret)
		ret = lab_daemon(lab, &lab->nodes[0], argv, err);
	if (!ret)
		ret = wait_ready(lab, &lab->nodes[0], controller_ready, err);
	wordfree(&words);
	return ret;
}

/* Starts a switch without waiting for it, so that switches load their programs at the same time. */
static int start_switch(struct lab *lab, struct lab_node *node, const char *more,
			struct inc_err *err)
{
	char program[PATH_MAX], instance[LAB_NS_MAX], controller[INET_ADDRSTRLEN], key[PATH_MAX];
	wordexp_t words = {0};
	char *argv[MAX_ARGS];
	int n = 0, ret;

	lab_find_program("inc-switchd", program);
	lab_instance(lab, node, instance);
	inet_ntop(AF_INET, &lab->nodes[0].mgmt, controller, sizeof(controller));
	char *fixed[] = {program,    "--controller", controller, "--name",
			 node->name, "--instance",   instance};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		argv[n++] = fixed[i];
	lab_key_path(lab, node, key);
	if (lab_has_keys(lab)) {
		argv[n++] = "--key";
		argv[n++] = key;
	}
	for (unsigned int i = 0; i < lab->n_links; i++)
		for (int e = 0; e < 2; e++)
			if (&lab->nodes[lab->links[i].end[e].node] == node && n + 2 < MAX_ARGS) {
				argv[n++] = "--port";
				argv[n++] = lab->links[i].end[e].ifname;
			}
	if (node->mode && n + 2 < MAX_ARGS) {
		argv[n++] = "--mode";
		argv[n++] = (char *)node->mode;
	}
	ret = add_words(argv, &n, "--switch-args", more, &words, err);
	if (!ret)
		ret = lab_daemon(lab, node, argv, err);
	node->pins_made = !ret;
	wordfree(&words);
	return ret;
}

/* Whether a running inc-switchd holds the instance's lock. */
static bool instance_in_use(const char *instance)
{
	char path[PATH_MAX];
	bool held;
	int fd;

	snprintf(path, sizeof(path), "%s/%s.lock", LAB_RUN_DIR, instance);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	held = flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
	close(fd);
	return held;
}

/* Whether all names that the lab would use are free, so that objects of others are never removed
 * as the lab's. */
static int check_free(const struct lab *lab, struct inc_err *err)
{
	char instance[LAB_NS_MAX];

	if (!access(lab->state_path, F_OK))
		return inc_err_set(err, EEXIST, "lab %s is up already (%s)", lab->name,
				   lab->state_path);
	if (!access(lab->dir, F_OK))
		return inc_err_set(err, EEXIST,
				   "%s exists, but no lab %s: remove it or choose "
				   "another --name",
				   lab->dir, lab->name);
	for (unsigned int i = 0; i < lab->n_nodes; i++) {
		const struct lab_node *node = &lab->nodes[i];

		if (lab_netns_exists(node->netns))
			return inc_err_set(err, EEXIST,
					   "namespace %s exists already and is not this lab's: "
					   "choose another --name",
					   node->netns);
		lab_instance(lab, node, instance);
		if (node->role == LAB_SWITCH && instance_in_use(instance))
			return inc_err_set(
				err, EEXIST,
				"another inc-switchd is instance %s (%s/%s.lock): choose "
				"another --name",
				instance, LAB_RUN_DIR, instance);
	}
	return 0;
}

/* Makes the lab's file and its namespaces. Every other part of the lab is found by these two.
 * *named: the file exists now, so lab_down() must be called later. */
static int take_names(struct lab *lab, const struct lab_up_options *options, bool *named,
		      struct inc_err *err)
{
	int lock = lab_lock_names(err), ret;

	*named = false;
	if (lock < 0)
		return lock;
	ret = check_free(lab, err);
	if (!ret)
		ret = lab_save(lab, true, err);
	else
		rmdir(LAB_DIR); /* removes the directory only if no other lab is in it */
	*named = !ret;
	if (!ret && mkdir(lab->dir, 0755))
		ret = inc_err_set(err, errno, "%s: %s", lab->dir, strerror(errno));
	else if (!ret)
		lab->dir_made = true;
	if (!ret && !options->insecure)
		ret = lab_keys_make(lab, err);
	if (!ret)
		ret = lab_lock_new(lab, err);
	if (!ret)
		ret = lab_net_namespaces(lab, err);
	close(lock);
	return ret;
}

static int make(struct lab *lab, const struct lab_up_options *options, struct inc_err *err)
{
	struct lab_line line = {};
	int ret = lab_net_up(lab, options->queues, err);

	lab->line = &line;
	for (unsigned int i = 0; i < lab->n_nodes && !ret; i++)
		if (lab->nodes[i].role == LAB_WIRE)
			ret = start_wire(lab, &lab->nodes[i], err);
	if (!ret)
		ret = start_controller(lab, options->controller_args, err);
	for (unsigned int i = 0; i < lab->n_nodes && !ret; i++)
		if (lab->nodes[i].role == LAB_SWITCH)
			ret = start_switch(lab, &lab->nodes[i], options->switch_args, err);
	/* save the file before the long wait, in case this process is killed */
	if (!ret)
		ret = lab_save(lab, false, err);
	for (unsigned int i = 0; i < lab->n_nodes && !ret; i++)
		if (lab->nodes[i].role == LAB_SWITCH)
			ret = wait_ready(lab, &lab->nodes[i], switch_ready, err);
	hang_up(&line);
	lab->line = NULL;
	for (unsigned int i = 0; i < lab->n_nodes && !ret; i++)
		if (lab->nodes[i].role == LAB_BRIDGE)
			ret = wait_ready(lab, &lab->nodes[i], bridge_ready, err);
	for (unsigned int i = 0; i < lab->n_nodes && !ret && options->napi_threaded; i++)
		if (lab->nodes[i].role == LAB_SWITCH)
			ret = lab_napi_threaded(lab, &lab->nodes[i], options->napi_cpu, err);
	if (!ret && lab_interrupted)
		ret = inc_err_set(err, EINTR, "interrupted");
	return ret;
}

int lab_up(struct lab *lab, const struct lab_up_options *options, struct inc_err *err)
{
	struct inc_err more;
	bool named;
	int ret = take_names(lab, options, &named, err);

	if (!ret)
		ret = make(lab, options, err);
	if (ret && named && lab_down(lab, &more))
		inc_warn("%s", more.msg);
	return ret;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (remove(path) && errno != ENOENT)
		inc_warn("%s: %s", path, strerror(errno));
	return 0;
}

static void remove_tree(const char *path)
{
	if (!access(path, F_OK))
		nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Removes the pins, socket and lock that a crashed switch has left. */
static void remove_instance(const struct lab *lab, const struct lab_node *node)
{
	static const char *const files[] = {"sock", "lock"};
	char instance[LAB_NS_MAX], path[PATH_MAX];

	lab_instance(lab, node, instance);
	/* an inc-switchd that uses the instance now is another's, because the lab's own daemons
	 * have ended */
	if (instance_in_use(instance)) {
		inc_warn("instance %s is another inc-switchd's now: left alone", instance);
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", LAB_PIN_DIR, instance);
	remove_tree(path);
	for (size_t s = 0; s < sizeof(files) / sizeof(files[0]); s++) {
		snprintf(path, sizeof(path), "%s/%s.%s", LAB_RUN_DIR, instance, files[s]);
		unlink(path);
	}
}

/* Removes the lab's directory and its file together. If only one of them exists while the names are
 * locked, a process was killed between the two steps. left: number of other parts that are left of
 * the lab. */
static int give_names_back(const struct lab *lab, unsigned int left, struct inc_err *err)
{
	if (lab->dir_made)
		remove_tree(lab->dir);
	left += lab->dir_made && !access(lab->dir, F_OK);
	if (left)
		return inc_err_set(err, EBUSY,
				   "lab %s is not down: %u of its processes, namespaces and "
				   "directories are left",
				   lab->name, left);
	if (unlink(lab->state_path) && errno != ENOENT)
		return inc_err_set(err, errno, "%s: %s", lab->state_path, strerror(errno));
	rmdir(LAB_DIR); /* removes the directory only if no other lab is in it */
	return 0;
}

int lab_down(struct lab *lab, struct inc_err *err)
{
	unsigned int left = lab_kill(lab);
	int names, ret;

	for (unsigned int i = 0; i < lab->n_nodes; i++)
		if (lab->nodes[i].role == LAB_SWITCH && lab->nodes[i].pins_made)
			remove_instance(lab, &lab->nodes[i]);
	left += lab_net_down(lab);
	free(lab->links);
	lab->links = NULL;
	names = lab_lock_names(err);
	if (names < 0)
		return names;
	ret = give_names_back(lab, left, err);
	close(names);
	return ret;
}

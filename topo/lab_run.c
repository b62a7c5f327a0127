// SPDX-License-Identifier: BSD-2-Clause
/* Runs a command on hosts and joins the outputs line by line. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "lib/base/awake.h"
#include "lib/base/log.h"
#include "lib/base/opt.h"
#include "lib/base/random.h"
#include "topo/lab.h"
#include "topo/lab_out.h"

#define LINE_MAX_BYTES (64 << 10) /* limit of a line of output, at which it is cut */
/* seconds from the first signal to SIGKILL, and then for the reader of the output */
#define GRACE_S 3
/* limit of the reads from a pipe after the end of a job, which read more than the pipe holds */
#define DRAIN_READS  64
#define EXIT_TIMEOUT 124 /* exit code of inc-lab after the time limit, like that of timeout(1) */
#define JOB_SIGNALS  7   /* number of signals that inc-lab run handles */

struct job;

struct stream {
	struct job *job;
	int rank;
	struct lab_out *out;     /* the output to which this stream is copied; the job owns it */
	struct evbuffer *buffer; /* start of a line whose end has not been read yet; owned */
	struct event *event;     /* event for a readable pipe; NULL: the stream has ended; owned */
};

struct member {
	const struct lab_node *host;
	int rank;
	/* process of the member, which leads a process group; 0: not started, or ended */
	pid_t pid;
	pid_t group;
	struct stream stream[2];
};

struct job {
	const struct lab_run_options *options;
	struct event_base *base;
	struct member member[LAB_RANKS];
	unsigned int n;
	unsigned int running;
	unsigned int streams;
	int worst;
	/* exit code, if a signal or the time limit has ended the job; 0: neither has */
	int ended_by;
	/* all commands have ended, and their output is still being written */
	bool flushing;
	struct lab_out *out[2]; /* the outputs to stdout and to stderr; owned */
	struct event *grace;
	/* looks several times per second whether the time limit has passed by the awake clock */
	struct event *timeout;
	struct inc_awake awake;
	uint64_t started_at_ns; /* by the awake clock */
	struct event *signals[JOB_SIGNALS];
	/* action of SIGPIPE before the job, which is restored in the members */
	sighandler_t sigpipe;
};

/* Parses a list such as "0,2-3": in[i] becomes whether the list has number i, below n. text NULL:
 * all are in it. Returns 0, or -EINVAL and a message. */
static int parse_list(const char *text, unsigned int n, bool *in, struct inc_err *err)
{
	memset(in, text ? 0 : 1, n * sizeof(*in));
	for (const char *p = text; p;) {
		unsigned long from, to;
		char *end;

		if (!isdigit((unsigned char)*p))
			goto wrong;
		from = to = strtoul(p, &end, 10);
		if (*end == '-') {
			if (!isdigit((unsigned char)end[1]))
				goto wrong;
			to = strtoul(end + 1, &end, 10);
		}
		if ((*end && *end != ',') || to < from || to >= n)
			goto wrong;
		for (; from <= to; from++)
			in[from] = true;
		p = *end ? end + 1 : NULL;
	}
	return 0;
wrong:
	return inc_err_set(err, EINVAL, "'%.300s' is not a list of numbers from 0 to %u", text,
			   n - 1);
}

int lab_list_check(const char *text, struct inc_err *err)
{
	bool in[LAB_RANKS];

	return parse_list(text, LAB_RANKS, in, err);
}

/* Queues the whole lines that a stream has read for its output, each to be written by one call.
 * end: the stream has ended, so this queues an unfinished line, too. */
static void print_lines(struct stream *s, bool end)
{
	const struct lab_run_options *o = s->job->options;
	char out[LAB_OUT_LINE_BYTES];
	size_t prefix, n;

	prefix = o->no_prefix ? 0 : snprintf(out, sizeof(out), "[%d] ", s->rank);
	for (;;) {
		struct evbuffer_ptr eol = evbuffer_search(s->buffer, "\n", 1, NULL);
		size_t have = evbuffer_get_length(s->buffer);

		if (eol.pos >= 0 && eol.pos < LINE_MAX_BYTES)
			n = eol.pos + 1;
		else if (have >= LINE_MAX_BYTES)
			n = LINE_MAX_BYTES;
		else if (end && have)
			n = have;
		else
			return;
		evbuffer_remove(s->buffer, out + prefix, n);
		if (out[prefix + n - 1] != '\n')
			out[prefix + n++] = '\n';
		/* stderr of all ranks is shown, even if only one rank's output is wanted */
		if (o->only < 0 || o->only == s->rank || s->out == s->job->out[1])
			lab_out_put(s->out, out, prefix + n);
	}
}

static void maybe_done(struct job *job)
{
	if (job->running)
		return;
	/* end the loop when all streams have ended, or when the rest of the output is written;
	 * after a signal or the time limit, do not wait for processes that still hold a pipe */
	if (job->flushing ? !lab_out_waiting(job->out[0]) && !lab_out_waiting(job->out[1])
			  : !job->streams || job->ended_by)
		event_base_loopbreak(job->base);
}

/* Reads once from the pipe of a stream. Returns false if there is nothing to read now, or the
 * stream has ended and is closed. */
static bool read_stream(struct stream *s, int fd)
{
	int n = evbuffer_read(s->buffer, fd, LINE_MAX_BYTES);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	print_lines(s, n <= 0);
	if (n > 0)
		return true;
	event_free(s->event);
	s->event = NULL;
	close(fd);
	s->job->streams--;
	return false;
}

static void on_output(int fd, short what, void *arg)
{
	struct stream *s = arg;

	read_stream(s, fd);
	/* read no more while the output's queue is full, so that the command waits as it would for
	 * a full pipe */
	if (s->event && lab_out_is_full(s->out))
		event_del(s->event);
	maybe_done(s->job);
}

/* Called when an output has written its whole queue. */
static void on_drained(void *arg)
{
	struct job *job = arg;

	for (unsigned int i = 0; i < job->n; i++)
		for (int k = 0; k < 2; k++) {
			struct stream *s = &job->member[i].stream[k];

			if (s->event && !lab_out_is_full(s->out))
				event_add(s->event, NULL);
		}
	maybe_done(job);
}

/* After the end of a job, reads what is left in a pipe that some process still holds open. */
static void drain_stream(struct stream *s)
{
	int fd;

	if (!s->event)
		return;
	fd = event_get_fd(s->event);
	for (int i = 0; i < DRAIN_READS && read_stream(s, fd); i++)
		;
	if (!s->event)
		return;
	print_lines(s, true);
	event_free(s->event);
	close(fd);
}

static void signal_all(struct job *job, int sig)
{
	for (unsigned int i = 0; i < job->n; i++)
		if (job->member[i].group)
			kill(-job->member[i].group, sig);
}

/* Ends all descendants of this job, in any session. When a process of the job ends, its children
 * become children of this process. */
static void kill_descendants(void)
{
	char path[64], word[16];
	/* limit of the rounds, because each of them ends one generation of processes */
	int again = 100;
	bool found;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	do {
		found = false;
		f = fopen(path, "re");
		while (f && fscanf(f, "%15s", word) == 1) {
			kill(atoi(word), SIGKILL);
			waitpid(atoi(word), NULL, 0);
			found = true;
		}
		if (f)
			fclose(f);
	} while (found && --again);
}

static void on_grace(int fd, short what, void *arg)
{
	struct job *job = arg;

	signal_all(job, SIGKILL);
	if (job->flushing)
		event_base_loopbreak(job->base);
}

static void end_job(struct job *job, int sig, int code)
{
	static const struct timeval grace = {.tv_sec = GRACE_S};

	job->ended_by = code;
	signal_all(job, sig);
	if (!event_pending(job->grace, EV_TIMEOUT, NULL))
		event_add(job->grace, &grace);
	/* the job may be done already, if all commands have ended and only output was left */
	maybe_done(job);
}

static void on_timeout(int fd, short what, void *arg)
{
	struct job *job = arg;
	const uint64_t ran_ns = inc_awake_now_ns(&job->awake) - job->started_at_ns;

	if (ran_ns < (uint64_t)(job->options->timeout_s * INC_NSEC_PER_SEC))
		return;
	event_del(job->timeout);
	inc_error("not done after %g s, ending it", job->options->timeout_s);
	end_job(job, SIGTERM, EXIT_TIMEOUT);
}

static void on_signal(int sig, short what, void *arg)
{
	struct job *job = arg;

	if (sig == SIGUSR1 || sig == SIGUSR2)
		signal_all(job, sig);
	else
		end_job(job, sig, 128 + sig);
}

static void member_ended(struct job *job, struct member *m, int status)
{
	int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

	if (WIFSIGNALED(status) && !job->ended_by)
		inc_error("rank %d ended by signal %d (%s)", m->rank, WTERMSIG(status),
			  strsignal(WTERMSIG(status)));
	if (code > job->worst)
		job->worst = code;
	/* kill the processes that the member has left in the background */
	kill(-m->group, SIGKILL);
	m->pid = m->group = 0;
	job->running--;
}

static void on_child(int sig, short what, void *arg)
{
	struct job *job = arg;
	int status;
	pid_t pid;

	/* a process that is no member is an orphan of one, which this only reaps */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (unsigned int i = 0; i < job->n; i++)
			if (job->member[i].pid == pid)
				member_ended(job, &job->member[i], status);
	maybe_done(job);
}

/* Makes the environment of this process that of a member, which inherits it. */
static void set_member_env(const struct lab *lab, const struct job *job, const struct member *m,
			   int size, const char *name)
{
	const struct lab_run_options *o = job->options;

	lab_set_env(lab, m->host, m->rank, size, name);
	for (unsigned int i = 0; i < o->env.count; i++)
		putenv((char *)o->env.text[i]);
	if (o->mpi)
		lab_unset_rank(o->no_switch);
	if (o->no_addr)
		unsetenv("INCCL_ADDR");
}

/* Becomes a member. A child of vfork(2) calls this, so it changes no memory of inc-lab. */
static void child_main(const struct job *job, const struct member *m, const int fds[2],
		       char *const argv[])
{
	int null = open("/dev/null", O_RDONLY), ret;
	sigset_t none;

	/* Restores the default actions of signals. The job's handlers would report a signal of this
	 * child to inc-lab, as if inc-lab had received it. */
	for (size_t i = 0; i < JOB_SIGNALS; i++)
		signal(event_get_signal(job->signals[i]), SIG_DFL);
	signal(SIGPIPE, job->sigpipe);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the kernel kills the member if inc-lab is killed */
	dup2(null, 0);
	dup2(fds[0], 1);
	dup2(fds[1], 2);
	ret = job->options->mpi ? lab_be_mpi_host(m->host) : lab_join(m->host->netns);
	if (ret) {
		fprintf(stderr, "inc-lab: namespace %s: %s\n", m->host->netns, strerror(-ret));
		_exit(126);
	}
	execvp(argv[0], argv);
	ret = -errno;
	fprintf(stderr, "inc-lab: %s: %s\n", argv[0], strerror(-ret));
	_exit(ret == -ENOENT ? 127 : 126);
}

static int start_member(const struct lab *lab, struct job *job, struct member *m, int size,
			const char *name, char *const argv[])
{
	int pipes[2][2] = {{-1, -1}, {-1, -1}}, fds[2];
	sigset_t all, before;

	if (pipe2(pipes[0], O_CLOEXEC) || pipe2(pipes[1], O_CLOEXEC))
		goto fail;
	fds[0] = pipes[0][1];
	fds[1] = pipes[1][1];
	set_member_env(lab, job, m, size, name);
	/* block signals until the child has removed the job's handlers */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	/* no fork(), because a copy of inc-lab's page tables costs more than the rest */
	m->pid = vfork();
	if (!m->pid)
		child_main(job, m, fds, argv);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (m->pid < 0) {
		m->pid = 0;
		goto fail;
	}
	/* the parent sets the process group as well as the child, because it must be set before the
	 * first kill */
	setpgid(m->pid, m->pid);
	m->group = m->pid;
	job->running++;
	for (int i = 0; i < 2; i++) {
		struct stream *s = &m->stream[i];

		close(pipes[i][1]);
		evutil_make_socket_nonblocking(pipes[i][0]);
		*s = (struct stream){.job = job, .rank = m->rank, .out = job->out[i]};
		s->buffer = evbuffer_new();
		s->event = event_new(job->base, pipes[i][0], EV_READ | EV_PERSIST, on_output, s);
		if (!s->buffer || !s->event || event_add(s->event, NULL)) {
			errno = ENOMEM;
			return -ENOMEM;
		}
		job->streams++;
	}
	return 0;
fail:
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++)
			if (pipes[i][k] >= 0)
				close(pipes[i][k]);
	return -errno;
}

/* Selects the members of the job. Returns the size of the world. It is 0 after a message if the lab
 * has no such hosts or ranks. */
static unsigned int pick_members(struct lab *lab, struct job *job)
{
	const unsigned int per_host = job->options->per_host ?: 1;
	bool in_world[LAB_NODES], started[LAB_RANKS];
	unsigned int n_hosts = lab_hosts(lab), size = 0;
	int only = job->options->only;
	struct inc_err err;

	if (!n_hosts) {
		inc_usage("lab %s has no hosts", lab->name);
		return 0;
	}
	if (parse_list(job->options->hosts, n_hosts, in_world, &err)) {
		inc_usage("--hosts: %s", err.msg);
		return 0;
	}
	for (unsigned int i = 0; i < n_hosts; i++)
		size += in_world[i] ? per_host : 0;
	if (size > LAB_RANKS) {
		inc_usage("--per-host: %u ranks are more than %d", size, LAB_RANKS);
		return 0;
	}
	if (parse_list(job->options->ranks, size, started, &err)) {
		inc_usage("--ranks: %s", err.msg);
		return 0;
	}
	if (only >= 0 && (only >= (int)size || !started[only])) {
		inc_usage("--only: rank %d is not started, of a world of %u", only, size);
		return 0;
	}
	size = 0;
	for (unsigned int i = 0; i < lab->n_nodes; i++) {
		const struct lab_node *node = &lab->nodes[i];

		if (node->role != LAB_HOST || !in_world[node->rank])
			continue;
		for (unsigned int k = 0; k < per_host; k++, size++) {
			if (!started[size])
				continue;
			job->member[job->n].host = node;
			job->member[job->n++].rank = size;
		}
	}
	return size;
}

/* Adds the events for signals and for the time limit. free_events() frees them. */
static void add_events(struct job *job)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
	const double limit_s = job->options->timeout_s;
	const struct timeval look = {.tv_usec = limit_s < 0.1 ? limit_s * 1e6 : 100000};

	_Static_assert(sizeof(signals) / sizeof(signals[0]) + 1 == JOB_SIGNALS, "with SIGCHLD");
	for (size_t i = 0; i < JOB_SIGNALS - 1; i++)
		job->signals[i] = evsignal_new(job->base, signals[i], on_signal, job);
	job->signals[JOB_SIGNALS - 1] = evsignal_new(job->base, SIGCHLD, on_child, job);
	for (size_t i = 0; i < JOB_SIGNALS; i++)
		event_add(job->signals[i], NULL);
	job->grace = evtimer_new(job->base, on_grace, job);
	job->timeout = event_new(job->base, -1, EV_PERSIST, on_timeout, job);
	job->started_at_ns = inc_awake_now_ns(&job->awake);
	if (limit_s > 0)
		event_add(job->timeout, &look);
}

/* Writes the remaining output of commands, and the queues, as far as the reader reads in time.
 * Returns the errno of a failed write to stdout, or 0. */
static int flush_outputs(struct job *job)
{
	static const struct timeval grace = {.tv_sec = GRACE_S};
	static const char *const names[] = {"stdout", "stderr"};
	int failed[2];

	for (unsigned int i = 0; i < job->n; i++)
		for (int k = 0; k < 2; k++)
			drain_stream(&job->member[i].stream[k]);
	job->flushing = true;
	if (job->ended_by)
		event_add(job->grace, &grace);
	if (lab_out_waiting(job->out[0]) || lab_out_waiting(job->out[1]))
		event_base_dispatch(job->base);
	/* the last warnings must not block either, because the reader of stderr may still not
	 * read */
	inc_log_sink(inc_log_unblocked);
	for (int k = 0; k < 2; k++) {
		const size_t lost_bytes = lab_out_waiting(job->out[k]);

		failed[k] = lab_out_close(job->out[k]);
		if (lost_bytes)
			inc_warn("%s: its reader did not read, up to %zu bytes are lost", names[k],
				 lost_bytes);
	}
	return failed[0];
}

static void free_events(struct job *job)
{
	for (unsigned int i = 0; i < job->n; i++)
		for (int k = 0; k < 2; k++)
			if (job->member[i].stream[k].buffer)
				evbuffer_free(job->member[i].stream[k].buffer);
	for (size_t i = 0; i < JOB_SIGNALS; i++)
		event_free(job->signals[i]);
	event_free(job->grace);
	event_free(job->timeout);
	event_base_free(job->base);
}

static void start_members(const struct lab *lab, struct job *job, int size, char *const argv[])
{
	char name[64];
	uint32_t r = 0;

	if (inc_random_bytes(&r, sizeof(r), NULL))
		r = getpid();
	snprintf(name, sizeof(name), "%s-%08x", lab->name, r);
	for (unsigned int i = 0; i < job->n; i++) {
		if (!start_member(lab, job, &job->member[i], size, name, argv))
			continue;
		inc_error("starting rank %d: %s", job->member[i].rank, strerror(errno));
		job->ended_by = 1;
		signal_all(job, SIGKILL);
		break;
	}
}

/* The output to stderr while a job runs. Log lines go to its queue, so that they never block the
 * event loop. */
static struct lab_out *log_out;

static void log_line(const char *line, size_t len)
{
	lab_out_put(log_out, line, len);
}

static int open_outputs(struct job *job)
{
	job->base = event_base_new();
	for (int k = 0; k < 2 && job->base; k++) {
		job->out[k] = lab_out_open(job->base, k + 1, on_drained, job);
		if (!job->out[k])
			return -ENOMEM;
	}
	if (!job->base)
		return -ENOMEM;
	log_out = job->out[1];
	inc_log_sink(log_line);
	return 0;
}

int lab_run(struct lab *lab, const struct lab_run_options *options, char *const argv[])
{
	struct job job = {.options = options};
	unsigned int size = pick_members(lab, &job);
	int unprinted;

	if (!size)
		return 2;
	job.sigpipe = signal(SIGPIPE, SIG_IGN);
	/* make orphans of members children of inc-lab, so that the time limit can end them, too */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (open_outputs(&job)) {
		inc_error("no memory to run a command");
		return 1;
	}
	add_events(&job);
	start_members(lab, &job, size, argv);
	/* handle members that have ended before SIGCHLD had its handler */
	on_child(SIGCHLD, 0, &job);
	if (job.running || job.streams)
		event_base_dispatch(job.base);
	/* end the daemons of an MPI as well, which are no members */
	if (job.ended_by || options->mpi)
		kill_descendants();
	unprinted = flush_outputs(&job);
	free_events(&job);
	if (unprinted) {
		inc_error("stdout: %s", strerror(unprinted));
		job.worst = job.worst ?: 1;
	}
	return job.ended_by ? job.ended_by : job.worst;
}

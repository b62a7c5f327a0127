// SPDX-License-Identifier: BSD-2-Clause
/* Descriptors, and the waits for them (process.h). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "lib/base/os.h"
#include "lib/base/thread.h"
#include "lib/net/loop.h"
#include "process.h"
#include "sim.h"

#define FDS         4096
#define TIMERS      1024
#define OFFERS_MOST 100
#define FILL_BYTES  2048 /* more than a quarter of the least send buffer */

struct descriptor {
	bool used;
	struct process *process;
	void (*closed)(void *arg);
	void *arg;
	uint64_t epoll; /* number of the epoll instance, in the order of their making; 0: none */
	uint64_t alarm; /* number of the alarm's last setting */
	bool signalled; /* an eventfd has been written and not been read since */
	bool sends;
	unsigned int offers; /* how often a wait has reported room to send since the last send */
	bool refused;        /* a send on this descriptor was refused for want of room */
};

/* A timer of an event loop that runs. */
struct armed {
	struct inc_timer *timer; /* NULL: the place is free */
	const struct process *process;
	uint64_t number;
};

static struct descriptor fds[FDS];
static int fds_end; /* no descriptor in use has this number, or a greater one */
static struct armed timers[TIMERS];
static unsigned int timers_end;
static uint64_t numbers; /* the last number of an epoll instance, an alarm or a timer */

int __wrap_eventfd(unsigned int count, int flags);
int __real_eventfd(unsigned int count, int flags);
int __wrap_epoll_create1(int flags);
int __real_epoll_create1(int flags);
int __wrap_pipe2(int fd[2], int flags);
int __real_pipe2(int fd[2], int flags);
int __wrap_close(int fd);
int __real_close(int fd);

/* --- the owners of descriptors --- */

static struct descriptor *descriptor(int fd)
{
	return fd >= 0 && fd < fds_end && fds[fd].used ? &fds[fd] : NULL;
}

void descriptor_own(int fd, struct process *process, void (*closed)(void *arg), void *arg)
{
	sim_require(fd >= 0 && fd < FDS, "more than %u descriptors", FDS);
	fds[fd] =
		(struct descriptor){.used = true, .process = process, .closed = closed, .arg = arg};
	fds_end = fd < fds_end ? fds_end : fd + 1;
}

bool descriptor_known(int fd)
{
	return descriptor(fd);
}

void *descriptor_arg(int fd, void (*closed)(void *arg))
{
	const struct descriptor *d = descriptor(fd);

	return d && d->closed == closed ? d->arg : NULL;
}

/* The simulation's own descriptors belong to no process. */
static int own(int fd)
{
	if (fd >= 0 && task_process())
		descriptor_own(fd, task_process(), NULL, NULL);
	return fd;
}

int __wrap_eventfd(unsigned int count, int flags)
{
	return own(__real_eventfd(count, flags));
}

int __wrap_epoll_create1(int flags)
{
	const int fd = own(__real_epoll_create1(flags));

	if (descriptor(fd))
		fds[fd].epoll = ++numbers;
	return fd;
}

int __wrap_pipe2(int fd[2], int flags)
{
	const int ret = __real_pipe2(fd, flags);

	if (!ret) {
		own(fd[0]);
		own(fd[1]);
	}
	return ret;
}

int __wrap_close(int fd)
{
	const struct descriptor d = descriptor(fd) ? fds[fd] : (struct descriptor){};

	if (descriptor(fd))
		fds[fd].used = false;
	if (d.closed)
		d.closed(d.arg);
	return __real_close(fd);
}

void descriptor_close_all(const struct process *process)
{
	unsigned int i;
	int fd;

	for (fd = 0; fd < fds_end; fd++)
		if (fds[fd].used && fds[fd].process == process)
			close(fd);
	for (i = 0; i < timers_end; i++)
		if (timers[i].process == process)
			timers[i] = (struct armed){};
}

unsigned int descriptors_of(const struct process *process)
{
	unsigned int n = 0;
	int fd;

	for (fd = 0; fd < fds_end; fd++)
		n += fds[fd].used && fds[fd].process == process;
	return n;
}

void descriptor_changed(int fd)
{
	const struct descriptor *d = descriptor(fd);

	if (d)
		task_changed(d->process, fd);
}

int descriptor_new(void)
{
	const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	sim_require(fd >= 0, "eventfd: %s", strerror(errno));
	return fd;
}

void descriptor_signal(int fd)
{
	struct descriptor *d = descriptor(fd);
	const uint64_t one = 1;

	if (!d || d->signalled)
		return;
	sim_require(write(fd, &one, sizeof(one)) == sizeof(one), "eventfd: %s", strerror(errno));
	d->signalled = true;
	task_changed(d->process, fd);
}

void descriptor_clear(int fd)
{
	struct descriptor *d = descriptor(fd);
	uint64_t count;

	if (!d->signalled)
		return;
	sim_require(read(fd, &count, sizeof(count)) > 0, "eventfd: %s", strerror(errno));
	d->signalled = false;
}

/* Threads of the product wake each other with these two. */
void inc_signal_fd(int fd)
{
	if (descriptor(fd))
		descriptor_signal(fd);
}

void inc_drain_fd(int fd)
{
	descriptor_clear(fd);
}

void descriptor_sends(int fd)
{
	descriptor(fd)->sends = true;
}

void descriptor_sent(int fd)
{
	if (descriptor(fd))
		descriptor(fd)->offers = 0;
}

void descriptor_refused(int fd, bool refused)
{
	descriptor(fd)->refused = refused;
}

/* --- pairs of sockets --- */

void descriptor_pair(int pair[2])
{
	const int least = 0;

	sim_require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) &&
			    !setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)),
		    "socketpair: %s", strerror(errno));
}

void descriptor_fill(const int pair[2])
{
	static const uint8_t bytes[FILL_BYTES];

	sim_require(send(pair[0], bytes, sizeof(bytes), MSG_NOSIGNAL) > 0, "send: %s",
		    strerror(errno));
}

void descriptor_drain(const int pair[2])
{
	uint8_t bytes[FILL_BYTES];

	while (recv(pair[1], bytes, sizeof(bytes), 0) > 0)
		;
}

/* --- waits --- */

struct wait {
	struct pollfd *pfd;
	unsigned int n;
};

/* Any descriptor may be in an epoll instance. */
static bool is_epoll(int fd)
{
	return descriptor(fd) && descriptor(fd)->epoll;
}

static bool is_ready(const void *arg, int fd)
{
	const struct wait *w = arg;
	unsigned int i;

	for (i = 0; i < w->n && w->pfd[i].fd != fd && !is_epoll(w->pfd[i].fd); i++)
		;
	return (i < w->n || fd < 0) && poll(w->pfd, w->n, 0) > 0;
}

/* Checks that a thread whose send was refused polls for room, because nothing else reports it. */
static void check_sleep(const struct pollfd *pfd)
{
	const struct descriptor *d = descriptor(pfd->fd);

	sim_require(!d || !d->refused || pfd->events & POLLOUT ||
			    poll(&(struct pollfd){.fd = pfd->fd, .events = POLLOUT}, 1, 0) > 0,
		    "%s: a thread sleeps beside a full send buffer, and does not ask for room",
		    task_process()->name);
}

/* Fails the run if a thread polls for room to send again and again, and sends nothing. */
static void check_offer(const struct pollfd *pfd)
{
	struct descriptor *d = descriptor(pfd->fd);

	if (d && d->sends && pfd->revents & POLLOUT)
		sim_require(++d->offers < OFFERS_MOST,
			    "%s: a thread has asked for room %u times, and sends nothing",
			    task_process()->name, d->offers);
}

/* Waits for one of the descriptors. Returns whether poll() reports one, in pfd. */
static bool wait_for(const struct wait *w, const struct timespec *timeout)
{
	uint64_t at_ns = UINT64_MAX;
	bool ready = w->n && poll(w->pfd, w->n, 0) > 0;

	if (timeout)
		at_ns = sim_now_ns() + timeout->tv_sec * INC_NSEC_PER_SEC + timeout->tv_nsec;
	if (ready)
		task_pass_time();
	else
		ready = task_wait_until(is_ready, w, at_ns) && poll(w->pfd, w->n, 0) > 0;
	return ready;
}

static int wait_poll(struct pollfd *pfd, unsigned int n, const struct timespec *timeout)
{
	const struct wait w = {.pfd = pfd, .n = n};
	unsigned int i;
	int count = 0;

	for (i = 0; i < n; i++)
		check_sleep(&pfd[i]);
	if (!wait_for(&w, timeout))
		return 0;
	for (i = 0; i < n; i++) {
		check_offer(&pfd[i]);
		count += !!pfd[i].revents;
	}
	return count;
}

static int wait_epoll(int epoll_fd, struct epoll_event *events, int most, int timeout_ms)
{
	const struct timespec timeout = inc_timespec_of_ns(
		timeout_ms < 0 ? 0 : (unsigned int)timeout_ms * INC_NSEC_PER_MSEC);
	const struct wait w = {&(struct pollfd){.fd = epoll_fd, .events = POLLIN}, 1};

	return wait_for(&w, timeout_ms < 0 ? NULL : &timeout)
		       ? epoll_wait(epoll_fd, events, most, 0)
		       : 0;
}

static void go_off(void *unused, uint64_t number)
{
	int fd;

	for (fd = 0; fd < fds_end; fd++)
		if (fds[fd].used && fds[fd].alarm == number)
			descriptor_signal(fd);
}

static int new_alarm(void)
{
	return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void set_alarm(int fd, uint64_t at_ns)
{
	descriptor_clear(fd);
	descriptor(fd)->alarm = ++numbers;
	if (at_ns != UINT64_MAX)
		sim_at(at_ns, go_off, NULL, numbers);
}

/* --- event loops --- */

struct loop {
	struct event_base *base;
	struct pollfd epoll; /* the descriptor by which libevent waits */
};

static bool loop_is_ready(const void *arg, int fd)
{
	struct loop *l = (struct loop *)arg;

	return event_base_get_num_events(l->base, EVENT_BASE_COUNT_ACTIVE) ||
	       poll(&l->epoll, 1, 0) > 0;
}

/* The descriptor by which libevent waits is the first epoll instance that a process has made. */
static int epoll_of(const struct process *process)
{
	int fd, first = -1;

	for (fd = 0; fd < fds_end; fd++)
		if (fds[fd].used && fds[fd].process == process && fds[fd].epoll &&
		    (first < 0 || fds[fd].epoll < fds[first].epoll))
			first = fd;
	sim_require(first >= 0, "%s: libevent has no epoll", process->name);
	return first;
}

static int run_loop(struct event_base *base)
{
	struct loop l = {base, {.fd = epoll_of(task_process()), .events = POLLIN}};

	for (;;) {
		if (event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK) < 0)
			return -EIO;
		if (event_base_got_break(base))
			return 0;
		if (loop_is_ready(&l, -1))
			task_pass_time();
		else
			task_wait_until(loop_is_ready, &l, UINT64_MAX);
	}
}

static struct armed *find_timer(const struct inc_timer *timer)
{
	unsigned int i;

	for (i = 0; i < timers_end; i++)
		if (timers[i].timer == timer)
			return &timers[i];
	return NULL;
}

static void on_time(void *arg, uint64_t number)
{
	struct armed *a = arg;
	const struct armed was = *a;

	if (a->number != number)
		return;
	*a = (struct armed){};
	event_active(was.timer->event, EV_TIMEOUT, 0);
	task_changed(was.process, -1);
}

static void stop_timer(struct inc_timer *timer)
{
	struct armed *a = find_timer(timer);

	if (a)
		*a = (struct armed){};
	event_del(timer->event);
}

static int arm_timer(struct inc_timer *timer, unsigned int ms)
{
	/* libevent counts the timer, and needs memory for it, but reads its own clock only */
	const struct timeval never = {.tv_sec = 86400};
	struct armed *a;

	stop_timer(timer);
	if (evtimer_add(timer->event, &never))
		return -ENOMEM;
	a = find_timer(NULL) ?: &timers[timers_end++];
	sim_require(timers_end < TIMERS, "more than %u timers run", TIMERS);
	*a = (struct armed){timer, task_process(), ++numbers};
	sim_at(sim_now_ns() + ms * INC_NSEC_PER_MSEC, on_time, a, numbers);
	return 0;
}

static bool timer_runs(const struct inc_timer *timer)
{
	return evtimer_pending(timer->event, NULL);
}

/* --- time and random numbers --- */

static uint64_t clock_ns(clockid_t clock)
{
	return sim_now_ns();
}

/* Half of the values of 4 bytes, such as a process's first PSN, are near the wrap of PSNs. */
static int random_bytes(void *out, size_t size, bool wait)
{
	uint8_t *at = out;
	size_t i;

	for (i = 0; i < size; i++)
		at[i] = sim_below(256);
	if (size == sizeof(uint32_t) && sim_chance(500))
		at[1] = at[2] = 0xff;
	return 0;
}

void descriptor_begin(void)
{
	int fd;

	for (fd = 0; fd < fds_end; fd++)
		if (fds[fd].used)
			__real_close(fd);
	memset(fds, 0, sizeof(fds));
	memset(timers, 0, sizeof(timers));
	fds_end = timers_end = numbers = 0;
	inc_os.clock_ns = clock_ns;
	inc_os.random = random_bytes;
	inc_os.wait = (struct inc_os_wait){.poll = wait_poll,
					   .epoll = wait_epoll,
					   .alarm = new_alarm,
					   .set_alarm = set_alarm,
					   .give_way = task_give_way};
	inc_loop = (struct inc_loop){
		.run = run_loop, .arm = arm_timer, .stop = stop_timer, .runs = timer_runs};
}

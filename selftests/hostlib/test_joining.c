/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * A rank joins a group, or is rejected. A controller may reject a member before the member's first
 * request. The member must report the controller's reason, in whatever order its threads notice the
 * rejection. A member that stood still must read an answer that arrived meanwhile. A rank with
 * closed standard streams must use other descriptors for its connections, because text that is
 * printed to stderr would go into a connection. Names of jobs and machines may be invalid in a
 * message. A rank with several NICs leaves out those that do not work. A line that
 * the devices of several channels report is logged once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "hostlib/include/inccl.h"
#include "hostlib/src/internal.h"
#include "lib/base/os.h"
#include "selftests/fakes/controller.h"

/* ---- a member that is rejected ---- */

/* how long the lookup of the member's addresses takes, before the member joins */
static unsigned int look_ms;

int getifaddrs(struct ifaddrs **list)
{
	int (*next)(struct ifaddrs **) = (int (*)(struct ifaddrs **))dlsym(RTLD_NEXT, __func__);

	usleep(look_ms * 1000);
	return next(list);
}

static unsigned int wake_ms; /* how long the member's control thread takes to wake up */

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int (*next)(struct pollfd *, nfds_t, int) =
		(int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, __func__);
	const int ret = next(fds, n, timeout_ms);

	if (timeout_ms < 0)
		usleep(wake_ms * 1000);
	return ret;
}

/* A controller that accepts one member and then rejects it. */
struct closed_door {
	int listener;
	const char *words; /* last text that the controller sends; NULL: none */
	bool resets;
};

static void *turns_away(void *arg)
{
	const struct closed_door *door = arg;
	const struct linger at_once = {.l_onoff = 1};
	int fd = accept(door->listener, NULL, NULL);

	usleep(50 * 1000); /* lets time pass, so that the member's control thread sleeps by now */
	if (door->words)
		assert_int_equal(send(fd, door->words, strlen(door->words), 0),
				 strlen(door->words));
	if (door->resets)
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)),
				 0);
	close(fd);
	return NULL;
}

/* Opens and returns a listener, and writes its HOST:PORT into `controller`. */
static int open_door(char controller[32])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	snprintf(controller, 32, "127.0.0.1:%u", ntohs(at.sin_port));
	return listener;
}

static int turned_away(struct closed_door *door, char error[256])
{
	char controller[32];
	INCCL_OPTS(inccl_group_opts, opts, .world_size = 1, .controller = controller,
		   .job = "turned", .interface = "lo", .error = error, .error_size = 256);
	struct inccl_group *group;
	pthread_t thread;
	int ret;

	door->listener = open_door(controller);
	assert_int_equal(pthread_create(&thread, NULL, turns_away, door), 0);
	look_ms = 300;
	ret = inccl_group_create(&opts, &group);
	look_ms = 0;
	pthread_join(thread, NULL);
	close(door->listener);
	return ret;
}

/* The controller closes the connection without a text. That happens to a member whose certificate
 * is rejected, because in TLS 1.3 the client begins before it gets the rejection. */
static void turned_away_at_once(void **state)
{
	struct closed_door door = {};
	char error[256] = "";

	assert_int_equal(turned_away(&door, error), -ECONNRESET);
	assert_non_null(strstr(error, "closed the connection"));
}

#define FULL "{\"type\":\"error\",\"errno\":\"EMFILE\",\"message\":\"too many clients\"}\n"

/* A controller without room sends its reason before the member's first request. */
static void turned_away_with_words(void **state)
{
	struct closed_door door = {.words = FULL};
	char error[256] = "";

	assert_int_equal(turned_away(&door, error), -EMFILE);
	assert_string_equal(error, "too many clients");
}

/* The controller sends its reason and resets the connection before the member has read that
 * reason. */
static void turned_away_unread(void **state)
{
	struct closed_door door = {.words = FULL, .resets = true};
	char error[256] = "";
	int ret;

	wake_ms = 500;
	ret = turned_away(&door, error);
	wake_ms = 0;
	assert_string_equal(error, "too many clients");
	assert_int_equal(ret, -EMFILE);
}

#define LIMIT_MS 500

/* Joins with a control thread that is slower than the thread that waits. */
static int join_slowly(const char *controller, char error[256])
{
	INCCL_OPTS(inccl_group_opts, opts, .world_size = 1, .controller = controller,
		   .job = "still", .interface = "lo", .create_timeout_ms = LIMIT_MS, .error = error,
		   .error_size = 256);
	struct inccl_group *group;
	int ret;

	wake_ms = 500;
	ret = inccl_group_create(&opts, &group);
	inccl_group_destroy(group);
	return ret;
}

/* A member stands still for longer than its timeout for an answer, and the answer arrives
 * meanwhile. The member must not report that the controller is silent. */
static void stood_still(void **state)
{
	char controller[32], error[256] = "", line[4096];
	const int listener = open_door(controller);
	int fd, status;
	pid_t pid = fork();

	if (!pid) {
		if (join_slowly(controller, error))
			fprintf(stderr, "%s\n", error);
		_exit(*error != 0);
	}
	fd = accept(listener, NULL, NULL);
	assert_true(recv(fd, line, sizeof(line), 0) > 0);
	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	poll(NULL, 0, LIMIT_MS + 1500);
	assert_int_equal(send(fd, JOINED, strlen(JOINED), 0), strlen(JOINED));
	kill(pid, SIGCONT);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(fd);
	close(listener);
	assert_int_equal(status, 0);
}

/* ---- closed standard streams ---- */

#define LIMIT_S 60
#define RANK    "rank" /* argument with which this program runs as the rank */

/* Exit codes of the process that runs as the rank. */
enum { FINE, NO_GROUP, NO_COMMUNICATOR, TOOK_A_PLACE };

static int run_rank(const char *controller)
{
	INCCL_OPTS(inccl_group_opts, opts, .job = "t", .controller = controller, .world_size = 1,
		   .address = "127.0.0.1");
	INCCL_OPTS(inccl_communicator_opts, soft, .transport = INCCL_TRANSPORT_SOFT);
	struct inccl_communicator *comm;
	struct inccl_group *group;
	int fd;

	setenv("INCCL_DEBUG", "1", 1);
	for (fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
	if (inccl_group_create(&opts, &group))
		return NO_GROUP;
	if (inccl_communicator_create(group, &soft, &comm))
		return NO_COMMUNICATOR;
	for (fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return TOOK_A_PLACE;
	inccl_communicator_destroy(comm);
	inccl_group_destroy(group);
	return FINE;
}

static void closed_streams(void **state)
{
	const char *const answers[] = {JOINED, CONN("5", "1024", "512"), STARTED,
				       "{\"type\":\"D\",\"communicator\":12}\n", NULL};
	char controller[32];
	struct fake_controller f;
	int status;
	pid_t pid;

	fake_controller_start(&f, answers, false);
	snprintf(controller, sizeof(controller), "127.0.0.1:%u", f.port);
	pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "test_joining", RANK, controller, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	fake_controller_stop(&f);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), FINE);
	assert_non_null(strstr(f.received, "\"bye\""));
	assert_null(strstr(f.received, "inccl:"));
}

/* ---- names ---- */

static void keep_log(void *ctx, const char *line)
{
	strncat(ctx, line, 4095 - strlen(ctx));
}

static bool latin1; /* non-ASCII bytes count as letters, as in a locale with ISO-8859-1 */

/* Replaces the C library's table of characters, which isgraph() and similar functions use. The test
 * does not set a locale, because few machines have one with a byte per character. */
const unsigned short **__ctype_b_loc(void)
{
	static unsigned short table[384];
	static const unsigned short *of_latin1 = table + 128;
	const unsigned short **(*next)(void) =
		(const unsigned short **(*)(void))dlsym(RTLD_NEXT, __func__);

	if (!latin1)
		return next();
	memcpy(table, *next() - 128, sizeof(table));
	for (int c = 0xc0; c <= 0xff; c++)
		table[128 + c] = (*next())['e'];
	return &of_latin1;
}

/* A name that is not valid in a message is rejected. The error names the option or variable from
 * which the name comes. */
static void job_names(void **state)
{
	static const char *const wrong[] = {"", "two words", "caf\xe9", "caf\xc3\xa9", "a\tb"};
	char error[256];
	INCCL_OPTS(inccl_group_opts, opts, .controller = "127.0.0.1:1", .world_size = 1,
		   .error = error, .error_size = sizeof(error));
	struct inccl_group *group;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		opts.job = wrong[i];
		assert_int_equal(inccl_group_create(&opts, &group), -EINVAL);
		assert_non_null(strstr(error, "job '"));
		opts.job = NULL;
		setenv(i % 2 ? "INCCL_JOB" : "SLURM_JOB_ID", wrong[i], 1);
		if (*wrong[i]) {
			assert_int_equal(inccl_group_create(&opts, &group), -EINVAL);
			assert_non_null(strstr(error, i % 2 ? "INCCL_JOB '" : "SLURM_JOB_ID '"));
		}
		unsetenv("INCCL_JOB");
		unsetenv("SLURM_JOB_ID");
	}
}

/* Does isgraph() accept the character? The compiler assumes that the table is constant, so it must
 * not see both states of the table in one function. */
__attribute__((noipa)) static bool is_shown(int c)
{
	return isgraph(c);
}

static void job_names_in_latin1(void **state)
{
	latin1 = true;
	assert_true(is_shown(0xe9));
	job_names(state);
	latin1 = false;
	assert_false(is_shown(0xe9));
}

/* The name of the machine is only for people to read. If it is invalid, the machine can join a
 * group nevertheless. */
static void invalid_host_name(void **state)
{
	static const char name[] = "two words\xe9";
	const char *const answers[] = {JOINED, NULL};
	struct inccl_group *group;
	char error[256], log[4096] = "";
	struct fake_controller f;

	if (unshare(CLONE_NEWUTS) || sethostname(name, sizeof(name) - 1))
		skip();
	if (fake_controller_create(&f, answers, false, &group, error, keep_log, log))
		fail_msg("%s", error);
	assert_int_equal(inccl_group_destroy(group), 0);
	fake_controller_stop(&f);
	assert_non_null(strstr(f.received, "\"host\":\"two?words?\""));
	assert_non_null(strstr(log, "host name 'two words?'"));
}

/* ---- NICs whose switches do not answer ---- */

#define NICS 3
/* How often a NIC is asked by UDP (ANSWER_TRIES and PATIENT_TRIES of rails.c). */
#define ASKED     3
#define ASKED_FOR 10

/* The switches at the other ends of the NICs. Their addresses are 1, 2 and 3. */
static struct {
	unsigned int asked; /* how often UDP has been asked */
	/* UDP is answered from this question on; UINT_MAX: never */
	unsigned int answers_from;
	bool answers_tcp;
} other_end[NICS];

static bool fake_refuses(const struct inc_addr *own, const struct inc_addr *to, uint16_t port,
			 unsigned int ms)
{
	const unsigned int i = to->word[3] - 1;

	return ++other_end[i].asked > other_end[i].answers_from;
}

static bool fake_answers(const struct inc_addr *own, const struct inc_addr *to, unsigned int ms)
{
	return other_end[to->word[3] - 1].answers_tcp;
}

/* A rank with NICs that a failed communicator has used. All of them are the loopback interface,
 * because a NIC must exist. */
struct railed {
	struct inccl_group group;
	struct inccl_communicator comm;
	struct inccl_survey survey;
	char log[4096];
};

static int rails_setup(void **state)
{
	struct railed *r = calloc(1, sizeof(*r));

	*state = r;
	if (!r || inccl_log_new(keep_log, r->log, &r->group.log))
		return -1;
	pthread_mutex_init(&r->group.lock, NULL);
	r->comm.group = &r->group;
	r->group.rails.n = NICS;
	for (unsigned int i = 0; i < NICS; i++) {
		r->group.rails.rail[i].addr = inc_addr_of_ipv4(htonl(INADDR_LOOPBACK));
		r->group.rails.rail[i].peer = inc_addr_of_ipv4(i + 1);
	}
	memset(other_end, 0, sizeof(other_end));
	inc_os.udp.refuses = fake_refuses;
	inc_os.udp.answers = fake_answers;
	return 0;
}

static int rails_teardown(void **state)
{
	struct railed *r = *state;

	inc_os = inc_os_kernel;
	inccl_log_put(r->group.log);
	pthread_mutex_destroy(&r->group.lock);
	free(r);
	return 0;
}

/* Sets how the switch behind a NIC answers. The NIC is suspect. */
static void behind(struct railed *r, unsigned int nic, unsigned int answers_from, bool answers_tcp)
{
	other_end[nic].answers_from = answers_from;
	other_end[nic].answers_tcp = answers_tcp;
	r->group.rails.rail[nic].suspect = true;
}

/* Chooses the NICs of the next communicator. Returns how many it can use. */
static unsigned int choose(struct railed *r)
{
	for (unsigned int i = 0; i < NICS; i++)
		other_end[i].asked = 0;
	inccl_rails_choose(&r->comm, &r->survey);
	return r->survey.usable;
}

static bool is_out(const struct railed *r, unsigned int nic, const char *why)
{
	return strstr(r->survey.rail[nic].reason, why);
}

/* A NIC whose switch answers TCP alone is asked for seconds before it is left out, and shortly
 * before each later communicator. */
static void only_tcp(void **state)
{
	struct railed *r = *state;

	behind(r, 0, UINT_MAX, true);
	behind(r, 1, 0, true);
	assert_int_equal(choose(r), NICS - 1);
	assert_true(is_out(r, 0, "answers TCP, but no UDP"));
	assert_int_equal(other_end[0].asked, ASKED + ASKED_FOR);
	assert_int_equal(choose(r), NICS - 1);
	assert_int_equal(other_end[0].asked, ASKED);
	behind(r, 0, 0, true);
	assert_int_equal(choose(r), NICS);
}

/* A NIC that was left out for another reason is asked for seconds as well, because a switch limits
 * its answers by UDP. */
static void late_answer(void **state)
{
	struct railed *r = *state;

	behind(r, 0, UINT_MAX, false);
	assert_int_equal(choose(r), NICS - 1);
	assert_true(is_out(r, 0, "does not answer"));
	behind(r, 0, ASKED + 1, true);
	assert_int_equal(choose(r), NICS);
	assert_false(*r->survey.rail[0].reason);
	assert_int_equal(other_end[0].asked, ASKED + 2);
}

/* Only one NIC is asked for seconds before a communicator, whose time limit goes on. */
static void one_patiently(void **state)
{
	struct railed *r = *state;

	behind(r, 0, UINT_MAX, true);
	behind(r, 1, UINT_MAX, true);
	behind(r, 2, 0, true);
	assert_int_equal(choose(r), NICS - 1);
	assert_int_equal(other_end[0].asked, ASKED + ASKED_FOR);
	/* it was also asked whether another NIC than the first one gets answers */
	assert_int_equal(other_end[1].asked, 2 * ASKED);
	/* the next communicator fails on the other NIC, which is then asked */
	behind(r, 1, UINT_MAX, true);
	assert_int_equal(choose(r), NICS - 2);
	assert_int_equal(other_end[0].asked, 2 * ASKED);
	assert_int_equal(other_end[1].asked, ASKED + ASKED_FOR);
}

/* ---- lines of devices ---- */

/* Each channel has a device. If several report the same, the log has one line. A line that the same
 * device repeats is logged again. */
static void devices_repeat_nothing(void **state)
{
	static const char twice[] = "sent one by one";
	static struct inccl_group group;
	static struct inccl_communicator comms[2] = {{.group = &group}, {.group = &group}};
	char log[4096] = "";
	const char *first, *second;

	assert_int_equal(inccl_log_new(keep_log, log, &group.log), 0);
	inccl_log_forward(&comms[0], "%s", twice);
	inccl_log_line(group.log, "a line of the library");
	inccl_log_forward(&comms[1], "%s", twice);
	inccl_log_deliver(group.log);
	first = strstr(log, twice);
	assert_non_null(first);
	assert_null(strstr(first + 1, twice));
	/* the same devices report it once more */
	inccl_log_forward(&comms[1], "%s", twice);
	inccl_log_forward(&comms[0], "%s", twice);
	inccl_log_deliver(group.log);
	second = strstr(first + 1, twice);
	assert_non_null(second);
	assert_null(strstr(second + 1, twice));
	inccl_log_forward(&comms[0], "another line");
	inccl_log_forward(&comms[0], "%s", twice);
	inccl_log_deliver(group.log);
	assert_non_null(strstr(second + 1, twice));
	inccl_log_put(group.log);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turned_away_at_once),
		cmocka_unit_test(turned_away_with_words),
		cmocka_unit_test(turned_away_unread),
		cmocka_unit_test(stood_still),
		cmocka_unit_test(closed_streams),
		cmocka_unit_test(job_names),
		cmocka_unit_test(job_names_in_latin1),
		cmocka_unit_test(invalid_host_name),
		cmocka_unit_test_setup_teardown(only_tcp, rails_setup, rails_teardown),
		cmocka_unit_test_setup_teardown(late_answer, rails_setup, rails_teardown),
		cmocka_unit_test_setup_teardown(one_patiently, rails_setup, rails_teardown),
		cmocka_unit_test(devices_repeat_nothing),
	};

	alarm(LIMIT_S);
	if (argc == 3 && !strcmp(argv[1], RANK))
		return run_rank(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

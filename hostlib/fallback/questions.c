/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions and answers between ranks: one thread that serves all connections of a rank, and calls
 * that ask another rank. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "hostlib/fallback/fallback.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/numbers.h"
#include "lib/base/os.h"
#include "lib/base/random.h"
#include "lib/base/thread.h"
#include "lib/net/hostport.h"
#include "lib/net/race.h"
#include "lib/net/wait.h"

#define MAGIC 0x6b636266 /* "fbck" */
/* connections beside one of each rank, for strangers who have not shown a token yet */
#define STRANGERS 8
/* pause of the thread while the process has no descriptor for a connection */
#define PAUSE_MS   100
#define TEXT_BYTES 160
/* pause before a question is repeated */
#define RETRY_MS 5

/* The message of a rank to the others by gather(). */
struct card {
	uint8_t token[16];          /* rank 0's counts */
	struct sockaddr_storage at; /* where the rank listens */
	char options[TEXT_BYTES];   /* those that must be the same on all ranks */
	uint32_t error;             /* errno, if this rank cannot take part */
	char text[TEXT_BYTES];
};

/* A connection from another rank. */
struct asker {
	bool is_rank; /* it has shown the token */
	struct inccl_question question;
	size_t got; /* bytes of the question */
	size_t sent, to_send;
	uint8_t reply[sizeof(struct inccl_answer) + INCCL_PEERS_CHUNK_BYTES];
};

struct inccl_peers {
	struct inccl_peers *next; /* in the list `opened` */
	int ranks;
	uint8_t token[16];
	struct card *cards;
	int *fd; /* this rank's connection to each other rank, or -1 */
	inccl_answer_fn *answer;
	void *arg;
	/* of the thread: [0] is stop_fd, [1] the listener, and the others are askers */
	struct pollfd *pfd;
	struct asker **asker;
	unsigned int n, most;
	int listener, stop_fd;
	bool ready; /* the token is that of all ranks; atomic */
	pthread_t thread;
	bool has_thread;
};

/* ---- children ---- */

/* A child of fork() has copies of all descriptors. The ranks that ask its parent after the parent's
 * death would get no answer then, instead of a connection that is refused. So a child closes them
 * at once. It must not close others, which have got the number of a closed one, so the descriptors
 * of a rank change under the lock only. */
static struct {
	pthread_mutex_t lock;
	struct inccl_peers *first;
	int error; /* of the handlers */
} opened = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void close_descriptors(struct inccl_peers *peers)
{
	for (unsigned int i = 2; i < peers->n; i++)
		close(peers->pfd[i].fd);
	for (int i = 0; i < peers->ranks; i++)
		if (peers->fd[i] >= 0)
			close(peers->fd[i]);
	if (peers->listener >= 0)
		close(peers->listener);
	if (peers->stop_fd >= 0)
		close(peers->stop_fd);
}

static void before_fork(void)
{
	pthread_mutex_lock(&opened.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&opened.lock);
}

static void in_child(void)
{
	for (struct inccl_peers *peers = opened.first; peers; peers = peers->next)
		close_descriptors(peers);
	opened.first = NULL;
	pthread_mutex_unlock(&opened.lock);
}

static void add_fork_handlers(void)
{
	opened.error = -pthread_atfork(before_fork, after_fork, in_child);
}

static int enlist(struct inccl_peers *peers)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	/* without the lock, because a fork that waits for it may hold a lock of the C library */
	pthread_once(&once, add_fork_handlers);
	pthread_mutex_lock(&opened.lock);
	peers->next = opened.first;
	opened.first = peers;
	pthread_mutex_unlock(&opened.lock);
	return opened.error;
}

/* ---- the thread that answers ---- */

/* Called under the lock. */
static void drop_asker(struct inccl_peers *peers, unsigned int i)
{
	close(peers->pfd[i].fd);
	free(peers->asker[i]);
	peers->n--;
	memmove(&peers->pfd[i], &peers->pfd[i + 1], (peers->n - i) * sizeof(peers->pfd[0]));
	memmove(&peers->asker[i], &peers->asker[i + 1], (peers->n - i) * sizeof(peers->asker[0]));
}

/* Makes room for a connection: ends the oldest one whose other end has not shown the token. There
 * is one, because the other ranks have one connection each. */
static void drop_stranger(struct inccl_peers *peers)
{
	unsigned int i = 2;

	while (i + 1 < peers->n && peers->asker[i]->is_rank)
		i++;
	drop_asker(peers, i);
}

static void accept_asker(struct inccl_peers *peers)
{
	struct asker *asker = NULL;
	int fd, error;

	pthread_mutex_lock(&opened.lock);
	fd = inc_fd_high(accept4(peers->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	error = fd < 0 ? -errno : 0;
	if (fd >= 0)
		asker = calloc(1, sizeof(*asker));
	if (asker && peers->n == peers->most)
		drop_stranger(peers);
	if (asker) {
		peers->pfd[peers->n] = (struct pollfd){.fd = fd, .events = POLLIN};
		peers->asker[peers->n++] = asker;
	} else if (fd >= 0) {
		close(fd);
	}
	pthread_mutex_unlock(&opened.lock);
	if (inc_err_is_shortage(error))
		inc_wait_poll(peers->pfd, 1, PAUSE_MS);
}

static bool is_question(const struct inccl_peers *peers, const struct inccl_question *question)
{
	uint8_t differs = 0;

	/* a rank that is refused because this one is not ready asks again */
	if (!__atomic_load_n(&peers->ready, __ATOMIC_ACQUIRE))
		return false;
	/* the time does not depend on how much of a guessed token is right */
	for (size_t i = 0; i < sizeof(peers->token); i++)
		differs |= peers->token[i] ^ question->token[i];
	return !differs && le32toh(question->magic) == MAGIC;
}

/* Makes the reply to a complete question. */
static void reply_to(const struct inccl_peers *peers, struct asker *asker)
{
	const struct inccl_question question = {
		.ask = le32toh(asker->question.ask),
		.number = le64toh(asker->question.number),
		.offset = le64toh(asker->question.offset),
		.bytes = le64toh(asker->question.bytes),
	};
	struct inccl_answer answer = {0};

	peers->answer(peers->arg, &question, &answer, asker->reply + sizeof(answer));
	asker->got = asker->sent = 0;
	asker->to_send = sizeof(answer) + answer.bytes;
	answer = (struct inccl_answer){
		.magic = htole32(MAGIC),
		.has = htole32(answer.has),
		.lost = htole32(answer.lost),
		.bytes = htole32(answer.bytes),
		.begun = htole64(answer.begun),
		.ended = htole64(answer.ended),
	};
	memcpy(asker->reply, &answer, sizeof(answer));
}

static bool would_block(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Receives a part of a question, or sends a part of a reply. Returns false if the connection has
 * ended, or is not that of a rank. */
static bool serve_asker(struct inccl_peers *peers, struct pollfd *pfd, struct asker *asker)
{
	ssize_t n;

	if (asker->sent == asker->to_send) {
		n = recv(pfd->fd, (char *)&asker->question + asker->got,
			 sizeof(asker->question) - asker->got, MSG_DONTWAIT);
		if (n <= 0)
			return would_block(n);
		asker->got += n;
		if (asker->got < sizeof(asker->question))
			return true;
		if (!is_question(peers, &asker->question))
			return false;
		asker->is_rank = true;
		reply_to(peers, asker);
	}
	n = send(pfd->fd, asker->reply + asker->sent, asker->to_send - asker->sent,
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && !would_block(n))
		return false;
	asker->sent += n < 0 ? 0 : n;
	pfd->events = asker->sent < asker->to_send ? POLLOUT : POLLIN;
	return true;
}

static void *serve(void *arg)
{
	struct inccl_peers *peers = arg;

	for (;;) {
		if (inc_wait_poll(peers->pfd, peers->n, -1) < 0)
			continue;
		if (peers->pfd[0].revents)
			return NULL;
		for (unsigned int i = peers->n - 1; i >= 2; i--)
			if (peers->pfd[i].revents &&
			    !serve_asker(peers, &peers->pfd[i], peers->asker[i])) {
				pthread_mutex_lock(&opened.lock);
				drop_asker(peers, i);
				pthread_mutex_unlock(&opened.lock);
			}
		if (peers->pfd[1].revents)
			accept_asker(peers);
	}
}

/* ---- the start ---- */

/* Finds the own address, with any port: the caller's, or that of the connection to the
 * controller. */
static int find_address(const struct inccl_communicator *comm, const char *text,
			struct sockaddr_storage *at, struct inc_err *err)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)at;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)at;
	struct inccl_group *group = comm->group;
	socklen_t len;
	int ret = 0;

	if (!text) {
		pthread_mutex_lock(&group->lock);
		if (group->stream.fd < 0 || inc_os.stream.own(group->stream.fd, at, &len))
			ret = inc_err_set(err, ENOTCONN,
					  "no connection to the controller has the own address");
		pthread_mutex_unlock(&group->lock);
	} else if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		at->ss_family = AF_INET;
	} else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		at->ss_family = AF_INET6;
	} else {
		ret = inc_err_set(err, EINVAL, "address: '%.60s' is no address", text);
	}
	if (at->ss_family == AF_INET6)
		v6->sin6_port = 0;
	else
		v4->sin_port = 0;
	return ret;
}

static int listen_there(struct inccl_peers *peers, struct sockaddr_storage *at, struct inc_err *err)
{
	socklen_t len;
	int ret;

	pthread_mutex_lock(&opened.lock);
	peers->listener =
		inc_os.stream.listen((const struct sockaddr *)at, sizeof(*at), peers->ranks);
	pthread_mutex_unlock(&opened.lock);
	ret = peers->listener < 0 ? peers->listener : inc_os.stream.own(peers->listener, at, &len);
	if (ret < 0)
		return inc_err_set(err, -ret, "port for the other ranks: %s", strerror(-ret));
	return 0;
}

static int start_thread(struct inccl_peers *peers, struct inc_err *err)
{
	int ret;

	peers->pfd[0] = (struct pollfd){.fd = peers->stop_fd, .events = POLLIN};
	peers->pfd[1] = (struct pollfd){.fd = peers->listener, .events = POLLIN};
	peers->n = 2;
	ret = inc_thread_create_apart(&peers->thread, serve, peers);
	if (ret)
		return inc_err_set(err, -ret, "thread: %s", strerror(-ret));
	peers->has_thread = true;
	return 0;
}

static int begin(struct inccl_peers *peers, const struct inccl_communicator *comm,
		 const struct inccl_fallback_opts *opts, struct card *card, struct inc_err *err)
{
	int ret;

	ret = inc_random_bytes(peers->token, sizeof(peers->token), err);
	if (ret)
		return ret;
	memcpy(card->token, peers->token, sizeof(card->token));
	ret = find_address(comm, opts->address, &card->at, err);
	if (ret)
		return ret;
	ret = listen_there(peers, &card->at, err);
	if (ret)
		return ret;
	peers->stop_fd = inc_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (peers->stop_fd < 0)
		return inc_err_set(err, errno, "eventfd: %s", strerror(errno));
	return start_thread(peers, err);
}

/* Exchanges the cards. All ranks take part, also one that has failed. */
static int exchange(struct inccl_peers *peers, const struct inccl_fallback_opts *opts,
		    const struct card *own, struct inc_err *err)
{
	int ret = opts->gather(opts->context, own, peers->cards, sizeof(*own));

	if (ret)
		return inc_err_set(err, -ret, "gather(): %s", inccl_strerror(ret));
	for (int i = 0; i < peers->ranks; i++) {
		const struct card *card = &peers->cards[i];

		if (card->error)
			return inc_err_set(err, card->error, "rank %d: %.*s", i, TEXT_BYTES - 1,
					   card->text);
	}
	for (int i = 1; i < peers->ranks; i++)
		if (strncmp(peers->cards[i].options, peers->cards[0].options, TEXT_BYTES))
			return inc_err_set(err, EINVAL, "rank %d has %.*s, and rank 0 has %.*s", i,
					   TEXT_BYTES - 1, peers->cards[i].options, TEXT_BYTES - 1,
					   peers->cards[0].options);
	if (!peers->ready)
		memcpy(peers->token, peers->cards[0].token, sizeof(peers->token));
	__atomic_store_n(&peers->ready, true, __ATOMIC_RELEASE);
	return 0;
}

static struct inccl_peers *peers_new(int ranks)
{
	struct inccl_peers *peers = calloc(1, sizeof(*peers));

	if (!peers)
		return NULL;
	peers->ranks = ranks;
	peers->most = 2 + ranks + STRANGERS;
	peers->listener = peers->stop_fd = -1;
	peers->cards = calloc(ranks, sizeof(*peers->cards));
	peers->fd = malloc(ranks * sizeof(*peers->fd));
	peers->pfd = calloc(peers->most, sizeof(*peers->pfd));
	peers->asker = calloc(peers->most, sizeof(struct asker *));
	if (peers->cards && peers->fd && peers->pfd && peers->asker) {
		memset(peers->fd, -1, ranks * sizeof(*peers->fd));
		return peers;
	}
	free(peers->cards);
	free(peers->fd);
	free(peers->pfd);
	free(peers->asker);
	free(peers);
	return NULL;
}

/* Asks the next rank, so that an address by which ranks cannot be reached is found before it is
 * needed. */
static int try_next(struct inccl_peers *peers, int rank, struct inc_err *err)
{
	const struct inccl_question question = {.ask = INCCL_ASK_STATUS};
	const int next = (rank + 1) % peers->ranks;
	struct inccl_limit limit = inccl_limit_ms(CONNECT_TIMEOUT_MS);
	struct inccl_answer reply;
	struct inc_hostport at;
	int ret = next == rank ? 0 : -EAGAIN;

	/* the other rank may not know the token yet */
	while (ret && ret != -ECONNRESET &&
	       !inc_awake_past(&limit.awake, limit.began_at_ns, limit.limit_ns)) {
		ret = inccl_peers_ask(peers, next, &question, &reply, NULL, INCCL_PEERS_ASK_MS);
		if (ret)
			inc_wait_poll(NULL, 0, RETRY_MS);
		inc_awake_now_ns(&limit.awake);
	}
	if (!ret || inc_hostport_name((struct sockaddr *)&peers->cards[next].at,
				      sizeof(peers->cards[next].at), &at))
		return ret;
	return inc_err_set(err, EHOSTUNREACH, "it cannot reach rank %d at %s, port %s", next,
			   at.host, at.port);
}

static void explain(struct card *card, int ret, const struct inc_err *err)
{
	card->error = -ret;
	if (ret)
		snprintf(card->text, sizeof(card->text), "%.*s", TEXT_BYTES - 1,
			 *err->msg ? err->msg : strerror(-ret));
}

int inccl_peers_open(const struct inccl_communicator *comm, const struct inccl_fallback_opts *opts,
		     int early, inccl_answer_fn *fn, void *arg, struct inccl_peers **out,
		     struct inc_err *err)
{
	struct inccl_peers *peers = peers_new(comm->group->world_size);
	struct card card = {.error = 0};
	int ret = early;

	/* without memory for the others' cards this rank cannot take part in gather() */
	if (!peers)
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	peers->answer = fn;
	peers->arg = arg;
	snprintf(card.options, sizeof(card.options), "keep_bytes %zu and leave_early %d",
		 opts->keep_bytes, !!opts->leave_early);
	/* also without a descriptor, because inccl_peers_close() takes it from the list */
	ret = enlist(peers) ?: ret;
	ret = ret ?: begin(peers, comm, opts, &card, err);
	explain(&card, ret, err);
	ret = exchange(peers, opts, &card, err);
	if (!ret) {
		explain(&card, try_next(peers, comm->group->rank, err), err);
		ret = exchange(peers, opts, &card, err);
	}
	if (ret)
		inccl_peers_close(peers);
	else
		*out = peers;
	return ret;
}

void inccl_peers_close(struct inccl_peers *peers)
{
	struct inccl_peers **p;

	if (!peers)
		return;
	if (peers->has_thread) {
		inc_signal_fd(peers->stop_fd);
		pthread_join(peers->thread, NULL);
	}
	pthread_mutex_lock(&opened.lock);
	for (p = &opened.first; *p != peers; p = &(*p)->next)
		;
	*p = peers->next;
	close_descriptors(peers);
	pthread_mutex_unlock(&opened.lock);
	for (unsigned int i = 2; i < peers->n; i++)
		free(peers->asker[i]);
	free(peers->cards);
	free(peers->fd);
	free(peers->pfd);
	free(peers->asker);
	free(peers);
}

/* ---- questions ---- */

static int connect_to(const struct card *card, uint64_t deadline_ns)
{
	const struct addrinfo one = {
		.ai_family = card->at.ss_family,
		.ai_socktype = SOCK_STREAM,
		.ai_addr = (struct sockaddr *)&card->at,
		.ai_addrlen = sizeof(card->at),
	};
	int fd, nodelay = 1;

	fd = inc_race_run(&one, deadline_ns);
	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof(nodelay));
	return fd;
}

static int send_all(int fd, const void *data, size_t bytes, uint64_t deadline_ns)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t n =
			send(fd, (const char *)data + at, bytes - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && !would_block(n))
			return -errno;
		at += n < 0 ? 0 : n;
		if (n < 0 && inc_wait_for(fd, POLLOUT, -1, deadline_ns))
			return -ETIMEDOUT;
	}
	return 0;
}

static int receive_all(int fd, void *data, size_t bytes, uint64_t deadline_ns)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t n = recv(fd, (char *)data + at, bytes - at, MSG_DONTWAIT);

		if (!n)
			return -ECONNRESET;
		if (n < 0 && !would_block(n))
			return -errno;
		at += n < 0 ? 0 : n;
		if (n < 0 && inc_wait_for(fd, POLLIN, -1, deadline_ns))
			return -ETIMEDOUT;
	}
	return 0;
}

static int converse(int fd, const struct inccl_question *question, struct inccl_answer *answer,
		    void *data, uint64_t deadline_ns)
{
	struct inccl_answer raw;
	int ret;

	ret = send_all(fd, question, sizeof(*question), deadline_ns);
	if (ret)
		return ret;
	ret = receive_all(fd, &raw, sizeof(raw), deadline_ns);
	if (ret)
		return ret;
	*answer = (struct inccl_answer){
		.has = le32toh(raw.has),
		.lost = le32toh(raw.lost),
		.bytes = le32toh(raw.bytes),
		.begun = le64toh(raw.begun),
		.ended = le64toh(raw.ended),
	};
	if (le32toh(raw.magic) != MAGIC ||
	    answer->bytes > inc_min64(le64toh(question->bytes), INCCL_PEERS_CHUNK_BYTES))
		return -EPROTO;
	return receive_all(fd, data, answer->bytes, deadline_ns);
}

int inccl_peers_ask(struct inccl_peers *peers, int rank, const struct inccl_question *question,
		    struct inccl_answer *answer, void *data, unsigned int timeout_ms)
{
	const uint64_t deadline_ns = deadline_after_ms(timeout_ms);
	struct inccl_question raw = {
		.magic = htole32(MAGIC),
		.ask = htole32(question->ask),
		.number = htole64(question->number),
		.offset = htole64(question->offset),
		.bytes = htole64(question->bytes),
	};
	int *fd = &peers->fd[rank], ret;

	memcpy(raw.token, peers->token, sizeof(raw.token));
	if (*fd < 0) {
		*fd = connect_to(&peers->cards[rank], deadline_ns);
		if (*fd < 0)
			return *fd == -ECONNREFUSED ? -ECONNRESET : -ETIMEDOUT;
	}
	ret = converse(*fd, &raw, answer, data, deadline_ns);
	if (ret) {
		/* An answer may still be on its way, so the next question needs another
		 * connection. If the process is gone, that one is refused. */
		pthread_mutex_lock(&opened.lock);
		close(*fd);
		*fd = -1;
		pthread_mutex_unlock(&opened.lock);
		return -ETIMEDOUT;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the ranks of one machine meet. Every rank listens at a local socket with a random name before
 * it joins the group. The controller sends the ranks of a machine the name of the lowest one's
 * socket. In a group that spans machines it also sends which ranks these are. They have numbers
 * here, from 0 for the lowest one. The others connect to rank 0, and both ends check the other's
 * user. These connections last as long as the group. The sockets are in the abstract namespace, so
 * nothing is left in a file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "hostlib/node/meet.h"
#include "hostlib/node/shared_memory.h"
#include "lib/base/fd.h"
#include "lib/base/random.h"
#include "lib/net/wait.h"

/* Ranks with another version of this room's protocol are of another machine. */
#define VERSION "inccl-node-4"
#define MAGIC   0x6e6f6465
/* pause after a call that the kernel has no room for */
#define RETRY_MS 5
/* Limit of the connections that have not shown to be those of a rank. */
#define STRANGERS (2 * INC_MAX_NODE_RANKS)

/* ---- the offer ---- */

static uint64_t hash(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 0x100000001b3; /* FNV-1a */
	return h;
}

/* Returns the inode of a namespace of this process, or 0 if it cannot be read. */
static unsigned long long namespace_of(const char *kind)
{
	char path[48];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	return stat(path, &st) ? 0 : st.st_ino;
}

/* Finds a number that only processes have in common that can share memory by this file: those of
 * one boot of a machine, of one network namespace, and of one user. */
static int identify_machine(char id[INC_CONTROL_MACHINE_LEN])
{
	const unsigned long long net = namespace_of("net"), user = namespace_of("user");
	const struct inccl_node_shape shape = {2, INCCL_NODE_SLOTS, INCCL_NODE_MESSAGE_BYTES};
	char boot[48] = "", text[224];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof(boot) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0 || !net || !user)
		return -ENOENT;
	/* ranks of another build of the library may have another segment */
	snprintf(text, sizeof(text), VERSION " %zu %zu %zu %d %.36s %llu %llu %u", sizeof(void *),
		 sizeof(struct inccl_node_note), inccl_node_segment_bytes(&shape),
		 INCCL_NODE_PIECE_BYTES, boot, net, user, geteuid());
	snprintf(id, INC_CONTROL_MACHINE_LEN, "%016llx",
		 (unsigned long long)hash(0xcbf29ce484222325, text));
	return 0;
}

static socklen_t address_of(const char *name, struct sockaddr_un *at)
{
	*at = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* The first byte stays 0, which stands for the abstract namespace. Any process can list the
	 * names there, so the second half of the name is a secret, which a rank's first note has.
	 */
	return offsetof(struct sockaddr_un, sun_path) + 1 +
	       snprintf(at->sun_path + 1, sizeof(at->sun_path) - 1, "inccl-node-%.16s", name);
}

static int local_socket(void)
{
	return inc_fd_high(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

static int listen_at(const char *name)
{
	struct sockaddr_un at;
	const socklen_t len = address_of(name, &at);
	int fd = local_socket();

	if (fd >= 0 && !bind(fd, (struct sockaddr *)&at, len) && !listen(fd, 1024))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

void inccl_node_free(struct inccl_node *node)
{
	if (!node)
		return;
	if (node->listener >= 0)
		close(node->listener);
	for (unsigned int r = 0; r < INC_MAX_NODE_RANKS; r++)
		if (node->sock[r] >= 0)
			close(node->sock[r]);
	free(node);
}

static struct inccl_node *node_new(void)
{
	struct inccl_node *node = calloc(1, sizeof(*node));
	uint8_t random[16];

	if (!node || inc_random_bytes(random, sizeof(random), NULL))
		goto fail;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(node->name + 2 * i, 3, "%02x", random[i]);
	pthread_mutex_init(&node->lock, NULL);
	if (inccl_cond_init(&node->changed))
		goto fail;
	memset(node->sock, -1, sizeof(node->sock));
	node->listener = listen_at(node->name);
	if (node->listener >= 0)
		return node;
	inccl_node_free(node);
	return NULL;
fail:
	free(node);
	return NULL;
}

struct inccl_node *inccl_node_offer(struct inccl_group *group, struct inc_msg_join *msg)
{
	struct inccl_node *node = NULL;

	if (!group->shares_memory)
		return NULL;
	if (!identify_machine(msg->machine))
		node = node_new();
	if (node)
		memcpy(msg->meeting, node->name, sizeof(msg->meeting));
	else
		msg->machine[0] = 0;
	msg->spans = msg->has_spans = node;
	if (!node)
		inccl_log_line(group->log, "this rank shares no memory: the machine has no "
					   "identity, or allows no local socket");
	return node;
}

/* ---- notes ---- */

union control_room {
	char bytes[CMSG_SPACE((INC_MAX_NODE_RANKS + 1) * sizeof(int))];
	struct cmsghdr align;
};

int inccl_node_send(int fd, const struct inccl_node_note *note, const int *fds, unsigned int n)
{
	struct iovec iov = {.iov_base = (void *)note, .iov_len = sizeof(*note)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	union control_room room = {};
	struct cmsghdr *head;

	if (n) {
		msg.msg_control = room.bytes;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		head = CMSG_FIRSTHDR(&msg);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(head), fds, n * sizeof(int));
	}
	return sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Waits a little after a call that the kernel has no room for. Returns what inccl_node_check()
 * does. */
static int wait_for_room(struct inccl_group *group, struct inccl_limit *limit, struct inc_err *err)
{
	const int ret = inccl_node_check(group, limit, err);

	if (!ret)
		inc_wait_poll(NULL, 0, RETRY_MS);
	return ret;
}

int inccl_node_send_to(struct inccl_group *group, unsigned int rank, int fd,
		       const struct inccl_node_note *note, const int *fds, unsigned int n,
		       struct inccl_limit *limit, struct inc_err *err)
{
	int ret;

	/* The kernel limits the descriptors of a user that are sent and not received yet. */
	while ((ret = inccl_node_send(fd, note, fds, n)) == -EAGAIN || ret == -ETOOMANYREFS) {
		ret = wait_for_room(group, limit, err);
		if (ret)
			return ret;
	}
	if (ret == -EPIPE || ret == -ECONNRESET)
		return inccl_node_peer_gone(group, rank, err);
	return ret ? inc_err_set(err, -ret, "a message to rank %u of this machine: %s",
				 group->node->member[rank], strerror(-ret))
		   : 0;
}

void inccl_node_close_fds(int *fds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/* Takes the descriptors that came with a message. Returns their number, with those beyond `most`
 * closed. */
static unsigned int take_fds(struct msghdr *msg, int *fds, unsigned int most)
{
	unsigned int n = 0;

	for (struct cmsghdr *head = CMSG_FIRSTHDR(msg); head; head = CMSG_NXTHDR(msg, head)) {
		const size_t bytes = head->cmsg_len - CMSG_LEN(0);
		int fd;

		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < bytes / sizeof(fd); i++) {
			memcpy(&fd, CMSG_DATA(head) + i * sizeof(fd), sizeof(fd));
			if (n < most)
				fds[n++] = inc_fd_high(fd);
			else
				close(fd);
		}
	}
	return n;
}

int inccl_node_receive(int fd, struct inccl_node_note *note, int *fds, unsigned int most,
		       unsigned int *n)
{
	struct iovec iov = {.iov_base = note, .iov_len = sizeof(*note)};
	union control_room room;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = room.bytes,
			     .msg_controllen = sizeof(room.bytes)};
	const ssize_t bytes = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);

	if (bytes < 0)
		return -errno;
	*n = take_fds(&msg, fds, most);
	note->text[sizeof(note->text) - 1] = 0;
	if (bytes == sizeof(*note) && note->magic == MAGIC && !(msg.msg_flags & MSG_CTRUNC))
		return 0;
	inccl_node_close_fds(fds, *n);
	if (!bytes)
		return -ECONNRESET;
	/* the kernel drops descriptors for which this process has no room */
	return msg.msg_flags & MSG_CTRUNC ? -EMFILE : -EPROTO;
}

/* ---- waits ---- */

static int group_error(struct inccl_group *group, struct inc_err *err)
{
	int ret = 0;

	pthread_mutex_lock(&group->lock);
	if (group->error)
		ret = inc_err_set(err, group->error, "%s", group->error_text);
	pthread_mutex_unlock(&group->lock);
	return ret;
}

/* The controller knows more about a rank than this end, so its notice is awaited for a while. */
int inccl_node_peer_gone(struct inccl_group *group, unsigned int rank, struct inc_err *err)
{
	const uint64_t deadline_ns = deadline_after_ms(NOTICE_GRACE_MS);

	pthread_mutex_lock(&group->lock);
	while (!group->error && inc_now_ns() < deadline_ns)
		inccl_cond_wait_until(&group->changed, &group->lock, deadline_ns);
	pthread_mutex_unlock(&group->lock);
	return group_error(group, err)
		       ?: inc_err_set(err, ECONNRESET, "rank %u of this machine is gone",
				      group->node->member[rank]);
}

int inccl_node_check(struct inccl_group *group, struct inccl_limit *limit, struct inc_err *err)
{
	const int ret = group_error(group, err);

	if (ret)
		return ret;
	inc_awake_now_ns(&limit->awake);
	if (inc_awake_past(&limit->awake, limit->began_at_ns, limit->limit_ns))
		return inc_err_set(err, ETIMEDOUT, "no answer in time");
	return 0;
}

int inccl_node_wait(struct inccl_group *group, struct pollfd *pfd, unsigned int n,
		    struct inccl_limit *limit, struct inc_err *err)
{
	int ret = 0;

	while (!ret && inc_wait_poll(pfd, n, INCCL_NODE_LOOK_MS) <= 0)
		ret = inccl_node_check(group, limit, err);
	return ret;
}

/* ---- the meeting ---- */

struct inccl_node_note inccl_node_note_of(const struct inccl_group *group,
					  const struct inccl_node *node, enum inccl_node_step step,
					  long long index)
{
	return (struct inccl_node_note){.magic = MAGIC,
					.step = step,
					.group = group->number,
					.rank = node->rank,
					.index = index};
}

/* Whether the process at the other end has the same user. */
static bool is_same_user(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && peer.uid == geteuid();
}

/* The connections to rank 0's socket that have not sent their first note yet. */
struct strangers {
	struct pollfd pfd[1 + STRANGERS]; /* [0] is the listener */
	unsigned int n;
	bool told; /* the log has a line about one who was refused */
};

static void forget(struct strangers *s, unsigned int i, bool closes)
{
	if (closes)
		close(s->pfd[i].fd);
	memmove(&s->pfd[i], &s->pfd[i + 1], (--s->n - i) * sizeof(s->pfd[0]));
}

static void refuse(struct inccl_group *group, struct strangers *s, const char *who)
{
	if (!s->told)
		inccl_log_line(group->log,
			       "%s came to the meeting of this machine's ranks, and was refused",
			       who);
	s->told = true;
}

/* Accepts all who wait. Returns 0, or -errno with the reason if no more can be accepted. */
static int admit(struct inccl_group *group, struct strangers *s, struct inc_err *err)
{
	for (;;) {
		int fd = accept4(s->pfd[0].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR))
			return 0;
		if (fd < 0)
			return inc_err_set(err, errno, "meeting of this machine's ranks: %s",
					   strerror(errno));
		fd = inc_fd_high(fd);
		if (!is_same_user(fd)) {
			refuse(group, s, "a process of another user");
			close(fd);
			continue;
		}
		if (s->n == 1 + STRANGERS)
			forget(s, 1, true);
		s->pfd[s->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
}

/* Reads the first note of a stranger, which becomes the connection of its rank. Returns whether it
 * is a rank. */
static bool recognise(struct inccl_group *group, struct inccl_node *node, int fd)
{
	struct inccl_node_note note;
	unsigned int n;

	if (inccl_node_receive(fd, &note, NULL, 0, &n) || note.step != STEP_MEET ||
	    note.group != group->number || strcmp(note.text, node->name) || note.rank < 1 ||
	    note.rank >= (int)node->ranks || node->sock[note.rank] >= 0)
		return false;
	node->sock[note.rank] = fd;
	return true;
}

/* Rank 0: waits for all other ranks, and informs them that all are there. */
static int gather(struct inccl_group *group, struct inccl_node *node, struct inccl_limit *limit,
		  struct inc_err *err)
{
	const struct inccl_node_note met = inccl_node_note_of(group, node, STEP_MET, -1);
	struct strangers s = {.pfd = {{.fd = node->listener, .events = POLLIN}}, .n = 1};
	unsigned int missing = node->ranks - 1;
	int ret = 0;

	while (missing && !ret) {
		ret = inccl_node_wait(group, s.pfd, s.n, limit, err);
		for (unsigned int i = s.n - 1; i && !ret; i--) {
			if (!s.pfd[i].revents)
				continue;
			if (recognise(group, node, s.pfd[i].fd)) {
				missing--;
				forget(&s, i, false);
			} else {
				refuse(group, &s, "a process that is none of the group's ranks");
				forget(&s, i, true);
			}
		}
		/* strangers who never stop coming do not make this rank wait for ever */
		ret = ret ?: inccl_node_check(group, limit, err);
		if (!ret && missing && s.pfd[0].revents)
			ret = admit(group, &s, err);
	}
	while (s.n > 1)
		forget(&s, 1, true);
	for (unsigned int r = 1; r < node->ranks && !ret; r++)
		ret = inccl_node_send_to(group, r, node->sock[r], &met, NULL, 0, limit, err);
	return ret;
}

/* Other ranks: connect to rank 0, and wait until all are there. */
static int come(struct inccl_group *group, struct inccl_node *node, const char *meeting,
		struct inccl_limit *limit, struct inc_err *err)
{
	struct inccl_node_note meet = inccl_node_note_of(group, node, STEP_MEET, -1);
	struct pollfd pfd = {.events = POLLIN};
	struct sockaddr_un at;
	const socklen_t len = address_of(meeting, &at);
	int fd = local_socket(), ret = fd < 0 ? -errno : 0;
	struct inccl_node_note note;
	unsigned int n;

	node->sock[0] = fd;
	while (!ret && connect(fd, (struct sockaddr *)&at, len)) {
		ret = -errno;
		if (ret != -EAGAIN)
			break;
		/* many strangers wait there, too, until rank 0 accepts them all */
		ret = wait_for_room(group, limit, err);
		if (ret)
			return ret;
	}
	if (!ret && !is_same_user(fd))
		ret = -EACCES;
	snprintf(meet.text, sizeof(meet.text), "%s", meeting);
	ret = ret ?: inccl_node_send(fd, &meet, NULL, 0);
	if (ret)
		return group_error(group, err)
			       ?: inc_err_set(err, -ret,
					      "meeting of this machine's ranks: %s (INCCL_NODE=off "
					      "avoids it)",
					      strerror(-ret));
	pfd.fd = fd;
	ret = inccl_node_wait(group, &pfd, 1, limit, err);
	if (!ret && inccl_node_receive(fd, &note, NULL, 0, &n))
		ret = inccl_node_peer_gone(group, 0, err);
	return ret;
}

bool inccl_node_needs_network(const struct inccl_group *group)
{
	return !group->node || group->node->spans;
}

bool inccl_node_asks(const struct inccl_group *group)
{
	return !group->node || (group->node->spans && !group->node->rank);
}

/* Lists the ranks that meet, and finds this one among them. Returns false if there is no meeting
 * for this rank. */
static bool list_members(const struct inccl_group *group, struct inccl_node *node,
			 const struct inc_ranks *among)
{
	bool is_there = false;

	node->spans = among;
	node->ranks = 0;
	for (int rank = 0; rank < group->world_size; rank++) {
		if (among && !inc_ranks_have(among, rank))
			continue;
		if (node->ranks == INC_MAX_NODE_RANKS)
			return false;
		if (rank == group->rank) {
			is_there = true;
			node->rank = node->ranks;
		}
		node->member[node->ranks++] = rank;
	}
	return is_there && node->ranks > 1;
}

int inccl_node_meet(struct inccl_group *group, struct inccl_node *node, const char *meeting,
		    const struct inc_ranks *among, struct inccl_limit *limit, struct inc_err *err)
{
	int ret;

	if (!node)
		return 0;
	if (!*meeting || !list_members(group, node, among)) {
		inccl_node_free(node);
		return 0;
	}
	group->node = node;
	ret = node->rank ? come(group, node, meeting, limit, err) : gather(group, node, limit, err);
	close(node->listener);
	node->listener = -1;
	if (ret) {
		group->node = NULL;
		inccl_node_free(node);
		return ret;
	}
	if (node->spans)
		inccl_log_line(group->log,
			       "%u ranks on this machine share memory, and rank %u leads them",
			       node->ranks, node->member[0]);
	else
		inccl_log_line(group->log, "all %u ranks are on this machine and share memory",
			       node->ranks);
	return 0;
}

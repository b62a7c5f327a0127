/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one place where the product reaches the operating system for time, random numbers, datagrams,
 * streams and waits. It is a table of functions. The table holds the kernel's functions, and a test
 * replaces them by assignment before the code under test runs. Product code only reads the table,
 * on any thread, mostly through clock.h, random.h, lib/roce/udp.h and lib/net.
 */
#ifndef INC_OS_H
#define INC_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <sys/socket.h>
#include "lib/base/err.h"

struct epoll_event;
struct inc_addr;
struct inc_datagram;
struct inc_udp_send;
struct inc_udp_socket;
struct pollfd;

/* Datagrams (datagram.h). */
struct inc_os_udp {
	/* Opens a socket that does not block, at an address of this machine (inc_addr_any(): at all
	 * of that family) and a port (0: any free port). IPv4 packets have the don't-fragment bit
	 * and the IP ID 0, and those of one send have consecutive IDs from 0 on. IPv6 packets are
	 * not fragmented either. The buffers are as large as the kernel allows for this process, up
	 * to `bytes`. Returns 0, or -errno with err. */
	int (*open)(const struct inc_addr *own, uint16_t port, int bytes,
		    struct inc_udp_socket *out, struct inc_err *err);
	/* Makes the socket's buffers as large as the kernel allows for this process, up to `bytes`.
	 * Returns the size of the receive buffer, as the kernel counts it. */
	int (*grow)(int fd, int bytes);
	/* Makes the socket report the interface at which each datagram arrives, and the address to
	 * which it was sent. ipv6: the socket's family. Returns 0 or -errno. */
	int (*show_arrival)(int fd, bool ipv6);
	/* Sends the first of the n sends, and as many of the next as possible, INC_UDP_SENDS at
	 * most. Returns their number, or -errno if the first one failed. */
	int (*send)(int fd, const struct inc_udp_send *sends, unsigned int n);
	/* Receives the datagrams that have arrived, INC_UDP_RECVS at most. Returns their number, or
	 * -errno (-EAGAIN: there are none). The datagrams are valid until the next call. They may
	 * be in `room`, which has INC_UDP_RECVS * INC_UDP_RECV_BYTES bytes. A datagram has the size
	 * 0 if it is too large, or its sender has no address of the socket's family. */
	int (*receive)(int fd, uint8_t *room, struct inc_datagram *datagrams);
	/* Whether the socket's send buffer has room for a send. */
	bool (*writable)(int fd);
	void (*close)(int fd);
	/* Finds the own address from which this machine would send to the address `to`. Returns 0
	 * or -errno. */
	int (*source)(const struct inc_addr *to, struct inc_addr *out);
	/* Whether the machine with the address `to` answers within ms milliseconds to a datagram
	 * or a connection attempt from the address `own`. Its kernel answers by ICMP or refuses the
	 * connection, because nothing listens at the port (discard). */
	bool (*answers)(const struct inc_addr *own, const struct inc_addr *to, unsigned int ms);
	/* Whether the machine's kernel answers a datagram to this port by ICMP, because nothing
	 * listens there. A firewall may drop the datagram. */
	bool (*refuses)(const struct inc_addr *own, const struct inc_addr *to, uint16_t port,
			unsigned int ms);
};

/* Streams, that is TCP connections. Their descriptors are non-blocking and close-on-exec. All else
 * that a stream needs are calls on a descriptor: accept4(), send(), recv(), shutdown(), close() and
 * options that may fail. So a test may use stream sockets of another family. */
struct inc_os_stream {
	/* Listens at an address, which a listener that has just ended may have had. Returns the
	 * descriptor or -errno. */
	int (*listen)(const struct sockaddr *at, socklen_t len, int backlog);
	/* Begins to connect. Returns the descriptor, which becomes writable when the attempt ends,
	 * or -errno. */
	int (*connect)(const struct sockaddr *to, socklen_t len);
	/* Returns the result of a connection attempt that has ended: 0 or -errno. */
	int (*result)(int fd);
	/* These two return the address of the own end of a connected stream, and that of its peer.
	 * They return 0 or -errno. */
	int (*own)(int fd, struct sockaddr_storage *out, socklen_t *len);
	int (*peer)(int fd, struct sockaddr_storage *out, socklen_t *len);
	/* Whether the peer has ended its direction, even if its last bytes have not been read. */
	bool (*peer_ended)(int fd);
};

/* Waits of a thread without an event loop (lib/net/loop.h has those with one). */
struct inc_os_wait {
	/* ppoll() without a mask of signals, and epoll_wait(). Both are cancellation points. */
	int (*poll)(struct pollfd *pfd, unsigned int n, const struct timespec *timeout);
	int (*epoll)(int epoll_fd, struct epoll_event *events, int most, int timeout_ms);
	/* Creates an alarm (a timerfd), a non-blocking descriptor that becomes readable at a set
	 * time and that inc_drain_fd() reads. Returns the descriptor or -errno. */
	int (*alarm)(void);
	/* Makes the alarm readable at a time of CLOCK_MONOTONIC, in place of an earlier setting.
	 * UINT64_MAX: never. */
	void (*set_alarm)(int fd, uint64_t at_ns);
	/* Lets other threads run that wait for this CPU. */
	void (*give_way)(void);
};

struct inc_os {
	/* The time of a clock (CLOCK_MONOTONIC, CLOCK_REALTIME) in nanoseconds. */
	uint64_t (*clock_ns)(clockid_t clock);
	/* Fills `out` with up to 256 random bytes. wait: waits shortly after boot, until the kernel
	 * has random numbers. Returns 0 or -errno. */
	int (*random)(void *out, size_t size, bool wait);
	struct inc_os_udp udp;
	struct inc_os_stream stream;
	struct inc_os_wait wait;
};

extern struct inc_os inc_os;
/* The kernel's functions. A test restores inc_os from this table, or calls its functions in its own
 * replacements. */
extern const struct inc_os inc_os_kernel;

#endif

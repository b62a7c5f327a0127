/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * OpenSSL's queue of errors. It belongs to the thread and not to a connection: SSL_get_error()
 * takes an error that another connection has left for the one that it is asked about. A thread may
 * also be that of a program that uses OpenSSL itself, and whose errors are not ours to read or to
 * remove.
 *
 * So each function of tls_link.h that calls OpenSSL begins with INC_TLS_OWN_ERRORS(), and so do
 * those of tls.h that make and free a context. The others of tls.h are called by tls_link.c, inside
 * of these. Up to the function's end the queue is the function's own, and begins empty. At its end
 * the queue holds again what it held before. A mark of the program's (ERR_set_mark()) is lost where
 * there is an error below it, because OpenSSL itself removes marks in a handshake.
 */
#ifndef INC_TLS_ERRORS_H
#define INC_TLS_ERRORS_H

struct inc_tls_errors;

/* A declaration, the last one of the function. */
#define INC_TLS_OWN_ERRORS()               \
	struct inc_tls_errors *kept_errors \
		__attribute__((cleanup(inc_tls_errors_restore), unused)) = inc_tls_errors_keep()

/* Empties the queue and returns what it held. NULL: nothing, which is the usual case, or there was
 * no memory to keep it in. */
struct inc_tls_errors *inc_tls_errors_keep(void);
/* The queue holds what was kept and nothing else. Frees *kept. */
void inc_tls_errors_restore(struct inc_tls_errors **kept);

#endif

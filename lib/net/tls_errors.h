/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protects OpenSSL's queue of errors. The queue belongs to the thread and not to a connection, so
 * SSL_get_error() may report an error that another connection has left. The thread may also belong
 * to a program that uses OpenSSL itself, and we must not read or remove the errors of that
 * program.
 *
 * So each function of tls_link.h that calls OpenSSL begins with INC_TLS_OWN_ERRORS(), and so do the
 * functions of tls.h that make and free a context. The other functions of tls.h are called by
 * tls_link.c, inside of these. Until such a function returns, the queue has only its own errors,
 * and begins empty. When the function returns, the queue holds again what it held before. A mark of
 * the program (ERR_set_mark()) is lost if there is an error below it, because OpenSSL itself
 * removes marks in a handshake.
 */
#ifndef INC_TLS_ERRORS_H
#define INC_TLS_ERRORS_H

struct inc_tls_errors;

/* Declares a variable that keeps the thread's errors until the function returns. A function that
 * protects the queue has this as its last declaration. */
#define INC_TLS_OWN_ERRORS()               \
	struct inc_tls_errors *kept_errors \
		__attribute__((cleanup(inc_tls_errors_restore), unused)) = inc_tls_errors_keep()

/* Empties the thread's queue of OpenSSL errors and returns them. NULL: the queue was empty, which
 * is the usual case, or there was no memory to store the errors. */
struct inc_tls_errors *inc_tls_errors_keep(void);
/* Replaces the errors in the queue by the stored ones. Frees *kept. */
void inc_tls_errors_restore(struct inc_tls_errors **kept);

#endif

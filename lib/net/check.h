/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * These check whether a text can name an interface, an address or a socket, by its form alone. They
 * return 0, or -EINVAL and a sentence that quotes the text, as option tables need it
 * (lib/base/opt.h).
 */
#ifndef INC_NET_CHECK_H
#define INC_NET_CHECK_H

#include "lib/base/err.h"

int inc_ifname_check(const char *text, struct inc_err *err);
/* Checks for an IPv4 address: four numbers without a prefix length. */
int inc_ipv4_check(const char *text, struct inc_err *err);
/* Checks for a path that fits into the address of a UNIX socket. */
int inc_socket_path_check(const char *text, struct inc_err *err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a text can name something of the network, by its form alone. 0, or -EINVAL and a sentence
 * that quotes it, as option tables want it (lib/base/opt.h).
 */
#ifndef INC_NET_CHECK_H
#define INC_NET_CHECK_H

#include "lib/base/err.h"

int inc_ifname_check(const char *text, struct inc_err *err);
/* An address with four numbers, no prefix length. */
int inc_ipv4_check(const char *text, struct inc_err *err);
/* A path that fits into the address of a socket. */
int inc_socket_path_check(const char *text, struct inc_err *err);

#endif

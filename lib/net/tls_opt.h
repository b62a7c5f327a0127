/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of every program that proves itself to others on the control plane: one vocabulary.
 */
#ifndef INC_TLS_OPT_H
#define INC_TLS_OPT_H

#include "lib/base/opt.h"
#include "lib/net/tls.h"

/* --key, --tls-cert, --tls-cert-key and --tls-ca, for a member struct inc_tls_files of a program's
 * settings. What is wrong with such files, inc_tls_server() and inc_tls_client() say. */
extern const struct inc_opt inc_tls_options[];

#endif

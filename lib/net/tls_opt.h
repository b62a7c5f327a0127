/* SPDX-License-Identifier: BSD-2-Clause */
/* The options about keys and certificates, the same for every program on the control plane. */
#ifndef INC_TLS_OPT_H
#define INC_TLS_OPT_H

#include "lib/base/opt.h"
#include "lib/net/tls.h"

/* The options --key, --tls-cert, --tls-cert-key and --tls-ca, for a member struct inc_tls_files of
 * a program's settings. inc_tls_server() and inc_tls_client() check the files. */
extern const struct inc_opt inc_tls_options[];

#endif

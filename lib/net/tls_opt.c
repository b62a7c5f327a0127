// SPDX-License-Identifier: BSD-2-Clause
/* Options about keys and certificates, the same for every program on the control plane. */
#include "lib/net/tls.h"

const struct inc_opt inc_tls_options[] = {
	{.name = "key",
	 .value = "FILE",
	 .help = "speak TLS 1.3 with pre-shared keys; each line of the file is an identity, a "
		 "blank and a secret of 32 to 128 hex digits. A controller has the keys of all who "
		 "may connect, everybody else their own (docs/control.md, \"Keys\"); mode 0600",
	 INC_OPT_TEXT(struct inc_tls_files, key, inc_path_check)},
	{.name = "tls-cert",
	 .value = "FILE",
	 .help = "or with certificates, all PEM: one's own, and those up to the CA's",
	 INC_OPT_TEXT(struct inc_tls_files, cert, inc_path_check)},
	{.name = "tls-cert-key",
	 .value = "FILE",
	 .help = "the private key of that certificate; mode 0600",
	 INC_OPT_TEXT(struct inc_tls_files, cert_key, inc_path_check)},
	{.name = "tls-ca",
	 .value = "FILE",
	 .help = "the CA that must have signed the other side's certificate",
	 INC_OPT_TEXT(struct inc_tls_files, ca, inc_path_check)},
	{},
};

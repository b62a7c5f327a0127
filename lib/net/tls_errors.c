// SPDX-License-Identifier: BSD-2-Clause
/*
 * Stores and restores the errors in a thread's queue (tls_errors.h). OpenSSL has functions for
 * this since release 3.2 only, and the project also supports 3.0.
 */
#include <stdlib.h>
#include <string.h>
#include <openssl/err.h>
#include "lib/net/tls_errors.h"

struct inc_tls_errors {
	unsigned int n;
	struct error {
		unsigned long code;
		int line, flags;
		/* texts of the error; NULL: there was no memory for them */
		char *file, *function, *data;
	} error[ERR_NUM_ERRORS];
};

struct inc_tls_errors *inc_tls_errors_keep(void)
{
	struct inc_tls_errors *kept = ERR_peek_error() ? calloc(1, sizeof(*kept)) : NULL;
	const char *file, *function, *data;
	struct error next = {0};

	while (kept && kept->n < ERR_NUM_ERRORS &&
	       (next.code = ERR_get_error_all(&file, &next.line, &function, &data, &next.flags))) {
		next.file = strdup(file);
		next.function = strdup(function);
		next.data = strdup(data);
		kept->error[kept->n++] = next;
	}
	ERR_clear_error();
	return kept;
}

static void put_back(struct error *e)
{
	ERR_new();
	ERR_set_debug(e->file, e->line, e->function);
	if (e->flags & ERR_TXT_STRING && e->data)
		ERR_set_error(ERR_GET_LIB(e->code), ERR_GET_REASON(e->code), "%s", e->data);
	else
		ERR_set_error(ERR_GET_LIB(e->code), ERR_GET_REASON(e->code), NULL);
	free(e->file);
	free(e->function);
	free(e->data);
}

void inc_tls_errors_restore(struct inc_tls_errors **kept)
{
	ERR_clear_error();
	for (unsigned int i = 0; *kept && i < (*kept)->n; i++)
		put_back(&(*kept)->error[i]);
	free(*kept);
	*kept = NULL;
}

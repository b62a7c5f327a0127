/* SPDX-License-Identifier: BSD-2-Clause */
/* A soft endpoint of a switch and a peer that says anything: packets that are nearly right, whose
 * checksums fit, and bytes that are not even that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <unistd.h>
#include "selftests/term/soft_lone.h"

static uint32_t draw(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* Anything: packets that are nearly right, whose checksums fit, and bytes that are not even that.
 */
static void test_fuzz(void **state)
{
	struct lone *w = *state;
	uint64_t seed = 42;
	unsigned int i, j, lost = 0, got = 0;

	for (i = 0; i < 40000; i++) {
		struct say what = {
			.opcode = draw(&seed) % 8 ? draw(&seed) % 6 : draw(&seed) % 0x20,
			.psn = w->psn + (draw(&seed) % 8 ? 0 : draw(&seed) % 7 - 3),
			.ackreq = draw(&seed) & 1,
			.imm = draw(&seed),
			.payload = w->bytes,
			.len = draw(&seed) % 2 ? PAYLOAD : draw(&seed) % (PAYLOAD + 8),
			.bad_icrc = draw(&seed) % 50 == 0,
			.cut = draw(&seed) % 50 ? 0 : draw(&seed) % 16,
		};
		uint8_t garbage[64];

		if (draw(&seed) % 16 == 0) {
			what.opcode = INC_OP_ACK;
			what.len = 0;
			what.psn = OWN_PSN + draw(&seed) % 4;
		}
		peer_say(&w->peer, &what);
		for (j = 0; j < sizeof(garbage); j++)
			garbage[j] = draw(&seed);
		if (draw(&seed) % 8 == 0)
			sendto(w->peer.fd, garbage, draw(&seed) % sizeof(garbage), 0,
			       (struct sockaddr *)&w->peer.host, sizeof(w->peer.host));
		if (draw(&seed) % 4 == 0)
			inc_term_soft.send(w->ch, w->out, draw(&seed) % MAX_MESSAGE, false, 0);
		got -= w->n_got;
		inc_term_soft.progress(w->dev);
		got += w->n_got;
		assert_true(w->length <= MAX_MESSAGE);
		w->psn = PEER_PSN + lone_figures(w).rx_packets - lone_figures(w).duplicates;
		while (recv(w->peer.fd, w->peer.buf, sizeof(w->peer.buf), MSG_DONTWAIT) >= 0)
			;
		for (j = w->n_got; j-- && draw(&seed) % 2;)
			inc_term_soft.post(w->ch, w->in[draw(&seed) % MESSAGES]);
		if (w->n_lost || draw(&seed) % 64 == 0) {
			lost += w->n_lost;
			inc_term_soft.shut(w->ch, draw(&seed) % 2 ? INC_AETH_NAK_OPERATION : 0);
			close(w->peer.fd);
			lone_make(w, true, draw(&seed) % 2);
		}
	}
	assert_true(lost > 1000);
	assert_true(got > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_fuzz, lone_setup, lone_teardown),
	};

	return cmocka_run_group_tests_name("soft fuzz", tests, NULL, NULL);
}

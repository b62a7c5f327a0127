/* SPDX-License-Identifier: BSD-2-Clause */
/* A topology of three hosts below a root and a switch, without its name. */
#ifndef SELFTESTS_TWO_SWITCHES_H
#define SELFTESTS_TWO_SWITCHES_H

/* clang-format off */
#define TWO_SWITCHES \
	"hosts: [{name: h0, ip: 10.77.0.1}, {name: h1, ip: 10.77.1.1}, {name: h2, ip: 10.77.2.1}]\n" \
	"switches:\n" \
	"- {name: s0, root: true, ports: [{name: p0, ip: 10.77.0.254, peer: h0}," \
	" {name: p1, ip: 10.77.1.254, peer: h1}, {name: t, ip: 10.78.0.1, peer: s1}]}\n" \
	"- {name: s1, ports: [{name: p0, ip: 10.77.2.254, peer: h2}," \
	" {name: t, ip: 10.78.0.2, peer: s0}]}\n" \
	"links: []\n"
/* clang-format on */

#endif

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Termination mode on rxe: a switch's endpoints alone; their own result lines count."""
import os

from vmlab import BUILD, case, command, expect, lab, libtest


def endpoints():
    with lab(2, "--wires"):
        ends = [word for i in range(2) for word in (f"rxe{i}", f"h{i}", f"10.77.{i}.1")]
        result = command(os.path.join(BUILD, "selftests/vm/term_verbs"), *ends, timeout=600, check=False,
                         env=dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP"))
        print(result.out, result.err, sep="\n", flush=True)
        with case("endpoints"):
            expect(result.code == 0, result.story())


def test():
    endpoints()


libtest.main(test)

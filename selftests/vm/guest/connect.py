#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The connection service between two rxe devices: its library, whose result lines count, its tool, and
its speed beside perftest's."""
import os

from vmlab import BUILD, case, command, expect, lab, libtest

FULL = os.environ.get("FULL") == "1"
ADDRESSES = [f"10.77.{i}.1" for i in range(2)]


def library():
    ends = [word for i in range(2) for word in (f"rxe{i}", f"p{i}", ADDRESSES[i])]
    result = command(os.path.join(BUILD, "selftests/vm/connect_live"), *ends,
                     timeout=1500 if FULL else 500, check=False,
                     env=dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP"))
    print(result.out, result.err, sep="\n", flush=True)
    with case("library"):
        expect(result.code == 0, result.story())


def test():
    with lab(2, "--wires"):
        library()


libtest.main(test)

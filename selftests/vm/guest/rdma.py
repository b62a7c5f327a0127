#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""lib/rdma on two rxe devices, a connection's socket and the plugin's paths on it; the programs' own
result lines count."""
import os

from vmlab import BUILD, case, command, expect, lab, libtest


def program(name):
    ends = [word for i in range(2) for word in (f"rxe{i}", f"h{i}", f"10.77.{i}.1")]
    result = command(os.path.join(BUILD, "selftests/vm", name), *ends, timeout=400, check=False,
                     env=dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP"))
    print(result.out, result.err, sep="\n", flush=True)
    with case(name):
        expect(result.code == 0, result.story())


def test():
    with lab(2, "--wires"):
        program("connect_socket")
        program("rdma_live")  # takes the lab's routes away
    with lab(2, "--wires"):
        program("nccl_path")  # likewise


libtest.main(test)

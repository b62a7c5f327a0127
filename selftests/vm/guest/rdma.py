#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""lib/rdma on two rxe devices, the socket of a connection on it, and the plugin's paths on it. The programs' own
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
        program("rdma_live")  # removes the lab's routes
    with lab(2, "--wires"):
        program("nccl_path")  # also removes the lab's routes


libtest.main(test)

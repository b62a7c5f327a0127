#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""lib/rdma on two rxe devices; its own result lines count."""
import os

from vmlab import BUILD, case, command, expect, lab, libtest


def test():
    ends = [word for i in range(2) for word in (f"rxe{i}", f"h{i}", f"10.77.{i}.1")]
    with lab(2, "--wires"):
        result = command(os.path.join(BUILD, "selftests/vm/rdma_live"), *ends, timeout=400,
                         check=False, env=dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP"))
        print(result.out, result.err, sep="\n", flush=True)
        with case("devices_alone"):
            expect(result.code == 0, result.story())


libtest.main(test)

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""N ranks each give 1,024 integers of value rank + 1, so every sum is N (N + 1) / 2."""
import array
import sys

import inccl


def main() -> int:
    with inccl.Group() as group, group.communicator() as comm:  # all options come from the environment
        numbers = array.array("i", [group.rank + 1] * 1024)
        comm.allreduce(numbers)
        wrong = sum(n != group.size * (group.size + 1) // 2 for n in numbers)
        print(f"rank {group.rank} of {group.size}: {wrong} wrong")
        if group.rank == 0:
            print(comm.summary)
        return wrong > 0


try:
    sys.exit(main())
except inccl.Error as e:
    sys.exit(f"sum: {e.strerror}")

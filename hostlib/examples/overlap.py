#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Four sums are under way at once, while the program computes. An event loop awaits them in the order in which they end."""
import asyncio
import sys

import numpy as np

import inccl


async def main() -> int:
    with inccl.Group() as group, group.communicator() as comm:
        parts = [np.full(100_000, group.rank * 0.5 + k, np.float32) for k in range(4)]
        requests = [comm.allreduce_start(part) for part in parts]  # in the same order on every rank
        computed = float(np.sqrt(np.arange(100_000)).sum())
        results = await asyncio.gather(*requests)
        half = group.size * (group.size - 1) / 4
        wrong = sum(int((result != half + group.size * k).sum()) for k, result in enumerate(results))
        print(f"rank {group.rank}: computed {computed:.0f} meanwhile, {wrong} wrong")
        return wrong > 0


sys.exit(asyncio.run(main()))

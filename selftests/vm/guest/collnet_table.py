#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Prints a table of AllReduce as NCCL calls it, by CollNet in both modes and around a ring of the plugin, over rxe hosts:
topo/inc-vm run --time-limit 1500 -- selftests/vm/guest/collnet_table.py"""
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from vmlab import BUILD, lab, run  # noqa: E402

SIZES = {64 << 10: 10, 1 << 20: 4, 16 << 20: 1}
NODE = ("sh", "-c", f"exec env NCCL_IB_HCA==rxe$INCCL_RANK HA_NCCL_QP_TIMEOUT=18 NCCL_DEBUG=WARN {BUILD}/ha-nccl-perf "
        f"--root 127.0.0.1:4711 --plugin {BUILD}/libnccl-net-ha.so --rank $INCCL_RANK --ranks $INCCL_WORLD_SIZE --warmup 1 --json --channels 1 --limit-ms 120000 \"$@\"", "x")


def median_us(hosts, size, how):
    out = run(*NODE, "--bytes", str(size), "--iters", str(SIZES[size]), how, ranks=hosts, timeout=200).out
    first = next(line for line in out.splitlines() if line.startswith("[0] {"))
    return json.loads(first[4:])["sizes"][0]["median_us"]


def main():
    rounds = int(sys.argv[1]) if sys.argv[1:] else 3
    print("| nodes | vector | passthrough, ms | termination, ms | ring by the plugin, ms |\n|---|---|---|---|---|")
    for hosts in (2, 4):
        took = {}
        for mode in ("passthrough", "termination"):
            with lab(hosts, "--switchd-args", f"--mode {mode}"):
                for _ in range(rounds):
                    for size in SIZES:
                        took.setdefault((size, mode), []).append(median_us(hosts, size, "--collnet"))
                        if mode == "termination":
                            took.setdefault((size, "ring"), []).append(median_us(hosts, size, "ring"))
        for size in SIZES:
            cells = (statistics.median(took[size, what]) / 1000 for what in ("passthrough", "termination", "ring"))
            print(f"| {hosts} | {size >> 10} KiB | " + " | ".join(f"{c:.1f}" for c in cells) + " |", flush=True)


main()

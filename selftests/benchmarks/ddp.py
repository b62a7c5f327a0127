# SPDX-License-Identifier: BSD-2-Clause
"""The part `torch` of `bench`: training steps per second by DistributedDataParallel on four hosts, over the switch in each mode
and over gloo, in turn in each round. It trains what hostlib/examples/train.py trains."""
import importlib.util
import os
import re
import secrets
import statistics

from libtest import TOP, Lab, expect
from table import Table

PYTHON = "/usr/bin/python3"  # the one of the distribution's packages
LIMIT_S = 300
# (what is measured, the mode of the switch, train.py's backend and hook, INCCL_TORCH_CHOICE)
WAYS = [("gloo", "passthrough", "gloo", "-", "measure"), ("switch, passthrough mode", "passthrough", "inccl", "-", "switch"),
        ("switch, termination mode", "termination", "inccl", "-", "switch"),
        ("switch, termination mode, bfloat16 by the hook", "termination", "inccl", "bfloat16", "switch"),
        ("the faster way, as measured, termination mode", "termination", "inccl", "-", "measure")]


def steps_per_s(lab, backend, wire, choice, epochs):
    env = {"PYTHONPATH": os.path.join(TOP, "hostlib", "python"), "MASTER_ADDR": "10.77.0.1", "GLOO_SOCKET_IFNAME": "eth0",
           "MASTER_PORT": str(20000 + secrets.randbelow(10000)), "INCCL_TORCH_CHOICE": choice}
    result = lab.run(PYTHON, os.path.join(TOP, "hostlib", "examples", "train.py"), backend, wire, epochs, env=env, timeout=LIMIT_S)
    rates, weights = re.findall(r"([\d.]+) steps/s", result.out), set(re.findall(r"weights (\w+)", result.out))
    expect(len(rates) == 4 and len(weights) == 1, result.story())
    return min(map(float, rates))


def measure_torch(how):
    if not importlib.util.find_spec("torch"):
        yield {"skipped": "needs torch (scripts/install-deps torch)"}
        return
    epochs = 2 if how.quick else 5
    args = ("star4.yaml", "--controller-args", "--member-timeout-ms 0")
    with Lab(*args, books=False) as passthrough, Lab(*args, books=False, mode="termination") as termination:
        labs = {"passthrough": passthrough, "termination": termination}
        rounds = [{name: steps_per_s(labs[mode], *how_it_trains, epochs) for name, mode, *how_it_trains in WAYS}
                  for _ in range(how.rounds)]
    for name, *_ in WAYS:
        yield {"way": name, "steps_per_s": statistics.median(r[name] for r in rounds),
               "ratio": statistics.median(r[name] / r["gloo"] for r in rounds), "rounds": [r[name] for r in rounds]}


def show_torch(rows):
    yield Table(f"Training steps of four ranks, 85,002 parameters, batches of 24; medians of {len(rows[0]['rounds'])} rounds",
                ["gradients through", "steps/s", "beside gloo", "each round"],
                [[r["way"], f"{r['steps_per_s']:.1f}", f"{r['ratio']:.2f}", " ".join(f"{n:.1f}" for n in r["rounds"])] for r in rows])

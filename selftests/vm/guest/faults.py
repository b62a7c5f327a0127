#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The fault matrix with hosts on verbs, in both modes of the switch. Runs some cells of a star or a tree, chosen by
INC_FAULTS_SEED. INC_FAULTS_FULL=1: all of them, or those of one lab (INC_FAULTS_LAB=termination/star2) and of some
windows (INC_FAULTS_WINDOWS="1 512")."""
import contextlib
import os
import random

from vmlab import BUILD, GUEST_LAB, NAPI, OUT, case, guest_lab, libtest
from faultcells import BETWEEN, HOST_PLACES, LIMIT_S, WINDOWS, Bench, cells

FULL = os.environ.get("INC_FAULTS_FULL") == "1"
ONLY = os.environ.get("INC_FAULTS_LAB", "")
CHOSEN = [int(w) for w in os.environ.get("INC_FAULTS_WINDOWS", "").split()] or WINDOWS
SAMPLE_S = 15  # time for the cells; the lab's start comes in addition
# (topology, wires that count frames, places). Only some links are wires, because an emulated machine forwards slowly.
LABS = (("star2.yaml", None, HOST_PLACES), ("tree-2x2.yaml", ["s0-r"], (BETWEEN,)))
MODES = ("passthrough", "termination")


@contextlib.contextmanager
def adopted(path, mode):
    """A copy of the topology in which one CPU serves all ports of a switch. Only then results keep their order."""
    with contextlib.ExitStack() as stack:
        stack.callback(guest_lab, "down", timeout=60)
        lab = stack.enter_context(libtest.Lab(path, "--napi", NAPI, *libtest.PATIENT, mode=mode))
        guest_lab("adopt", lab.name, timeout=60)
        yield lab


def start(*args):
    return libtest.Job([GUEST_LAB, "run", "--transport", "verbs", "--limit", str(LIMIT_S), "--",
                        os.path.join(BUILD, "inccl-perf"), "allreduce", *map(str, args)])


def on(mode, topology, only, places, rng, directory):
    chosen = [cell for cell in cells(places) if cell[2] in CHOSEN]
    path, wires = libtest.with_wires(directory, topology, only=only)
    with adopted(path, mode) as lab:
        bench = Bench(lab, wires, start, {"hosts": "rxe", "mode": mode,
                                          "topology": topology.split(".", maxsplit=1)[0]}, fewer=4)
        for window in CHOSEN if FULL else ():
            with case(f"{mode}, {topology}, window {window}: no fault"):
                print("#", bench.quiet(window), flush=True)
        watch = libtest.stopwatch()
        if not FULL:
            rng.shuffle(chosen)
        for fault, place, window in chosen:
            if not FULL and watch() > SAMPLE_S:
                break
            with case(f"{mode}, {topology}, window {window}: {fault.name}, {place}"):
                print("#", bench.run(fault, place, window), flush=True)


def test():
    seed = int(os.environ.get("INC_FAULTS_SEED") or random.randrange(1 << 32))
    print(f"SEED={seed}", flush=True)
    rng = random.Random(seed)
    os.environ["INC_FAULT_ROWS"] = os.path.join(OUT, "fault-rows.json")
    labs = [(mode, *lab) for mode in MODES for lab in LABS]
    with libtest.scratch() as directory:
        if ONLY:
            labs = [lab for lab in labs if f"{lab[0]}/{lab[1].split('.', maxsplit=1)[0]}" == ONLY]
        for lab in labs if FULL else [rng.choice(labs)]:
            on(*lab, rng, directory)


libtest.main(test)

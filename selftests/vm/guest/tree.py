#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""rxe hosts below two levels of switches: every collective by both modes, beside soft hosts, and with
loss between the switches."""
import contextlib
import itertools

from vmlab import case, expect, guest_lab, libtest, perf

MODES = ("sendrecv", "write")
WINDOWS = (1, 64)
COLLECTIVES = ("allreduce", "reduce", "broadcast", "reducescatter", "allgather")
SIZES = "0,16,4112,65552"  # blocks of 1, 257 and 4,097 elements, and none at all
LOSS = 0.01


@contextlib.contextmanager
def tree(directory):
    """A root and two leaves with two rxe hosts each, a wire between one leaf and the root. Results keep
    their order only where one CPU serves all ports of a switch."""
    path, _ = libtest.with_wires(directory, "tree-2x2.yaml", only=["s0-r"])
    with contextlib.ExitStack() as stack:
        stack.callback(guest_lab, "down", timeout=60)
        lab = stack.enter_context(libtest.Lab(path, "--napi", "threaded:1"))
        guest_lab("adopt", lab.name, timeout=60)
        yield lab


def checked(collective, *args, transport="verbs", sizes=SIZES):
    rows = perf("--sizes", sizes, "-n", "2", "-w", "0", "--root", "2", *args, collective=collective,
                transport=transport, timeout=200)
    expect({row["transport"] for row in rows} == {transport.split(",")[0]}, f"{rows}")


def every():
    for collective, mode, window in itertools.product(COLLECTIVES, MODES, WINDOWS):
        with case(f"{collective}_{mode}_window_{window}"):
            checked(collective, "--mode", mode, "--window", window)
    with case("barrier"):
        perf("-n", "20", collective="barrier")
    with case("allreduce_messages_of_4"):
        checked("allreduce", "--mode", "write", "--message-packets", "4", "--window", "8")


def mixed():
    """Each leaf has one of each."""
    for collective, mode in (("allreduce", "sendrecv"), ("reduce", "write"),
                             ("broadcast", "sendrecv"), ("allgather", "write")):
        with case(f"{collective}_{mode}_soft_and_verbs"):
            checked(collective, "--mode", mode, transport="verbs,soft,verbs,soft")


def lossy(lab):
    for collective, mode, window in (("allreduce", "sendrecv", 64), ("allreduce", "write", 1),
                                     ("reduce", "write", 64), ("broadcast", "sendrecv", 64)):
        with case(f"{collective}_{mode}_window_{window}_loss_between_switches"):
            before = lab.wire_stats("s0-r")
            lab.wire("s0-r", f"loss={LOSS}")
            checked(collective, "--mode", mode, "--window", window, sizes="4112,262160")
            lab.wire("s0-r", "loss=0")
            after = lab.wire_stats("s0-r")
            expect(any(after[d]["lost"] > before[d]["lost"] for d in ("up", "down")),
                   f"nothing was lost: {after}")


def test():
    with libtest.scratch() as directory, tree(directory) as lab:
        every()
        mixed()
        lossy(lab)


libtest.main(test)

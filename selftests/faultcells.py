# SPDX-License-Identifier: BSD-2-Clause
"""The cells of the fault matrix. A cell is one fault at one place with one window, in a running lab. It records what
the wires did and the retransmissions, and limits these. Used by e2e/test_fault_matrix and by its counterpart in the
virtual machine; selftests/fault_table makes a table of the rows."""
import itertools
import json
import os
import re

from libtest import Failure, expect, perf_rows, stopwatch, wait_for

PAYLOAD = 1024
CALL_PACKETS = 256  # packets of one AllReduce
MESSAGE_PACKETS = 64  # packets of a message in termination mode, where the window counts messages
WINDOWS = (1, 32, 512)
HOST_PLACES = ("up", "down", "both")
BETWEEN = "between switches"
LIMIT_S = 90        # limit for one job
STRIKES = 5         # how many jobs may run until the fault has hit a frame
PATIENCE_MS = 3000  # timeout of a job that may end with an error
# Retransmissions that a busy machine may cause without a fault: so many per second, direction and wire by timers that
# expire too early; and a part of all frames by full queues.
TIMERS_PER_S = 20
QUEUES = 0.2

# The wires' counters of their actions on frames. The last two are caused by a busy machine and not by the test.
DEEDS = ("lost", "duplicated", "corrupted", "reordered", "overflow", "send_errors")


class Fault:
    """A fault in the form of a wire's options, and the number of calls with which a job is hit often enough."""

    def __init__(self, name, key, value, deed, calls):
        self.name, self.key, self.value, self.deed, self.calls = name, key, value, deed, calls

    def spec(self, direction):
        return f"{self.key}={direction}{self.value}"


HEAVY = Fault("loss 5 %", "loss", "0.050", "lost", 2)
RANDOM = (Fault("loss 0.1 %", "loss", "0.001", "lost", 16),
          Fault("loss 1 %", "loss", "0.010", "lost", 4),
          HEAVY,
          Fault("duplication 5 %", "duplicate", "0.050", "duplicated", 4),
          Fault("reordering 2 %", "reorder", "0.020", "reordered", 4),
          Fault("damage 1 %", "corrupt_any", "0.010", "corrupted", 4))
BURST = Fault("50 lost in a row", "burst", "100", "lost", 4)
DOWN = Fault("link down for 1 s", "down_ms", "1000", "lost", 24)
QUIET = Fault("none", None, None, None, 4)
FAULTS = RANDOM + (BURST, DOWN)


def cells(places):
    return list(itertools.product(FAULTS, places, WINDOWS))


def data_packets(calls):
    """The packets that a job sends over each wire and direction without retransmissions. A barrier precedes each
    call, and another one the first call."""
    return calls * (CALL_PACKETS + 1) + 1


def deeds(row):
    return sum(row[k] for k in DEEDS)


def allowed(row):
    """The permitted number of retransmitted packets. A frame that is lost, damaged or late may cost everything in
    flight behind it. A duplicate frame is answered twice."""
    packets = MESSAGE_PACKETS if row["mode"] == "termination" else 1
    window = min(row["window"] * packets, CALL_PACKETS)
    busy = TIMERS_PER_S * row["lines"] * row["seconds"] + QUEUES * row["received"]
    return row["duplicated"] + window * (deeds(row) - row["duplicated"]) + round(busy)


class Bench:
    """A lab with its wires, and a way to run a job in it: start(arguments of inccl-perf) returns a libtest.Job or
    similar. about: the fields that each row has. fewer: the number of calls is divided by this on slow machines."""

    def __init__(self, lab, wires, start, about, fewer=1):
        self.lab, self.wires, self.start, self.about, self.fewer = lab, wires, start, about, fewer
        self.hosts = {n["name"] for n in lab.hosts}

    def struck(self, place):
        """Returns (the wires of a place, the direction in the form of a wire's option)."""
        wires = [w for w in self.wires
                 if (not self.hosts & set(w.split("-"))) == (place == BETWEEN)]
        return wires, f"{place}:" if place in ("up", "down") else ""

    def stats(self):
        return {(w, d): n for w in self.wires for d, n in self.lab.wire_stats(w).items()}

    def measure(self, window, fault, disturb=None, more=(), end=None, longer=1):
        """Runs a job, which has `longer` times as many calls as the fault needs. Returns what all wires together have
        counted, and how many data packets exceeded the necessary number."""
        calls = max(fault.calls // self.fewer, 1) * longer
        before, watch = self.stats(), stopwatch()
        job = self.start("--sizes", CALL_PACKETS * PAYLOAD, "-n", calls, "-w", 0, "--payload", PAYLOAD,
                         "--window", window, "--check", "--json", *more)
        try:
            if disturb:
                disturb(job)
            (end or (lambda job: perf_rows(job.wait(LIMIT_S))))(job)
        finally:
            job.stop()
        seconds, after = watch(), self.stats()
        grew = [{k: after[line][k] - before[line][k] for k in before[line]} for line in before]
        row = {k: sum(line[k] for line in grew) for k in DEEDS + ("received",)}
        lines = [line["data"] - data_packets(calls) for line in grew]
        return {"window": window, **self.about, **row, "lines": len(lines), "least": min(lines),
                "resent": sum(lines), "seconds": round(seconds, 3)}

    def quiet(self, window):
        """Measures retransmissions without a fault, which a busy machine causes. The number of necessary packets is
        the smallest one of all wires."""
        row = self.measure(window, QUIET)
        expect(row["least"] >= 0 and deeds(row) == 0, f"{row}")
        return self.keep(QUIET, self.about["topology"], row)

    @staticmethod
    def keep(fault, place, row):
        """Checks a row and adds it to the file of which the table is made."""
        row = {"fault": fault.name, "place": place, **row, "allowed": allowed(row)}
        path = os.environ.get("INC_FAULT_ROWS")
        if path:
            with open(path, "a", encoding="utf-8") as f:
                f.write(json.dumps(row) + "\n")
        return row

    def turn_off(self, fault, wires):
        for wire in wires:
            self.lab.wire(wire, "clear", *([] if fault is BURST else [f"{fault.key}=0"]))

    def disturb(self, fault, place):
        """Returns (action before the job, action during the job) that cause the fault. Bursts and interrupted links
        affect one wire."""
        wires, direction = self.struck(place)
        if fault is BURST:
            specs = [fault.spec(d) for d in ([direction] if direction else ["up:", "down:"])]
            return lambda: self.lab.wire(wires[0], *specs), None
        if fault is not DOWN:
            return lambda: [self.lab.wire(w, fault.spec(direction)) for w in wires], None

        def cut(job):
            start = self.lab.wire_stats(wires[0])["up"]["data"]
            wait_for("data", lambda: not job.running() or
                     self.lab.wire_stats(wires[0])["up"]["data"] > start + CALL_PACKETS)
            self.lab.wire(wires[0], fault.spec(direction))
        return lambda: None, cut

    def shorter(self, fault):
        """rxe gives up after a number of attempts per message, although parts of it arrive meanwhile. With 5 % loss
        that happens to one in twenty messages of 62 packets. So messages are shorter."""
        heavy = self.about["hosts"] == "rxe" and self.about["mode"] == "termination" and fault is HEAVY
        return ("--message-packets", 8) if heavy else ()

    def run(self, fault, place, window):
        """Runs one cell and returns its row. Fails if a result is wrong, or if there are more retransmissions than
        allowed."""
        if fault is BURST and window == 1 and self.about["mode"] == "passthrough":
            return self.gives_up(fault, place, window)
        wires, _ = self.struck(place)
        before_job, in_job = self.disturb(fault, place)
        for strike in range(STRIKES):
            try:
                before_job()
                # on a busy machine a job may end before the test has interrupted the link, so the next one is longer
                row = self.measure(window, fault, in_job, more=self.shorter(fault), longer=2 ** strike)
            finally:
                self.turn_off(fault, wires)
            if row[fault.deed]:
                break
        else:
            raise Failure(f"nothing {fault.deed} in {STRIKES} jobs")
        row = self.keep(fault, place, row)
        expect(row["resent"] <= row["allowed"], f"more sent again than allowed: {row}")
        return row

    def gives_up(self, fault, place, window):
        """One packet is in flight, and many frames are lost in a row. Each timeout retransmits it, up to a second
        apart; a NIC's RC connection would end as well. If that does not repair it in time, every rank must get an
        error in time, and the next job must be right."""
        wires, _ = self.struck(place)
        before_job, _ = self.disturb(fault, place)

        results = []

        def end(job):
            result = job.wait(PATIENCE_MS / 1000 + 20, check=False)
            results.append(result)
            if result.code == 0:
                perf_rows(result)
                return
            told = set(re.findall(r"^\[(\d+)\] .* error inccl-perf: ", result.out, re.M))
            expect(result.code == 1 and len(told) == len(self.hosts), result.story())
        try:
            before_job()
            row = self.measure(window, fault, more=("--timeout-ms", PATIENCE_MS), end=end)
        finally:
            self.turn_off(fault, wires)
        self.measure(window, QUIET)
        return self.keep(fault, place, {**row, "error": results[0].code != 0})

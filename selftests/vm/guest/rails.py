#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The lab of hosts with two rails, and each of its faults, with plain verbs. A wire must do exactly what it was asked
to do, or the failover's tests prove nothing."""
import json
import os
import subprocess
import threading

import halab
from halab import ACKS, PAYLOADS, RAILS, WRITES, active, address, device, gid_index, interface
from vmlab import BUILD, case, expect, libtest, wait_for

RETRY = "transport retry counter exceeded"
BYTES = 9000  # three packets: first, middle, last
# Timeouts of the device, which retries six times: it gives up after half a second, or after four.
HASTY, PATIENT = 14, 17


class Writes:
    """Runs rdma_writes from host 0 to host 1 on one rail."""

    def __init__(self, rail, timeout=HASTY, hosts=(0, 1)):
        ends = [word for host in hosts
                for word in (device(host, rail), interface(host, rail), address(host, rail))]
        self.process = subprocess.Popen([os.path.join(BUILD, "selftests/vm/rdma_writes"), str(timeout), *ends],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.stdin.close()
        try:
            code = self.process.wait(30)
        finally:
            self.process.kill()
            self.process.stdout.close()
        expect(kind or code == 0, f"rdma_writes ended with {code}")

    def start(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, *words):
        self.start(*words)
        return self.answer()

    def write(self, n=3, size=BYTES):
        return self.ask("write", n, size)


def answer(sent, status, arrived, placed):
    return {"sent": sent, "status": status, "arrived": arrived, "placed": placed, "silent": False}


def right(said, n=3):
    expect(said == answer(n, "success", n, n), f"{said}")


def wires(lab):
    for rail in RAILS:
        with case(f"rail_{rail}"):
            for host in range(1, lab.hosts):
                with Writes(rail, PATIENT, (0, host)) as w:
                    right(w.write())
    with case("rails_share_nothing"), lab.cut_for(1, "a", "dark"), Writes("b", PATIENT) as w, \
            lab.drop(0, "a", "out") as seen:
        right(w.write())
        expect(seen.packets() == 0, f"{seen.packets()} packets of rail b on rail a")


def opcodes(lab):
    """Which end gets which completion when one kind of packet is lost."""
    with case("ack_loss_fails_the_sender_who_was_heard"), Writes("a") as w, \
            lab.drop(0, "a", "in", ACKS) as lost:
        said = w.write()
        expect(said == answer(0, RETRY, 3, 3), f"{said}")
        expect(lost.packets() >= 7, f"{lost.packets()} ACKs lost")
    for name, kinds in (("writes", WRITES), ("payloads", PAYLOADS)):
        with case(f"loss_of_{name}_fails_the_sender"), Writes("a") as w, \
                lab.drop(0, "a", "out", kinds) as lost, lab.drop(0, "a", "in", ACKS) as acks:
            said = w.write()
            expect(said == answer(0, RETRY, 0, 0), f"{said}")
            expect(lost.packets() >= 7 and acks.packets() == 0, f"{lost.packets()} {acks.packets()}")
    with case("other_direction_is_left_alone"), Writes("a", PATIENT) as w, \
            lab.drop(0, "a", "in", WRITES) as lost, lab.drop(0, "a", "out", ACKS) as acks:
        right(w.write())
        expect(lost.packets() == 0 and acks.packets() == 0, f"{lost.packets()} {acks.packets()}")
    with case("loss_that_ends_is_repaired"), Writes("a", PATIENT) as w, \
            lab.drop(0, "a", "out", WRITES) as lost:
        w.start("write", 3, BYTES)
        wait_for("a loss", lost.packets)
        lost.off()
        right(w.answer())


def late(lab):
    for direction, kinds in (("out", WRITES), ("in", ACKS)):
        with case(f"held_{direction}_goes_on_later"), Writes("a", PATIENT) as w, \
                lab.hold(0, "a", direction, kinds) as held:
            w.start("write", 1, 100)
            wait_for("a packet", held.take)
            expect(held.release() >= 1, "nothing was held")
            right(w.answer(), 1)
    with case("late_payload_is_placed_unless_fenced"):
        for fence in (False, True):
            with Writes("a") as w, lab.hold(0, "a", "out", WRITES) as held:
                said = w.write(1, 100)
                expect(said == answer(0, RETRY, 0, 0), f"{said}")
                if fence:
                    w.ask("fence")
                expect(held.release() >= 7, "not all tries were held")
                got = []

                def look():
                    got.append(w.ask("look")["placed"])
                    return got[-1]
                if fence:
                    # messages sent after it have arrived on the same path
                    with Writes("a", PATIENT) as after:
                        right(after.write(1, 100), 1)
                    expect(look() == 0, "a queue pair in ERR has placed a payload")
                else:
                    wait_for("the late payload", look)


def links(lab):
    for how in ("near", "far"):
        with case(f"cut_{how}_is_seen"):
            with lab.cut_for(0, "a", how):
                wait_for("the port to be down", lambda: not active(0, "a"))
                expect(active(1, "a") and active(0, "b"), "others are down, too")
            with Writes("a", PATIENT) as w:
                right(w.write())
    with case("cut_dark_is_not_seen"):
        with lab.cut_for(0, "a", "dark"), Writes("a") as w:
            said = w.write()
            expect(said == answer(0, RETRY, 0, 0), f"{said}")
            expect(active(0, "a") and active(1, "a"), "a port is down")
        with Writes("a", PATIENT) as w:
            right(w.write())
    with case("flaps"):
        lab.flap(1, "b", 5)
        with Writes("b", PATIENT) as w:
            right(w.write())
    with case("gid_moves"):
        before = gid_index(1, "a")
        lab.move_gid(1, "a")
        print(f"# GID index {before} -> {gid_index(1, 'a')}", flush=True)
        with Writes("a", PATIENT) as w:
            right(w.write())


def cut_under_way(lab):
    """If the own interface is set down, rxe may not report what was in flight, neither then nor later. A fence makes
    it report. What it does report must be right."""
    for name, host, how in (("own_end_1", 0, "near"), ("own_end_2", 0, "near"), ("own_end_3", 0, "near"),
                            ("own_cable", 0, "far"), ("peers_end", 1, "near"), ("peers_cable", 1, "far")):
        with case(f"{name}_cut_under_way_is_told_at_a_fence_at_the_latest"), Writes("a") as w:
            done = []

            def go_on():
                said = {"sent": 30}
                while said["sent"] == 30:
                    w.start("write", 30, 20000)
                    said = w.answer()
                    done.append(said)
            writer = threading.Thread(target=go_on, daemon=True)
            writer.start()
            wait_for("data", lambda: len(done) > 3)
            with lab.cut_for(host, "a", how):
                writer.join(30)
            expect(not writer.is_alive(), "no end")
            said = done[-1]
            print(f"# {said}", flush=True)
            expect(said["sent"] <= said["arrived"] and said["placed"] >= said["arrived"], f"{said}")
            expect(how == "near" and host == 0 or said["status"] == RETRY, f"{said}")


def loss(lab):
    for direction in halab.DIRECTIONS:
        with case(f"netem_{direction}"), Writes("a", PATIENT) as w:
            with lab.netem(0, "a", direction, "loss", "30%") as counts:
                for _ in range(20):
                    right(w.write(5, 100), 5)
                    if counts()[1]:
                        break
                expect(counts()[1] > 0, "nothing was lost")
            with lab.netem(0, "a", direction, "delay", "20ms") as counts:
                right(w.write(5, 100), 5)
                expect(counts()[0] > 0, "nothing was delayed")


def test():
    with halab.lab(3) as lab:
        wires(lab)
        opcodes(lab)
        late(lab)
        links(lab)
        cut_under_way(lab)
        loss(lab)
    left = [i for i in os.listdir("/sys/class/net") if i.startswith(("ha", "pa", "br", "held"))]
    expect(not left and not os.listdir("/sys/class/infiniband"), f"left: {left}")


libtest.main(test)

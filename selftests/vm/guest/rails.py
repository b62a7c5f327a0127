#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The lab of hosts with two rails, and each of its faults, with raw verbs. A wire must do exactly what it was asked
to do, or the failover's tests prove nothing."""
import concurrent.futures
import os

import halab
from halab import ACKS, PAYLOADS, RAILS, WRITES, active, address, device, gid_index
from rawverbs import enums, Side, status_name, SUCCESS
from vmlab import Failure, case, expect, libtest, wait_for

RETRY = "IBV_WC_RETRY_EXC_ERR"
BYTES = 9000  # three packets: first, middle, last
# Timeouts of the device, which retries six times: it gives up after half a second, or after four.
HASTY, PATIENT = 14, 17
SILENCE_S = 8  # time limit for a completion; in half of it a PATIENT device fails its request
MESSAGES, PLACE = 40, 26000  # the most messages of a write, and the most bytes of each
PATTERN = bytes(range(1, 256)) * (PLACE // 255 + 2)


class Writes:
    """RDMA WRITEs with immediate from host 0 to host 1 on one rail. Tests change the wire between start() and
    answer()."""

    def __init__(self, rail, timeout=HASTY, hosts=(0, 1)):
        self.seed, self.expected = 0, []
        self.near, self.far = self.sides = [Side(device(host, rail), address(host, rail), MESSAGES * PLACE, MESSAGES)
                                            for host in hosts]
        mtu = min(side.context.query_port(1).active_mtu for side in self.sides)
        psns = 0xfffff0, 0xfffff7  # PSNs wrap during the test
        for i, (own, peer) in enumerate((self.sides, self.sides[::-1])):
            own.connect(peer.address, peer.qp.qp_num, psns[i], psns[1 - i], mtu, timeout)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for side in self.sides:
            side.close()

    def start(self, n, size):
        """Host 0 writes this many messages of this size. No byte of them is 0."""
        self.seed += 1
        self.expected = [PATTERN[begin:begin + size] for begin in ((self.seed * 131 + i * 7) % 255 for i in range(n))]
        for i, message in enumerate(self.expected):
            self.near.out.write(message, size, i * PLACE)
            self.far.qp.post_recv(self.far.receive_request())
        for i in range(n):
            self.near.qp.post_send(self.near.send_request(enums.ibv_wr_opcode.IBV_WR_RDMA_WRITE_WITH_IMM, i * PLACE,
                                                          size, self.far))

    def look(self):
        """Returns how many messages of the last write are in host 1's memory."""
        return sum(self.far.into.read(len(message), i * PLACE) == message for i, message in enumerate(self.expected))

    def answer(self):
        """Waits until each message has its completion. Returns the number that succeeded, the status of the first one
        that failed, host 1's completions since the last answer, and look(). silent: nothing completed for too long, so
        that the queue pair was set to ERR."""
        ends, silent = [], False
        while len(ends) < len(self.expected):
            try:
                ends += wait_for("a completion", self.near.poll, SILENCE_S)
            except Failure:
                expect(not silent, "no completion in ERR")
                silent = True
                self.near.to_err()
        failed = [status_name(status) for _, status, _ in ends if status != SUCCESS]
        arrived = sum(status == SUCCESS for _, status, _ in self.far.poll())
        return {"sent": len(ends) - len(failed), "status": (failed or ["IBV_WC_SUCCESS"])[0], "arrived": arrived,
                "placed": self.look(), "silent": silent}

    def write(self, n=3, size=BYTES):
        self.start(n, size)
        return self.answer()


def answer(sent, status, arrived, placed):
    return {"sent": sent, "status": status, "arrived": arrived, "placed": placed, "silent": False}


def right(said, n=3):
    expect(said == answer(n, "IBV_WC_SUCCESS", n, n), f"{said}")


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
        w.start(3, BYTES)
        wait_for("a loss", lost.packets)
        lost.off()
        right(w.answer())


def late(lab):
    for direction, kinds in (("out", WRITES), ("in", ACKS)):
        with case(f"held_{direction}_goes_on_later"), Writes("a", PATIENT) as w, \
                lab.hold(0, "a", direction, kinds) as held:
            w.start(1, 100)
            wait_for("a packet", held.take)
            expect(held.release() >= 1, "nothing was held")
            right(w.answer(), 1)
    with case("late_payload_is_placed_unless_fenced"):
        for fence in (False, True):
            with Writes("a") as w, lab.hold(0, "a", "out", WRITES) as held:
                said = w.write(1, 100)
                expect(said == answer(0, RETRY, 0, 0), f"{said}")
                if fence:
                    w.far.to_err()
                expect(held.release() >= 7, "not all tries were held")
                if fence:
                    # messages sent after it have arrived on the same path
                    with Writes("a", PATIENT) as after:
                        right(after.write(1, 100), 1)
                    expect(w.look() == 0, "a queue pair in ERR has placed a payload")
                else:
                    wait_for("the late payload", w.look)


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
        with case(f"{name}_cut_under_way_is_told_at_a_fence_at_the_latest"), Writes("a") as w, \
                concurrent.futures.ThreadPoolExecutor(1) as pool:
            done = []

            def go_on():
                watch = libtest.stopwatch()
                while watch() < 30:
                    done.append(w.write(30, 20000))
                    if done[-1]["sent"] < 30:
                        return done[-1]
                raise Failure("no end")
            last = pool.submit(go_on)
            wait_for("data", lambda: len(done) > 3)
            with lab.cut_for(host, "a", how):
                said = last.result()
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

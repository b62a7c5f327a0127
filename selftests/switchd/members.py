# SPDX-License-Identifier: BSD-2-Clause
"""Several communicators on the same ports. Their hosts share a port and an address, but each has its own queue pairs,
slots, payload and PSNs. So a packet that is right for one communicator is wrong for every other.
"""
import contextlib
import struct

from switchd import (ACK, PSN_MASK, Daemon, Host, Net, desc, expect, scratch, values_of, wait_for,
                     write_switch)


class Member(Host):
    """A rank of a communicator at port i. Packets for other ranks on that port are ignored."""

    def __init__(self, net, i, comm, rank):
        self.comm = comm
        super().__init__(net, i, 0x1000 * comm.number + rank, (comm.psn + 77 * rank) & PSN_MASK,
                         (comm.psn + 1000 + 99 * rank) & PSN_MASK, rank)
        self.qpn = 0x800 * comm.number + rank
        self.ip, self.switch_ip = f"10.78.{i}.1", f"10.78.{i}.254"
        self.mac = bytes([2, 0, 0, comm.number, 1, rank])

    def is_own(self, packet):
        """Is the packet for this rank? Other ranks share the port. A packet with this rank's queue pair must have all
        its addresses.
        """
        if packet.qpn != self.qpn:
            return False
        expect(packet.daddr == self.ip and packet.saddr == self.switch_ip
               and packet.dmac == self.mac and packet.smac == self.switch_mac,
               f"rank {self.rank} of {self.comm.number}: addresses of {packet}")
        return True

    def solicited(self, r, values, opcode, ackreq=True, imm=None, reth=None, flags=0xc0):
        """Sends contribution r in any shape, with the solicited event bit."""
        rest = struct.pack("!QII", *reth) if reth else b""
        if imm is not None:
            rest += struct.pack("!I", imm)
        self.send(opcode, self.own_psn + r, rest + struct.pack(f"<{len(values)}i", *values),
                  ackreq, flags)

    def give_plain(self, r, values, opcode, **more):
        """The same without the solicited event bit."""
        self.solicited(r, values, opcode, flags=0x40, **more)

    def psn(self, r):
        """PSN of result r."""
        return (self.result_psn + r) & PSN_MASK

    def drain(self, want=lambda p: True):
        """Drops all packets that have come so far, and returns how many of them were wanted."""
        n = 0
        while self.receive(0.001, want):
            n += 1
        return n


class Comm:
    """A communicator of a file: ranks[i] is at port i."""

    def __init__(self, net, number, ranks, slots, payload, psn):
        self.number, self.slots, self.payload, self.psn = number, slots, payload, psn
        self.hosts = [Member(net, i, self, rank) for i, rank in enumerate(ranks)]

    def values(self, host, r):
        return [self.number * 1000 + host.rank * 10 + r, -r, 7]

    def total(self, r):
        return [sum(column) for column in zip(*(self.values(h, r) for h in self.hosts))]

    def give(self, r, **more):
        for h in self.hosts:
            h.give(r, self.values(h, r), **more)

    def results(self, r):
        """Receives result r at every host. It must be the sum of this communicator."""
        packets = [h.result(r) for h in self.hosts]
        for h, p in zip(self.hosts, packets):
            expect(values_of(p) == self.total(r),
                   f"communicator {self.number} rank {h.rank}: result {r} is {values_of(p)}")
        return packets

    def exchange(self, r, **more):
        self.give(r, **more)
        return self.results(r)

    def acknowledge(self, r, syndrome=0x1f):
        for h in self.hosts:
            h.answer(syndrome, r)

    def connections(self, d):
        """{rank: connection} as the switch reports them."""
        return {c["rank"]: c for c in d.ask("connections") if c["communicator"] == self.number}

    def wait_acknowledged(self, d, n):
        wait_for(f"communicator {self.number}: {n} results acknowledged", lambda: all(
            c["acknowledged"] == n for c in self.connections(d).values()))

    def config(self):
        return {"communicator": self.number, "payload": self.payload, "slots": self.slots}


def falls_silent(ended, others, want=lambda p: True):
    """Waits until the switch sends no wanted packet for communicators that have ended, while it resends result 0 of the
    others three times. The kernel may deliver late what the switch sent before the end, so the first packets after the
    end are no fault. A switch that resends results of an ended communicator does so in each round.
    """
    for _ in range(10):
        for _ in range(3):
            for c in others:
                for h in c.hosts:
                    expect(values_of(h.result(0)) == c.total(0), "another result")
        packets = {(c.number, h.rank): h.drain(want) for c in ended for h in c.hosts}
        if not any(packets.values()):
            return
    expect(False, f"the switch resends results of ended communicators: {packets}, by communicator and rank")


def write_file(directory, comms, settings=None, conn=None):
    """conn(host): more about the connection of a host."""
    return write_switch(directory, [c.config() for c in comms],
                        [h.config(communicator=c.number, **(conn(h) if conn else {}))
                         for c in comms for h in c.hosts], settings)


@contextlib.contextmanager
def switch(make, ports=3, settings=None, conn=None):
    """make(net) returns the communicators; yields the daemon and the communicators."""
    with scratch() as directory, Net(ports) as net:
        comms = make(net)
        try:
            path = write_file(directory, comms, settings, conn)
            with Daemon(net.switch, directory, "--config", path) as d:
                yield d, comms
                if d.process.poll() is None:
                    expect(d.ask("counters")["balanced"], "the books do not balance")
        finally:
            for c in comms:
                for h in c.hosts:
                    h.close()


def three(net):
    """Three communicators whose children, slots, payloads and PSNs differ. No rank is the number of its port."""
    return [Comm(net, 3, (2, 0, 1), 8, 1024, 0xfffff0),
            Comm(net, 4, (1, 0), 4, 256, 5),
            Comm(net, 5, (0, 2, 1), 16, 512, 0x7ffffe)]


__all__ = ["ACK", "Comm", "Member", "desc", "falls_silent", "switch", "three", "write_file"]

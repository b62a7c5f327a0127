# SPDX-License-Identifier: BSD-2-Clause
"""The part `scale` of `bench`: simulates a switch with more CPUs than this machine has, from the measured costs of the XDP
programs (docs/scale.md). Packets wait for CPUs, for links and for memory; no NIC was measured, so what concerns NICs and
memory is an assumption."""
import heapq
import random

import programs
from table import Table

CPUS, CHILDREN, PAYLOADS = (1, 2, 8, 32, 64), (4, 8, 32), (1024, 2048)
HEADERS = 82          # bytes of a packet on a link, beside its payload
RTT_NS = 10000        # between a result's departure and the child's next contribution at the switch's port
SLOTS = 64            # of a channel
RESULTS = 40          # that each channel sends in a simulation
# Assumptions about the machine.
DRIVER_NS = 60        # of a driver, for a packet received or sent
LINK_GBPS = 400       # of each port; a port has a PCIe 5.0 x16 slot of its own
PCIE_GBPS = 480       # in each direction
DESCRIPTORS_NS = 10   # a NIC handles a packet in this time
MEMORY_GBPS = 2400    # 300 GB/s
CACHE_BYTES = 256 << 20
# A byte of a contribution goes through the memory this often, if rows are in the cache, and if they are not: received,
# read, its row fetched and written back, read for the sum, written to a copy, sent.
TOUCHES = {True: 2, False: 7}
ROW_BYTES = 2304


class Server:
    """A resource that serves one packet at a time, in the order of arrival."""

    def __init__(self):
        self.free_ns = self.busy_ns = 0.0

    def serve(self, at_ns, need_ns):
        """Returns when the packet is done."""
        self.free_ns = max(at_ns, self.free_ns) + need_ns
        self.busy_ns += need_ns
        return self.free_ns


class Switch:
    """A switch with channels of communicators of some number of children. Each child has a port of its own."""

    def __init__(self, cpus, channels, children, payload, costs, steered, seed):
        chance = random.Random(seed)
        self.children, self.payload, self.costs = children, payload, costs
        self.cpus = [Server() for _ in range(cpus)]
        # A program on a cpumap entry gives each channel the least loaded CPU. RSS gives it any.
        self.cpu_of = [i % cpus if steered else chance.randrange(cpus) for i in range(channels)]
        self.rx, self.tx = ([Server() for _ in range(children)] for _ in range(2))
        self.memory = Server()
        cached = channels * SLOTS * (children + 1) * ROW_BYTES <= CACHE_BYTES
        self.memory_ns = payload * TOUCHES[cached] * 8 / MEMORY_GBPS
        # the slower of link, PCIe and descriptors
        needs = {"links": (payload + HEADERS) * 8 / LINK_GBPS, "PCIe": (payload + HEADERS) * 8 / PCIE_GBPS,
                 "descriptors": DESCRIPTORS_NS}
        self.port = max(needs, key=needs.get)
        self.port_ns = needs[self.port]
        self.arrived = {}

    def contribution(self, at_ns, channel, slot, child):
        """Yields (time, child) of each copy of the result, if this contribution is the last."""
        first_ns, last_ns, copy_ns = self.costs
        at_ns = self.rx[child].serve(at_ns, self.port_ns)
        at_ns = self.memory.serve(at_ns, self.memory_ns)
        count = self.arrived[channel, slot] = self.arrived.get((channel, slot), 0) + 1
        last = count == self.children
        at_ns = self.cpus[self.cpu_of[channel]].serve(at_ns, DRIVER_NS + (last_ns if last else first_ns))
        if last:
            self.arrived[channel, slot] = 0
            for to in range(self.children):
                at_ns = self.cpus[self.cpu_of[channel]].serve(at_ns, DRIVER_NS + copy_ns)
                yield self.tx[to].serve(at_ns, self.port_ns), to

    def limit(self, end_ns):
        """The name of the busiest resource, and the part of the time for which it is busy."""
        busy = {"CPUs": max(c.busy_ns for c in self.cpus), "memory": self.memory.busy_ns,
                self.port: max(s.busy_ns for s in self.rx + self.tx)}
        name = max(busy, key=busy.get)
        return name, busy[name] / end_ns


def simulate(cpus, channels, children, payload, costs, steered, seed=1):
    """Returns (Gbit/s of payload that the switch receives, the resource that limits it, how busy that is)."""
    switch = Switch(cpus, channels, children, payload, costs, steered, seed)
    # (time, number that makes the order certain, channel, slot, child, results that its slot has seen)
    events = [(0.0, n, channel, slot, child, 0) for n, (channel, slot, child) in enumerate(
        (ch, s, c) for ch in range(channels) for s in range(SLOTS) for c in range(children))]
    heapq.heapify(events)
    number, end_ns, received = len(events), 0.0, 0
    results = RESULTS * SLOTS // max(1, channels * children // 64) / SLOTS  # of each slot
    while events:
        at_ns, _, channel, slot, child, seen = heapq.heappop(events)
        received += 1
        for sent_ns, to in switch.contribution(at_ns, channel, slot, child):
            end_ns = max(end_ns, sent_ns)
            number += 1
            if seen + 1 < results:
                heapq.heappush(events, (sent_ns + RTT_NS, number, channel, slot, to, seen + 1))
    return (received * payload * 8 / end_ns, *switch.limit(end_ns))


def measure_scale(how):
    rows = list(programs.measure_costs(PAYLOADS, CHILDREN))
    for payload in PAYLOADS:
        for children in CHILDREN:
            costs = [programs.xdp_least(rows, what, payload, children) for what in (
                programs.CONTRIBUTION, programs.LAST, programs.COPY)]
            for cpus in CPUS[:3] if how.quick else CPUS:
                for steered in (True, False):
                    gbps, limit, busy = simulate(cpus, 2 * cpus, children, payload, costs, steered)
                    yield {"cpus": cpus, "children": children, "payload": payload, "steered": steered, "costs_ns": costs,
                           "gbps": gbps, "limit": limit, "busy": busy}


def show_scale(rows):
    took = {(r["payload"], r["children"], r["cpus"], r["steered"]): r for r in rows}
    for steered, how in ((True, "the least loaded CPU (steering)"), (False, "any CPU (RSS)")):
        cpus = sorted({r["cpus"] for r in rows})
        yield Table(f"Simulated payload that a switch receives, Gbit/s, and what limits it: two channels for each CPU, each on {how}",
                    ["packet"] + [f"{n} CPU{'s' * (n > 1)}" for n in cpus], [
                        [f"{payload} bytes, {children} children"] + [
                            f"{r['gbps']:.0f}, {r['limit']}" if (r := took.get((payload, children, n, steered))) else "-"
                            for n in cpus] for payload, children in dict.fromkeys((r["payload"], r["children"]) for r in rows)])

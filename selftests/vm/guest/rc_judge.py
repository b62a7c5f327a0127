# SPDX-License-Identifier: BSD-2-Clause
"""Hosts that use only libibverbs calls. So the switch is tested by the RC state machine of the device, without
libinccl in between. The hosts also behave in ways in which libinccl would not: receives posted late, any start PSN,
any window. All hosts are in one thread."""
import array
import collections
import contextlib
import dataclasses
import functools
import json
import random
import socket
import time

from rawverbs import enums, Side, status_name, SUCCESS
from vmlab import Failure, guest_lab, libtest

MAX_HOSTS = 8
PSN_MASK = 0xffffff
SEND, SEND_WITH_IMM, WRITE_WITH_IMM = (getattr(enums.ibv_wr_opcode, "IBV_WR_" + name)
                                       for name in ("SEND", "SEND_WITH_IMM", "RDMA_WRITE_WITH_IMM"))


@dataclasses.dataclass
class Load:
    """What the hosts of a communicator do."""
    hosts: int = 2
    payload: int = 1024
    message_packets: int = 1
    window: int = 64       # of a host, in messages
    slots: int = 256
    bytes: int = 65536     # of each collective
    collectives: int = 4
    write: bool = False    # RDMA WRITE in place of SEND
    psn: int = 0           # of host 0's first contribution; host h adds 1000 h
    result_psn: int = 0    # of host 0's first result; host h adds 1000 h
    late_us: int = 0       # time between host 0's sends and its receives
    timeout: int = 18      # of the queue pairs (ibv_modify_qp(3)): an ACK timeout of 1.07 s
    retry_cnt: int = 6     # the same
    min_rnr_timer: int = 12  # the same
    limit_s: int = 60

    def messages(self):
        """Returns (offset, length) of each message of a collective. The first has one packet, the others are full."""
        ends = [0, *range(self.payload, self.bytes, self.payload * self.message_packets), self.bytes]
        return [(at, end - at) for at, end in zip(ends, ends[1:])]


@functools.cache
def contribution(host, size):
    return random.Random(host).randbytes(size)


@functools.cache
def sums(hosts, size):
    """The result of a collective: sums of 32-bit integers, modulo 2**32."""
    rows = zip(*(array.array("I", contribution(host, size)) for host in range(hosts)))
    return array.array("I", [sum(row) & 0xffffffff for row in rows]).tobytes()


class Host(Side):
    """A host of the lab, as one rank of a communicator."""

    def __init__(self, index, communicator, load):
        super().__init__(f"rxe{index}", f"10.77.{index}.1", load.bytes, load.window)
        self.index, self.load, self.messages = index, load, load.messages()
        self.total = len(self.messages) * load.collectives
        self.late_s = 0 if index else load.late_us / 1e6
        self.psn, self.result_psn = ((first + 1000 * index) & PSN_MASK for first in (load.psn, load.result_psn))
        self.switch_qpn = 0x100 + communicator * MAX_HOSTS + index
        self.out.write(contribution(index, load.bytes), load.bytes)
        self.sums = sums(load.hosts, load.bytes)
        # each WRITE has an immediate, because other WRITEs cause no completion at the target
        self.sends = [self.send_request(WRITE_WITH_IMM, at, length, self) if load.write else
                      self.send_request(SEND if at else SEND_WITH_IMM, at, length) for at, length in self.messages]
        self.receives = [self.receive_request()] * len(self.messages) if load.write else \
            [self.receive_request(at, length) for at, length in self.messages]
        self.unreceived = collections.deque()  # times of sends whose receives are not posted
        # numbers of messages: sends posted, receives posted, sends completed, results received
        self.posted = self.received = self.sent = self.completed = 0

    def config(self, communicator):
        """The switch's end of the connection, for its configuration file."""
        return {"up": False, "communicator": communicator, "host_id": self.index, "own_name": f"p{self.index}",
                "own_ip": f"10.77.{self.index}.254", "own_port": 4791, "own_qp": self.switch_qpn,
                "own_psn": self.result_psn, "peer_ip": self.address, "peer_port": 4791, "peer_qp": self.qp.qp_num,
                "peer_psn": self.psn}

    def connect_to_switch(self):
        mtu = getattr(enums.ibv_mtu, f"IBV_MTU_{self.load.payload}")
        self.connect(f"10.77.{self.index}.254", self.switch_qpn, self.psn, self.result_psn, mtu, self.load.timeout,
                     self.load.retry_cnt, self.load.min_rnr_timer)

    def post_receive(self):
        request = self.receives[self.received % len(self.messages)]
        request.wr_id = self.received << 1 | 1
        self.qp.post_recv(request)
        self.received += 1

    def post_send(self):
        sequence, message = divmod(self.posted, len(self.messages))
        request = self.sends[message]
        request.wr_id = self.posted << 1
        request.imm_data = socket.htonl(sequence)  # an AllReduce that adds integers, as lib/proto/desc.h has it
        self.qp.post_send(request)
        self.posted += 1

    def post(self):
        """Posts the sends for which there is room, and the receives that are due."""
        # The receive buffer holds one collective, so the next one starts after the check.
        collective_end = (self.completed // len(self.messages) + 1) * len(self.messages)
        limit = min(self.total, collective_end, self.completed + self.load.window, self.sent + 2 * self.load.window)
        while self.posted < limit:
            if self.late_s:
                self.unreceived.append(time.monotonic())
            else:
                self.post_receive()
            self.post_send()
        while self.unreceived and time.monotonic() - self.unreceived[0] >= self.late_s:
            self.unreceived.popleft()
            self.post_receive()

    def check_sums(self):
        """Checks a complete collective, before the next one may overwrite it."""
        size = self.load.bytes
        got = self.into.read(size, 0)
        if got != self.sums:
            wrong = sum(a != b for a, b in zip(array.array("I", got), array.array("I", self.sums)))
            raise Failure(f"host {self.index}: {wrong} of {size // 4} elements are wrong, message {self.completed}")
        self.into.write(b"\xee" * size, size)

    def complete(self, request, status, length):
        number, is_receive = request >> 1, request & 1
        if status != SUCCESS:
            raise Failure(f"host {self.index}: {status_name(status)}, {'receive' if is_receive else 'send'} {number}")
        if not is_receive:
            self.sent += 1
            return
        due = self.completed, self.messages[self.completed % len(self.messages)][1]
        if (number, length) != due:
            raise Failure(f"host {self.index}: receive {number} of {length} bytes where {due} is due")
        self.completed += 1
        if self.completed % len(self.messages) == 0:
            self.check_sums()

    def step(self):
        """Returns whether the host has all results, and all its sends are acknowledged."""
        self.post()
        for completion in self.poll():
            self.complete(*completion)
        return self.completed == self.sent == self.total


class Judge:
    """The hosts of a communicator, which the switch has from its file."""

    def __init__(self, communicator, load):
        self.communicator, self.load = communicator, load
        self.hosts = [Host(index, communicator, load) for index in range(load.hosts)]

    def config(self):
        """This communicator's part of the switch's file."""
        return {"communicators": [{"communicator": self.communicator, "payload": self.load.payload,
                                   "slots": self.load.slots}],
                "connections": [host.config(self.communicator) for host in self.hosts]}

    def run(self):
        """Runs the collectives, and returns the seconds that they took. The queue pairs stay until end(), because the
        last ACK may be lost. The switch then retransmits its result, and the device acknowledges it again."""
        for host in self.hosts:
            host.connect_to_switch()
        seconds = libtest.stopwatch()
        while not all([host.step() for host in self.hosts]):  # a list, because each host makes a step
            if seconds() > self.load.limit_s:
                raise Failure(f"not done after {self.load.limit_s} s: the hosts have "
                              f"{[host.completed for host in self.hosts]} of {self.hosts[0].total} results")
        return seconds()

    def end(self):
        for host in self.hosts:
            host.close()


@contextlib.contextmanager
def judges(loads):
    """Makes a Judge for each Load, and one switch with the communicators of all. Starting the switch is most of a
    run's time on an emulated machine."""
    found = []
    try:
        for number, load in enumerate(loads):
            found.append(Judge(number, load))
        parts = [judge.config() for judge in found]
        switch = {"name": "s0", "root": True, "id": 0}
        for key in ("communicators", "connections"):
            switch[key] = [row for part in parts for row in part[key]]
        with open("/tmp/judge.yaml", "w") as f:
            json.dump({"switches": [switch]}, f)  # JSON is YAML
        guest_lab("switch", f.name, timeout=90)
        yield found
    finally:
        for judge in found:
            judge.end()

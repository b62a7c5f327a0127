# SPDX-License-Identifier: BSD-2-Clause
"""Hosts that speak RoCEv2 through raw sockets to a switch in termination mode, which has soft endpoints. Also a
switch of either mode with a scripted controller, and communicators that the controller makes there."""
import contextlib
import struct

from switchd import (AETH_ACK, SEND_ONLY, SEND_ONLY_IMM, Daemon, Host, Net, ScriptedController, command, desc, expect,
                     scratch, write_switch)

SEND_FIRST, SEND_MIDDLE, SEND_LAST = 0, 1, 2
COMM, MESSAGES, PACKETS, PAYLOAD = 3, 4, 4, 256


class Peer(Host):
    """A host that counts its packets and its messages, because a message may have several packets."""

    def __init__(self, net, i, rank=None):
        super().__init__(net, i, 0x100 + i, 0xfffffe, 0xfffffd, rank)
        self.sent = self.got = 0

    def message(self, values, imm=None, first=False):
        """Sends a message of as many packets as it needs. The last one requests an ACK."""
        data = struct.pack(f"<{len(values)}i", *values)
        parts = [data[k:k + PAYLOAD] for k in range(0, len(data), PAYLOAD)] or [b""]
        for k, part in enumerate(parts):
            last = k == len(parts) - 1
            if len(parts) == 1:
                opcode = SEND_ONLY_IMM if first else SEND_ONLY
            else:
                opcode = SEND_LAST if last else SEND_MIDDLE if k else SEND_FIRST
            head = struct.pack("!I", desc() if imm is None else imm) if opcode == SEND_ONLY_IMM \
                else b""
            self.send(opcode, self.own_psn + self.sent, head + part, last)
            self.sent += 1

    def take(self, seconds=5.0):
        """Receives and acknowledges the next message, and returns it reassembled."""
        payload, first = b"", None
        while True:
            p = self.result(self.got, seconds)
            first = first or p
            self.got += 1
            payload += p.payload
            if p.opcode in (SEND_LAST, SEND_ONLY, SEND_ONLY_IMM):
                self.answer(AETH_ACK, self.got - 1)
                return first, list(struct.unpack(f"<{len(payload) // 4}i", payload))


def config(directory, net, conns, messages=MESSAGES, packets=PACKETS, **more):
    """more: fields of the communicator."""
    return write_switch(directory, [{"communicator": COMM, "payload": PAYLOAD, "slots": 16,
                                     "messages": messages, "message_packets": packets, **more}], conns,
                        {"ports": net.ports, "rto_min_ms": 20, "rto_max_ms": 100},
                        mode="termination")


@contextlib.contextmanager
def addressed(ranks):
    """Ports with addresses, and a kernel that has the hosts' MAC addresses, because these hosts answer no ARP
    requests.
    """
    with scratch() as directory, Net(ranks) as net:
        peers = [Peer(net, i) for i in range(ranks)]
        for i, h in enumerate(peers):
            net.address(net.ports[i], f"10.78.{i}.254/24")
            net.neighbour(net.ports[i], h.ip, h.mac)
            # makes packets as they are on a cable: segmented, and with their checksums
            command("nsenter", f"--net=/run/netns/{net.switch}", "ethtool", "-K", net.ports[i],
                    "tx", "off")
        try:
            yield directory, net, peers
        finally:
            for h in peers:
                h.close()


def ends(peers, **more):
    """The hosts' connections; hosts send from and receive at port 5000."""
    return [h.config(communicator=COMM, peer_port=5000, **more) for h in peers]


def exchange(peers, values, first=False):
    for i, h in enumerate(peers):
        h.message([v * (i + 1) for v in values], first=first)
    factor = sum(range(len(peers) + 1))
    for h in peers:
        p, got = h.take()
        expect(got == [v * factor for v in values], f"rank {h.rank}: {got[:8]}")
        expect(p.opcode == (SEND_ONLY_IMM if first else SEND_ONLY if len(got) <= 64 else
                            SEND_FIRST), f"{p}")


def forget_addresses(net):
    for port in net.ports:
        command("ip", "-n", net.switch, "addr", "flush", "dev", port)


@contextlib.contextmanager
def controlled(*args, ranks=2, prefix=(), addresses=True):
    """A switch with a scripted controller, hosts that are not configured yet, and the switch's hello."""
    with addressed(ranks) as (directory, net, peers):
        if not addresses:
            forget_addresses(net)
        controller = ScriptedController(net.switch)
        try:
            with Daemon(net.switch, directory, "--controller", f"127.0.0.1:{controller.port}",
                        "--name", "s7", "--rto-min-ms", "20", "--rto-max-ms", "100",
                        *(x for p in net.ports for x in ("--port", p)), *args, prefix=prefix) as d:
                yield d, net, peers, controller, controller.welcome()
        finally:
            controller.close()


def next_hello(controller):
    """The hello of the next connection. The switch tries that one before it ends the present one."""
    controller.answer_trial()
    while controller.recv():
        pass
    controller.drop()
    return controller.welcome()


def passing(peers, communicator):
    """The configuration of a communicator in passthrough mode."""
    return {"communicator": communicator, "group": 7, "root": True, "payload": 1024, "slots": 8,
            "connections": [h.config() for h in peers]}


def terminated(peers, communicator=COMM, **more):
    return {"communicator": communicator, "group": 7, "root": True, "payload": PAYLOAD, "slots": 16,
            "mode": "termination", "messages": 4, "message_packets": 4,
            "connections": [h.config(peer_port=5000, own_endpoint="soft", peer_endpoint="soft")
                            for h in peers], **more}


def made(controller, conf):
    got = controller.ask(type="configure", seq=1, config=conf)
    expect(got["type"] == "configured", f"{got}")


def not_made(controller, conf, errno, *words):
    got = controller.ask(type="configure", seq=1, config=conf)
    expect(got["type"] == "error" and got["errno"] == errno and "\n" not in got["message"] and
           all(word in got["message"] for word in words), f"{got}")


def removed(controller, communicator):
    got = controller.ask(type="remove", seq=2, communicator=communicator)
    expect(got["type"] == "removed", f"{got}")


def usage(d):
    return {k: v for k, v in d.ask("status")["usage"].items() if not k.endswith("_limit")}

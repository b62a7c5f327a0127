# SPDX-License-Identifier: BSD-2-Clause
"""Hosts with two rails each for tests of failover, and faults on their wires.

Host I has the interfaces haIa and haIb with the devices rxeIa and rxeIb. The other end of each interface is a port
(paIa) of a bridge per rail (bra, brb). So every frame crosses its own wire in both directions, and the rails share
nothing. rxe works in the initial network namespace only, so everything is there. rxe sends by the interface of its
GID, even if another interface of this kernel has the destination address.

"out" is what the host sends, "in" what it receives. Faults are applied at the port by the distribution's tc. Its u32
filters match packets by opcode, and count them.
"""
import contextlib
import json
import os
import re
import socket
import subprocess

from vmlab import Failure, command, expect, gid_of, wait_for

RAILS = ("a", "b")
MTU = 4200  # path MTU 4096; few packets, because each is slow in an emulated machine
DIRECTIONS = ("out", "in")

# RC opcodes as (value, mask).
ACKS = ((0x11, 0xff),)
WRITES = ((0x06, 0xfe), (0x08, 0xfc))
# Opcodes with a payload. Descriptions of slots are WRITEs without an immediate, in one packet.
PAYLOADS = ((0x06, 0xfe), (0x08, 0xff), (0x09, 0xff), (0x0b, 0xff))
ALL = None

ETH_P_ALL, SOL_PACKET, PACKET_QDISC_BYPASS, SO_RCVBUFFORCE = 3, 263, 20, 33


def batch(program, lines):
    """Runs a program with many lines, because starting programs is slow in an emulated machine."""
    done = subprocess.run([program, "-batch", "-"], input="\n".join(lines) + "\n", text=True,
                          capture_output=True, check=False, timeout=60)
    expect(done.returncode == 0, f"{program}: {done.stderr}\n" + "\n".join(lines))


def interface(host, rail):
    return f"ha{host}{rail}"


def device(host, rail):
    return f"rxe{host}{rail}"


def port(host, rail):
    return f"pa{host}{rail}"


def address(host, rail):
    return f"10.78.{RAILS.index(rail)}.{host + 1}"


def mac(host, rail):
    return f"02:00:00:78:{RAILS.index(rail):02x}:{host + 1:02x}"


def sys_port(host, rail, name):
    with open(f"/sys/class/infiniband/{device(host, rail)}/ports/1/{name}") as f:
        return f.read().strip()


def gid_index(host, rail):
    """The index of the GID with the rail's address, or None."""
    want = gid_of(address(host, rail))
    for index in range(16):
        with contextlib.suppress(OSError):
            if sys_port(host, rail, f"gids/{index}") == want:
                return index
    return None


def active(host, rail):
    return sys_port(host, rail, "state").endswith("ACTIVE")


def sent_packets(host, rail):
    return int(sys_port(host, rail, "hw_counters/sent_pkts"))


class Filter:
    """Drops or redirects packets of some opcodes in one direction of a wire, until off()."""
    serial = 0

    def __init__(self, host, rail, direction, opcodes=ALL, action="drop"):
        Filter.serial += 1
        self.port = port(host, rail)
        self.hook = {"out": "ingress", "in": "egress"}[direction]
        self.number = Filter.serial
        head = f"filter add dev {self.port} {self.hook} prio {self.number}"
        if opcodes is ALL:
            lines = [f"{head} matchall action {action}"]
        else:
            # matches behind an IPv4 header without options: UDP, its destination port, BTH
            lines = [f"{head} protocol ip u32 match ip protocol 17 0xff match ip dport 4791 0xffff "
                     f"match u8 {value:#x} {mask:#x} at 28 action {action}" for value, mask in opcodes]
        self.live = True
        batch("tc", lines)

    def packets(self):
        text = command("tc", "-s", "filter", "show", "dev", self.port, self.hook, "prio", self.number).out
        return sum(map(int, re.findall(r"Sent \d+ bytes (\d+) pkt", text)))

    def off(self):
        if self.live:
            self.live = False
            batch("tc", [f"filter delete dev {self.port} {self.hook} prio {self.number}"])


class Held:
    """Takes packets off a wire. They continue in order when they are released."""

    def __init__(self, host, rail, direction, opcodes):
        self.onward = interface(host, rail) if direction == "out" else port(host, rail)
        self.place = f"held{Filter.serial}"
        batch("ip", [f"link add {self.place} mtu {MTU} type dummy",
                     f"link set {self.place} addrgenmode none up"])
        # the socket queues the packets
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self.socket.bind((self.place, ETH_P_ALL))
        self.socket.setblocking(False)
        self.frames = []
        self.filter = Filter(host, rail, direction, opcodes,
                             f"mirred egress redirect dev {self.place}")

    def take(self):
        """How many packets have been taken so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.frames.append(self.socket.recv(65536))
        return len(self.frames)

    def release(self):
        """Releases all packets. Returns their number."""
        self.filter.off()
        self.take()
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
            out.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
            out.bind((self.onward, 0))
            for frame in self.frames:
                out.send(frame)
        n, self.frames = len(self.frames), []
        return n

    def close(self):
        self.filter.off()
        self.socket.close()
        batch("ip", [f"link delete {self.place}"])


class Lab:
    def __init__(self, hosts):
        self.hosts = hosts
        self.wires = [(host, rail) for rail in RAILS for host in range(hosts)]
        self.dark = {}

    def neighbours(self, host, rail):
        """Makes neighbour entries permanent, so that only the hosts' own packets are on a wire and tests can count
        them."""
        return [f"neigh replace {address(peer, rail)} lladdr {mac(peer, rail)} "
                f"dev {interface(host, rail)} nud permanent"
                for peer in range(self.hosts) if peer != host]

    def up(self):
        lines = [f"link add br{rail} mtu {MTU} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
                 for rail in RAILS]
        lines += [f"link set br{rail} addrgenmode none up" for rail in RAILS]
        for host, rail in self.wires:
            lines += [f"link add {interface(host, rail)} mtu {MTU} address {mac(host, rail)} type veth "
                      f"peer name {port(host, rail)} mtu {MTU}",
                      f"link set {port(host, rail)} addrgenmode none master br{rail} up",
                      f"link set {interface(host, rail)} addrgenmode none",
                      f"addr add {address(host, rail)}/24 dev {interface(host, rail)}"]
        batch("ip", lines)
        for host, rail in self.wires:
            for key, value in (("accept_local", 1), ("rp_filter", 0), ("arp_ignore", 1), ("arp_announce", 2)):
                with open(f"/proc/sys/net/ipv4/conf/{interface(host, rail)}/{key}", "w") as f:
                    f.write(str(value))
        batch("ip", [line for host, rail in self.wires
                     for line in (f"link set {interface(host, rail)} up", *self.neighbours(host, rail))])
        subprocess.run(["rdma", "-b", "-"], text=True, check=True, timeout=60, input="".join(
            f"link add {device(host, rail)} type rxe netdev {interface(host, rail)}\n"
            for host, rail in self.wires))
        batch("tc", [f"qdisc add dev {port(host, rail)} clsact" for host, rail in self.wires])
        self.wait_ready()

    def down(self):
        for what, lines in (("rdma", [f"link delete {device(*wire)}" for wire in self.wires]),
                            ("ip", [f"link delete {interface(*wire)}" for wire in self.wires] +
                             [f"link delete br{rail}" for rail in RAILS])):
            subprocess.run([what, "-force" if what == "ip" else "-f", "-b", "-"], text=True,
                           input="\n".join(lines) + "\n", check=False, timeout=60)

    def forwards(self, host, rail):
        link, = json.loads(command("bridge", "-j", "link", "show", "dev", port(host, rail)).out)
        return link["state"] == "forwarding"

    def wait_ready(self, wires=None):
        for wire in wires or self.wires:
            wait_for(f"{device(*wire)} to be active", lambda w=wire: active(*w), 20)
            wait_for(f"{device(*wire)} to have its GID", lambda w=wire: gid_index(*w) is not None, 20)
            wait_for(f"{port(*wire)} to forward", lambda w=wire: self.forwards(*w), 20)

    # --- links ---------------------------------------------------------------------------

    def cut(self, host, rail, how):
        """near: the host's interface is set down. far: its cable has no carrier. dark: packets are dropped without
        any device noticing."""
        if how == "dark":
            self.dark[host, rail] = [Filter(host, rail, direction) for direction in DIRECTIONS]
        else:
            end = {"near": interface, "far": port}[how](host, rail)
            batch("ip", [f"link set {end} down"])

    def repair(self, host, rail, wait=True):
        for each in self.dark.pop((host, rail), []):
            each.off()
        batch("ip", [f"link set {port(host, rail)} up", f"link set {interface(host, rail)} up",
                     *self.neighbours(host, rail)])
        if wait:
            self.wait_ready([(host, rail)])

    @contextlib.contextmanager
    def cut_for(self, host, rail, how):
        self.cut(host, rail, how)
        try:
            yield
        finally:
            self.repair(host, rail)

    def flap(self, host, rail, times):
        """Sets the link down and up this many times. It is up at the end."""
        end = interface(host, rail)
        batch("ip", [f"link set {end} {state}" for _ in range(times) for state in ("down", "up")])
        self.repair(host, rail)

    def move_gid(self, host, rail):
        """Gives the rail's GID another index: its address is removed, others take its place, and it is added again.
        The old place stays occupied for a while by the GID's users."""
        end, own, before = interface(host, rail), address(host, rail), gid_index(host, rail)
        for i in range(20):
            batch("ip", [f"addr delete {own}/24 dev {end}",
                         f"addr add {own.rsplit('.', 1)[0]}.{100 + 20 * host + i}/24 dev {end}"])
            wait_for("the GID to go", lambda: gid_index(host, rail) is None, 20)
            batch("ip", [f"addr add {own}/24 dev {end}", *self.neighbours(host, rail)])
            self.wait_ready([(host, rail)])
            if gid_index(host, rail) != before:
                return
        raise Failure(f"the GID is at {before} again and again")

    @contextlib.contextmanager
    def unanswered(self, host, peer, rail):
        """The host does not know the peer's MAC address, and the peer answers no ARP request."""
        with self.cut_for(peer, rail, "dark"):
            batch("ip", [f"neigh delete {address(peer, rail)} dev {interface(host, rail)}"])
            try:
                yield
            finally:
                batch("ip", self.neighbours(host, rail))

    # --- packets -------------------------------------------------------------------------

    @contextlib.contextmanager
    def drop(self, host, rail, direction, opcodes=ALL):
        each = Filter(host, rail, direction, opcodes)
        try:
            yield each
        finally:
            each.off()

    @contextlib.contextmanager
    def hold(self, host, rail, direction, opcodes=ALL):
        held = Held(host, rail, direction, opcodes)
        try:
            yield held
        finally:
            held.close()

    @contextlib.contextmanager
    def netem(self, host, rail, direction, *what):
        """Gives one direction of a rail netem with these options. Yields a function that returns how many packets
        netem has sent and dropped since then."""
        dev = interface(host, rail) if direction == "out" else port(host, rail)
        command("tc", "qdisc", "add", "dev", dev, "root", "netem", "limit", 10000, *what)

        def counts():
            for q in json.loads(command("tc", "-s", "-j", "qdisc", "show", "dev", dev).out):
                if q["kind"] == "netem":
                    return q["packets"], q["drops"]
            raise Failure(f"no netem on {dev}")
        try:
            yield counts
        finally:
            command("tc", "qdisc", "delete", "dev", dev, "root")


def hca(host):
    """NCCL_IB_HCA of a host: its own devices, rail a first."""
    return "=" + ",".join(device(host, rail) for rail in RAILS)


@contextlib.contextmanager
def lab(hosts):
    it = Lab(hosts)
    try:
        it.up()
        yield it
    finally:
        it.down()


def environment(host, **more):
    return dict(os.environ, NCCL_IB_HCA=hca(host), **more)

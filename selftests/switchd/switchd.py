# SPDX-License-Identifier: BSD-2-Clause
"""Shared by the tests of inc-switchd: a namespace with ports, and the daemon in it. Its hosts (fakes/roce_host.py) and
its controller (fakes/scripted_controller.py) are fakes.
"""
import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from fakes.roce_host import Host, Packet, values_of  # noqa: E402,F401
from fakes.scripted_controller import ScriptedController  # noqa: E402,F401
from libtest import (BUILD, TOP, Failure, Skip, ask_switch, case, command, expect,  # noqa: E402,F401
                     inside, libc, main, scratch, stands_still, stopped, stopwatch, wait_for)
from roce import (ACK, AETH_ACK, ALLREDUCE, BARRIER, BROADCAST, FLOAT32,  # noqa: E402,F401
                  NAK_OPERATION, NAK_SEQ, NATIVE_FLOAT32, PORT, PSN_MASK, REDUCE, SEND_ONLY,
                  SEND_ONLY_IMM, WITH_IMM, WITH_RETH, WRITE_ONLY_IMM, desc, icrc, ip_packet, ones_sum)

SWITCHD = os.path.join(BUILD, "inc-switchd")
ATTACH_LEGACY = os.path.join(BUILD, "selftests/switchd/attach-legacy")
OTHER_XDP = os.path.join(BUILD, "selftests/switchd/other-xdp")
RUN_DIR = "/run/inc"
PIN_DIR = "/sys/fs/bpf/inc"
# Ways to attach programs. Tests on the virtual machine's kernel leave out those that this kernel has, too.
WAYS = ("libxdp",) if os.environ.get("LIBXDP_ONLY") else ("bpf_link", "libxdp")

SIOCETHTOOL, SIOCGIFHWADDR = 0x8946, 0x8927
ETHTOOL_SGRO = 0x2c
AF_XDP, SOL_XDP = 44, 283
LLDP = 0x88cc
NEAREST = bytes.fromhex("0180c200000e")
XDP_RX_RING, XDP_UMEM_REG, XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING = 2, 4, 5, 6


@contextlib.contextmanager
def held_queue(net, port):
    """Holds queue 0 of the port with an AF_XDP socket that is not the daemon's."""
    area = mmap.mmap(-1, 16 * 4096)
    at = ctypes.addressof(ctypes.c_char.from_buffer(area))
    with inside(net.switch), socket.socket(AF_XDP, socket.SOCK_RAW) as s:
        s.setsockopt(SOL_XDP, XDP_UMEM_REG, struct.pack("QQIIII", at, 16 * 4096, 4096, 0, 0, 0))
        for ring in (XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING):
            s.setsockopt(SOL_XDP, ring, 64)
        where = struct.pack("HHIII", AF_XDP, 0, socket.if_nametoindex(port), 0, 0)
        # the kernel frees a queue some time after the last daemon's end
        wait_for("a free queue", lambda: libc.bind(s.fileno(), where, len(where)) == 0)
        yield


def ask_device(name, request, data):
    """Does an ioctl for an interface of the calling thread's namespace, and returns the data that it has written."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        return fcntl.ioctl(s, request, struct.pack("16s24s", name.encode(), data))[16:]


class Net:
    """Two namespaces, one for the switch and one for the hosts, with a veth pair for each port."""

    def __init__(self, ports=2):
        tag = secrets.token_hex(3)
        self.switch, self.hosts = f"sw-{tag}", f"ho-{tag}"
        self.ports = [f"p{i}-{tag}" for i in range(ports)]
        self.ends = [f"h{i}-{tag}" for i in range(ports)]

    def __enter__(self):
        try:
            for ns in (self.switch, self.hosts):
                command("ip", "netns", "add", ns)
                with inside(ns):
                    for what in ("all", "default"):
                        with open(f"/proc/sys/net/ipv6/conf/{what}/disable_ipv6", "w") as f:
                            f.write("1")
            self.lines(self.switch, [f"link add {port} mtu 2200 type veth peer name {end} mtu 2200 netns "
                                     f"{self.hosts}" for port, end in zip(self.ports, self.ends)])
            for ns, names in ((self.hosts, self.ends), (self.switch, self.ports)):
                self.lines(ns, [f"link set {name} up" for name in ["lo"] + names])
            for end in self.ends:
                self.ring(end)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *args):
        for ns in (self.switch, self.hosts):
            command("ip", "netns", "del", ns, check=False)

    def ring(self, end):
        """Turns on GRO at a veth's end, which enables NAPI there. Frames redirected to the other end need that."""
        on = (ctypes.c_uint32 * 2)(ETHTOOL_SGRO, 1)
        with inside(self.hosts):
            ask_device(end, SIOCETHTOOL, struct.pack("P", ctypes.addressof(on)))

    def make_again(self, i):
        """Makes a deleted port again, with a new end for the host, under the same names."""
        port, end = self.ports[i], self.ends[i]
        self.lines(self.switch, [f"link add {port} mtu 2200 type veth peer name {end} mtu 2200 netns "
                                 f"{self.hosts}", f"link set {port} up"])
        command("ip", "-n", self.hosts, "link", "set", end, "up")
        self.ring(end)

    @staticmethod
    def lines(ns, lines):
        """Runs all commands with one ip(8), because an emulated machine takes long to start programs."""
        with tempfile.TemporaryFile("w+") as f:
            f.write("\n".join(lines) + "\n")
            f.seek(0)
            command("ip", "-n", ns, "-batch", "-", stdin=f)

    def index(self, port):
        with inside(self.switch):
            return socket.if_nametoindex(port)

    def mac(self, port):
        with inside(self.switch):
            return ask_device(port, SIOCGIFHWADDR, b"")[2:8]

    def neighbour(self, port, ip, mac, state="permanent"):
        """Tells the switch's kernel the MAC address of ip."""
        command("ip", "-n", self.switch, "neigh", "replace", ip, "lladdr", mac.hex(":"), "dev",
                port, "nud", state)

    def address(self, port, address):
        command("ip", "-n", self.switch, "addr", "add", address, "dev", port)

    def xdp(self, port):
        """The XDP program on a port; None if there is none."""
        out = json.loads(command("ip", "-j", "-n", self.switch, "link", "show", port).out)
        return out[0].get("xdp", {}).get("prog")


class Daemon:
    """inc-switchd in a namespace; its log goes to a file."""

    def __init__(self, netns, directory, *args, instance=None, ready=True, prefix=(), program=SWITCHD,
                 stderr=None):
        self.instance = instance or "t" + secrets.token_hex(3)
        self.log_path = os.path.join(directory, self.instance + ".log")
        read, write = os.pipe()
        with open(self.log_path, "ab") as log:
            self.log_from = log.tell()  # skips the log of a predecessor
            self.process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{netns}", *prefix, program, "--instance", self.instance,
                 "--ready-fd", str(write), *map(str, args)],
                pass_fds=(write,), stdin=subprocess.DEVNULL, stdout=log, stderr=stderr or log)
        os.close(write)
        text = b""
        try:
            if ready:
                if select.select([read], [], [], 30)[0]:
                    text = os.read(read, 100)
                if text != b"ready\n":
                    self.kill()
                    raise Failure("inc-switchd is not ready: " + self.log())
        finally:
            os.close(read)

    def log(self):
        with open(self.log_path, errors="replace") as f:
            f.seek(self.log_from)
            return f.read()

    def ask(self, what):
        return ask_switch(self.instance, what)

    def pid(self):
        """The process number in the daemon's lock file."""
        with open(f"{RUN_DIR}/{self.instance}.lock") as f:
            return int(f.read())

    def slowpath(self, name):
        return self.ask("status")["slowpath"][name]

    def counter(self, name):
        return next(c["value"] for c in self.ask("counters")["counters"] if c["name"] == name)

    def connection(self, rank):
        return next(c for c in self.ask("connections") if c["rank"] == rank)

    def events(self, kind):
        return [e for e in self.ask("events") if e["event"] == kind]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(20)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None and kind is not SystemExit:
            print(f"--- log of inc-switchd\n{self.log()}", flush=True)
        if self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()
                expect(kind, "inc-switchd does not stop")
        if kind is None:
            code = self.process.returncode  # a test may have killed the daemon
            expect(code in (0, -signal.SIGKILL), f"exit code {code} of inc-switchd: {self.log()}")
            expect("is no step" not in self.log(), "a state machine left its table")

    def traces(self):
        """The files that the daemon has left outside of its process."""
        paths = [f"{PIN_DIR}/{self.instance}", f"{RUN_DIR}/{self.instance}.sock",
                 f"{RUN_DIR}/{self.instance}.lock"]
        return [p for p in paths if os.path.exists(p)]


def bare(d, net):
    """Nothing of the daemon may be left."""
    expect(not d.traces(), f"left behind: {d.traces()}")
    for p in net.ports:
        expect(net.xdp(p) is None, f"an XDP program is left on {p}")


class Other:
    """A foreign XDP program on a port."""

    def __init__(self, net, how, port):
        self.process = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{net.switch}", OTHER_XDP, how, port],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if line != "attached\n":
            self.process.stdin.close()
            if self.process.wait(10) == 77:
                raise Skip("libxdp's dispatcher does not work here: " + line.strip())
            raise RuntimeError("other-xdp: " + line)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        if self.process.poll() is None:
            self.packets()

    def packets(self):
        """Detaches it and returns how many packets it has counted."""
        self.process.stdin.close()
        line = self.process.stdout.readline()
        expect(self.process.wait(20) == 0, "other-xdp failed")
        return int(line.split()[1])


def write_switch(directory, communicators, connections, settings=None, **more):
    """Writes the file of one switch and returns its path."""
    path = os.path.join(directory, f"switch-{secrets.token_hex(3)}.yaml")
    data = {"switches": [{
        "name": "s0", "root": not any(c["up"] for c in connections), "communicators": communicators, "connections": connections,
        "settings": settings or {"rto_min_ms": 20, "rto_max_ms": 100, "ack_delay_ms": 2},
        **more}]}
    with open(path, "w") as f:
        json.dump(data, f, indent=1)  # JSON is valid YAML
    return path


def write_config(directory, hosts, slots=8, settings=None, conn=None, payload=1024, more=()):
    """more: lists of hosts for further communicators, 4, 5, ..."""
    groups = dict(enumerate((hosts, *more), 3))
    return write_switch(directory,
                        [{"communicator": n, "payload": payload, "slots": slots} for n in groups],
                        [h.config(communicator=n, **(conn or {}))
                         for n, members in groups.items() for h in members], settings)


@contextlib.contextmanager
def on_ports(ranks=2):
    with scratch() as directory, Net(ranks) as net:
        hosts = [Host(net, i, 0x100 + i, 5, 9) for i in range(ranks)]
        try:
            yield directory, net, hosts
        finally:
            for h in hosts:
                h.close()


def give_and_take(hosts, r):
    for i, h in enumerate(hosts):
        h.give(r, [i + 1, 10])
    for h in hosts:
        expect(values_of(h.result(r)) == [sum(range(len(hosts) + 1)), 10 * len(hosts)], "sum")
        h.answer(AETH_ACK, r)


def listen_for_arp(net, i):
    """Opens a socket for ARP packets at the host's end of port i."""
    with inside(net.hosts):
        arp = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
        arp.bind((net.ends[i], 0))
    arp.settimeout(10)
    return arp


def answer_arp(arp, host):
    """Answers the first ARP request for the host, which is a broadcast or is sent to its address."""
    while True:
        frame = arp.recv(100)
        if frame[20:22] == b"\x00\x01" and frame[38:42] == socket.inet_aton(host.ip) \
                and frame[:6] in (b"\xff" * 6, host.mac):
            break
    arp.send(frame[6:12] + host.mac + b"\x08\x06" + frame[14:20] + b"\x00\x02" + host.mac
             + frame[38:42] + frame[22:28] + frame[28:32])
    arp.close()


def tlv(kind, value):
    return struct.pack("!H", kind << 9 | len(value)) + value


def introduction(mac, name, ttl=120, before=b"", behind=b"", ip="10.0.0.9"):
    """An LLDP frame of a host."""
    return NEAREST + mac + struct.pack("!H", LLDP) + before + tlv(1, b"\4" + mac) + tlv(2, b"\5eth0") + tlv(3, struct.pack("!H", ttl)) + \
        tlv(5, name) + tlv(8, b"\5\1" + socket.inet_aton(ip) + b"\1\0\0\0\0\0") + behind + tlv(0, b"")


def dispatchers():
    path = "/sys/fs/bpf/xdp"
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def refused(net, directory, *args, words=(), **more):
    """The daemon must end with 1 and a message that contains the words, and leave nothing behind."""
    before = dispatchers()
    d = Daemon(net.switch, directory, *args, ready=False, **more)
    expect(d.process.wait(20) == 1, f"exit code {d.process.returncode}: {d.log()}")
    errors = [line for line in d.log().splitlines() if " error " in line]
    expect(len(errors) == 1, f"not one error: {d.log()}")
    for word in words:
        expect(word in errors[0], f"'{word}' is not in: {errors[0]}")
    expect(dispatchers() == before, "dispatchers of libxdp are left")
    return d

# SPDX-License-Identifier: BSD-2-Clause
"""Scripted members and switches, which speak the protocol of docs/control.md to a real controller. Because they are
scripted, they can be late, wrong or silent on purpose. None of them has a data path.
"""
import contextlib
import ctypes
import itertools
import json
import select
import socket
import subprocess

from libproc import AWAKE_STEP_S
from libtest import Failure, awake_stopwatch, expect

TIMEOUT_S = 10
QPNS = itertools.count(0x100)  # of members: each number is used once
SWITCHES = itertools.count()  # numbers for switches that choose queue pair numbers themselves
FLOATS = ["float32", "float16", "bfloat16", "float64"]


def engines(names, kinds=("soft",), types=FLOATS, operators=("sum", "min", "max", "prod"), payload=2048,
            message_bytes=1 << 20, probes=True, reorder=True, **limits):
    """The engines of a hello, for a switch that has both modes. names: of its ports."""
    return [dict(mode="passthrough", probes=probes, reorder=reorder, rto_min_ms=7),
            dict(mode="termination", set="generic", limits=dict(dict(children=64), **limits),
                 endpoints=[dict(port=n, kind=k, device="a device", payload=payload, message_bytes=message_bytes)
                            for n in names for k in kinds],
                 kernels=[dict(operator=op, types=["int32"] + list(types)) for op in operators])]


class Line:
    """A TCP connection that carries one JSON object per line."""

    reader = None  # the thread that receives, if there is one
    ignored = ()   # types of messages that want() does not see

    def __init__(self, port, source=None):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S,
                                             source_address=source and (source, 0))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = b""

    def send(self, **fields):
        self.raw(json.dumps(fields).encode() + b"\n")

    def raw(self, data):
        self.sock.sendall(data)

    def recv(self, seconds=TIMEOUT_S):
        """The next object; None at the end of the connection. Some tests give up a silent controller after this time, within
        its own limits, so a busy machine does not stretch it."""
        watch = awake_stopwatch(shared=False)
        while b"\n" not in self.buf:
            ready = select.poll()  # because select() supports no descriptors above 1023
            ready.register(self.sock, select.POLLIN)
            if not ready.poll(min(seconds, AWAKE_STEP_S / 2) * 1000):
                expect(watch() < seconds, f"nothing received within {seconds} s")
                continue
            try:
                data = self.sock.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self.buf += data
        line, self.buf = self.buf.split(b"\n", 1)
        return json.loads(line)

    def want(self, kind, seconds=TIMEOUT_S, **fields):
        """Returns the next object, which must have this type and these fields."""
        got = self.recv(seconds)
        while got and got.get("type") in self.ignored:
            got = self.recv(seconds)
        expect(got is not None, f"connection closed where '{kind}' was expected")
        expect(got.get("type") == kind and all(got.get(k) == v for k, v in fields.items()),
               f"expected {kind} {fields or ''}, received {got}")
        return got

    def want_error(self, errno, *parts, seconds=TIMEOUT_S, **fields):
        got = self.want("error", seconds, errno=errno, **fields)
        for part in parts:
            expect(part in got["message"], f"'{part}' is not in '{got['message']}'")
        return got

    def want_end(self, seconds=TIMEOUT_S):
        """The controller must close the connection, perhaps after an error."""
        while (got := self.recv(seconds)) is not None:
            expect(got["type"] == "error", f"expected the end, received {got}")

    def silent(self):
        """Checks that the controller has sent nothing: the answer to a ping comes first."""
        self.send(type="ping")
        self.want("pong")

    def close(self):
        """Ends the reader before the socket is closed. Otherwise it could wait on another connection that gets the
        same descriptor number, and hold that open.
        """
        if self.reader:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
            self.reader.join()
        self.sock.close()

    def reset(self):
        """Ends the connection with a reset, like a process that was killed with unread data."""
        AF_UNSPEC = bytes(16)
        expect(ctypes.CDLL(None).connect(self.sock.fileno(), AF_UNSPEC, len(AF_UNSPEC)) == 0, "no reset")
        self.close()


class Member(Line):
    def join(self, job, rank, world_size, addr=None, **more):
        self.job, self.rank, self.world_size = job, rank, world_size
        self.addr = addr or f"10.77.{rank}.1"
        self.send(type="G", version=3, job=job, rank=rank, world_size=world_size,
                  addrs=[self.addr], host=f"node{rank}", **more)
        return self

    def joined(self):
        """Receives the answer to a join: group, rank and world size."""
        got = self.want("G", addr=self.addr)
        self.group, self.rank, self.world_size = got["group"], got["rank"], got["world_size"]
        return self

    def derive(self, old, how, round=0, world_size=None, of=None, **more):
        """On this new connection, asks for the place of `old` in a group that is derived from its group."""
        return self.join(old.job, old.rank, world_size or old.world_size, old.addr,
                         derive=dict(how=how, of=of or old.group, round=round, **more))

    def resume(self, job, group, rank, world_size, numbers, addr=None, /, **more):
        """After a controller's restart, claims what this member has. numbers: the communicators' numbers, by comm."""
        self.rank = rank
        self.send(**dict(dict(
            type="resume", version=3, job=job, group=group, rank=rank, world_size=world_size,
            addrs=[addr or f"10.77.{rank}.1"], host=f"node{rank}",
            communicators=[dict(communicator=number, comm=comm, switch="s0", transport="soft",
                                own_qp=100 + rank, payload=1024, slots=512)
                           for comm, number in enumerate(numbers)]), **more))
        return self

    def ask(self, comm=0, **changes):
        self.qpn = next(QPNS)
        fields = dict(type="C", comm=comm, transport="soft", own_qp=self.qpn,
                      own_psn=(8388600 + self.rank) & 0xffffff, own_port=40000 + self.rank,
                      payload=1024, message_packets=1, window=512, pkey=65535, udp_csum=True)
        fields.update(changes)
        self.send(**fields)
        return self


class Switch(Line):
    """A switch whose answers the test gives: take() a request, then done() or refuse() it."""

    numbers = None  # for its own queue pairs, in termination mode

    @staticmethod
    def hello_fields(name="s0", communicators=(), mtu=2200, n_ports=4, ports=None, say=None, **limits):
        """The fields of a hello. say: more fields."""
        return dict(type="hello", version=3, switch=name, **say or {},
                    ports=[dict(name=f"p{i}", ip=f"10.77.{i}.254", mac="02:00:00:00:00:01", mtu=mtu)
                           for i in range(n_ports)] if ports is None else ports,
                    limits=dict(dict(children=32, slots=4096, rows=1 << 20, connections=4096,
                                     groups=1024), **limits),
                    communicators=list(communicators))

    def hello(self, *args, **fields):
        self.send(**self.hello_fields(*args, **fields))
        return self

    def welcome(self, keep=()):
        got = self.want("welcome")
        expect(got["keep"] == list(keep), f"keeps {got['keep']}, not {list(keep)}")
        return self

    def done(self, request, **more):
        """Confirms a configure, connect or remove."""
        kind = {"configure": "configured", "connect": "connected", "remove": "removed"}[request["type"]]
        number = request.get("communicator") or request["config"]["communicator"]
        if "config" in request and request["config"].get("mode") == "termination":
            more = dict(dict(connections=self.ends(request["config"])), **more)
        self.send(type=kind, seq=request["seq"], communicator=number, **more)

    def ends(self, config):
        """Chooses unused numbers for its own ends of the connections."""
        self.numbers = self.numbers or itertools.count(500000 + 1000 * next(SWITCHES))
        return [dict(host_id=c["host_id"], up=c["up"], own_qp=next(self.numbers), own_psn=next(self.numbers),
                     own_port=5000 + i) for i, c in enumerate(config["connections"])]

    def configure(self):
        """Takes a configure and confirms it; returns the configuration."""
        request = self.want("configure")
        self.done(request)
        return request["config"]

    def remove(self, number):
        request = self.want("remove", communicator=number)
        self.done(request)

    def refuse(self, request, errno, message):
        self.send(type="error", seq=request["seq"], errno=errno, message=message)


class ByTls:
    """Mixed in before a Line: connects through OpenSSL's own s_client, so that the peer's TLS is not the product's.
    how: options of s_client.
    """

    def __init__(self, port, *how):
        self.sock, its = socket.socketpair()
        self.buf = b""
        version = [] if "-tls1_2" in how else ["-tls1_3"]  # with both options s_client does not connect
        with its:
            self.client = subprocess.Popen(
                ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-quiet", *version, *how],
                stdin=its, stdout=its, stderr=subprocess.DEVNULL)

    def close(self):
        super().close()
        self.client.terminate()
        self.client.wait()

    @staticmethod
    def key(identity, secret):
        return ["-psk_identity", identity, "-psk", secret, "-ciphersuites", "TLS_AES_128_GCM_SHA256"]


class TlsMember(ByTls, Member):
    pass


class TlsSwitch(ByTls, Switch):
    pass

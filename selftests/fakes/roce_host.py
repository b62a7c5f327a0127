# SPDX-License-Identifier: BSD-2-Clause
"""Hosts that speak RoCEv2 to a real switch through raw sockets, so that they can lose, refuse and be silent on purpose.
They check every packet that they receive, but they retransmit nothing by themselves.
"""
import contextlib
import os
import select
import signal
import socket
import struct
import time

from libtest import expect, inside, libc
from roce import ACK, PORT, PSN_MASK, SEND_ONLY, SEND_ONLY_IMM, WITH_IMM, WITH_RETH, desc, icrc, ip_packet, ones_sum


class Packet:
    """A received RoCEv2 packet, which has been parsed and checked."""

    def __init__(self, frame):
        self.frame = frame
        self.dmac, self.smac = frame[:6], frame[6:12]
        ip = frame[14:]
        total = struct.unpack("!H", ip[2:4])[0]
        expect(total == len(ip), f"IP length {total} of {len(ip)}")
        expect(ones_sum(ip[:20]) == 0xffff, "wrong IP checksum")
        self.tos = ip[1]
        self.saddr, self.daddr = socket.inet_ntoa(ip[12:16]), socket.inet_ntoa(ip[16:20])
        self.sport, self.dport, udp_len, self.udp_csum = struct.unpack("!4H", ip[20:28])
        expect(udp_len == total - 20, "wrong UDP length")
        if self.udp_csum:
            pseudo = ip[12:20] + struct.pack("!BBH", 0, 17, udp_len)
            expect(ones_sum(pseudo + ip[20:]) == 0xffff, "wrong UDP checksum")
        self.opcode, flags, self.pkey, qpn, psn = struct.unpack("!BBHII", ip[28:40])
        self.qpn, self.psn = qpn & PSN_MASK, psn & PSN_MASK
        self.ackreq, self.solicited = bool(psn >> 31), bool(flags & 0x80)
        expect(struct.unpack("<I", ip[-4:])[0] == icrc(ip[:-4]), "wrong ICRC")
        rest = ip[40:-4]
        self.va = self.rkey = self.dmalen = self.imm = self.syndrome = self.msn = None
        if self.opcode in WITH_RETH:
            self.va, self.rkey, self.dmalen = struct.unpack("!QII", rest[:16])
            rest = rest[16:]
        if self.opcode in WITH_IMM:
            self.imm = struct.unpack("!I", rest[:4])[0]
            rest = rest[4:]
        if self.opcode == ACK:
            aeth = struct.unpack("!I", rest[:4])[0]
            self.syndrome, self.msn = aeth >> 24, aeth & PSN_MASK
        self.payload = rest

    def __repr__(self):
        return f"<opcode {self.opcode:#x} psn {self.psn} syndrome {self.syndrome} " \
            f"{len(self.payload)} bytes>"


class Host:
    """A host at the far end of port i, with one queue pair."""

    def __init__(self, net, i, switch_qpn, own_psn, result_psn, rank=None):
        self.rank = i if rank is None else rank
        self.ip, self.switch_ip = f"10.78.{i}.1", f"10.78.{i}.254"
        self.qpn, self.switch_qpn = 0x200 + self.rank, switch_qpn
        self.own_psn, self.result_psn = own_psn, result_psn
        self.port = net.ports[i]
        self.tos = 0  # of all packets that this host sends from now on
        self.mac = bytes([2, 0, 0, 0, 1, self.rank])
        self.bind(net, i)

    def bind(self, net, i):
        """Binds the socket to the current end of port i."""
        self.switch_mac = net.mac(net.ports[i])
        with inside(net.hosts):
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
            self.sock.bind((net.ends[i], 0))

    def close(self):
        self.sock.close()

    def config(self, **more):
        return {"up": False, "host_id": self.rank, "own_name": self.port,
                "own_ip": self.switch_ip, "own_qp": self.switch_qpn, "own_psn": self.result_psn,
                "peer_ip": self.ip, "peer_qp": self.qpn, "peer_psn": self.own_psn, **more}

    def frame(self, opcode, psn, rest, ackreq=False, flags=0x40, ident=0):
        packet = ip_packet((self.ip, self.switch_ip, 5000, PORT), opcode, self.switch_qpn, psn,
                           rest, ackreq, flags, ident=ident, tos=self.tos)
        return self.switch_mac + self.mac + b"\x08\x00" + packet

    def send(self, *args, **more):
        self.sock.send(self.frame(*args, **more))

    def give(self, r, values, imm=None, opcode=SEND_ONLY_IMM, ackreq=True, reth=None):
        """Sends contribution r of int32 values."""
        rest = struct.pack("!QII", *reth) if reth else b""
        if opcode != SEND_ONLY:
            rest += struct.pack("!I", desc() if imm is None else imm)
        self.send(opcode, self.own_psn + r, rest + struct.pack(f"<{len(values)}i", *values),
                  ackreq)

    def answer(self, syndrome, r, msn=0):
        """Sends an ACK or NAK of result r."""
        self.send(ACK, self.result_psn + r, struct.pack("!I", syndrome << 24 | msn))

    @contextlib.contextmanager
    def answering(self, syndrome, r, processes=1, msn=0):
        """Repeats the answer several times a millisecond until the block ends."""
        frame = self.frame(ACK, self.result_psn + r, struct.pack("!I", syndrome << 24 | msn))
        children = []
        try:
            for _ in range(processes):
                children.append(os.fork())
                if not children[-1]:
                    self._repeat(frame)
            yield
        finally:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _repeat(self, frame):
        """Sends the frame in a child process, which ends with its parent."""
        try:
            libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            while True:
                with contextlib.suppress(OSError):
                    self.sock.send(frame)
                time.sleep(0.0001)
        finally:
            os._exit(1)

    def is_own(self, packet):
        """A packet on this port must be for its only host."""
        expect(packet.qpn == self.qpn and packet.daddr == self.ip
               and packet.saddr == self.switch_ip, f"not for rank {self.rank}: {packet}")
        return True

    def receive(self, seconds=5.0, want=lambda p: True):
        """Returns the next packet for this host that is wanted; None at the deadline."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.sock], [], [], left)[0]:
                break
            frame, addr = self.sock.recvfrom(4096)
            # the switch sends to the discard port so that its kernel resolves the parent's MAC address
            if addr[2] == socket.PACKET_OUTGOING or frame[23:24] != b"\x11" \
                    or frame[36:38] == b"\x00\x09":
                continue
            packet = Packet(frame)
            if self.is_own(packet) and want(packet):
                return packet
        return None

    def result(self, r, seconds=5.0):
        """Receives result r, and drops all packets before it."""
        psn = (self.result_psn + r) & PSN_MASK
        p = self.receive(seconds, lambda p: p.opcode != ACK and p.psn == psn)
        expect(p is not None, f"rank {self.rank}: no result {r} within {seconds} s")
        return p

    def response(self, seconds=5.0):
        p = self.receive(seconds, lambda p: p.opcode == ACK)
        expect(p is not None, f"rank {self.rank}: no ACK or NAK within {seconds} s")
        return p


def values_of(packet):
    return list(struct.unpack(f"<{len(packet.payload) // 4}i", packet.payload))

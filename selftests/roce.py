# SPDX-License-Identifier: BSD-2-Clause
"""Builds and parses RoCEv2 packets, with zlib's CRC-32 for the ICRC, for tests that send packets that no endpoint
would send."""
import socket
import struct
import zlib

SEND_ONLY, SEND_ONLY_IMM, WRITE_ONLY_IMM, ACK = 0x04, 0x05, 0x0b, 0x11
WITH_RETH, WITH_IMM = (0x06, 0x0a, 0x0b), (0x03, 0x05, 0x09, 0x0b)
AETH_ACK, RNR, NAK_SEQ, NAK_INVALID, NAK_ACCESS, NAK_OPERATION = 0x1f, 0x20, 0x60, 0x61, 0x62, 0x63
ALLREDUCE, REDUCE, BROADCAST, BARRIER = range(4)
PSN_MASK = 0xffffff
PORT = 4791


INT32, FLOAT32, NATIVE_FLOAT32 = 0, 8, 19  # numbers of types; the last one is for floats that are added as they are


def desc(collective=ALLREDUCE, root=0, seq=1, dtype=INT32):
    return collective << 29 | dtype << 19 | root << 7 | seq


def ones_sum(data):
    if len(data) & 1:
        data += b"\0"
    s = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return s


def icrc(ip):
    """The ICRC of a packet from its IP header to the end of its payload."""
    head = bytearray(ip[:40])
    head[1] = head[8] = head[10] = head[11] = head[26] = head[27] = head[32] = 0xff
    return zlib.crc32(b"\xff" * 8 + bytes(head) + ip[40:])


def ip_packet(path, opcode, qpn, psn, rest, ackreq=False, flags=0x40, pkey=0xffff, ident=0, tos=0):
    """Returns a packet from the IP header to the ICRC. path: source, destination, and their UDP ports; rest: the
    bytes behind the BTH."""
    saddr, daddr, sport, dport = path
    bth = struct.pack("!BBHII", opcode, flags, pkey, qpn, ackreq << 31 | psn & PSN_MASK)
    udp_len = 8 + len(bth) + len(rest) + 4
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, tos, 20 + udp_len, ident, 0x4000, 64, 17, 0,
                     socket.inet_aton(saddr), socket.inet_aton(daddr))
    ip = ip[:10] + struct.pack("!H", ones_sum(ip) ^ 0xffff) + ip[12:]
    packet = ip + struct.pack("!4H", sport, dport, udp_len, 0) + bth + rest
    return packet + struct.pack("<I", icrc(packet))

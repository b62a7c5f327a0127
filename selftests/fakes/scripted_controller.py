# SPDX-License-Identifier: BSD-2-Clause
"""A controller whose requests the test makes. It checks no answer by itself, and it keeps no state of the switch."""
import json
import socket

from libtest import expect, inside


class ScriptedController:
    """A controller that listens in a namespace and serves one switch at a time."""

    def __init__(self, netns, address="127.0.0.1", port=0):
        self.netns, self.address, self.port = netns, address, port
        self.sock = None
        self.buf = b""
        self.back()

    def accept(self, seconds=10):
        self.listener.settimeout(seconds)
        self.sock, _ = self.listener.accept()
        self.sock.settimeout(seconds)
        self.buf = b""

    def recv(self):
        while b"\n" not in self.buf:
            data = self.sock.recv(1 << 16)
            if not data:
                return None
            self.buf += data
        line, self.buf = self.buf.split(b"\n", 1)
        expect(len(line) <= 1 << 20, f"a line of {len(line)} bytes: {line[:80]}")
        return json.loads(line)

    def send(self, **fields):
        self.sock.sendall(json.dumps(fields).encode() + b"\n")

    def ask(self, **fields):
        """Sends a request and returns its answer; events before it are skipped."""
        self.send(**fields)
        while (got := self.recv()) and got["type"] == "event":
            pass
        return got

    def welcome(self, keep=()):
        """Receives a hello, answers it, and returns it."""
        self.accept()
        hello = self.recv()
        expect(hello["type"] == "hello", f"not a hello: {hello}")
        self.send(type="welcome", switch=hello["switch"], keep=list(keep))
        return hello

    def answer_trial(self, seconds=10):
        """Answers the ping on a second connection, by which the switch finds out whether a new one would be accepted."""
        self.listener.settimeout(seconds)
        with self.listener.accept()[0] as trial, trial.makefile() as lines:
            trial.settimeout(seconds)
            line = lines.readline()
            expect(json.loads(line)["type"] == "ping", f"not a ping: {line}")
            trial.sendall(b'{"type":"pong"}\n')

    def drop(self):
        if self.sock:
            self.sock.close()
        self.sock = None

    def back(self):
        with inside(self.netns):
            self.listener = socket.create_server((self.address, self.port))
        self.port = self.listener.getsockname()[1]

    def away(self):
        """Closes the port until back(), so that no hello waits there."""
        self.listener.close()
        self.drop()

    close = away

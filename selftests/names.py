# SPDX-License-Identifier: BSD-2-Clause
"""Names with several addresses, and name servers that do not answer, as programs meet them: two machines as
network namespaces, and on the first one an /etc/hosts, resolv.conf and nsswitch.conf of its own."""
import contextlib
import os
import secrets
import socket
import subprocess

from libproc import Failure, command, expect, wait_for
from libtest import BUILD, TOP, inside, scratch

HERE, THERE, HOLE = "10.90.0.1", "10.90.0.3", "10.90.0.2"
HOLE6 = "2001:db8::2"
NAME_SERVER = "127.0.0.53"
# What a stock Debian has, and names of which the first address answers nothing.
HOSTS = f"""127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
{HOLE} hole
{THERE} hole
{HOLE6} hole6
127.0.0.1 hole6
"""
# From an answer of no name server to the resolver's own end: 10 s where nothing else is said.
RESOLVER_S = 10
# A program's own limit of 1 s is kept, even on a machine that is busy, if it has ended by then.
IN_TIME_S = 7


class Names:
    """with Names() as n: n.run(program, ...) on the machine with the names; n.other is the other's namespace."""

    def __init__(self, resolver=""):
        """resolver: options of resolv.conf."""
        tag = secrets.token_hex(3)
        self.own, self.other = f"na-{tag}", f"nb-{tag}"
        self.port, self.far = f"va-{tag}", f"vb-{tag}"
        self.resolver = resolver
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        try:
            self.directory = self.stack.enter_context(scratch())
            for ns in (self.own, self.other):
                command("ip", "netns", "add", ns)
                self.stack.callback(command, "ip", "netns", "del", ns, check=False)
                command("ip", "-n", ns, "link", "set", "lo", "up")
            command("ip", "-n", self.own, "link", "add", self.port, "type", "veth", "peer", "name", self.far,
                    "netns", self.other)
            for words in (("-n", self.own, "link", "set", self.port, "up"),
                          ("-n", self.other, "link", "set", self.far, "up"),
                          ("-n", self.own, "addr", "add", f"{HERE}/24", "dev", self.port),
                          ("-n", self.other, "addr", "add", f"{THERE}/24", "dev", self.far),
                          ("-n", self.own, "-6", "addr", "add", "2001:db8::1/64", "dev", self.port, "nodad")):
                command("ip", *words)
            # frames to a machine that is not there: nothing is refused, and nothing answers
            for address in (HOLE, HOLE6):
                command("ip", "-n", self.own, "neigh", "replace", address, "lladdr", "02:00:00:00:00:99", "dev",
                        self.port, "nud", "permanent")
            self.write("resolv.conf", f"nameserver {NAME_SERVER}\noptions {self.resolver}\n" if self.resolver else
                       f"nameserver {NAME_SERVER}\n")
            self.write("nsswitch.conf", "hosts: files dns\n")
            self.hosts(HOSTS)
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *args):
        self.stack.close()

    def write(self, name, text):
        """In place, because it is mounted."""
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as f:
            f.write(text)

    def hosts(self, text):
        self.write("hosts", text)

    def files(self):
        """In front of a program, on whichever machine it runs."""
        mounts = "".join(f"mount --bind '{self.directory}/{name}' /etc/{name} && "
                         for name in ("hosts", "resolv.conf", "nsswitch.conf"))
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounts + 'exec "$@"', "sh"]

    def on(self, ns=None):
        """The words in front of a program: on the other machine it sees the names, too."""
        return ["nsenter", f"--net=/run/netns/{ns or self.own}", *self.files()]

    def run(self, *args, **more):
        return command(*self.on(), *args, **more)

    def start(self, *args, ns=None, **popen):
        return subprocess.Popen([*self.on(ns), *map(str, args)], stdin=subprocess.DEVNULL,
                                **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **popen})

    def expect_order(self, name, *addresses):
        """The test's own condition: the C library gives them in this order."""
        lines = self.run("getent", "ahosts", name).out.splitlines()
        got = [line.split()[0] for line in lines if "STREAM" in line]
        expect(got == list(addresses), f"{name} has {got}, not {addresses}")

    @contextlib.contextmanager
    def silent_server(self):
        """A name server that takes questions and answers none."""
        with inside(self.own):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with sock:
            sock.bind((NAME_SERVER, 53))
            yield Silent(sock)


class Silent:
    def __init__(self, sock):
        self.sock = sock
        self.sock.setblocking(False)

    def forget(self):
        """Questions until now do not count."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.sock.recv(512)

    def asked(self, name):
        """Waits until somebody asks for this name."""
        want = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))

        def question():
            with contextlib.suppress(BlockingIOError):
                return want in self.sock.recv(512)
            return False
        wait_for(f"a question for {name}", question, 20)


def stop(process, seconds=20):
    """Its exit code, and what it said."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failure(f"not at its end after {seconds} s: {process.args}") from None
    return process.returncode, out, err


@contextlib.contextmanager
def controller(names, ns, address):
    """The real one, on this address of this machine alone; its port for members."""
    process = names.start(os.path.join(BUILD, "inc-controller"), "--topology", os.path.join(TOP, "topo/star2.yaml"),
                          "--database", "none", "--insecure", "--listen", address, "--member-port", 0,
                          "--switch-port", 0, ns=ns)
    try:
        words = process.stdout.readline().split()
        expect(words[:1] == ["ready"], f"the controller says {words}")
        yield words[2].rsplit(":", 1)[1]
    finally:
        process.terminate()
        code, _, err = stop(process)
        expect(code == 0, f"exit code {code} of the controller: {err}")

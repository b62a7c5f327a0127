# SPDX-License-Identifier: BSD-2-Clause
"""Programs that resolve names with several addresses, or whose name servers do not answer. Two network namespaces
stand for two machines. The first one has its own /etc/hosts, resolv.conf and nsswitch.conf."""
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
# The entries of a stock Debian, and names whose first address does not answer.
HOSTS = f"""127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
{HOLE} hole
{THERE} hole
{HOLE6} hole6
127.0.0.1 hole6
"""
# The resolver gives up after this time without an answer of the name server, if no other time is configured.
RESOLVER_S = 10
# Even on a busy machine, a program with a limit of 1 s must end in this time.
IN_TIME_S = 7


class Names:
    """with Names() as n: n.run(program, ...) runs on the machine with the names; n.other is the other machine's
    namespace."""

    def __init__(self, resolver=""):
        """resolver: options for resolv.conf."""
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
            # a neighbour entry for a machine that does not exist, so packets to it are neither rejected nor answered
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
        """Writes in place, because the file is mounted."""
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as f:
            f.write(text)

    def hosts(self, text):
        self.write("hosts", text)

    def files(self):
        """The mounts for a program, on either machine."""
        mounts = "".join(f"mount --bind '{self.directory}/{name}' /etc/{name} && "
                         for name in ("hosts", "resolv.conf", "nsswitch.conf"))
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounts + 'exec "$@"', "sh"]

    def on(self, ns=None):
        """The words in front of a program that runs on one of the machines. The other machine has the names, too."""
        return ["nsenter", f"--net=/run/netns/{ns or self.own}", *self.files()]

    def run(self, *args, **more):
        return command(*self.on(), *args, **more)

    def start(self, *args, ns=None, **popen):
        return subprocess.Popen([*self.on(ns), *map(str, args)], stdin=subprocess.DEVNULL,
                                **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **popen})

    def expect_order(self, name, *addresses):
        """Checks a precondition of the tests: the C library returns the addresses in this order."""
        lines = self.run("getent", "ahosts", name).out.splitlines()
        got = [line.split()[0] for line in lines if "STREAM" in line]
        expect(got == list(addresses), f"{name} has {got}, not {addresses}")

    @contextlib.contextmanager
    def silent_server(self):
        """A name server that receives queries and answers none."""
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
        """Forgets the queries so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.sock.recv(512)

    def asked(self, name):
        """Waits for a query for this name."""
        want = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))

        def question():
            with contextlib.suppress(BlockingIOError):
                return want in self.sock.recv(512)
            return False
        wait_for(f"a question for {name}", question, 20)


def stop(process, seconds=20):
    """Ends a process. Returns its exit code and its output."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failure(f"not at its end after {seconds} s: {process.args}") from None
    return process.returncode, out, err


@contextlib.contextmanager
def controller(names, ns, address):
    """Starts the real controller on this address of this machine only. Returns its port for members."""
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

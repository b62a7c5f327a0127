# SPDX-License-Identifier: BSD-2-Clause
"""Real etcd members on loopback, what a controller has stored there, and a relay that stands for the network between a
controller and a member.
"""
import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import urllib.request

from libtest import Failure, expect, scratch, wait_for

SCHEME = "etcd://"


def coded(text):
    return base64.b64encode(text.encode()).decode()


def parts(database):
    """The members and the prefix of etcd://HOST:PORT,HOST:PORT/PREFIX."""
    members, prefix = database[len(SCHEME):].split("/", 1)
    return members.split(","), prefix


def ask(database, path, **request):
    """The answer of the first member that has one."""
    last = None
    for member in parts(database)[0]:
        try:
            with urllib.request.urlopen(f"http://{member}/v3/{path}", json.dumps(request).encode(), 10) as answer:
                return json.load(answer)
        except OSError as e:
            last = e
    raise Failure(f"no member of {database} answers: {last}")


def keys(database):
    """{path below the prefix: value} of all keys."""
    prefix = parts(database)[1] + "/"
    got = ask(database, "kv/range", key=coded(prefix), range_end=coded(prefix[:-1] + "0"))
    text = {base64.b64decode(kv["key"]).decode(): base64.b64decode(kv.get("value", "")).decode()
            for kv in got.get("kvs", [])}
    return {key[len(prefix):]: value for key, value in text.items()}


def times_written(database, path):
    """How often a key was written since it was created; 0: there is no such key."""
    got = ask(database, "kv/range", key=coded(f"{parts(database)[1]}/{path}"))
    return int(got["kvs"][0]["version"]) if "kvs" in got else 0


def put(database, path, value):
    ask(database, "kv/put", key=coded(f"{parts(database)[1]}/{path}"), value=coded(value))


def delete(database, path):
    ask(database, "kv/deleterange", key=coded(f"{parts(database)[1]}/{path}"))


def expire(database):
    """Ends the lease of a controller that was killed, which otherwise takes its time."""
    delete(database, "leader")


def table(database, name):
    """The rows of a table, as dictionaries."""
    found = [json.loads(value) for path, value in keys(database).items() if path.startswith(f"rows/{name}/")]
    return [dict(zip(part["columns"], row, strict=True)) for part in found for row in sorted(part["rows"])]


def free_ports(n):
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(n)]


class Etcd:
    """A cluster: `with Etcd(3) as etcd: etcd.database("prefix")`."""

    def __init__(self, n=1, *options):
        """options: of each member, such as those of a guide for fast networks."""
        self.n, self.options = n, options
        self.processes = [None] * n

    def __enter__(self):
        self.scratch = scratch()
        self.directory = self.scratch.__enter__()
        ports = free_ports(2 * self.n)
        self.clients, self.peers = ports[:self.n], ports[self.n:]
        for i in range(self.n):
            self.start(i)
        self.ready()
        return self

    def __exit__(self, *failure):
        for i in range(self.n):
            self.kill(i)
        self.scratch.__exit__(None, None, None)

    def start(self, i):
        url = f"http://127.0.0.1:{self.clients[i]}"
        everybody = ",".join(f"m{k}=http://127.0.0.1:{port}" for k, port in enumerate(self.peers))
        with open(os.path.join(self.directory, f"log{i}"), "a") as log:
            self.processes[i] = subprocess.Popen(
                ["etcd", "--name", f"m{i}", "--data-dir", os.path.join(self.directory, f"m{i}"), "--listen-client-urls", url,
                 "--advertise-client-urls", url, "--listen-peer-urls", f"http://127.0.0.1:{self.peers[i]}",
                 "--initial-advertise-peer-urls", f"http://127.0.0.1:{self.peers[i]}", "--initial-cluster", everybody,
                 "--initial-cluster-state", "new", *self.options], stdout=log, stderr=log)

    def kill(self, i, number=signal.SIGKILL):
        if self.processes[i] and self.processes[i].poll() is None:
            self.processes[i].send_signal(number)
            self.processes[i].wait()

    def members(self):
        return [f"127.0.0.1:{port}" for port in self.clients]

    def database(self, prefix, members=None):
        return f"{SCHEME}{','.join(members or self.members())}/{prefix}"

    def healthy(self, i):
        with contextlib.suppress(OSError, ValueError), \
                urllib.request.urlopen(f"http://127.0.0.1:{self.clients[i]}/health", None, 5) as answer:
            return json.load(answer)["health"] == "true"
        return False

    def ready(self):
        wait_for("every member of etcd answers", lambda: all(map(self.healthy, range(self.n))), 60)

    def leader(self):
        """The number of the member that leads etcd."""
        for i in range(self.n):
            with contextlib.suppress(Failure):
                got = ask(f"{SCHEME}127.0.0.1:{self.clients[i]}/", "maintenance/status")
                if got["leader"] == got["header"]["member_id"]:
                    return i
        return None


class Relay:
    """Passes bytes between controllers and one member. hold() keeps all bytes, as a network does that is cut. before
    and behind: functions that are called with the number of each transaction, before it is passed on and when the
    answer has come. What they return is true if the connection ends there. read_s: so long is each read of a range on its
    way, as in a slow network.
    """

    def __init__(self, port, before=None, behind=None, read_s=0):
        self.target, self.before, self.behind, self.read_s = port, before, behind, read_s
        self.open = threading.Event()
        self.open.set()
        self.n = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.member = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.open.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def hold(self):
        self.open.clear()

    def release(self):
        self.open.set()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                member = socket.create_connection(("127.0.0.1", self.target))
                pair = [client, member]
                state = {"txn": False}
                threading.Thread(target=self.carry, args=(client, member, pair, state, True), daemon=True).start()
                threading.Thread(target=self.carry, args=(member, client, pair, state, False), daemon=True).start()

    def carry(self, source, to, pair, state, asks):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                self.open.wait()
                if asks and b"POST /v3/kv/range" in data:
                    threading.Event().wait(self.read_s)
                if asks and b"POST /v3/kv/txn" in data:
                    self.n += 1
                    state["txn"] = True
                    if self.before and self.before(self.n):
                        break
                elif not asks and state["txn"]:
                    state["txn"] = False
                    if self.behind and self.behind(self.n):
                        break
                to.sendall(data)
        for s in pair:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


def expect_empty(database):
    left = [path for path in keys(database) if path.startswith(("rows/", "change/")) and not path.startswith("rows/numbers/")]
    expect(not left, f"{left} are left")

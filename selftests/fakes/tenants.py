# SPDX-License-Identifier: BSD-2-Clause
"""Members of several jobs and their switches, which act at random by a seed. They answer late, wrong or not at all,
refuse, fail, and disconnect and return in any order. Each of them knows which answers it must get, and that nothing
of another job may reach it.
"""
import heapq
import random
import re
import select
import time

from fakes.control_peers import Member, Switch
from libtest import Failure, expect

PATIENCE_S = 20  # for any answer, because all of the controller's timeouts together take 3 s
FOREIGN = "FOREIGN"  # contained in messages about communicators of other jobs, and must never arrive
EVENTS = ("mismatch", "connection_error", "peer_nak", "unresponsive", "ended", "sneezed")


def read_topology(path):
    """Names of the switches, and addresses of the hosts."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    return (re.findall(r"^  - name: (\S+)$", text, re.M),
            re.findall(r"^  - \{name: \S+, ip: (\S+)\}$", text, re.M))


class Careless:
    """A line that ignores errors of a send, because the next read finds the end of the connection."""

    def raw(self, data):
        try:
            super().raw(data)
        except OSError:
            pass


class MemberLine(Careless, Member):
    pass


class SwitchLine(Careless, Switch):
    pass


class Actor:
    """One end of a connection in the event loop of the tenants."""

    def __init__(self, tenants, line):
        self.tenants, self.owed = tenants, {}
        self.connect(line)

    def connect(self, line):
        self.line = line
        self.tenants.actors[line.sock.fileno()] = self

    def send(self, **fields):
        self.line.send(**fields)

    def owe(self, *what):
        self.owed[what] = time.monotonic() + PATIENCE_S

    def paid(self, *what):
        return self.owed.pop(what, None) is not None

    def close(self):
        self.tenants.actors.pop(self.line.sock.fileno(), None)
        self.line.close()
        self.owed.clear()

    def pump(self):
        try:
            data = self.line.sock.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            self.close()
            self.on_end()
            return
        self.line.buf += data
        while b"\n" in self.line.buf and self.line.sock.fileno() >= 0:
            self.on_message(self.line.recv())


class Rank(Actor):
    """comms: by the group's index, [state, number]. States: asked, made, ready, started, failed, leaving."""

    def __init__(self, job, rank):
        tenants = job.tenants
        super().__init__(tenants, MemberLine(tenants.c.member_port))
        self.job, self.rank, self.comms, self.over, self.group = job, rank, {}, False, None
        self.qpns = {}  # by index, the rank's own
        self.meddled = None  # a number of another job, which it has tried to use
        self.line.join(job.name, rank, job.size, addr=job.hosts[rank])
        self.owe("G")

    def __str__(self):
        return f"{self.job.name} rank {self.rank}"

    def ask(self, index):
        if self.line.sock.fileno() < 0 or self.over:
            return
        self.tenants.qpn += 1
        self.qpns[index] = self.tenants.qpn
        self.line.ask(index, window=self.job.windows[index], own_qp=self.tenants.qpn)
        self.comms[index] = ["asked", None]
        self.owe("C", index)

    def by_number(self, number):
        return next((i for i, comm in self.comms.items() if number and comm[1] == number), None)

    def leave(self, index):
        """Destroys a communicator, once."""
        comm = self.comms.get(index)
        if self.line.sock.fileno() < 0 or self.over or not comm or comm[0] in ("asked", "leaving"):
            return
        comm[0] = "leaving"
        self.owe("D", index)
        self.send(type="D", communicator=comm[1])

    def begin(self, index):
        """Reacts to the answer to C: nearly always it goes on."""
        comm = self.comms.get(index)
        if self.line.sock.fileno() < 0 or self.over or not comm or comm[0] != "made":
            return
        if self.tenants.chance(.03):
            self.leave(index)
        elif self.tenants.chance(.03):
            self.send(type="failed", communicator=comm[1], errno="EIO", message="no device")
            comm[0] = "failed"
            self.tenants.later(50, lambda: self.leave(index))
        elif not self.tenants.chance(.02):
            comm[0] = "ready"
            self.owe("ready", index)
            self.send(type="ready", communicator=comm[1])

    def meddle(self):
        """Uses numbers of another job."""
        numbers = [n for n in self.tenants.alive() if self.tenants.numbers[n][0] is not self.job]
        if not numbers or self.line.sock.fileno() < 0 or ("meddled",) in self.owed or \
                not self.group or self.over:
            return
        number = self.meddled = self.tenants.draw.choice(numbers)
        self.owe("meddled")
        self.send(**self.tenants.draw.choice((
            dict(type="ready", communicator=number), dict(type="D", communicator=number),
            dict(type="failed", communicator=number, rank=0, errno="EIO", message=FOREIGN))))

    def is_meddling(self, number):
        return number is not None and number == self.meddled and self.paid("meddled")

    def finish(self):
        """Ends the connection, orderly or not."""
        if self.line.sock.fileno() < 0:
            return
        if self.tenants.chance(.7):
            self.send(type="bye")
        self.close()

    def on_end(self):
        expect(self.tenants.restarts, f"{self}: the controller has closed its connection")
        self.comms = {i: comm for i, comm in self.comms.items() if comm[0] == "started"}
        if self.over or not self.comms:
            self.job.lost()
        else:
            self.tenants.later(self.tenants.draw.randrange(500), self.resume)

    def resume(self):
        """A new controller has started: reconnects, so that what runs goes on."""
        if self.job.over:
            return
        self.connect(MemberLine(self.tenants.c.member_port))
        placed = {number: next(name for name, config in self.tenants.placed[number].items()
                               if any(c["peer_qp"] == self.qpns[i] for c in config["connections"]))
                  for i, (_, number) in self.comms.items()}
        self.line.resume(self.job.name, self.group, self.rank, self.job.size, (),
                         self.job.hosts[self.rank], communicators=[
                             dict(communicator=number, comm=index, switch=placed[number],
                                  transport="soft", own_qp=self.qpns[index], payload=1024, slots=512)
                             for index, (_, number) in self.comms.items()])
        self.owe("resumed")

    def on_resumed(self, got):
        expect(self.paid("resumed") and got["group"] == self.group, f"{self}: {got}")
        self.tenants.resumed += 1
        for index in self.comms:
            self.tenants.later(self.tenants.draw.randrange(400), lambda index=index: self.leave(index))

    def on_message(self, got):
        expect(FOREIGN not in got.get("message", ""), f"{self} receives a message of another job: {got}")
        getattr(self, "on_" + got["type"])(got)

    def on_pong(self, got):
        pass

    def on_absent(self, got):
        expect(any(owed[0] in ("G", "C", "ready") for owed in self.owed), f"{self} waits for no rank: {got}")

    def on_G(self, got):
        expect(self.paid("G"), f"{self}: {got}")
        self.group = got["group"]
        self.job.formed()

    def on_C(self, got):
        index, number = got["comm"], got["communicator"]
        expect(self.paid("C", index), f"{self}: {got}")
        self.tenants.claim(number, self.job, index)
        self.tenants.check_route(self, got)
        self.comms[index] = ["made", number]
        self.tenants.later(self.tenants.draw.randrange(100), lambda: self.begin(index))

    def on_start(self, got):
        index = self.by_number(got["communicator"])
        expect(index is not None and self.paid("ready", index), f"{self}: {got}")
        if self.comms[index][0] == "ready":
            self.comms[index][0] = "started"
        self.tenants.started += 1
        self.tenants.later(self.tenants.draw.randrange(800), lambda: self.leave(index))

    def on_D(self, got):
        index = self.by_number(got["communicator"])
        if self.is_meddling(got["communicator"]):
            return  # the other job's communicator had ended already, which is what was requested
        expect(index is not None and self.paid("D", index), f"{self}: {got}")
        self.owed.pop(("ready", index), None)
        del self.comms[index]

    def on_error(self, got):
        index = got.get("comm", self.by_number(got.get("communicator")))
        if self.is_meddling(got.get("communicator")):
            return
        if self.paid("resumed"):
            expect(got["errno"] in ("ENETRESET", "ECONNRESET"), f"{self}: {got}")
            self.close()
            self.job.lost()
            return
        if not self.group:
            expect(self.paid("G") and got["errno"] == "ETIMEDOUT", f"{self}: {got}")
            self.close()
            self.job.lost()
            return
        if self.paid("C", index):
            del self.comms[index]
        elif self.over:
            return
        elif self.paid("ready", index):
            self.comms[index][0] = "failed"
            self.tenants.later(self.tenants.draw.randrange(100), lambda: self.leave(index))
        else:
            raise Failure(f"{self} has not asked for this: {got}")

    def on_failed(self, got):
        expect(got["group"] == self.group, f"{self} is of group {self.group}: {got}")
        if "communicator" not in got:
            self.over = True
            self.owed = {k: v for k, v in self.owed.items() if k[0] in "CD"}
            self.job.lost()
            return
        index = self.by_number(got["communicator"])
        expect(index is not None, f"{self} has no such communicator: {got}")
        if self.comms[index][0] != "leaving":
            waits = self.comms[index][0] == "ready"  # the answer to its ready is on its way
            self.comms[index][0] = "failed"
            if not waits:
                self.tenants.later(self.tenants.draw.randrange(100), lambda: self.leave(index))


class Job:
    """All ranks of a job, which use several communicators at a time."""

    def __init__(self, tenants, name):
        draw = tenants.draw
        self.tenants, self.name, self.ranks, self.over = tenants, name, [], False
        self.size = draw.choice((1, 2, 2, 3, 4, 6))
        self.hosts = [draw.choice(tenants.hosts) for _ in range(self.size)]
        self.windows, self.waits, self.left = [], self.size, draw.randrange(1, 6)
        for rank in draw.sample(range(self.size), self.size):
            if tenants.chance(.02):
                continue  # this rank never joins
            tenants.later(draw.randrange(60), lambda rank=rank: self.come(rank))
        tenants.later(3000, lambda: self.waits and self.lost())

    def come(self, rank):
        if not self.over:
            self.ranks.append(Rank(self, rank))

    def formed(self):
        self.waits -= 1
        if not self.waits:
            self.next()

    def next(self):
        """Begins another communicator, or ends the job."""
        tenants = self.tenants
        if self.over:
            return
        if not self.left:
            tenants.later(900, self.lost)
            return
        self.left -= 1
        index = len(self.windows)
        self.windows.append(tenants.draw.choice((1, 16, 64, 512)))
        for rank in self.ranks:
            if tenants.chance(.01):
                continue
            tenants.later(tenants.draw.randrange(60), lambda rank=rank: rank.ask(index))
        if tenants.chance(.1):
            tenants.later(tenants.draw.randrange(200), self.lose_one)
        tenants.later(tenants.draw.randrange(300), self.next)

    def lose_one(self):
        rank = self.tenants.draw.choice(self.ranks)
        if rank.line.sock.fileno() >= 0 and not self.over:
            rank.close()
            self.tenants.later(PATIENCE_S * 100, self.lost)

    def lost(self):
        """The job has lost a rank, so it is over; the other ranks leave one by one."""
        if self.over:
            return
        self.over = True
        for rank in self.ranks:
            self.tenants.later(self.tenants.draw.randrange(200), rank.finish)
        self.tenants.later(250, lambda: self.tenants.jobs.remove(self))


class Guest(Actor):
    """A rank that does only what the test calls."""

    def __init__(self, tenants, job, rank, size):
        super().__init__(tenants, MemberLine(tenants.c.member_port))
        self.heard = []
        self.line.join(job, rank, size, addr=tenants.hosts[rank])

    def on_message(self, got):
        if got["type"] == "C":
            self.send(type="ready", communicator=got["communicator"])
        if got["type"] != "start":
            self.heard.append(got)

    def on_end(self):
        raise Failure("the controller has closed a connection")


class Node(Actor):
    """A switch. have: its communicators, by number. It reconnects with or without them."""

    def __init__(self, tenants, name, have):
        super().__init__(tenants, SwitchLine(tenants.c.switch_port))
        self.name, self.have, self.welcome = name, have, False
        tenants.nodes[name] = self
        self.line.hello(name, communicators=sorted(have), ports=[], **tenants.limits)
        self.owe("welcome")

    def __str__(self):
        return f"switch {self.name}"

    def drop(self, restart=False):
        if self.line.sock.fileno() < 0:
            return
        self.close()
        if restart:
            self.have.clear()
        self.come_back()

    def come_back(self):
        self.tenants.nodes.pop(self.name, None)
        self.tenants.later(self.tenants.draw.randrange(300),
                         lambda: Node(self.tenants, self.name, self.have))

    def on_end(self):
        # because of an answer that it did not give
        self.come_back()

    def on_message(self, got):
        getattr(self, "on_" + got["type"])(got)

    def on_ping(self, got):
        self.send(type="pong")

    def on_welcome(self, got):
        expect(self.paid("welcome"), f"{self}: welcome twice")
        expect(set(got["keep"]) <= set(self.have), f"{self} has {list(self.have)}: {got}")
        self.have = {n: config for n, config in self.have.items() if n in got["keep"]}
        self.welcome = True

    def check_room(self, config):
        number, conns = config["communicator"], config["connections"]
        expect(number not in self.have, f"{self} has communicator {number} already")
        used = [c["own_qp"] for x in (*self.have.values(), config) for c in x["connections"]]
        expect(len(set(used)) == len(used), f"{self}: a queue pair number twice in {used}")
        rows = sum(len(x["connections"]) * x["slots"] for x in self.have.values())
        if len(self.have) < self.tenants.limits["groups"] and \
                rows + len(conns) * config["slots"] <= self.tenants.limits["rows"]:
            return True
        # a controller does not count communicators of its predecessor
        expect(self.tenants.restarts, f"{self} has {len(self.have)} communicators with {rows} rows, "
               "and gets another one")
        return False

    def on_configure(self, got):
        tenants, config = self.tenants, got["config"]
        number = config["communicator"]
        tenants.configured += 1
        if not self.check_room(config):
            self.line.refuse(got, "ENOSPC", "full")
            return
        if tenants.chance(.04):
            self.line.refuse(got, tenants.draw.choice(("ENOSPC", "EINVAL", "ETIMEDOUT")), "not today")
            return
        if tenants.chance(.02):
            self.drop()
            return
        self.have[number] = config
        tenants.seen(self.name, config)
        if tenants.chance(.02):
            self.drop(restart=tenants.chance(.5))
        elif tenants.chance(.02):
            self.send(type="configured", seq=got["seq"], communicator=number + 1)
        elif not tenants.chance(.02):
            late = 900 if tenants.chance(.05) else 40
            tenants.later(tenants.draw.randrange(late), lambda: self.confirm(got, number))

    def confirm(self, got, number):
        if self.line.sock.fileno() < 0:
            return
        self.send(type="configured", seq=got["seq"], communicator=number)
        if self.tenants.chance(.03):
            self.tell(number, "")

    def on_remove(self, got):
        self.have.pop(got["communicator"], None)
        if self.tenants.chance(.01):
            return  # it violates the protocol, and the controller disconnects it
        if self.tenants.chance(.01):
            self.line.refuse(got, "EBUSY", "still here")
        elif self.tenants.chance(.01):
            self.drop()
        else:
            self.line.done(got)

    def on_query(self, got):
        draw = self.tenants.draw
        data = [dict(communicator=n, chunk=1, arrived=[], results=0,
                     missing=[dict(rank=draw.randrange(8), since_ms=1)])
                for n in (*self.have, draw.randrange(1, 1 << 32))]
        if not self.tenants.chance(.1):
            self.send(type="answer", seq=got["seq"], what=got["what"], data=data)

    def on_error(self, got):
        """The controller may read a new hello before it has handled the end of the old connection. A switch tries again."""
        expect(self.paid("welcome") and got["errno"] == "EADDRINUSE", f"{self}: {got}")
        self.close()
        self.come_back()

    def tell(self, number, text):
        draw = self.tenants.draw
        more = dict(rank=draw.choice((0, 1, 5, 1023))) if draw.random() < .7 else {}
        self.send(type="event", switch=self.name, time_ns=1, event=draw.choice(EVENTS),
                  communicator=number, message=text, **more)

    def misbehave(self):
        """Sends messages that belong to no request."""
        if self.line.sock.fileno() < 0 or not self.welcome:
            return
        tenants = self.tenants
        strange = [n for n in tenants.alive() if not tenants.is_on(self.name, n)]
        if strange:
            self.tell(tenants.draw.choice(strange), FOREIGN)
        if self.have and tenants.chance(.1):
            self.tell(tenants.draw.choice(list(self.have)), "of its own")
        if tenants.chance(.05):
            self.drop(restart=tenants.chance(.5))
        if tenants.chance(.1):
            self.send(type="configured", seq=tenants.draw.randrange(1000), communicator=1)


class Tenants:
    """All actors. renew: kills the controller, starts another one and returns it."""

    def __init__(self, c, topology, seed, limits, renew):
        self.c, self.draw, self.limits, self.renew = c, random.Random(seed), limits, renew
        self.restarts = self.resumed = 0
        self.names, self.hosts = read_topology(topology)
        self.actors, self.timers, self.jobs, self.nodes = {}, [], [], {}
        self.numbers = {}  # all numbers that were ever used: (job, index)
        self.placed = {}   # for each number: {switch: the last configuration it received}
        self.calm, self.turn, self.started, self.configured, self.qpn = False, 0, 0, 0, 0x100

    def chance(self, p):
        return not self.calm and self.draw.random() < p

    def later(self, ms, do):
        self.turn += 1
        heapq.heappush(self.timers, (time.monotonic() + ms / 1000, self.turn, do))

    def running(self):
        """Whether all ranks of some job have started a communicator."""
        return any(all("started" in (comm[0] for comm in rank.comms.values()) for rank in job.ranks)
                   for job in self.jobs if len(job.ranks) == job.size and not job.over)

    def alive(self):
        """Numbers that are in use; if there are none, all that were ever used."""
        now = {comm[1] for job in self.jobs for rank in job.ranks for comm in rank.comms.values()}
        return sorted(now & set(self.numbers)) or list(self.numbers)

    def claim(self, number, job, index):
        expect(self.numbers.setdefault(number, (job, index)) == (job, index),
               f"communicator {number} is given to {job.name}, and was another one")

    def seen(self, name, config):
        self.placed.setdefault(config["communicator"], {})[name] = config

    def is_on(self, name, number):
        return name in self.placed.get(number, ())

    def check_route(self, rank, made):
        """A member's connection must exist at its switch, with its rank."""
        conn = made["connection"]
        config = self.placed[made["communicator"]][conn["switch"]]
        expect([c["host_id"] for c in config["connections"] if not c["up"] and
                "ranks" not in c and c["own_qp"] == conn["peer_qp"] and
                c["peer_qp"] == rank.qpns[made["comm"]] and c["peer_ip"] == rank.job.hosts[rank.rank]]
               == [rank.rank], f"{rank}: {made} is not in {config}")

    def turn_once(self):
        now = time.monotonic()
        for actor in self.actors.values():
            for what, until_s in actor.owed.items():
                expect(now < until_s, f"{actor} waits for {what} since {PATIENCE_S} s")
        while self.timers and self.timers[0][0] <= now:
            heapq.heappop(self.timers)[2]()
        left = self.timers[0][0] - now if self.timers else 1
        ready = select.poll()
        for fd in self.actors:
            ready.register(fd, select.POLLIN)
        for fd, _ in ready.poll(max(0, min(left, .2)) * 1000):
            if fd in self.actors:
                self.actors[fd].pump()

    def until(self, what, condition, seconds):
        deadline = time.monotonic() + seconds
        while not condition():
            expect(time.monotonic() < deadline, f"{what}: not within {seconds} s")
            self.turn_once()

    def run(self, n_jobs, at_once):
        """Runs n_jobs jobs, and waits until all have ended."""
        for name in self.names:
            Node(self, name, {})
        todo = [f"job{i}" for i in range(n_jobs)]

        def more():
            while todo and len(self.jobs) < at_once:
                self.jobs.append(Job(self, todo.pop()))
            for rank in self.draw.choice(self.jobs).ranks if self.jobs else ():
                if self.chance(.1):
                    rank.meddle()
            for node in list(self.nodes.values()):
                if self.chance(.05):
                    node.misbehave()
            if self.restarts < 2 and self.running() and self.chance(.05):
                self.restarts += 1
                self.c = self.renew()
            if todo or self.jobs:
                self.later(50, more)
        more()
        self.until("the end of all jobs", lambda: not todo and not self.jobs, 240)
        self.calm = True
        self.until("all switches are back", lambda: len(self.nodes) == len(self.names) and
                   all(node.welcome for node in self.nodes.values()), PATIENCE_S)
        self.until("nothing is left at any switch",
                   lambda: not any(node.have for node in self.nodes.values()), PATIENCE_S)

    def fill(self, most):
        """One job of all hosts makes communicators until there is no room, and gets exactly as many as fit."""
        # A switch that has just come back may have communicators of an earlier controller, which take room until
        # the controller has seen twice that they rest.
        self.until_empty("nothing is left of other jobs")
        size = len(self.hosts)
        ranks = [Guest(self, "all", rank, size) for rank in range(size)]

        def all_heard(kind):
            self.until(f"'{kind}' for all", lambda: all(r.heard for r in ranks), PATIENCE_S)
            for r in ranks:
                got = r.heard.pop(0)
                expect(got["type"] == kind, f"'{kind}' for all, but: {got}")
        all_heard("G")
        for index in range(most + 1):
            for r in ranks:
                self.qpn += 1
                r.line.ask(index, window=1, own_qp=self.qpn)
            all_heard("C" if index < most else "error")
        for r in ranks:
            r.close()
        self.until_empty("nothing is left again")

    def until_empty(self, what):
        """Waits until no switch has a communicator."""
        self.until(what, lambda: not any(node.have for node in self.nodes.values()), PATIENCE_S)

    def close(self):
        for actor in list(self.actors.values()):
            actor.close()

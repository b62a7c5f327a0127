# SPDX-License-Identifier: BSD-2-Clause
"""Jobs of scripted ranks and a switch, which remember their state when their controller is gone. Also access to the
database that a controller has left. For tests of the state that a controller stores.
"""
import contextlib
import itertools
import os
import shutil
import sqlite3

import harness_etcd
from harness_controller import Controller, expect, until
from libtest import BUILD, Failure, scratch

FAULT = os.path.join(BUILD, "selftests/control/inc-controller-fault")
# Used to read databases that may be damaged.
SAN = os.path.join(BUILD, "selftests/control/inc-controller-san")
TABLES = ("groups", "ranks", "communicators", "nodes", "members", "switches")


CLUSTER = None  # the etcd that has the databases; None: they are files
PREFIXES = itertools.count(1)


@contextlib.contextmanager
def in_etcd(n=1):
    """Databases are in an etcd of n members meanwhile."""
    global CLUSTER
    with harness_etcd.Etcd(n) as CLUSTER:
        try:
            yield CLUSTER
        finally:
            CLUSTER = None


@contextlib.contextmanager
def database():
    if CLUSTER:
        yield CLUSTER.database(f"inc/{next(PREFIXES)}")
        return
    with scratch() as path:
        yield os.path.join(path, "c.db")


def rows(path, query):
    """The result of a query. No controller may have the database open."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def contents(path):
    """{table: [{column: value}]} of a database that a controller has left. Reads a copy, because opening a database
    applies its log, and the original must stay unchanged.
    """
    if path.startswith(harness_etcd.SCHEME):
        return {table: harness_etcd.table(path, table) for table in TABLES}
    with scratch() as beside:
        copy = os.path.join(beside, os.path.basename(path))
        for end in ("", "-wal"):
            if os.path.exists(path + end):
                shutil.copy(path + end, copy + end)
        with contextlib.closing(sqlite3.connect(copy)) as db:
            db.row_factory = sqlite3.Row
            made = {name for name, in db.execute("SELECT name FROM sqlite_schema")}
            return {table: [dict(row) for row in db.execute(f"SELECT * FROM {table}")] if table in made else []
                    for table in TABLES}


def empty(path):
    if path.startswith(harness_etcd.SCHEME):
        harness_etcd.expect_empty(path)
        return
    for table in TABLES:
        expect(not rows(path, f"SELECT * FROM {table}"), f"{table} is not empty")


@contextlib.contextmanager
def crashing(*args, **more):
    """A controller that is killed in the end, without messages to its peers."""
    c = Controller(*args, **more).__enter__()
    try:
        yield c
    finally:
        c.process.kill()
        c.stop()
        if CLUSTER and "database" in more:
            harness_etcd.expire(more["database"])
        for line in c.lines:
            line.close()


def claims(running, qpns):
    return [dict(communicator=number, comm=comm, switch="s0", transport="soft", own_qp=qpns[comm],
                 own_port=qpns["port"], payload=1024, slots=512) for comm, number in running.items()]


class Rank:
    """The state of a member's process, which survives its connections."""

    def __init__(self, rank):
        self.rank, self.group, self.running = rank, None, {}
        self.qpns = {"port": 40000 + rank}

    def join(self, c, job, n):
        self.job, self.n = job, n
        self.line = c.member().join(job, self.rank, n)

    def ask(self, comm):
        self.line.ask(comm)
        self.qpns[comm] = self.line.qpn

    def destroy(self, comm):
        number = self.running.pop(comm)
        self.line.send(type="D", communicator=number)
        self.line.want("D", communicator=number)

    def resume(self, c):
        self.line = c.member().resume(self.job, self.group, self.rank, self.n, (),
                                      communicators=claims(self.running, self.qpns))
        return self.line


class LastingJob:
    """A group of two ranks with two communicators, one after the other, each destroyed by both ranks, and its end. It
    goes on until the controller dies. Then this object has the state of the ranks and of the switch.
    """

    def __init__(self, n=2):
        self.ranks = [Rank(i) for i in range(n)]
        self.there = []  # communicators that the switch has
        self.told = set()

    def configured(self):
        request = self.switch.want("configure")
        number = request["config"]["communicator"]
        expect(number not in self.told, f"{number} is given twice")
        self.told.add(number)
        self.there.append(number)
        self.switch.done(request)
        return number

    def removed(self, number):
        request = self.switch.want("remove", communicator=number)
        self.there.remove(number)
        self.switch.done(request)

    def begin(self, comm):
        for r in self.ranks:
            r.ask(comm)
        number = self.configured()
        for r in self.ranks:
            r.line.want("C", comm=comm, communicator=number)
            r.line.send(type="ready", communicator=number)
        for r in self.ranks:
            r.line.want("start", communicator=number)
            r.running[comm] = number

    def end(self, comm):
        number = self.ranks[0].running[comm]
        for r in self.ranks:
            r.destroy(comm)
        self.removed(number)

    def leave(self):
        for r in self.ranks:
            r.line.send(type="bye")
            r.line.close()

    def play(self, c):
        self.switch = c.switch()
        for r in self.ranks:
            r.join(c, "before", len(self.ranks))
        for r in self.ranks:
            r.group = r.line.want("G")["group"]
        self.begin(0)
        self.begin(1)
        self.end(0)
        self.end(1)
        self.leave()
        until("no groups", lambda: not c.ask("groups"))

    def check_kept(self, path):
        """The state of ranks and switch must be in the database."""
        while hasattr(self, "switch") and (got := self.received()):
            if got["type"] == "remove":
                self.there.remove(got["communicator"])
            elif got["type"] == "configure":
                self.there.append(got["config"]["communicator"])
                self.told.add(got["config"]["communicator"])
        db = contents(path)
        kept = {row["number"]: row["state"] for row in db["communicators"]}
        groups = [row["number"] for row in db["groups"]]
        running = {n for r in self.ranks for n in r.running.values()}
        expect({kept.get(n) for n in running} <= {"STARTED"}, f"{running} run, kept are {kept}")
        expect(not kept.keys() & (self.told - set(self.there)), f"{kept}, removed but {self.there}")
        expect(not running or self.ranks[0].group in groups, f"{self.ranks[0].group}: {groups}")

    def received(self):
        try:
            return self.switch.recv()
        except (OSError, Failure):
            return None

    def check_again(self, c):
        """Continues with a controller that has the same database: what was running goes on and ends, and a new job
        can begin at once.
        """
        self.switch = c.raw_switch().hello(communicators=self.there)
        kept = self.switch.want("welcome")["keep"]
        running = {n for r in self.ranks for n in r.running.values()}
        # a communicator is removed only after the last rank has destroyed it; a rank that destroyed it has waited for
        # none
        expect(running <= set(kept), f"{running} run, of {self.there} {kept} are kept")
        self.there = list(kept)
        again = LastingJob()
        again.switch, again.told, again.there = self.switch, self.told, self.there
        for r in again.ranks:
            r.join(c, "before", 2)
            r.qpns["port"] = 50000 + r.rank
        for r in again.ranks:
            r.group = r.line.want("G")["group"]
            expect(r.group != self.ranks[0].group, "a group's number is given twice")
        for r in again.ranks:
            r.line.ask(0, own_port=50000 + r.rank)
        number = again.configured()
        for r in again.ranks:
            r.line.want("C", communicator=number)
        back = [r for r in self.ranks if r.running]
        for r in back:
            r.resume(c).want("resumed", group=r.group)
        for r in back:
            for comm in list(r.running):
                r.destroy(comm)
        for r in back:
            r.line.send(type="bye")
            r.line.close()
        for r in again.ranks:
            r.line.close()
        until("an empty controller", lambda: self.sweep(c), 5)

    def sweep(self, c):
        """Handles requests to the switch. True: neither ranks nor switch have anything left."""
        self.switch.send(type="ping")
        while (got := self.switch.recv())["type"] != "pong":
            expect(got["type"] == "remove", f"{got}")
            self.there.remove(got["communicator"])
            self.switch.done(got)
        return not c.ask("groups") and not c.ask("communicators") and not self.there


def started(c, n=2, comms=1, job="before", switch=None):
    """Ranks with running communicators, and their switch."""
    lasting = LastingJob(n)
    lasting.switch = switch or c.switch()
    for r in lasting.ranks:
        r.join(c, job, n)
    for r in lasting.ranks:
        r.group = r.line.want("G")["group"]
    for comm in range(comms):
        lasting.begin(comm)
    return lasting


def welcomed(c, lasting, keep=None):
    lasting.switch = c.raw_switch().hello(communicators=lasting.there).welcome(
        keep=lasting.there if keep is None else keep)

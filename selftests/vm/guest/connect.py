#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The connection service between two rxe devices: tests of its library, whose result lines count; tests of its
program; and its speed compared with perftest's."""
import contextlib
import json
import os
import re
import signal
import subprocess

from vmlab import BUILD, Failure, case, command, expect, lab, libtest, wait_for

FULL = os.environ.get("FULL") == "1"
ADDRESSES = [f"10.77.{i}.1" for i in range(2)]
CLIENT, SERVICE = 0, 1
TOOL = os.path.join(BUILD, "inc-connect")
ROUNDS = 3
MESSAGE = 1 << 20
# An emulated machine may be slow to acknowledge, so the timeout is long.
FILE = """devices: [{device: rxe%d}]
queue_pair: {timeout: 18, retry_cnt: %d, buf_size: %d, send_buf_cnt: 8}
"""


def library():
    ends = [word for i in range(2) for word in (f"rxe{i}", f"p{i}", ADDRESSES[i])]
    result = command(os.path.join(BUILD, "selftests/vm/connect_live"), *ends,
                     timeout=1300 if FULL else 900, check=False,
                     env=dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP"))
    print(result.out, result.err, sep="\n", flush=True)
    with case("library"):
        expect(result.code == 0, result.story())


# --- the program --------------------------------------------------------------------------

class Serve:
    """Runs inc-connect serve on the service's device."""

    def __init__(self, file):
        self.process = subprocess.Popen([TOOL, "serve", "--config", file, "--listen", "127.0.0.1"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        line = self.process.stdout.readline()
        expect(re.fullmatch(r"ready port \d+\n", line), f"serve said '{line}'")
        return self

    def __exit__(self, kind, value, trace):
        self.process.terminate()
        code = self.process.wait(30)
        expect(kind or code == 0, f"serve ended with {code}")


def connect(file, *args, timeout=120):
    """Returns the answer of inc-connect connect."""
    result = command(TOOL, "connect", "--config", file, "--json", *args, "127.0.0.1", timeout=timeout)
    return json.loads(result.out)


def program(files):
    with case("query"):
        said = json.loads(command(TOOL, "query", "--json", "127.0.0.1").out)
        expect([(d["dev_name"], [p["port"] for p in d["ports"]]) for d in said["devices"]] ==
               [(f"rxe{SERVICE}", [1])], f"{said}")
    for mode in ("send", "write", "read"):
        with case(f"connect_{mode}"):
            said = connect(files[CLIENT], "--mode", mode, "--bytes", "100001", "--iters", "20")
            pair, = said["choice"]["pairs"]
            expect(pair["chosen"] and pair["remote"]["dev_name"] == f"rxe{SERVICE}" and
                   pair["local"]["dev_name"] == f"rxe{CLIENT}", f"{said}")
            least, median, p99 = (said["measured"]["latency_us"][k] for k in ("min", "median", "p99"))
            expect(0 < least <= median <= p99 and said["measured"]["bandwidth_gbps"] > 0, f"{said}")
    with case("figures"):
        values = libtest.parse_metrics(command(TOOL, "query", "--stats", "127.0.0.1").out)
        expect(values["inc_connect_accept_latency_seconds_count", ()] == 3, f"{values}")
        expect(values["inc_connect_received_bytes_total", ()] > 50 * 100001, f"{values}")
        wait_for("all sockets to be gone", lambda: libtest.parse_metrics(
            command(TOOL, "query", "--stats", "127.0.0.1").out)["inc_connect_connections", ()] == 0)


def service_is_killed(name, client_file, service_file, stop, word):
    """The service is killed. The transfer stops, and the client reports in one line which peer is missing and why.
    stop: everything in flight arrives first, so that only the client's check can notice."""
    with case(name), contextlib.ExitStack() as stack:
        serve = Serve(service_file)
        serve.__enter__()
        stack.callback(serve.process.kill)
        client = subprocess.Popen([TOOL, "connect", "--config", client_file, "--iters", "1000000",
                                   "--timeout-ms", "20000", "127.0.0.1"], stdin=subprocess.DEVNULL,
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stack.callback(client.kill)
        wait_for("the connection", lambda: "connected to" in client.stdout.readline(), 30)
        if stop:
            serve.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, serve.process.pid, os.WSTOPPED | os.WNOWAIT)
        serve.process.send_signal(signal.SIGKILL)
        serve.process.wait(30)
        _, err = client.communicate(timeout=60)
        expect(client.returncode == 1 and len(err.strip().splitlines()) == 1,
               f"exit code {client.returncode}: {err}")
        expect(f"rxe{SERVICE}" in err and word in err, f"no '{word}' in: {err}")
        print("#", err.strip())


# --- speed ----------------------------------------------------------------------------------

def gid_index(host):
    """The index of the RoCE v2 GID with the interface's address."""
    base = f"/sys/class/infiniband/rxe{host}/ports/1/gids"
    for index in sorted(map(int, os.listdir(base))):
        with open(f"{base}/{index}") as f:
            if "ffff:" in f.read():
                return index
    raise Failure(f"rxe{host} has no GID of an IPv4 address")


def once(name, gids, *args):
    """Returns perftest's line of figures."""
    def line(host):
        return [name, "-d", f"rxe{host}", "-x", str(gids[host]), "-F", "-u", "18", *map(str, args)]

    server = subprocess.Popen(line(SERVICE), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        wait_for(f"{name} to listen", lambda: ":18515 " in command("ss", "-tln").out, 30)
        result = command(*line(CLIENT), ADDRESSES[SERVICE], timeout=120)
        server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait(10)
    rows = re.findall(r"^ *\d+ +\d+ +\S.*$", result.out, re.M)
    expect(rows, result.story())
    return rows[-1].split()


def perftest(name, gids, *args):
    """The same, repeated until its clock is right. perftest first compares the cycle counter with the time. Other
    load of the machine may spoil that, and the figures are infinite then."""
    for _ in range(6):
        row = once(name, gids, *args)
        if not {"inf", "nan", "-nan"} & set(row):
            return row
    raise Failure(f"{name} found no clock: {row}")


def median(values):
    return sorted(values)[len(values) // 2]


def lat(gids, iters, *args):
    """Returns minimum, median and 99th percentile in us."""
    row = perftest("ib_send_lat", gids, "-s", 64, "-n", iters, *args)
    return float(row[2]), float(row[4]), float(row[7])


def bw(gids, iters, *args):
    """Returns Gbit/s on average."""
    row = perftest("ib_send_bw", gids, "-s", MESSAGE, "-n", iters, "--report_gbits", *args)
    return float(row[3])


def ours(file, size, iters):
    measured = connect(file, "--bytes", size, "--iters", iters, timeout=200)["measured"]
    return [measured["latency_us"][k] for k in ("min", "median", "p99")], measured["bandwidth_gbps"]


def measures(files):
    with case("measures"):
        latencies_us, _ = ours(files[CLIENT], 64, 100)
        _, bandwidth_gbps = ours(files[CLIENT], MESSAGE, 8)
        expect(0 < latencies_us[0] <= latencies_us[1] <= latencies_us[2] and bandwidth_gbps > 0,
               f"{latencies_us} us, {bandwidth_gbps} Gbit/s")


def speed(files):
    """Both programs run alternately, so that the machine's other load affects both alike. perftest's sides spin, or
    with -e sleep while they wait, as inc-connect does."""
    few, many = 20, 1000
    gids = [gid_index(0), gid_index(1)]
    lats, bws = {}, {}
    with case("speed"):
        for _ in range(ROUNDS):
            for name, args in (("ib_send_lat -e", ["-e"]), ("ib_send_lat", [])):
                lats.setdefault(name, []).append(lat(gids, many, *args))
            lats.setdefault("inc-connect", []).append(ours(files[CLIENT], 64, many)[0])
            for name, args in (("ib_send_bw -e", ["-e"]), ("ib_send_bw", [])):
                bws.setdefault(name, []).append(bw(gids, few, *args))
            bws.setdefault("inc-connect", []).append(ours(files[CLIENT], MESSAGE, few)[1])
        for name, rows in lats.items():
            print(f"# 64 bytes, {name}: minimum, median, 99 % "
                  f"{', '.join(f'{median(column):.0f}' for column in zip(*rows))} us", flush=True)
        for name, values in bws.items():
            print(f"# {MESSAGE} bytes, {name}: {median(values):.3f} Gbit/s", flush=True)


def test():
    with lab(2, "--wires"), libtest.scratch() as directory:
        library()
        files = [os.path.join(directory, f"{host}.yaml") for host in range(2)]
        for host, path in enumerate(files):
            with open(path, "w") as f:
                f.write(FILE % (host, 6, MESSAGE))
        for_ever = os.path.join(directory, "for_ever.yaml")
        with open(for_ever, "w") as f:
            f.write(FILE % (CLIENT, 7, MESSAGE))
        with Serve(files[SERVICE]):
            program(files)
            measures(files)
            if FULL:
                speed(files)
        for stop, name in ((False, "service_is_killed"), (True, "service_is_stopped_and_killed")):
            service_is_killed(name, files[CLIENT], files[SERVICE], stop, "retry counter")
            service_is_killed(name + "_and_tried_for_ever", for_ever, files[SERVICE], stop,
                              "has not answered for 20000 ms")


libtest.main(test)

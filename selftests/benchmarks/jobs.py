# SPDX-License-Identifier: BSD-2-Clause
"""Parts of `bench` that run jobs in labs: a switch compared with a ring over TCP on the same links, also as NCCL calls
both, and the cost of a level of a tree. Compared jobs run alternately, so that the machine's other load affects all
alike."""
import contextlib
import json
import os
import statistics

from costs import MODES, TERMINATION, rated_lab
from libtest import BUILD, Lab, scratch, with_wires
from table import Table, pivot, size_text


def first_row(lab, *args):
    return json.loads(lab.run(*args, options=("--no-prefix", "--only", "0"), timeout=300).out.splitlines()[0])


def perf(lab, size, iterations, warmup, *more, collective="allreduce"):
    return first_row(lab, "inccl-perf", collective, "-b", size, "-e", size, "-n", iterations, "-w", warmup,
                     "--json", *more)


def measure_ring(how):
    for hosts in [n for n in how.hosts if n < 8]:
        with Lab(f"star{hosts}.yaml", mode="passthrough", books=False) as lab:
            addresses = [h["addr"] for h in lab.hosts]
            for size in (1 << 16, 1 << 20, 1 << 24):
                iterations = 5 if size > 1 << 22 else 20
                took = {}
                for _ in range(how.rounds):
                    for payload in (1024, 2048):
                        took.setdefault(f"switch, payload {payload}", []).append(
                            perf(lab, size, iterations, 2, "--payload", payload)["algbw_gbps"])
                    took.setdefault("ring over TCP", []).append(
                        first_row(lab, os.path.join(BUILD, "bench", "ring"), size, iterations,
                                  *addresses)["algbw_gbps"])
                for what, rates in took.items():
                    yield {"hosts": hosts, "bytes": size, "what": what, "rounds": how.rounds,
                           "gbps": statistics.median(rates)}


def show_ring(rows):
    heads, lines = pivot(rows, lambda r: f"{r['hosts']} hosts, {size_text(r['bytes'])}", lambda r: r["what"],
                         lambda r: f"{r['gbps']:.3f}")
    yield Table(f"AllReduce by an XDP switch, int32 sum, Gbit/s of the vector, median of {rows[0]['rounds']} rounds",
                ["job"] + heads, lines,
                ["Links of MTU 2200: payload 2048 and TCP's segments of 2148 bytes compare; 1024 is what 1500 allows."])


def measure_tree(how):
    with Lab("star4.yaml", mode="passthrough", books=False) as star, \
            Lab("tree-2x2.yaml", mode="passthrough", books=False) as tree:
        took = {}
        for _ in range(how.rounds):
            for what, lab in (("four hosts, one switch", star), ("four hosts, two levels", tree)):
                took.setdefault(what, []).append(
                    perf(lab, 4096, 500 if how.quick else 2000, 100)["time_us"])
    for what, times in took.items():
        yield {"what": what, "bytes": 4096, "rounds": how.rounds, "time_us": statistics.median(times)}


def show_tree(rows):
    yield Table(f"What a level of tree costs: AllReduce of 4 KiB, median of {rows[0]['rounds']} rounds",
                ["where", "us", "of the first"],
                [[r["what"], f"{r['time_us']:.1f}", f"{r['time_us'] / rows[0]['time_us']:.2f}"] for r in rows])


LOSSES = (0, 0.01, 0.05)
RATE_MBIT = 100  # of the wires, unless --rate is given


def wire_totals(lab, wires):
    """The frames that all wires have carried, and lost."""
    lines = [line for wire in wires for line in lab.wire_stats(wire).values()]
    return {what: sum(line[what] for line in lines) for what in ("forwarded", "lost")}


def measure_loss(how):
    """AllReduce on wires of a limited rate that lose frames in both directions."""
    with scratch() as directory:
        for mode in how.modes:
            for hosts in [n for n in how.hosts if 1 < n < 8]:
                topology, wires = with_wires(directory, f"star{hosts}.yaml")
                with Lab(topology, books=False, mode=mode, program=os.path.join(how.programs, "inc-lab")) as lab:
                    for size in (1 << 20,) if how.quick else (1 << 20, 1 << 24):
                        yield from measure_losses(how, lab, wires, {"mode": mode, "hosts": hosts, "bytes": size})


def measure_losses(how, lab, wires, where):
    iterations = 2 if where["bytes"] > 1 << 22 else 10
    runs = {}
    for _ in range(how.rounds):
        for loss in LOSSES:
            for wire in wires:
                lab.wire(wire, f"rate={(how.rate or RATE_MBIT):g}", f"loss={loss}")
            before = wire_totals(lab, wires)
            time_us = perf(lab, where["bytes"], iterations, 1)["time_us"]
            after = wire_totals(lab, wires)
            runs.setdefault(loss, []).append({"time_us": time_us, **{
                what: (after[what] - before[what]) / (iterations + 1) for what in after}})
    for loss, of in runs.items():
        yield {**where, "loss": loss, "rate": (how.rate or RATE_MBIT), "rounds": how.rounds,
               **{what: statistics.median(r[what] for r in of) for what in of[0]}}


def show_loss(rows):
    lossless = {(r["mode"], r["hosts"], r["bytes"]): r for r in rows if not r["loss"]}
    lines = []
    for r in rows:
        first = lossless[r["mode"], r["hosts"], r["bytes"]]
        lines.append([f"{r['mode']}, {r['hosts']} hosts, {size_text(r['bytes'])}", f"{100 * r['loss']:g} %",
                      f"{r['time_us'] / 1e3:.1f}", f"{first['time_us'] / r['time_us']:.2f}", f"{r['lost']:.0f}",
                      f"{r['forwarded'] / first['forwarded']:.2f}"])
    yield Table(f"AllReduce on wires of {rows[0]['rate']:g} Mbit/s that lose frames, int32 sum, median of "
                f"{rows[0]['rounds']} rounds",
                ["job", "lost", "ms", "speed", "frames lost", "frames"], lines,
                ["Speed and frames are beside those without loss. Frames count on all wires and in both directions."])


RING = "ring over TCP"
PLUGIN_RING = "ring by the plugin"
RINGS = (RING, PLUGIN_RING)
NCCL_SIZES = {4 << 10: 200, 64 << 10: 100, 1 << 20: 30, 4 << 20: 10, 16 << 20: 5, 64 << 20: 2}  # {bytes: iterations}
NCCL_QUICK = {(4, 1000): (1 << 20, 16 << 20), (8, None): (4 << 10, 1 << 20)}  # {(nodes, Mbit/s of links): sizes}
NCCL_CHANNELS = 2
# These settings leave a path after 3.8 s and not after 0.5 s, because hosts that share a busy machine may stand still for that long.
NCCL_SETTINGS = "HA_NCCL_TRANSPORT=soft NCCL_SOCKET_IFNAME=eth0 HA_NCCL_QP_TIMEOUT=17 HA_NCCL_RTO_MS=8000 NCCL_DEBUG=INFO"


def nccl_us(lab, what, size):
    """The median time of an AllReduce of ha-nccl-perf, which plays NCCL's proxy: by CollNet, or around a ring. The ring uses
    the UDP paths of our plugin, or another plugin's TCP sockets."""
    root = json.loads(lab.exec("h0", "ip", "-j", "-4", "addr", "show", "mgmt0").out)[0]["addr_info"][0]["local"]
    args = ["--rank $INCCL_RANK --ranks $INCCL_WORLD_SIZE --json", "--root", f"{root}:4711", "--bytes", size, "--iters",
            NCCL_SIZES.get(size, 10), "--warmup", 2, "--channels", NCCL_CHANNELS, "--limit-ms", 60000, "--plugin"]
    args += [os.path.join(BUILD, "selftests/nccl/libnccl-net-socket.so" if what == RING else "libnccl-net-ha.so"),
             "ring" if what in RINGS else "--collnet"]
    told = first_row(lab, "sh", "-c", f"SOCKET_NET_ADDRESS=$INCCL_ADDR {NCCL_SETTINGS} "
                     f"exec ha-nccl-perf {' '.join(map(str, args))}")
    return told["sizes"][0]["median_us"]


def measure_collnet(how):
    jobs = NCCL_QUICK if how.quick and not how.some_hosts else {
        (hosts, rate): how.size or list(NCCL_SIZES) for hosts in how.hosts for rate in ((how.rate,) if how.rate else (None, 1000))}
    for (hosts, rate), sizes in jobs.items():
        took = {}
        with contextlib.ExitStack() as stack:
            labs = {mode: stack.enter_context(rated_lab(f"star{hosts}.yaml", rate, mode=mode)) for mode in MODES}
            labs.update({ring: labs[TERMINATION] for ring in RINGS})  # whose switch forwards the ring's packets
            for _ in range(how.rounds):
                for size in sizes:
                    for what, lab in labs.items():
                        took.setdefault((size, what), []).append(nccl_us(lab, what, size))
        for (size, what), each in took.items():
            yield {"hosts": hosts, "rate_mbit": rate, "bytes": size, "what": what, "rounds": how.rounds,
                   "time_us": statistics.median(each), "each_us": each}


def collnet_cells(rows):
    """{(hosts, rate, bytes): {what: us}}"""
    cells = {}
    for r in rows:
        cells.setdefault((r["hosts"], r["rate_mbit"], r["bytes"]), {})[r["what"]] = r["time_us"]
    return cells


def show_collnet(rows):
    yield Table("AllReduce as NCCL calls it (ha-nccl-perf), float32 sum by CollNet beside two rings, "
                f"median of {rows[0]['rounds']} rounds",
                ["nodes", "links", "vector", *(f"{what}, us" for what in (*MODES, *RINGS)),
                 *(f"{mode}, times the speed of the {ring}" for ring in RINGS for mode in MODES)],
                [[str(hosts), f"{rate:g} Mbit/s" if rate else "unshaped", size_text(size),
                  *(f"{us[what]:.0f}" for what in (*MODES, *RINGS)), *(f"{us[ring] / us[mode]:.2f}" for ring in RINGS for mode in MODES)]
                 for (hosts, rate, size), us in collnet_cells(rows).items()],
                ["Labs have no RDMA device, so our plugin's ring uses UDP (HA_NCCL_TRANSPORT=soft). The ring over TCP is that of "
                 "selftests/fakes/nccl_net_socket.c."])


BLOCKS = {"allgather": "AllGather", "reducescatter": "ReduceScatter"}
BLOCK_SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20)


def measure_blocks(how):
    """AllGather and ReduceScatter, which CollNet leaves to NCCL. NCCL's ring does each of them by the steps of one half of its
    AllReduce, so half of that time stands for both."""
    for hosts in [n for n in how.hosts if n > 2]:
        for rate in (how.rate,) if how.rate else (None, 1000):
            took = {}
            with contextlib.ExitStack() as stack:
                labs = {mode: stack.enter_context(rated_lab(f"star{hosts}.yaml", rate, mode=mode)) for mode in MODES}
                for _ in range(how.rounds):
                    for size in how.size or BLOCK_SIZES:
                        for collective, mode in [(c, m) for c in BLOCKS for m in MODES]:
                            took.setdefault((size, collective, mode), []).append(
                                perf(labs[mode], size, NCCL_SIZES.get(size, 10), 2, "--dtype", "float32",
                                     collective=collective)["time_us"])
                        for ring in RINGS:
                            took.setdefault((size, ring, ring), []).append(nccl_us(labs[TERMINATION], ring, size) / 2)
            for (size, collective, what), each in took.items():
                yield {"hosts": hosts, "rate_mbit": rate, "bytes": size, "collective": collective, "what": what,
                       "rounds": how.rounds, "time_us": statistics.median(each), "each_us": each}


def show_blocks(rows):
    cells = {}
    for r in rows:
        cells.setdefault((r["hosts"], r["rate_mbit"], r["bytes"]), {})[r["collective"], r["what"]] = r["time_us"]
    for key, name in BLOCKS.items():
        yield Table(f"{name} by the switch (inccl-perf), float32, beside half of the AllReduce of two rings (ha-nccl-perf), "
                    f"median of {rows[0]['rounds']} rounds",
                    ["nodes", "links", "vector", *(f"{what}, us" for what in (*MODES, *RINGS)),
                     *(f"{mode}, times the speed of the {ring}" for ring in RINGS for mode in MODES)],
                    [[str(hosts), f"{rate:g} Mbit/s" if rate else "unshaped", size_text(size),
                      *(f"{us[key, mode]:.0f}" for mode in MODES), *(f"{us[ring, ring]:.0f}" for ring in RINGS),
                      *(f"{us[ring, ring] / us[key, mode]:.2f}" for ring in RINGS for mode in MODES)]
                     for (hosts, rate, size), us in cells.items()], [])

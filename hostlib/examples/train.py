#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Trains a classifier of handwritten digits by DistributedDataParallel over the switch: train.py [BACKEND [WIRE [EPOCHS]]].
WIRE is the type in which the hook sums gradients (float32, bfloat16, float16), or - for no hook."""
import hashlib
import os
import sys
import time
import numpy as np
import torch
import torch.distributed as dist
import inccl.torch

backend, wire, epochs = (sys.argv[1:] + ["inccl", "-", "5"][len(sys.argv) - 1:])[:3]
for name in ("RANK", "WORLD_SIZE"):  # torchrun sets these, and inc-lab those of libinccl
    os.environ.setdefault(name, os.environ.get("INCCL_" + name, ""))
torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group(backend)
rank, size = dist.get_rank(), dist.get_world_size()
rows = np.loadtxt(os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits", "digits.csv"), delimiter=",", dtype=np.float32)
mine = torch.from_numpy(rows[rank:1436:size])  # each rank has its share of the first four fifths
dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 14  # several buckets, although the model is small
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)), bucket_cap_mb=0.1)
if wire != "-":
    model.register_comm_hook(inccl.torch.HookState(wire=getattr(torch, wire)), inccl.torch.allreduce_hook)
descent = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
steps, since = 0, 0.0
for epoch in range(int(epochs)):
    total = torch.zeros(1)
    for batch in mine.split(24):
        since = since or time.monotonic()
        loss = torch.nn.functional.cross_entropy(model(batch[:, :64] / 16), batch[:, 64].long())
        descent.zero_grad()
        loss.backward()  # sums gradients, a bucket at a time, while it computes the next
        descent.step()
        total += loss.detach()
        steps += 1
    dist.all_reduce(total)
    if rank == 0:
        print(f"epoch {epoch}: loss {total.item() / size / len(mine.split(24)):.6f}", flush=True)
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print(f"rank {rank}: {steps / (time.monotonic() - since):.1f} steps/s, weights {hashlib.sha256(weights).hexdigest()[:16]}", flush=True)
dist.barrier()
dist.destroy_process_group()

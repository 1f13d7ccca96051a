# SPDX-License-Identifier: Apache-2.0
# allreduce.py - what a training script does: finds its peers by MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE (of torchrun, or made of Slurm's variables), sums over all
# ranks with gloo step by step, and keeps its place in a file, so that it goes on from there when it is started again. Nothing in it knows which scheduler runs it.
#   allreduce.py STEPS CHECKPOINT [GATE]     GATE: from the half on it waits until this file is there
import os, sys, time
import torch
import torch.distributed as dist

steps, checkpoint, gate = int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None
if "RANK" not in os.environ:
    os.environ.update(RANK=os.environ["SLURM_PROCID"], WORLD_SIZE=os.environ["SLURM_NTASKS"], LOCAL_RANK=os.environ["SLURM_LOCALID"])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
place = torch.zeros(1, dtype=torch.int64)
if rank == 0 and os.path.exists(checkpoint):
    place[0] = int(open(checkpoint).read())
dist.broadcast(place, 0)
first = int(place[0])
for step in range(first, steps):
    t = torch.full((1000,), float(rank + step))
    dist.all_reduce(t)
    if t[0].item() != size * step + size * (size - 1) / 2:
        sys.exit("step %d: the sum is %g" % (step, t[0].item()))
    if rank == 0:
        with open(checkpoint + ".new", "w") as f:
            f.write(str(step + 1))
        os.rename(checkpoint + ".new", checkpoint)
    while gate and step + 1 == steps // 2 and not os.path.exists(gate):
        time.sleep(0.1)
print("rank %d of %d on %s: %d steps from %d, restart %s" % (rank, size, os.environ.get("SLURMD_NODENAME", "?"), steps - first, first, os.environ.get("SLURM_RESTART_COUNT", "0")), flush=True)
dist.destroy_process_group()

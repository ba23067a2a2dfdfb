r"""Trains over all processes of a torchrun, and exits with 1 unless the gradients of all are the mean of what each has computed.

Gloo where a process has no GPU of its own, NCCL where all have one. The arguments are how many processes and nodes there must be.
The test of a recipe, which brings the script to the nodes by standard input, for their folders need not be shared:

  - name: two-nodes
    needs: [slurm]
    nodes: 2
    timeout: 600
    files: [ddp.py]
    run: |
      set -euo pipefail
      head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
      export OMP_NUM_THREADS=1
      srun --mpi=none --ntasks-per-node=1 --chdir=/tmp bash -c '
        mine=$(mktemp -d) && trap "rm -rf $mine" EXIT && cat >$mine/ddp.py
        torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=1 --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \
          --rdzv-endpoint="$0:$((20000 + SLURM_JOB_ID % 10000))" \
          $mine/ddp.py "$SLURM_JOB_NUM_NODES" "$SLURM_JOB_NUM_NODES"' "$head" <ddp.py
"""

import copy
import datetime
import os
import socket
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 20
PATIENCE = datetime.timedelta(seconds=120)  # a network that does not carry is an error, and no hang


def main() -> int:
    processes, nodes = (int(argument) for argument in sys.argv[1:3])
    dist.init_process_group("gloo", timeout=PATIENCE)
    rank, world, local = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
    hosts = [""] * world
    dist.all_gather_object(hosts, socket.gethostname())
    gpu = everywhere(torch.cuda.is_available() and local < torch.cuda.device_count())
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    group = dist.new_group(backend="nccl", timeout=PATIENCE) if gpu else None

    torch.manual_seed(rank)  # other weights and data in each process: DDP makes the weights those of rank 0
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to(device)
    parallel = DistributedDataParallel(model, device_ids=[local] if gpu else None, process_group=group)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05)
    own = None
    for _ in range(STEPS):
        inputs, wanted = torch.randn(128, 64, device=device), torch.randn(128, 8, device=device)
        alone = copy.deepcopy(model)
        alone.zero_grad()
        torch.nn.functional.mse_loss(alone(inputs), wanted).backward()
        own = gradients(alone)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(parallel(inputs), wanted).backward()
        optimizer.step()

    shared = gathered(gradients(model), world)
    mean = torch.stack(gathered(own, world)).mean(0)
    checks = {
        f"{world} processes, not {processes}": world == processes,
        f"on {len(set(hosts))} nodes, not {nodes}: {' '.join(hosts)}": len(set(hosts)) == nodes,
        "processes have different gradients": all(torch.equal(shared[0], other) for other in shared),
        "gradients are not the mean of all": torch.allclose(shared[0], mean, rtol=1e-3, atol=1e-6),
        "each process has computed the same": world == 1 or not torch.equal(*gathered(own, world)[:2]),
        "gradients are not finite": bool(torch.isfinite(mean).all()),
    }
    wrong = [text for text, fine in checks.items() if not fine]
    for text in wrong:
        print(f"rank {rank} on {hosts[rank]}: {text}", file=sys.stderr, flush=True)
    if rank == 0:
        backend = "nccl" if gpu else "gloo"
        print(
            f"{world} processes on {' '.join(hosts)}, {backend}, {STEPS} steps: {'wrong' if wrong else 'fine'}",
            flush=True,
        )
    dist.barrier()
    dist.destroy_process_group()
    return 1 if wrong else 0


def everywhere(here: bool) -> bool:
    """Whether it is so in all processes: they take the same way."""
    flag = torch.tensor([int(here)])
    dist.all_reduce(flag, op=dist.ReduceOp.MIN)
    return bool(flag.item())


def gradients(model: torch.nn.Module) -> torch.Tensor:
    """All of them in a row, on the CPU."""
    return torch.cat([p.grad.detach().flatten() for p in model.parameters()]).cpu()


def gathered(mine: torch.Tensor, world: int) -> list[torch.Tensor]:
    """Those of all processes."""
    found = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(found, mine)
    return found


if __name__ == "__main__":
    sys.exit(main())

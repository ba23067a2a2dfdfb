"""Sums over all processes, of objects and of arrays, are right. Arguments: how many processes, on how many nodes.

`python -m mpi4py` runs it: a process that fails ends the others, which would wait for it.
"""

import sys

import numpy
from mpi4py import MPI

wanted, nodes = (int(word) for word in sys.argv[1:])
world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
assert size == wanted, f"rank {rank} of {size}, not of {wanted}"  # alone, each is rank 0 of 1
hosts = set(world.allgather(MPI.Get_processor_name()))
assert len(hosts) == nodes, f"on {sorted(hosts)}, not on {nodes} nodes"
ranks = size * (size - 1) // 2
assert world.allreduce(rank) == ranks
mine = numpy.arange(100_000) + rank  # long enough for the way of long messages
sums = numpy.empty_like(mine)
world.Allreduce(mine, sums)
assert (sums == size * numpy.arange(100_000) + ranks).all()

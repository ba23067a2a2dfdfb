"""A real miniature cluster in namespaces of this machine: login, fs1, c1…cN with sshd, munge, Slurm, Lmod and a shared prefix."""

from tests.helpers.cluster.cluster import Cluster, ClusterError

__all__ = ["Cluster", "ClusterError"]

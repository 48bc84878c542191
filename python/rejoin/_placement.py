"""Where a rank is among the ranks of its host."""

from typing import NamedTuple


class Placement(NamedTuple):
    """Where a rank is: the numbers that MPI programs and Horovod's know. Ranks are numbered within a
    host and across hosts in the order of the ranks of the world."""

    local_rank: int
    """The number of the rank among those of its host, from 0."""
    local_size: int
    """How many ranks its host has."""
    cross_rank: int
    """The number of the rank among those that have its local rank, one a host."""
    cross_size: int
    """How many hosts have a rank with its local rank."""

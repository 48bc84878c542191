"""What a rank is told of the world that made the version which it starts from."""

from typing import NamedTuple, Optional, Tuple


class Former(NamedTuple):
    """The world of an elastic job that made the version which a rank starts from, where that is
    another one than it is in. Ranks are numbered as they were then."""

    rank: Optional[int]
    """Which rank this one was; ``None``: it wasn't there."""
    world: int
    """The number of ranks."""
    given: Tuple[int, ...]
    """The ranks that are gone and whose own models this rank is given
    (:meth:`Communicator.load_own_of`), in order. Each is given to one rank that was there. Empty
    where ranks have no own models."""

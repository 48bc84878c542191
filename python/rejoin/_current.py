"""The communicator that this process is a rank by, for what isn't handed one."""

from typing import List

from ._communicator import Communicator, join
from ._errors import Code, RejoinError

# The newest one. It stays when it is closed: the rank and the world that it had are asked for at a program's end.
_joined: List[Communicator] = []


def joined(terms: str) -> Communicator:
    """The one that this process has; it joins with these terms where it has none that is open."""
    if not _joined or _joined[0]._handle is None:
        _joined[:] = [join(terms)]
    return _joined[0]


def current() -> Communicator:
    """The one that this process has, or had."""
    if not _joined:
        text = "this process hasn't joined; call rejoin.torch.init() first, or a function of @rejoin.elastic.run"
        raise RejoinError(Code.BAD_STATE, text)
    return _joined[0]

"""The job that ``rejoin run`` has started this process for. It ends with the first training."""

from ._errors import Code, RejoinError

_ended = False


def end() -> None:
    """This process's rank has finished, or came when the job was over."""
    global _ended
    _ended = True


def check() -> None:
    """Refuses to join once more: it would be told that the job is over, and what it is to train would be passed over
    as if it had been trained."""
    if _ended:
        text = (
            "the job of this process has ended, with the first training; put all that is trained into one function, "
            "or start one `rejoin run` for each training"
        )
        raise RejoinError(Code.BAD_STATE, text)

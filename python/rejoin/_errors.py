"""The one exception, with its stable code."""

import enum


class Code(enum.IntEnum):
    """Why something can't go on; the same numbers and names as in C, Rust and Java. They never change."""

    BAD_ARGUMENT = 1
    BAD_STATE = 2
    FENCED = 3
    ROLLED_BACK = 4
    MISMATCH = 5
    MEMBERS_MISSING = 6
    UNRECOVERABLE = 7
    TRACKER_UNREACHABLE = 8
    CANCELLED = 9
    IO = 10
    OUT_OF_SPACE = 11
    INCOMPATIBLE = 12
    TRAINING_FAILED = 13
    TIMED_OUT = 14
    INTERNAL = 15
    INPUT_LOST = 16
    RESIZED = 17

    @property
    def will_repeat(self) -> bool:
        """Whether trying the same again would fail the same way."""
        passes = (Code.FENCED, Code.ROLLED_BACK, Code.RESIZED, Code.IO, Code.TIMED_OUT, Code.TRACKER_UNREACHABLE)
        return self not in passes


class RejoinError(Exception):
    """A failure. Decide by ``code``, never by ``text``, which says what was expected, what was seen and what to do.

    After a failure other than ``BAD_ARGUMENT`` the communicator is of no more use: let the process
    end with a status other than 0 (an exception that is not caught does), and its rank is started
    again.
    """

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code = code
        self.text = text

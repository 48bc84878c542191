"""The launcher ``rejoin`` of this package's wheel."""

import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).with_name("bin") / "rejoin"
    if not program.exists():
        sys.exit(
            f"expected the launcher {program}; this package was installed from its sources, not from a wheel: "
            "make install gives the launcher"
        )
    # In the place of this process: signals, and its number, are the launcher's.
    os.execv(program, [str(program), *sys.argv[1:]])

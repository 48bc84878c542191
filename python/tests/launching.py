"""Runs programs under `rejoin run`, as a user would."""

import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Launched(unittest.TestCase):
    """REJOIN_COMMAND is the launcher; REJOIN_LIBRARY, as the package itself reads it, the library."""

    # What a run may take; reached only when something is broken.
    limit = "50s"
    # By then the launcher has ended by that; in seconds.
    overdue = 90

    def run_ranks(self, world, program, *options, status=0, arguments=(), start=subprocess.Popen, **variables):
        """Runs a program (a path, or Python's text) to its end; returns what it printed and what it complained of.
        `variables` are added to its environment; `start` starts the launcher."""
        command = [os.environ.get("REJOIN_COMMAND", "rejoin"), "run", "--timeout", self.limit, "--lost-after", "5s"]
        run = [str(program)] if isinstance(program, pathlib.Path) else ["-c", textwrap.dedent(program)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), **variables}
        with start(
            [*command, "-n", str(world), *options, "--", sys.executable, *run, *arguments],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as launcher:
            try:
                out, err = launcher.communicate(timeout=self.overdue)
            except subprocess.TimeoutExpired:
                launcher.kill()
                out, err = launcher.communicate()
                self.fail(f"the launcher doesn't end\n{out}\n{err}")
        self.assertEqual(launcher.returncode, status, f"\n{out}\n{err}")
        return out, err

    def digest(self, out):
        """The one digest that all ranks print who saw the end."""
        found = {line.split("digest ")[1] for line in out.splitlines() if "digest " in line}
        self.assertEqual(len(found), 1, out)
        return found.pop()

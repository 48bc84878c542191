"""Every call of the package, by real processes under `rejoin run`; each rank checks each value."""

import ctypes
import io
import mmap
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import rejoin
from launching import ROOT, Launched
from rejoin._errors import Code, RejoinError
from rejoin._memory import copied
from rejoin._spark_rank import Rows, Shown

BEGIN = """
    import copy, functools, os
    import numpy as np
    import rejoin

"""


class Bytes(unittest.TestCase):
    def test_memory_of_more_than_two_gibibytes_is_copied_whole(self):
        size = (2 << 30) + 3
        with mmap.mmap(-1, size) as memory:
            memory[-3:] = b"end"
            first = ctypes.c_char.from_buffer(memory)
            data = copied(ctypes.addressof(first), size)
            del first
        self.assertEqual((len(data), data[-3:]), (size, b"end"))


class Stored(unittest.TestCase):
    def test_a_rank_s_rows_in_spark_are_in_a_file_without_a_name_or_in_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            for where, expected in ((folder, folder), (None, "/memfd:")):
                rows = Rows(None, [b"one", b"two", b""], where)
                self.assertEqual(os.pread(rows._file.fileno(), 9, 0), b"onetwo")
                self.assertTrue(os.readlink(f"/proc/self/fd/{rows._file.fileno()}").startswith(expected))
                self.assertEqual(os.listdir(folder), [])
                rows._file.close()

    def test_rows_of_a_rank_in_spark_that_end_too_early_are_refused(self):
        for records in ([], [b"one"], [b"one", b"two"]):
            with self.assertRaises(RejoinError) as refused:
                Rows(None, records, None)
            self.assertEqual(refused.exception.code, Code.IO)
            self.assertIn(f"ended after {len(records)} batches", refused.exception.text)


class Printed(unittest.TestCase):
    """What a rank prints in Spark, while what shows a line prints, too, as XGBoost's log does."""

    def setUp(self):
        self.before, self.shown = io.StringIO(), []
        self.out = Shown(self.show, self.before)

    def show(self, line):
        self.out.write("connecting\n")
        self.shown.append(line)

    def test_a_line_that_is_shown_is_not_shown_by_what_that_prints(self):
        writer = threading.Thread(target=self.out.write, args=("one\ntwo\nthr",), daemon=True)
        writer.start()
        writer.join(20)
        self.assertFalse(writer.is_alive(), "it waits for itself")
        self.out.write("ee\n")
        self.assertEqual(self.shown, ["one", "two", "three"])
        self.assertEqual(self.before.getvalue(), "one\ntwo\nthrconnecting\nconnecting\nee\nconnecting\n")


class Calls(Launched):
    def test_every_collective_gives_every_rank_its_value_while_ranks_die(self):
        program = (
            BEGIN
            + """
    def check(ranks, salt):
        own, world = ranks.rank, ranks.world
        assert ranks.placement == (own, world, 0, 1), ranks.placement
        for kind in "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split():
            array = np.array([[own + salt, 1], [2, own]], dtype=kind)
            same = ranks.allreduce(array)
            assert same is array, "the array itself is changed"
            assert array.tolist() == [[3 + 3 * salt, 3], [6, 3]], (kind, array)
        one, three, six = 0x3F80, 0x4040, 0x40C0  # the bits of these numbers as bfloat16
        bits = np.array([one, three][: own + 1] + [0] * (1 - own), dtype="u2")[:2]
        assert ranks.allreduce(bits, element="bfloat16").tolist() == [three, six], bits
        halves = ranks.reduce_scatter(np.full(3, one, dtype="u2"), element="bfloat16")
        assert halves.dtype == "u2" and set(halves.tolist()) <= {three}
        assert ranks.allreduce(np.array([own, -own]), "max").tolist() == [2, 0]
        assert ranks.allreduce(np.array([1 << own]), "or").tolist() == [7]
        assert ranks.allreduce(np.empty(0)).size == 0

        # (a, b) o (c, d) = (a c, b c + d): from left to right.
        pair = np.dtype([("a", "f8"), ("b", "f8")])
        def affine(left, right):
            result = np.empty_like(left)
            result["a"], result["b"] = left["a"] * right["a"], left["b"] * right["a"] + right["b"]
            return result
        assert ranks.allreduce(np.array([(own + 1, own)], dtype=pair), affine).tolist() == [(6.0, 5.0)]
        words = ranks.allreduce_object(["no", "", "restart"][own].encode(), lambda a, b: a + b, 20, name="join")
        assert words == b"norestart", words

        folded = ranks.reduce_scatter(np.array([(own + 1, own)] * world, dtype=pair), op=affine)
        assert folded.tolist() == [(6.0, 5.0)], folded
        part = ranks.reduce_scatter(np.arange(7.0) + own)
        assert part.tolist() == (3 * np.arange(7.0) + 3)[ranks.part(7)].tolist()
        assert sum(part.stop - part.start for part in map(lambda r: ranks.part(7, r), range(world))) == 7

        spread = np.full((2, 3), own * 1.5, dtype="f4")
        assert (ranks.broadcast(spread, root=1) == 1.5).all() and (spread == 1.5).all()
        gathered = ranks.allgather(np.array([[own, 10 * own]]))
        assert gathered.shape == (3, 1, 2) and gathered[:, 0].tolist() == [[0, 0], [1, 10], [2, 20]]
        parts = ranks.allgather_v(np.full(own, own, dtype="i2"))
        assert [list(part) for part in parts] == [[], [1], [2, 2]] and parts[2].dtype == "i2"
        ranks.barrier()

    with rejoin.join("all collectives") as ranks:
        version, model = ranks.load()
        assert model == (None if version == 0 else b"after %d" % version), (version, model)
        prepared = []
        def prepare(array):
            prepared.append(1)
            array[:] = 2
        by_site = ranks.allreduce(np.zeros(3), boot=True, prepare=prepare)
        by_name = ranks.allreduce(np.zeros(3), boot="cuts", prepare=prepare)
        assert by_site.tolist() == by_name.tolist() == [6, 6, 6]
        assert len(prepared) == (0 if ranks.incarnation > 0 else 2), "recorded results need no input"
        for iteration in range(version, 3):
            check(ranks, iteration)
            ranks.checkpoint(b"after %d" % (iteration + 1))
            assert ranks.version == iteration + 1
        ranks.finish(np.arange(3))
        print("digest", rejoin.digest(np.arange(3)), "incarnation", ranks.incarnation, flush=True)
    """
        )
        out, _ = self.run_ranks(3, program)
        undisturbed = out.count("incarnation 0")
        self.assertEqual(undisturbed, 3, out)
        rules = [
            "rank=1,version=0,seqno=9",
            "rank=0,version=1,seqno=15,at=completed",
            "rank=1,incarnation=1,version=2,seqno=16",
        ]
        options = [word for rule in rules for word in ("--kill", rule)]
        out, err = self.run_ranks(3, program, "--restart", *options)
        self.assertIn("incarnation 2", out)
        self.digest("\n".join(line.split(" incarnation")[0] for line in out.splitlines()))
        self.assertEqual(err.count("fired at"), 3, err)

    def test_what_cannot_be_is_refused_with_a_code_and_the_communicator_stays_usable(self):
        program = (
            BEGIN
            + """
    def refused(said, call, *arguments, **named):
        try:
            call(*arguments, **named)
        except rejoin.RejoinError as error:
            assert error.code == rejoin.Code.BAD_ARGUMENT, error
            assert said in error.text, error
        else:
            raise AssertionError(said + " was expected")

    with rejoin.join() as ranks:
        ranks.load()
        refused("expected a numpy array", ranks.allreduce, [1.0])
        refused("isn't contiguous", ranks.allreduce, np.zeros((4, 4))[:, 1])
        refused("array of complex128", ranks.allreduce, np.zeros(2, dtype=complex))
        refused("byte order", ranks.allreduce, np.zeros(2, dtype=">f8"))
        refused("only bfloat16 may come as uint16", ranks.allreduce, np.zeros(2), element="bfloat16")
        refused("only bfloat16 may come as uint16", ranks.allreduce, np.zeros(2, dtype="u2"), element="float16")
        bits = np.zeros(2, dtype="u2")
        refused("given with a function", ranks.allreduce, bits, np.add, name="add", element="bfloat16")
        refused("is the name of a function", ranks.reduce_scatter, np.zeros(2), name="add")
        refused("Python objects", ranks.allreduce, np.array([{}]))
        refused("reduction 'mean' is unknown", ranks.allreduce, np.zeros(2), "mean")
        refused("not defined for f64", ranks.allreduce, np.zeros(2), "xor")
        refused("order 'tree' is unknown", ranks.allreduce, np.zeros(2), order="tree")
        fixed = np.zeros(2)
        fixed.flags.writeable = False
        refused("read-only", ranks.allreduce, fixed)
        refused("the output is of int64", ranks.reduce_scatter, np.zeros(4), np.zeros(4, dtype=int))
        refused("has 3 elements", ranks.allgather, np.zeros(4), np.zeros(3))
        refused("rank 7", ranks.broadcast, np.zeros(2), 7)
        refused("the root is -1", ranks.broadcast, np.zeros(2), -1)
        refused("the root is 4294967296", ranks.broadcast, np.zeros(2), 1 << 32)
        refused("expected a whole number", ranks.broadcast, np.zeros(2), 0.5)
        refused("elements is -1", ranks.part, -1)
        refused("is masked", ranks.allreduce, np.ma.array([1.0, 2.0], mask=[0, 1]))
        refused("reduction ['sum'] is unknown", ranks.allreduce, np.zeros(2), ["sum"])
        refused("has no name of its own", ranks.allreduce, np.zeros(2), functools.partial(np.add))
        refused("prepare is a int", ranks.allreduce, np.zeros(2), prepare=3)
        refused("boot is b'once'", ranks.allreduce, np.zeros(2), boot=b"once")
        refused("without a zero byte", ranks.allreduce, np.zeros(2), boot="on\\0ce")
        refused("the fold is a NoneType", ranks.allreduce_object, b"", None, 2)
        refused("the supplier is a NoneType", ranks.checkpoint_lazy, None)
        refused("call_timeout is inf", rejoin.join, call_timeout=float("inf"))
        refused("terms is a int", rejoin.join, 5)
        refused("the limit is 2", ranks.allreduce_object, b"abc", max, 2)
        refused("is a str", ranks.checkpoint, "text")
        ranks.allreduce(np.ones(2), boot="once")
        refused("`once` was used before", ranks.allreduce, np.ones(2), boot="once")
        assert ranks.allreduce(np.ones(2)).tolist() == [1, 1]
        assert ranks.allreduce_object(bytearray(b"abc"), lambda a, b: a + b, 3) == b"abc"
        try:
            copy.copy(ranks)
        except TypeError as error:
            assert "can't be copied" in str(error)
        else:
            raise AssertionError("two objects would free one handle")
        ranks.finish(b"")

    ranks.close()
    for call in (ranks.barrier, ranks.load, lambda: ranks.version, lambda: ranks.finish(b"")):
        try:
            call()
        except rejoin.RejoinError as error:
            assert error.code == rejoin.Code.BAD_STATE and "is closed" in error.text
        else:
            raise AssertionError("a closed communicator is refused")
    assert "closed" in repr(ranks)
    print("all was refused", flush=True)
    """
        )
        out, _ = self.run_ranks(1, program)
        self.assertIn("all was refused", out)

    def test_a_forked_child_is_refused_and_its_end_changes_nothing(self):
        program = (
            BEGIN
            + """
    with rejoin.join() as ranks:
        ranks.load()
        ranks.allreduce(np.ones(2))
        child = os.fork()
        if child == 0:
            try:
                ranks.allreduce(np.zeros(2))
            except rejoin.RejoinError as error:
                assert error.code == rejoin.Code.BAD_STATE and "forked" in error.text, error
                print("refused", flush=True)
            raise SystemExit(0)  # through the end of `with`
        assert os.waitpid(child, 0)[1] == 0
        assert ranks.allreduce(np.ones(2)).tolist() == [2, 2]
        ranks.finish(b"")
        print("ended", flush=True)
    """
        )
        for way in [], ["--no-shared-memory"]:
            out, _ = self.run_ranks(2, program, *way)
            self.assertEqual((out.count("refused"), out.count("ended")), (2, 2), out)

    def test_a_job_that_is_stopped_as_a_whole_for_longer_than_a_call_may_take_goes_on(self):
        program = (
            BEGIN
            + """
    import time
    folder = os.environ["FOLDER"]
    with rejoin.join(call_timeout=4) as ranks:
        ranks.load()
        ranks.barrier()
        open(f"{folder}/{os.getpid()}", "w").close()
        while ranks.rank == 0 and not os.path.exists(folder + "/go"):
            time.sleep(0.01)
        ranks.barrier()
        ranks.finish(b"")
        print("ended as", ranks.incarnation, flush=True)
    """
        )

        def suspends(folder, launcher):
            until, pids = time.monotonic() + 40, []
            while len(pids) < 3 and time.monotonic() < until:
                time.sleep(0.01)
                pids = [int(name) for name in os.listdir(folder)]
            for stopped, pause in ((signal.SIGSTOP, 6), (signal.SIGCONT, 0)):
                for pid in [launcher, *pids]:
                    os.kill(pid, stopped)
                time.sleep(pause)
            open(folder + "/go", "w").close()

        with tempfile.TemporaryDirectory() as folder:

            def start(*command, **named):
                launcher = subprocess.Popen(*command, **named)
                threading.Thread(target=suspends, args=(folder, launcher.pid), daemon=True).start()
                return launcher

            out, _ = self.run_ranks(3, program, start=start, FOLDER=folder)
        self.assertEqual(out.count("ended as 0"), 3, out)

    def test_an_exception_of_the_program_gives_the_seat_back_and_the_rank_comes_again(self):
        program = (
            BEGIN
            + """
    with rejoin.join() as ranks:
        version, model = ranks.load()
        for iteration in range(version, 3):
            ranks.allreduce(np.ones(2))
            if ranks.rank == 1 and ranks.incarnation == 0 and iteration == 1:
                raise ValueError("a bad day")
            ranks.checkpoint(b"the model")
        ranks.finish(b"the model")
        print("digest", rejoin.digest(b"the model"), flush=True)
    """
        )
        out, err = self.run_ranks(2, program, "--restart")
        self.assertIn("ValueError: a bad day", err)
        self.digest(out)

    def test_a_lazy_checkpoint_is_made_for_the_rank_that_comes_back(self):
        program = (
            BEGIN
            + """
    made = []
    with rejoin.join() as ranks:
        version, model = ranks.load()
        state = np.zeros(4) if model is None else np.frombuffer(model)
        assert state.tolist() == [2 * version] * 4, (version, state)
        for iteration in range(version, 4):
            state = state + ranks.allreduce(np.ones(4))
            ranks.checkpoint_lazy(lambda snapshot=state: made.append(1) or snapshot)
        ranks.finish(state)
        print(f"made {len(made)} digest {rejoin.digest(state)}", flush=True)
    assert not rejoin._snapshots._snapshots, "all are released in the end"
    """
        )
        undisturbed, _ = self.run_ranks(2, program)
        # Each rank's first one twice, to see that it is a snapshot.
        self.assertEqual(undisturbed.count("made 2 "), 2, undisturbed)
        out, _ = self.run_ranks(2, program, "--restart", "--kill", "rank=1,version=2,seqno=0,at=completed")
        self.assertIn("[0] made 3 ", out)
        self.assertEqual(self.digest(out), self.digest(undisturbed))

    def test_a_call_before_load_is_refused_with_its_site_and_what_to_write_in_python(self):
        program = """
            import numpy as np, rejoin
            with rejoin.join() as ranks:
                ranks.allreduce(np.ones(3))
            """
        _, err = self.run_ranks(2, program, "--restart", status=4)
        raised = [line for line in err.splitlines() if "RejoinError: " in line]
        self.assertEqual(len(raised), 2, err)
        for line in raised:
            self.assertRegex(line, r"BAD_STATE: .*allreduce\(3 f64, sum\) at <string>:\d+ before load\(\)")
            self.assertIn("`boot=True`", line)
            self.assertNotIn("REJOIN_BOOT", line)

    def test_a_program_that_closes_nothing_ends_well_with_lazy_checkpoints(self):
        program = (
            BEGIN
            + """
    ranks = rejoin.join()
    version, model = ranks.load()
    for iteration in range(version, 3):
        state = ranks.allreduce(np.ones(4))
        ranks.checkpoint_lazy(lambda snapshot=state.copy(): snapshot)
    ranks.finish(state)
    print("digest", rejoin.digest(state), flush=True)
    """
        )
        self.digest(self.run_ranks(2, program)[0])

    def test_a_lazy_checkpoint_of_what_changes_is_refused_at_the_next_one(self):
        program = (
            BEGIN
            + """
    with rejoin.join() as ranks:
        ranks.load()
        state = np.zeros(4)
        for iteration in range(4):
            state += ranks.allreduce(np.ones(4))
            ranks.checkpoint_lazy(lambda: state)
    """
        )
        _, err = self.run_ranks(2, program, "--restart", status=4)
        self.assertIn("MISMATCH", err)
        self.assertIn("the supplier of lazy checkpoint 1", err)

    def test_a_model_of_its_own_comes_back_with_the_rank(self):
        program = (
            BEGIN
            + """
    with rejoin.join() as ranks:
        version, model = ranks.load()
        own = ranks.load_own()
        assert own == (bytes([ranks.rank, version]) if version > 0 else None), (version, own)
        for iteration in range(version, 4):
            ranks.allreduce(np.ones(4))
            ranks.checkpoint(b"shared", own=bytes([ranks.rank, iteration + 1]))
        ranks.finish(b"shared")
        print(f"digest {rejoin.digest(b'shared')}", flush=True)
    """
        )
        out, _ = self.run_ranks(3, program, "--restart", "--kill", "rank=1,version=2,seqno=0")
        self.assertIn("[1.1] digest", out)

    def test_results_that_fit_nowhere_end_the_job_with_an_error_that_names_the_settings(self):
        program = (
            BEGIN
            + """
    with rejoin.join() as ranks:
        ranks.load()
        for _ in range(10):
            ranks.allreduce(np.ones(1000))
    """
        )
        _, err = self.run_ranks(2, program, "--log-memory", "20k", "--log-disk", "0", status=4)
        self.assertIn("OUT_OF_SPACE", err)
        self.assertIn("--log-memory", err)

    def test_a_result_that_has_no_room_in_memory_ends_the_job_and_not_the_process(self):
        program = (
            BEGIN
            + """
    import resource

    with rejoin.join() as ranks:
        ranks.load()
        array = np.zeros(25_000_000)
        pages = int(open("/proc/self/statm").read().split()[0])
        # Room for anything but a second array.
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (100 << 20),) * 2)
        for call in (lambda: ranks.allreduce(array), lambda: ranks.allreduce(array[:1])):
            try:
                call()
            except rejoin.RejoinError as error:
                print(error, flush=True)
        raise SystemExit(1)
    """
        )
        out, err = self.run_ranks(1, program, status=4)
        self.assertIn("OUT_OF_SPACE: the result of allreduce(25000000 f64, sum)", out)
        self.assertIn("needs 200000000 bytes of memory at once", out)
        self.assertIn("BAD_STATE", out)

    def test_a_process_that_has_finished_does_not_join_a_second_time(self):
        program = """
            import rejoin
            for name in ("pretrain", "finetune"):
                with rejoin.join(name) as ranks:
                    ranks.load()
                    ranks.finish(name.encode())
                print(name, flush=True)
            """
        out, err = self.run_ranks(2, program, status=3)
        self.assertEqual(out.count("pretrain"), 2, out)
        self.assertNotIn("finetune", out)
        self.assertEqual(err.count("RejoinError: BAD_STATE: the job of this process has ended"), 2, err)

    def test_different_calls_are_named_with_their_sites_in_python(self):
        program = (
            BEGIN
            + """
    with rejoin.join() as ranks:
        ranks.load()
        if ranks.rank == 0:
            ranks.allreduce(np.ones(2))
        else:
            ranks.allreduce(np.ones(3))
    """
        )
        _, err = self.run_ranks(2, program, status=4)
        self.assertIn("MISMATCH", err)
        self.assertRegex(err, r"allreduce\(2 f64, sum\) at <string>:\d+")
        self.assertRegex(err, r"allreduce\(3 f64, sum\) at <string>:\d+")


class Alone(unittest.TestCase):
    def test_a_process_that_nobody_launched_is_told_how_to_be(self):
        with self.assertRaisesRegex(rejoin.RejoinError, "rejoin run") as caught:
            rejoin.join("alone")
        self.assertEqual(caught.exception.code, rejoin.Code.BAD_STATE)

    def test_a_library_that_is_not_there_is_named(self):
        program = "import rejoin"
        environment = {"PYTHONPATH": str(ROOT / "python"), "REJOIN_LIBRARY": "/nowhere/librejoin.so"}
        ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        self.assertIn("INCOMPATIBLE: the C library can't be loaded from /nowhere/librejoin.so", ended.stderr)

    def test_a_configuration_that_cannot_be_used_says_which_part(self):
        with self.assertRaisesRegex(rejoin.RejoinError, "config.job is '?\"?12"):
            rejoin.Process("12", bytes(32), "127.0.0.1:1", "here")
        with self.assertRaisesRegex(rejoin.RejoinError, "config.job is"):
            rejoin.Process("+" + "0" * 31, bytes(32), "127.0.0.1:1", "here")
        with self.assertRaisesRegex(rejoin.RejoinError, "/nowhere/at-all"):
            rejoin.Process("0" * 32, bytes(32), "127.0.0.1:1", "here", durable="/nowhere/at-all")
        with self.assertRaisesRegex(rejoin.RejoinError, "durable_every is 7 without a folder"):
            rejoin.Process("0" * 32, bytes(32), "127.0.0.1:1", "here", durable_every=7)
        with self.assertRaisesRegex(rejoin.RejoinError, "31 bytes; expected 32"):
            rejoin.Process("0" * 32, bytes(31), "127.0.0.1:1", "here")
        for copies, said in ((0, "lost with its rank's process"), (2**33, "own_copies"), (1.5, "own_copies")):
            with self.assertRaisesRegex(rejoin.RejoinError, said):
                rejoin.Process("0" * 32, bytes(32), "127.0.0.1:1", "here", own_copies=copies)

    def test_codes_and_the_version_are_the_headers(self):
        header = (ROOT / "native/capi/include/rejoin.h").read_text()
        written = dict(re.findall(r"REJOIN_(\w+) = (\d+)", header))
        for code in rejoin.Code:
            self.assertEqual(int(written[code.name]), code.value)
        after = header.index("REJOIN_RESIZED = ")
        self.assertIn(f"REJOIN_RESIZED = {len(rejoin.Code)}", header[after : after + 30])
        project = (ROOT / "python/pyproject.toml").read_text()
        self.assertIn(f'version = "{rejoin.library_version()}"', project)

    def test_a_log_level_that_is_none_is_refused(self):
        with self.assertRaisesRegex(rejoin.RejoinError, "'loud' is unknown"):
            rejoin.log_level("loud")

    def test_digests_are_of_the_bytes(self):
        self.assertEqual(rejoin.digest(b"abc"), rejoin.digest(bytearray(b"abc")))
        self.assertEqual(len(rejoin.digest(b"")), 32)


if __name__ == "__main__":
    unittest.main()

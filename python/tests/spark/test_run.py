"""`rejoin.spark.run` on executors that are processes of their own, with real kills. What a rank does
is defined within the tests, so that it travels by value, as a notebook's functions do."""

import concurrent.futures
import contextlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

from .cluster import JARS, PYTHONPATH, RELEASE, ROOT, SPARK, WORLD, dies, session, set_for_now


def descent(kill):
    """Eight steps over the rank's rows, one version each."""
    die = dies(kill)

    def steps(ranks, rows):
        import numpy as np

        version, model = ranks.load()
        state = np.zeros(2) if model is None else np.frombuffer(model).copy()
        values = np.concatenate([batch.column("x").to_numpy() for batch in rows])
        for step in range(version, 8):
            if kill and (ranks.rank, ranks.incarnation, step) == (1, 0, 4):
                die()
            sums = np.array([np.sum(values * (step + 1) - state[0]), float(len(values))])
            ranks.allreduce(sums)
            state += sums / 1000
            ranks.checkpoint(state)
        return ranks.rank, ranks.incarnation, state.tobytes()

    return steps


@contextlib.contextmanager
def of_another_release(library):
    """A library as this one, of version 9.9.9."""
    with tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder) / "librejoin.so"
        other.write_bytes(pathlib.Path(library).read_bytes().replace(RELEASE.encode(), b"9.9.9"))
        yield str(other)


class OnACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.spark = session()
        import rejoin.spark

        cls.rejoin = rejoin
        cls.rows = cls.spark.range(0, 3000, 1, WORLD).selectExpr("id * 0.1D AS x")
        cls.undisturbed = rejoin.spark.run(descent(""), num_proc=WORLD, data=cls.rows)

    def same_after(self, kill):
        results = self.rejoin.spark.run(descent(kill), num_proc=WORLD, data=self.rows)
        self.assertEqual([rank for rank, _, _ in results], [0, 1, 2])
        self.assertEqual([incarnation for _, incarnation, _ in results], [0, 1, 0])
        self.assertEqual([state for _, _, state in results], [state for _, _, state in self.undisturbed])

    def refused(self, code, words, fn, **more):
        with self.assertRaises(self.rejoin.RejoinError) as raised:
            self.rejoin.spark.run(fn, **more)
        self.assertEqual(raised.exception.code.name, code)
        for word in words:
            self.assertIn(word, raised.exception.text)

    def test_a_python_worker_that_is_killed_rejoins_alone(self):
        self.same_after("worker")

    def test_an_executor_that_is_killed_costs_its_rank_alone_a_retry(self):
        self.same_after("executor")

    def test_a_python_worker_that_freezes_is_killed_and_rejoins_while_its_executor_lives(self):
        before = self.executors()
        self.same_after("frozen")
        self.assertEqual(self.executors(), before)

    def executors(self):
        return str(self.spark._jsc.sc().getExecutorMemoryStatus().keySet())

    def test_a_function_that_raises_once_is_tried_again(self):
        self.same_after("raises")

    def test_a_spare_has_the_rank_of_a_worker_or_executor_that_is_killed_and_its_rows(self):
        for kill in ("worker", "executor"):
            with self.subTest(kill), tempfile.TemporaryDirectory() as folder:
                die = dies(kill, folder)

                def tasks(ranks, rows, die=die):
                    """Which task is which rank, after rank 1's has died."""
                    from pyspark import TaskContext

                    version, _ = ranks.load()
                    if version == 0:
                        ranks.checkpoint(b"")
                        if ranks.rank == 1:
                            die()
                    ranks.barrier()
                    return TaskContext.get().partitionId(), rows.to_pandas()["x"].sum()

                with set_for_now(self.spark, spares=1, events=folder):
                    seen = self.rejoin.spark.run(tasks, num_proc=WORLD, data=self.rows)
                sums = [sum(number * 0.1 for number in range(rank * 1000, rank * 1000 + 1000)) for rank in range(WORLD)]
                self.assertEqual([task for task, _ in seen], [0, 3, 2])
                for (_, its), expected in zip(seen, sums):
                    self.assertAlmostEqual(its, expected, places=3)
                (log,) = pathlib.Path(folder).glob("*.jsonl")
                command = [os.environ["REJOIN_COMMAND"], "timeline", log]
                drawn = subprocess.run(command, capture_output=True, text=True, timeout=60)
                self.assertEqual(drawn.returncode, 0, drawn.stderr)
                for text in (*(f"rank {rank}" for rank in range(WORLD)), "died once"):
                    self.assertIn(f">\n{text}\n<", drawn.stdout)

    def test_a_rank_that_comes_back_reads_the_same_rows_though_they_can_not_be_computed_again(self):
        rows = self.spark.range(900).selectExpr("reflect('java.util.UUID', 'randomUUID') AS x").repartition(5)

        def read(ranks, rows):
            def text():
                return ",".join(value for batch in rows for value in batch.column("x").to_pylist()).encode()

            version, seen = ranks.load()
            if version == 0:
                import numpy as np

                mine = np.frombuffer(text(), dtype=np.uint8)
                ranks.checkpoint(b"\n".join(each.tobytes() for each in ranks.allgather_v(mine)))
                if ranks.rank == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                seen = None
            ranks.barrier()
            return None if seen is None else seen.split(b"\n")[ranks.rank] == text(), len(text())

        results = self.rejoin.spark.run(read, num_proc=WORLD, data=rows)
        self.assertEqual([same for same, _ in results], [None, True, None])
        self.assertGreater(results[1][1], 1000)

    def test_a_job_whose_input_is_lost_begins_again_on_the_rows_that_there_are_now(self):
        rows = self.spark.range(0, 900, 1, WORLD).selectExpr("reflect('java.util.UUID', 'randomUUID') AS x")

        with tempfile.TemporaryDirectory() as folder:
            signs = pathlib.Path(folder)

            def read(ranks, rows):
                ranks.load()
                (signs / f"{ranks.rank}-began-{os.getpid()}-{time.monotonic_ns()}").touch()
                ranks.barrier()
                if ranks.rank == 1 and not (signs / "lost").exists():
                    (signs / "dying").touch()
                    while not (signs / "lost").exists():
                        time.sleep(0.05)
                    os.kill(os.getpid(), signal.SIGKILL)
                ranks.barrier()
                return ranks.incarnation, sum(batch.num_rows for batch in rows)

            def lose():
                deadline = time.monotonic() + 60
                while not (signs / "dying").exists() and time.monotonic() < deadline:
                    time.sleep(0.05)
                context = self.spark.sparkContext._jsc
                for stored in context.getPersistentRDDs():
                    context.sc().env().blockManager().master().removeRdd(stored, True)
                (signs / "lost").touch()

            loser = threading.Thread(target=lose)
            loser.start()
            try:
                results = self.rejoin.spark.run(read, num_proc=WORLD, data=rows)
            finally:
                loser.join()
            self.assertEqual(len(list(signs.glob("0-began-*"))), 2)
        self.assertEqual(results, [(0, 300)] * WORLD)

    def test_a_rank_whose_rows_end_with_an_error_is_tried_again_and_has_them_all(self):
        from pyspark.sql import functions as sql

        each = 5000
        with tempfile.TemporaryDirectory() as folder, set_for_now(self.spark, input="reread"):
            signs = pathlib.Path(folder)

            @sql.udf("string")
            def text(number):
                # In the second reading, which is the rank's, megabytes after the first row of its partition.
                if number == each + 4000 and (signs / "read").exists() and not (signs / "failed").exists():
                    (signs / "failed").touch()
                    raise ValueError("this row can't be read now")
                if number == each + 4001:
                    (signs / "read").touch()
                return f"{number:01000}"

            rows = self.spark.range(0, each * WORLD, 1, WORLD).select(text("id").alias("x"))

            def count(ranks, rows):
                ranks.load()
                return sum(batch.num_rows for batch in rows)

            # More than one batch, so that some have come when the error does.
            self.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
            try:
                counts = self.rejoin.spark.run(count, num_proc=WORLD, data=rows)
            finally:
                self.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
            self.assertTrue((signs / "failed").exists())
        self.assertEqual(counts, [each] * WORLD)

    def test_texts_arrive_whole_however_wide_arrow_s_offsets_are(self):
        self.spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
        try:
            rows = self.spark.range(0, 30, 1, WORLD).selectExpr("concat('text ', id) AS x", "encode('ä', 'UTF-8') AS y")
            read = self.rejoin.spark.run(lambda ranks, rows: rows.to_pandas(), num_proc=WORLD, data=rows)
        finally:
            self.spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
        self.assertEqual([text for part in read for text in part["x"]], [f"text {number}" for number in range(30)])
        self.assertEqual({bytes(data) for part in read for data in part["y"]}, {"ä".encode()})

    def test_any_thread_may_run_a_job(self):
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            jobs = [threads.submit(self.rejoin.spark.run, lambda ranks: ranks.rank, num_proc=n) for n in (1, 2)]
            self.assertEqual([job.result() for job in jobs], [[0], [0, 1]])

    def test_results_come_in_rank_order_and_need_no_collective_and_no_data(self):
        def name(ranks, prefix, suffix=""):
            return f"{prefix}{ranks.rank} of {ranks.world}{suffix}"

        results = self.rejoin.spark.run(name, args=("rank ",), kwargs={"suffix": "!"}, num_proc=2)
        self.assertEqual(results, ["rank 0 of 2!", "rank 1 of 2!"])

    def test_what_ranks_print_is_printed_here_while_they_run_with_their_numbers(self):
        class Seen(io.StringIO):
            """Lets the rank know what it has heard."""

            def write(self, text):
                if "[rank 0] good morning\n" in text:
                    heard.touch()
                return super().write(text)

        def talk(ranks):
            ranks.load()
            print("good morning")
            deadline = time.monotonic() + 30
            while not heard.exists():
                if time.monotonic() > deadline:
                    raise AssertionError("nobody has heard it while this runs")
                time.sleep(0.05)  # between two looks
            print("unfinished", end="", file=sys.stderr)

        with tempfile.TemporaryDirectory() as folder:
            heard = pathlib.Path(folder) / "heard"
            with contextlib.redirect_stdout(Seen()) as seen:
                self.rejoin.spark.run(talk, num_proc=2)
        self.assertEqual(
            sorted(seen.getvalue().splitlines()),
            ["[rank 0] good morning", "[rank 0] unfinished", "[rank 1] good morning", "[rank 1] unfinished"],
        )

    def test_a_function_that_always_fails_ends_the_job_with_its_traceback(self):
        def fail(ranks):
            def deep_inside():
                raise ValueError("always the same")

            if ranks.rank == 1:
                deep_inside()
            ranks.load()
            ranks.barrier()

        self.refused("UNRECOVERABLE", ["deep_inside", "ValueError: always the same"], fail, num_proc=2)
        self.assertEqual(self.rejoin.spark.run(lambda ranks: ranks.rank, num_proc=WORLD), [0, 1, 2])

    def test_a_job_whose_group_is_cancelled_ends_within_seconds_with_its_reason(self):
        context = self.spark.sparkContext
        with tempfile.TemporaryDirectory() as folder:
            began = pathlib.Path(folder) / "began"

            def forever(ranks):
                ranks.load()
                while True:
                    ranks.barrier()
                    began.touch()

            def cancel():
                deadline = time.monotonic() + 60
                while not began.exists() and time.monotonic() < deadline:
                    time.sleep(0.05)
                self.cancelled = time.monotonic()
                context.cancelJobGroup("to be cancelled")

            canceller = threading.Thread(target=cancel)
            canceller.start()
            context.setJobGroup("to be cancelled", "a job that never ends")
            try:
                self.refused("CANCELLED", [], forever, num_proc=2)
                self.assertLess(time.monotonic() - self.cancelled, 5)
            finally:
                canceller.join()
                context.setJobGroup("others", "")

    def test_workers_without_the_c_library_end_the_job_at_the_first_try(self):
        words = ["executor", "/nowhere/librejoin.so"]
        with unittest.mock.patch.dict(self.spark.sparkContext.environment, REJOIN_LIBRARY="/nowhere/librejoin.so"):
            self.refused("INCOMPATIBLE", words, lambda ranks: None, num_proc=2)

    def test_workers_with_another_release_end_the_job_at_the_first_try(self):
        ours = self.spark.sparkContext.environment["REJOIN_LIBRARY"]
        words = [f"the driver has Rejoin of version {RELEASE}", "executor", "of version 9.9.9"]
        with of_another_release(ours) as theirs:
            with unittest.mock.patch.dict(self.spark.sparkContext.environment, REJOIN_LIBRARY=theirs):
                self.refused("INCOMPATIBLE", words, lambda ranks: None, num_proc=2)

    def test_a_range_of_ports_that_does_not_suffice_ends_the_job_with_the_setting_s_name(self):
        import socket

        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.spark.conf.set("spark.rejoin.agent.ports", f"{port}-{port}")
            try:
                self.refused("BAD_ARGUMENT", [f"spark.rejoin.agent.ports is {port}-{port}"], lambda ranks: None)
            finally:
                self.spark.conf.unset("spark.rejoin.agent.ports")

    def test_what_can_not_work_is_refused_before_any_work(self):
        lock = threading.Lock()
        self.refused("BAD_ARGUMENT", ["can't be sent"], lambda ranks: lock, num_proc=2)
        self.refused("BAD_ARGUMENT", ["num_proc is 0"], lambda ranks: None, num_proc=0)
        self.refused("BAD_ARGUMENT", ["fn is int"], 5, num_proc=2)
        with unittest.mock.patch("rejoin._library.library_version", return_value="9.9.9"):
            self.refused("INCOMPATIBLE", ["jar of version 0.", "package of version 9.9.9"], lambda ranks: None)
        with unittest.mock.patch("pyspark.__version__", "3.3.4"):
            self.refused("INCOMPATIBLE", ["pyspark 3.3.4 is too old", "3.5 to 4.1"], lambda ranks: None)
            with self.assertRaisesRegex(self.rejoin.RejoinError, "pyspark 3.3.4 is too old"):
                self.rejoin.spark.configure(None)
        self.spark.conf.set("spark.rejoin.durable", "file:/nowhere")
        try:
            self.refused("BAD_ARGUMENT", ["spark.rejoin.durable is file:/nowhere"], lambda ranks: None, num_proc=2)
        finally:
            self.spark.conf.unset("spark.rejoin.durable")
        self.spark.conf.set("spark.rejoin.workers.min", "1")
        try:
            words = ["spark.rejoin.workers.min", "ranks are in Python workers"]
            self.refused("BAD_ARGUMENT", words, lambda ranks: None, num_proc=2)
        finally:
            self.spark.conf.unset("spark.rejoin.workers.min")


class ASessionOfItsOwn(unittest.TestCase):
    def test_that_is_interrupted_has_no_job_any_more_within_seconds(self):
        program = f"""if True:
            import time
            import rejoin.spark
            from pyspark.sql import SparkSession
            builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
            spark = rejoin.spark.configure(builder, {JARS}).getOrCreate()
            spark.sparkContext.setLogLevel("OFF")
            def forever(ranks):
                ranks.load()
                while True:
                    ranks.barrier()
                    if ranks.rank == 0:
                        print("began", flush=True)
            try:
                rejoin.spark.run(forever, num_proc=2)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            while spark.sparkContext.statusTracker().getActiveStageIds():
                time.sleep(0.1)
            print("nothing runs", rejoin.spark.run(lambda ranks: ranks.rank, num_proc=2), flush=True)"""
        environment = dict(os.environ, PYTHONPATH=PYTHONPATH, SPARK_HOME=str(SPARK), PYSPARK_PYTHON=sys.executable)
        driver = subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(driver.stdout.close)
        self.addCleanup(driver.kill)
        watchdog = threading.Timer(90, driver.kill)
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        lines = []
        interrupted = None
        for line in driver.stdout:
            if line.startswith("began") and interrupted is None:
                interrupted = time.monotonic()
                driver.send_signal(signal.SIGINT)
            if not line.startswith("began"):
                lines.append(line)
            if line.startswith("interrupted"):
                self.assertLess(time.monotonic() - interrupted, 5)
        self.assertEqual(driver.wait(), 0, "".join(lines[-30:]))
        self.assertEqual(lines[-1], "nothing runs [0, 1]\n")

    def said(self, configure, without=(), num_proc=1, expected="INCOMPATIBLE"):
        """What a program's job fails with, whose session is configured so, and whose workers lack these folders."""
        program = f"""if True:
            import sys
            sys.path[:0] = {[str(folder) for folder in without]}
            import rejoin.spark
            from pyspark.sql import SparkSession
            builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
            {configure}.getOrCreate().sparkContext.setLogLevel("OFF")
            try:
                rejoin.spark.run(lambda ranks: None, num_proc={num_proc})
            except rejoin.RejoinError as refused:
                print(refused)"""
        path = [part for part in PYTHONPATH.split(os.pathsep) if part not in map(str, without)]
        environment = dict(
            os.environ, PYTHONPATH=os.pathsep.join(path), SPARK_HOME=str(SPARK), PYSPARK_PYTHON=sys.executable
        )
        ended = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
        )
        self.assertIn(expected, ended.stdout, ended.stderr)
        return ended.stdout

    def test_that_was_started_without_our_jars_is_told_the_line_to_add(self):
        self.assertIn("rejoin.spark.configure(SparkSession.builder)", self.said("builder"))

    def test_whose_jars_are_of_another_release_than_the_package_is_told_both(self):
        with of_another_release(os.environ["REJOIN_LIBRARY"]) as theirs:
            with unittest.mock.patch.dict(os.environ, REJOIN_LIBRARY=theirs):
                said = self.said(f"rejoin.spark.configure(builder, {JARS})")
        self.assertIn(f"Rejoin's jar of version {RELEASE}, Python has the package of version 9.9.9", said)

    def test_whose_workers_lack_the_package_is_told_so(self):
        said = self.said(f"rejoin.spark.configure(builder, {JARS})", without=[ROOT / "python"])
        self.assertIn("have no package rejoin", said)

    def test_of_too_few_slots_is_told_the_argument_to_lower(self):
        said = self.said(f"rejoin.spark.configure(builder, {JARS})", num_proc=4, expected="BAD_ARGUMENT")
        self.assertIn("4 workers must train at the same time, but local[1] has 1 slots", said)
        self.assertIn("set num_proc to at most 1", said)

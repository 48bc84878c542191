"""What happens inside of a call: functions of the program's that it calls, and closing it there."""

import tempfile
import unittest

from launching import Launched

BEGIN = """
    import copy, functools, os
    import numpy as np
    import rejoin

"""


class InsideOfCalls(Launched):
    def test_an_exception_in_a_callback_is_the_cause_of_the_error_and_ends_the_job(self):
        program = (
            BEGIN
            + """
    def bad(left, right):
        raise ValueError("can't be added")

    with rejoin.join() as ranks:
        ranks.load()
        try:
            ranks.allreduce(np.ones(2), bad)
        except rejoin.RejoinError as error:
            cause = type(error.__cause__).__name__
            print(f"seen {error.code.name} by {cause}: {error.text}", flush=True)
            raise
    """
        )
        out, err = self.run_ranks(2, program, status=4)
        self.assertIn("seen TRAINING_FAILED by ValueError: ", out)
        self.assertIn("the custom reducer failed: `bad` returned 1", out + err)

    def test_a_function_that_gives_no_result_of_its_kind_ends_the_job_and_is_taken_for_none(self):
        for call, seen in (
            ("ranks.allreduce(np.ones(3), in_place)", "two arrays returned None; expected an array of float64"),
            ("ranks.allreduce(np.ones(3), lambda a, b: (a + b).sum())", "two arrays returned "),
            ("ranks.allreduce(np.ones(3), lambda a, b: (a + b)[:1])", "an array of float64 and shape (1,)"),
            ("ranks.allreduce(np.ones(3, dtype=int), lambda a, b: a * 0.5)", "two arrays returned an array of float64"),
            ("ranks.allreduce_object(b'abc', lambda a, b: 3, 16)", "two objects returned 3; expected bytes"),
            ("ranks.allreduce(np.ones(3), prepare=lambda a: a + 5)", "prepare returned a ndarray; expected None"),
        ):
            program = (
                BEGIN
                + f"""
    def in_place(left, right):
        np.add(left, right, out=left)

    with rejoin.join() as ranks:
        ranks.load()
        print("got", {call})
    """
            )
            with self.subTest(call):
                out, err = self.run_ranks(2, program, status=4)
                self.assertNotIn("got", out)
                self.assertIn("TypeError: ", err)
                self.assertIn(seen, err)

    def test_closing_inside_of_a_call_takes_effect_when_the_call_has_ended(self):
        program = (
            BEGIN
            + """
    ranks = rejoin.join()
    ranks.load()

    def closes(left, right):
        ranks.close()
        return left + right

    print("sum", ranks.allreduce_object(b"a", closes, 9), flush=True)
    try:
        ranks.barrier()
    except rejoin.RejoinError as error:
        print(error.code.name, error.text, flush=True)
    """
        )
        # Whose ranks end without a word to the job.
        out, _ = self.run_ranks(2, program, status=3)
        self.assertIn("sum b'aa'", out)
        self.assertIn("BAD_STATE this Communicator is closed", out)

    def test_a_child_that_is_forked_in_the_middle_of_a_call_closes_its_copy_and_ends(self):
        program = (
            BEGIN
            + """
    import threading, time
    done = os.environ["DONE"]
    with rejoin.join() as ranks:
        ranks.load()
        if ranks.rank == 0:
            other = threading.Thread(target=ranks.barrier)
            other.start()
            while not ranks._users:
                time.sleep(0.001)
            child = os.fork()
            if child == 0:
                ranks.close()
                os._exit(7)
            until = time.monotonic() + 30
            ended = (0, 0)
            while ended[0] == 0 and time.monotonic() < until:
                time.sleep(0.01)
                ended = os.waitpid(child, os.WNOHANG)
            if ended[0] == 0:
                os.kill(child, 9)
            open(done, "w").close()
            other.join()
            print("child", ended[1] >> 8, flush=True)
        else:
            while not os.path.exists(done):
                time.sleep(0.01)
            ranks.barrier()
        ranks.finish(b"")
    """
        )
        with tempfile.TemporaryDirectory() as folder:
            out, _ = self.run_ranks(2, program, DONE=folder + "/done")
        self.assertIn("child 7", out)


if __name__ == "__main__":
    unittest.main()

"""A rank in a Python worker whose executor is told of its end, as spot instances are."""

import re
import unittest

from .cluster import WORLD, dies, session, work_folder


class OnACluster(unittest.TestCase):
    def test_a_rank_is_moved_off_an_executor_that_is_to_go_and_repeats_no_finished_version(self):
        session(decommissions=True)
        import rejoin.spark

        notice = dies("notice")

        def steps(ranks):
            """Until the driver has moved a rank, and that is back."""
            import time

            import numpy as np

            deadline = time.monotonic() + 60
            version, model = ranks.load()
            if ranks.rank == 1 and ranks.incarnation == 0:
                notice()
            while True:
                moved = np.array([int(ranks.rank == 1 and ranks.incarnation > 0)], dtype=np.int64)
                ranks.allreduce(moved, "max")
                if moved[0]:
                    return ranks.incarnation
                if time.monotonic() > deadline:
                    raise AssertionError("no rank was moved within 60 s")
                time.sleep(0.02)  # a step's work
                ranks.checkpoint(b"model")

        self.assertEqual(rejoin.spark.run(steps, num_proc=WORLD), [0, 1, 0])
        log = next(work_folder().glob("*.inprogress")).read_text().splitlines()
        seen = [re.search(r"ExecutorLeaves|RankMoved|RankLost|JobEnded", line) for line in log if "PostedEvent" in line]
        self.assertEqual(
            [found.group() for found in seen if found], ["ExecutorLeaves", "RankMoved", "RankLost", "JobEnded"]
        )
        ended = next(line for line in log if "JobEnded" in line)
        self.assertRegex(ended, r"deaths\W+0\b", "it counts as no death")

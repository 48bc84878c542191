"""The examples, killed at moments of their life, print the same digest."""

import pathlib
import re
import tempfile
import unittest

from launching import ROOT, Launched


class Examples(Launched):
    def same_digest_whoever_dies(self, name, kills):
        program = ROOT / "examples" / "python" / name
        undisturbed = self.digest(self.run_ranks(4, program)[0])
        for rules in kills:
            options = [word for rule in rules for word in ("--kill", rule)]
            out, err = self.run_ranks(4, program, "--restart", *options)
            self.assertEqual(self.digest(out), undisturbed, rules)
            for rule in rules:
                self.assertIn(f"rule `{rule}` fired", err)
        return undisturbed

    def test_k_means_prints_the_other_languages_digest_whoever_dies(self):
        digest = self.same_digest_whoever_dies(
            "kmeans.py",
            [
                ["rank=1,version=boot,seqno=0", "rank=0,version=0,seqno=0,at=completed"],
                ["rank=2,version=12,seqno=0", "rank=2,incarnation=1,version=20,seqno=0", "rank=0,at=finalize"],
            ],
        )
        self.assertEqual(digest, (ROOT / "examples/kmeans.digest").read_text().strip())

    def test_logistic_regression_prints_the_other_languages_digest_whoever_dies(self):
        digest = self.same_digest_whoever_dies(
            "logistic.py",
            [
                ["rank=3,version=0,seqno=0,at=completed"],
                ["rank=0,version=9,seqno=0", "rank=1,version=9,seqno=0,at=again", "rank=2,version=17,at=checkpoint"],
            ],
        )
        self.assertEqual(digest, (ROOT / "examples/logistic.digest").read_text().strip())

    def test_a_training_in_a_world_that_changes_sees_each_sample_once_in_each_epoch(self):
        program = ROOT / "examples" / "python" / "elastic.py"
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "slots.sh")
            script.write_text("#!/bin/sh\necho localhost:3\n")
            script.chmod(0o700)
            elastic = ["--min", "2", "--max", "3", "--discovery", str(script), "--elastic-timeout", "300ms"]
            out, err = self.run_ranks(3, program, *elastic, "--kill", "rank=1,version=50,seqno=0", arguments=["3"])
        self.assertIn("so the world of 3 ranks goes on as one of 2", err)
        seen = re.findall(r"the model has seen (\d+) samples in 3 epochs", out)
        self.assertEqual(seen, ["6000"] * 2, out)


if __name__ == "__main__":
    unittest.main()

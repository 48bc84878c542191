"""The examples, killed at moments of their life, print the same digest."""

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


if __name__ == "__main__":
    unittest.main()

"""`rejoin.elastic` under `rejoin run`: whatever comes and goes, each sample is in the model once in each epoch."""

import importlib.util
import itertools
import pathlib
import random
import re
import sys
import tempfile
import types
import unittest

import numpy as np
from launching import ROOT, Launched

import rejoin
from rejoin import elastic

# Each rank's gradient is of the samples that it was dealt; the state counts them, as the ranks' sum says.
PROGRAM = """
    import os, time
    import numpy as np
    from rejoin import elastic

    SIZE, EPOCHS, folder = 173, 3, os.environ.get("FOLDER")
    rows = np.random.default_rng(1).normal(size=SIZE)
    worlds = []

    @elastic.run
    def train(state):
        worlds.append(state.ranks.world)
        while state.sampler.epoch < EPOCHS:
            epoch = state.sampler.epoch
            for mine in state.sampler.batches(state.ranks, 5):
                sums = np.zeros(SIZE + 2)
                sums[mine] = 1
                sums[SIZE:] = rows[mine].sum(), len(mine)
                state.ranks.allreduce(sums)
                state.seen[epoch] += sums[:SIZE].astype(int)
                state.mean += 0.1 * (sums[SIZE] / sums[SIZE + 1] - state.mean)
                state.worlds.append(state.ranks.world)
                # One object at a rank that was there all the time, and another than those in a restored state.
                state.marks.append("a step")
                state.commit()
                if folder and len(state.worlds) == 5:
                    # There are more slots from now on, and the training goes on when all are in it.
                    open(os.path.join(folder, "five"), "w").close()
                while folder and len(state.worlds) >= 5 and state.ranks.world < 4:
                    state.ranks.barrier()
                    state.commit()
                    time.sleep(0.01)
        return state.mean

    state = elastic.State(
        mean=0.0,
        seen=np.zeros((EPOCHS, SIZE), int),
        worlds=[],
        marks=[],
        sampler=elastic.ElasticSampler(SIZE, seed=4),
    )
    began = []
    state.register_reset_callbacks([lambda: began.append(len(state.worlds))])
    train(state)
    print("seen", sorted(set(state.seen.ravel().tolist())), flush=True)
    print("digest", state.mean.hex(), "worlds", sorted(set(state.worlds)), "again", began, flush=True)
    """


# Each process begins with values of its own, one of which has a length of its own; ends with what rank 0 gave.
DIFFERENT = """
    import os
    import numpy as np
    from rejoin import elastic

    @elastic.run
    def train(state):
        while state.step < 10:
            most, least = state.weights.copy(), state.weights.copy()
            state.ranks.allreduce(most, "max")
            state.ranks.allreduce(least, "min")
            assert (most == least).all(), f"ranks have other weights in step {state.step}"
            state.weights[0] += 1
            state.step += 1
            if state.step == 5:
                state.drawn = random.random()
                state.sync()
            state.commit()

    random = np.random.default_rng()
    name = "x" * int(random.integers(1, 1000))
    state = elastic.State(weights=random.random(50), step=0, name=name, drawn=0.0)
    again = []
    state.register_reset_callbacks([lambda: again.append(state.ranks.world)])
    train(state)
    print("digest", state.weights.sum().hex(), len(state.name), state.drawn.hex(), flush=True)
    """

# The state has what follows from the size of the world, as a learning rate does, and a commit for every third batch.
RARE = """
    import os, time
    import numpy as np
    from rejoin import elastic

    SIZE, folder = 173, os.environ.get("FOLDER")

    def rescale():
        state.rate = 0.1 * state.ranks.world
        rescaled.append(state.ranks.world)

    @elastic.run
    def train(state):
        batches = 0
        while state.sampler.epoch < 3:
            epoch = state.sampler.epoch
            for mine in state.sampler.batches(state.ranks, 5):
                counts = np.zeros(SIZE)
                counts[mine] = 1
                state.ranks.allreduce(counts)
                dealt.append(epoch)
                state.seen[epoch] += counts.astype(int)
                state.rates.append(state.rate / state.ranks.world)
                batches += 1
                if batches % 3 == 0:
                    state.commit()
                    if folder and state.ranks.version == 3:
                        open(os.path.join(folder, "three"), "w").close()
                    while folder and state.ranks.version >= 3 and state.ranks.world < 4:
                        state.ranks.barrier()
                        state.commit()
                        time.sleep(0.01)

    dealt, rescaled = [], []
    rate = 0.1 * int(os.environ["BEGIN"])
    state = elastic.State(rate=rate, rates=[], seen=np.zeros((3, SIZE), int), sampler=elastic.ElasticSampler(SIZE))
    state.register_reset_callbacks([rescale])
    train(state)
    print("seen", sorted(set(state.seen.ravel().tolist())), "rates", sorted(set(np.round(state.rates, 6).tolist())))
    print("done again", len(dealt) > len(state.rates), "rescaled", rescaled, flush=True)
    """


class Sampler(unittest.TestCase):
    def test_the_state_of_a_sampler_of_other_samples_is_refused_with_both(self):
        kept = elastic.ElasticSampler(100, seed=3).state_dict()
        elastic.ElasticSampler(100, seed=3).load_state_dict(kept)
        for other in (
            elastic.ElasticSampler(101, seed=3),
            elastic.ElasticSampler(100, seed=4),
            elastic.ElasticSampler(100, seed=3, shuffle=False),
        ):
            said = "BAD_ARGUMENT: .*'size': 100, 'seed': 3.*dealt out in another"
            with self.assertRaisesRegex(rejoin.RejoinError, said):
                other.load_state_dict(kept)

    def test_each_sample_is_committed_once_in_each_epoch_whatever_comes_and_goes(self):
        for seed in range(300):
            draw = random.Random(seed)
            size, batch, epochs = draw.randint(1, 60), draw.randint(1, 8), draw.randint(1, 3)

            def made():
                return elastic.ElasticSampler(size, seed=seed, shuffle=seed % 2 == 0)

            committed, kept = np.zeros((epochs, size), int), made().state_dict()
            while kept["epoch"] < epochs:
                samplers = [made() for _ in range(draw.randint(1, 5))]
                for sampler in samplers:
                    sampler.load_state_dict(kept)
                steps, seen = draw.randint(0, 40), np.zeros((epochs, size), int)
                while steps > 0 and samplers[0].epoch < epochs:
                    epoch = samplers[0].epoch
                    places = [types.SimpleNamespace(rank=rank, world=len(samplers)) for rank in range(len(samplers))]
                    dealt = [sampler.batches(place, batch) for sampler, place in zip(samplers, places)]
                    for mine in itertools.zip_longest(*dealt):
                        self.assertTrue(all(each is not None for each in mine), "all have as many batches")
                        for each in mine:
                            seen[epoch, each] += 1
                        steps -= 1
                        if draw.randrange(3) == 0 or samplers[0].epoch == epochs:
                            kept = samplers[0].state_dict()
                            self.assertTrue(all(sampler.state_dict() == kept for sampler in samplers))
                            committed += seen
                            seen[:] = 0
                        if steps <= 0:
                            break
            self.assertTrue((committed == 1).all(), f"seed {seed}: {committed}")


class Elastic(Launched):
    def trained(self, world, *options, **variables):
        out, err = self.run_ranks(world, PROGRAM, *options, **variables)
        self.assertEqual(set(re.findall(r"seen (.*)", out)), {"[1]"}, out)
        ends = re.findall(r"digest (\S+) worlds (\[.*?\]) again (.*)", out)
        self.assertEqual(len({(mean, worlds) for mean, worlds, _ in ends}), 1, out)
        return ends, err

    def test_a_rank_that_dies_and_comes_back_changes_nothing(self):
        calm, _ = self.trained(3)
        ends, err = self.trained(3, "--restart", "--kill", "rank=1,version=7,seqno=0")
        self.assertIn("fired", err)
        self.assertEqual({end[:2] for end in ends}, {end[:2] for end in calm})
        self.assertEqual({again for _, _, again in ends}, {"[]"}, "nobody else begins again")

    def test_ranks_that_begin_with_different_values_train_one_model(self):
        out, _ = self.run_ranks(3, DIFFERENT)
        self.digest(out)
        self.assertEqual(out.count("digest "), 3, out)

    def test_a_rank_that_dies_before_the_first_commit_gets_rank_0s_first_values_again(self):
        # Before the sync, in it (rank 0's length is known, and its values are gone with it), after it, and in another.
        moments = ["version=0,seqno=0", "version=0,seqno=1", "version=0,seqno=2", "version=4,seqno=3"]
        for rank in (0, 1):
            for moment in moments:
                with self.subTest(rank=rank, moment=moment):
                    out, err = self.run_ranks(3, DIFFERENT, "--restart", "--kill", f"rank={rank},{moment}")
                    self.assertIn("fired", err)
                    self.digest(out)
                    self.assertEqual(out.count("digest "), 3, out)

    def test_a_world_that_shrinks_before_the_first_commit_goes_on_with_one_model(self):
        for rank in (0, 2):
            for seqno in (1, 3):
                with self.subTest(rank=rank, seqno=seqno):
                    kill = ["--kill", f"rank={rank},version=0,seqno={seqno}"]
                    out, err = self.run_ranks(3, DIFFERENT, "--min", "2", "--elastic-timeout", "300ms", *kill)
                    self.assertIn("the world shrinks", err)
                    self.digest(out)
                    self.assertEqual(out.count("digest "), 2, out)

    def test_states_with_other_values_end_with_their_names(self):
        program = """
            import os
            from rejoin import elastic
            elastic.run(lambda state: None)(elastic.State(**{"of_" + os.environ["REJOIN_LOCAL_RANK"]: 1}))
            """
        _, err = self.run_ranks(2, program, "--restart", status=4)
        self.assertIn("INCOMPATIBLE", err)
        self.assertIn("['of_0'], and this rank's ['of_1']", err)

    def test_a_commit_that_lacks_a_value_of_the_state_is_refused_by_both_lists(self):
        program = """
            import pickle, types
            from rejoin import elastic
            state = elastic.State(model=1, head=2)
            state.ranks = types.SimpleNamespace(abandon=lambda code, text: print("abandons", code.name))
            state._put(pickle.dumps({"model": 3}))
            """
        out, err = self.run_ranks(1, program, status=3)
        self.assertIn("abandons INCOMPATIBLE", out)
        self.assertIn("['model'], and this rank's ['head', 'model']", err)

    def test_batches_since_the_last_commit_are_dealt_out_again_in_a_smaller_world(self):
        # In the middle of the third version: two batches of it are done when its third one fails.
        kill = ["--min", "2", "--elastic-timeout", "300ms", "--kill", "rank=1,version=2,seqno=2"]
        out, _ = self.run_ranks(3, RARE, *kill, BEGIN="3")
        self.assertEqual(re.findall(r"seen (.*)", out), ["[1] rates [0.1]"] * 2, out)
        self.assertEqual(re.findall(r"done again (.*)", out), ["True rescaled [2]"] * 2, out)

    def test_a_world_that_grows_between_rare_commits_does_nothing_again_and_newcomers_call_the_callbacks(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "slots.sh")
            script.write_text(f"#!/bin/sh\n[ -e {folder}/three ] && echo localhost:4 || echo localhost:2\n")
            script.chmod(0o700)
            options = ["--min", "2", "--max", "4", "--discovery", str(script), "--resize-interval", "100ms"]
            out, _ = self.run_ranks(2, RARE, *options, FOLDER=folder, BEGIN="2")
        self.assertEqual(re.findall(r"seen (.*)", out), ["[1] rates [0.1]"] * 4, out)
        ends = re.findall(r"done again (\w+) rescaled (\[.*4\])", out)
        self.assertEqual(len(ends), 4, out)
        self.assertEqual({again for again, _ in ends}, {"False"}, out)

    def test_a_world_that_shrinks_twice_sees_each_sample_once_in_each_epoch(self):
        kills = ["--kill", "rank=1,version=7,seqno=0", "--kill", "rank=2,incarnation=any,version=17,seqno=0"]
        ends, _ = self.trained(4, "--min", "2", "--elastic-timeout", "300ms", *kills)
        self.assertEqual(len(ends), 2)
        self.assertEqual({worlds for _, worlds, _ in ends}, {"[2, 3, 4]"})
        for _, _, again in ends:
            self.assertEqual(again, "[7, 17]", "where the function began again")

    def test_a_world_that_grows_sees_each_sample_once_in_each_epoch(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "slots.sh")
            script.write_text(f"#!/bin/sh\n[ -e {folder}/five ] && echo localhost:4 || echo localhost:2\n")
            script.chmod(0o700)
            options = ["--min", "2", "--max", "4", "--discovery", str(script), "--resize-interval", "100ms"]
            ends, _ = self.trained(2, *options, FOLDER=folder)
        self.assertEqual(len(ends), 4)
        self.assertRegex(ends[0][1], r"^\[2, .*4\]$")

    def test_a_world_grows_by_slots_that_a_function_names_and_goes_on_while_it_raises(self):
        with tempfile.TemporaryDirectory() as folder:

            def slots():
                if not pathlib.Path(folder, "five").exists():
                    return {"localhost": 2}
                if not pathlib.Path(folder, "raised").exists():
                    pathlib.Path(folder, "raised").touch()
                    raise LookupError("no scheduler\nat all")
                return {"localhost": 4}

            def start(command, **process):
                self.assertEqual(command[1], "run")
                command[2:2] = ["--discovery", "-", "--min", "2", "--max", "4", "--resize-interval", "100ms"]
                return elastic.launch(command, slots, **process)

            ends, err = self.trained(2, FOLDER=folder, start=start)
        self.assertEqual(len(ends), 4)
        self.assertIn("--discovery -: LookupError: no scheduler at all; what it has named last holds", err)

    def test_the_guides_program_goes_on_in_a_smaller_world(self):
        guide = (ROOT / "docs" / "elastic.md").read_text()
        program = re.search(r"```python file=elastic_state.py\n(.*?)```", guide, re.DOTALL).group(1)
        kill = ["--min", "2", "--elastic-timeout", "300ms", "--kill", "rank=1,version=7,seqno=0"]
        out, _ = self.run_ranks(3, program, *kill)
        means = re.findall(r"the mean is (\S+)", out)
        self.assertEqual((len(means), len(set(means))), (2, 1), out)

    def test_the_guides_loop_of_horovods_kind_needs_ten_lines_and_goes_on_in_a_smaller_world(self):
        guide = (ROOT / "docs" / "elastic.md").read_text()
        lines = re.search(r"```diff file=elastic_torch.py\n(.*?)```", guide, re.DOTALL).group(1).splitlines()
        self.assertLessEqual(sum(line.startswith("+") for line in lines), 10)
        if importlib.util.find_spec("torch") is None:
            self.skipTest(f"{sys.executable} has no PyTorch: pip install torch, or apt-get install python3-torch")
        program = "\n".join(line[1:] for line in lines if not line.startswith("-"))
        calm, _ = self.run_ranks(3, program)
        kill = ["--kill", "rank=1,version=7,seqno=0"]
        same, _ = self.run_ranks(3, program, "--restart", *kill)
        fewer, _ = self.run_ranks(3, program, "--min", "2", "--elastic-timeout", "300ms", *kill)
        for out, world in ((calm, 3), (same, 3), (fewer, 2)):
            sums = re.findall(r"the weights sum to (\S+) after 4 epochs", out)
            self.assertEqual((len(sums), len(set(sums))), (world, 1), out)
        ends = [re.findall(r"the weights sum to (\S+)", out)[0] for out in (calm, same)]
        self.assertEqual(ends[0], ends[1], "a rank that came back changes nothing")

    def test_own_models_of_ranks_that_are_gone_go_on_at_others(self):
        guide = (ROOT / "docs" / "elastic.md").read_text()
        program = re.search(r"```python file=elastic_own.py\n(.*?)```", guide, re.DOTALL).group(1)
        kills = ["--kill", "rank=1,version=7,seqno=0", "--kill", "rank=2,incarnation=any,version=17,seqno=0"]
        out, err = self.run_ranks(4, program, "--min", "2", "--elastic-timeout", "300ms", *kills)
        self.assertEqual(err.count("the world shrinks"), 2, err)
        # 40 times the sum of 0 to 11, as without a death: no part is lost, and none is there twice.
        ends = re.findall(r"(\d+ of \d+ parts, of \d+ ranks)", out)
        self.assertEqual(ends, ["2640 of 12 parts, of 2 ranks"] * 2, out)

    def test_an_own_model_that_a_rank_is_not_given_is_refused_and_it_goes_on(self):
        program = """
            import rejoin
            with rejoin.join("own 1") as ranks:
                ranks.load()
                assert ranks.former is None and ranks.load_own_of(ranks.rank) is None
                try:
                    ranks.load_own_of(1 - ranks.rank)
                except rejoin.RejoinError as error:
                    print(error.code.name, error)
                ranks.finish(b"")
            """
        out, _ = self.run_ranks(2, program)
        self.assertIn("BAD_ARGUMENT", out)
        self.assertIn("rank 0 asked for the own model of rank 1, but has its own one, that of rank 0", out)

    def test_ranks_whose_samplers_deal_other_samples_out_do_not_begin(self):
        program = """
            import os
            from rejoin import elastic
            @elastic.run
            def train(state):
                for mine in state.sampler.batches(state.ranks, 4):
                    state.commit()
            train(elastic.State(sampler=elastic.ElasticSampler(16, seed=int(os.environ["REJOIN_RANK"]))))
            """
        _, err = self.run_ranks(2, program, status=3)
        said = "BAD_ARGUMENT: the state is of an ElasticSampler with .*'seed': 0.* this one has .*'seed': 1"
        self.assertRegex(err, said)

    def test_a_second_training_of_a_process_is_refused_and_not_skipped(self):
        program = """
            import rejoin
            from rejoin import elastic

            @elastic.run
            def train(state):
                while state.step < 3:
                    state.ranks.barrier()
                    state.step += 1
                    state.commit()
                return state.step

            print("first", train(elastic.State(step=0)), flush=True)
            try:
                train(elastic.State(step=0))
            finally:
                print("behind it", flush=True)
            """
        kill = ["--restart", "--kill", "rank=1,at=finalize"]
        for options, first in (([], ["first 3"] * 2), (kill, ["first 3", "first None"])):
            with self.subTest(options=options):
                out, err = self.run_ranks(2, program, *options, status=3)
                self.assertEqual(sorted(re.findall(r"first \w+", out)), first, out)
                self.assertEqual(err.count("RejoinError: BAD_STATE: the job of this process has ended"), 2, err)
                self.assertIn("start one `rejoin run` for each training", err)

    def test_what_can_be_no_state_is_refused_by_name(self):
        program = """
            from rejoin import elastic
            for wrong in (lambda: elastic.State(commit=1), lambda: elastic.ElasticSampler(-1),
                          lambda: elastic.run(lambda state: None)(7)):
                try:
                    wrong()
                except Exception as error:
                    print(f"{type(error).__name__}: {error}")
            """
        out, _ = self.run_ranks(1, program)
        for text in ("commit can't be a value of the state", "size is -1", "expected a rejoin.elastic.State"):
            self.assertIn(f"{text}", out)


if __name__ == "__main__":
    unittest.main()

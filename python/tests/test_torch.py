"""`rejoin.torch` under `rejoin run`: gradients, and a loop in Horovod's words that survives what Horovod's has to."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from launching import ROOT, Launched

# Where a checkout of Horovod 0.28.1 is, for the test that runs its example with the guide's changes.
HOROVOD = "REJOIN_TEST_HOROVOD"
EXAMPLE = "examples/elastic/pytorch/pytorch_synthetic_benchmark_elastic.py"

# What Horovod's elastic programs are made of. No seed: each process begins with other weights, and has rows of its own.
PROGRAM = """
    import hashlib
    import torch
    import torch.nn.functional as F
    import rejoin.torch as hvd

    hvd.init()
    torch.set_num_threads(1)
    assert 0 <= hvd.rank() < hvd.size() and hvd.local_rank() < hvd.local_size() and hvd.cross_size() == 1
    assert hvd.cross_rank() == 0
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.BatchNorm1d(30), torch.nn.Linear(30, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                         compression=hvd.Compression.none, op=hvd.Average)
    rows = torch.randn(40, 20)
    labels = (rows.sum(1) > 0).long()

    @hvd.elastic.run
    def train(state):
        for step in range(state.step, 12):
            for batch in range(3):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(rows), labels)
                loss.backward()
                optimizer.step()
            state.losses.append(hvd.allreduce(loss.detach()).item())
            state.rates.append(round(optimizer.param_groups[0]["lr"] / hvd.size(), 6))
            state.step = step + 1
            state.commit()

    def rescale():
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * hvd.size()

    state = hvd.elastic.State(model=model, optimizer=optimizer, step=0, losses=[], rates=[])
    state.register_reset_callbacks([rescale])
    train(state)
    assert state.losses[-1] < state.losses[0] and set(state.rates) == {0.01}, (state.losses, state.rates)
    content = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    print(f"of {hvd.size()}, digest", hashlib.sha256(content + repr(state.losses).encode()).hexdigest(), flush=True)
    """

# Batches of an ElasticSampler, whose last ones are empty at some ranks, and the sum of what all add. Commits hold the
# weights after each batch.
SAMPLED = """
    import torch
    import torch.nn.functional as F
    import rejoin.torch as hvd

    torch.set_num_threads(1)
    numbers = torch.Generator().manual_seed(42)
    rows = torch.randn(101, 20, generator=numbers, dtype=torch.float64)
    labels = (rows.sum(1) > 0).long()
    model = torch.nn.Linear(20, 2).double()
    with torch.no_grad():
        for each in model.parameters():
            each.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, op=hvd.Sum)
    empty = 0

    @hvd.elastic.run
    def train(state):
        global empty
        while state.sampler.epoch < 3:
            # 24 samples at a time, however many ranks there are.
            share = 24 // hvd.size()
            for mine in state.sampler.batches(state.ranks, share):
                optimizer.zero_grad()
                (F.cross_entropy(model(rows[mine]), labels[mine], reduction="sum") / 24).backward()
                optimizer.step()
                empty += len(mine) == 0
                state.commit()

    sampler = hvd.elastic.ElasticSampler(len(rows))
    train(hvd.elastic.State(model=model, optimizer=optimizer, sampler=sampler))
    weights = model.weight.detach().flatten().tolist()
    print("empty batches", empty, "weights", *(f"{each:.17g}" for each in weights), flush=True)
    """

# Of two ranks: gradients by hand, and what is refused.
GRADIENTS = """
    import torch
    import rejoin
    import rejoin.torch as hvd

    def parameter(*shape, dtype=torch.float32):
        return torch.nn.Parameter(torch.zeros(*shape, dtype=dtype))

    def refused(call, text):
        try:
            call()
        except rejoin.RejoinError as error:
            assert error.code == rejoin.Code.BAD_ARGUMENT and text in str(error), error
        else:
            raise AssertionError(f"expected to be refused: {text}")

    try:
        hvd.rank()
    except rejoin.RejoinError as error:
        assert error.code == rejoin.Code.BAD_STATE and "rejoin.torch.init()" in str(error), error
    with rejoin.join("gradients 1") as ranks:
        ranks.load()
        one = ranks.rank == 1
        both, some, none, frozen = parameter(2, 3), parameter(4), parameter(5), parameter(1).requires_grad_(False)
        half, bits, double = (parameter(3, dtype=each) for each in (torch.float16, torch.bfloat16, torch.float64))
        everything = [both, some, none, frozen, half, bits, double]

        def give():
            for each in everything:
                each.grad = None
            both.grad = torch.full((3, 2), 1.0 + 2 * one).t()
            some.grad = torch.full((4,), 8.0) if one else None
            for each in (half, bits, double):
                each.grad = torch.full_like(each, 1 + one)

        for op, both_is, some_is, rest_is in ((hvd.Average, 2, 4, 1.5), (hvd.Sum, 4, 8, 3)):
            for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
                optimizer = torch.optim.SGD(everything, lr=1.0)
                optimizer.state["is"] = "kept"
                found = hvd.DistributedOptimizer(optimizer, compression=compression, op=op, ranks=ranks)
                assert isinstance(found, torch.optim.SGD) and found is optimizer
                refused(lambda: hvd.DistributedOptimizer(optimizer), "distributed already")
                refused(lambda: optimizer.step(lambda: 0), "closure")
                del optimizer.state["is"]
                optimizer.load_state_dict(optimizer.state_dict())
                schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
                give()
                optimizer.step()
                schedule.step()
                assert optimizer.param_groups[0]["lr"] == 0.5
                assert (both.grad == both_is).all() and (some.grad == some_is).all(), (op, both.grad, some.grad)
                for each in (half, bits, double):
                    assert (each.grad == rest_is).all(), (op, compression, each.grad)
                assert none.grad is None and frozen.grad is None
                assert (both == -both_is).all(), both
                with torch.no_grad():
                    for each in everything:
                        each.zero_()
        refused(lambda: hvd.DistributedOptimizer(optimizer, op="max"), "op is 'max'")
        late = torch.optim.SGD([both], lr=1.0)
        torch.optim.lr_scheduler.StepLR(late, 1)
        refused(lambda: hvd.DistributedOptimizer(late), "make the scheduler after")
        both.grad = torch.eye(2, 3).to_sparse()
        named = hvd.DistributedOptimizer(torch.optim.SGD([both], lr=1.0), [("the.weight", both)], ranks=ranks)
        refused(named.step, "the gradient of the parameter the.weight is torch.sparse_coo")
        ranks.finish(b"")

    print("as by hand", flush=True)
    """


# Parameters without a module, alone and in containers, which an optimizer holds as well. Each process begins with other
# ones, and has a goal of its own.
BARE = """
    import hashlib
    import torch
    from rejoin import elastic

    torch.set_num_threads(1)
    torch.seed()
    weights = torch.randn(3, requires_grad=True)
    layers = [torch.nn.Parameter(torch.randn(2, 2)), torch.nn.Parameter(torch.randn(1), requires_grad=False)]
    heads = {"one": torch.nn.Parameter(torch.randn(())), "more": (torch.randn(2, 1, requires_grad=True), "a name")}
    everything = [weights, *layers, heads["one"], heads["more"][0]]
    optimizer = torch.optim.SGD(everything, lr=0.1, momentum=0.5)

    @elastic.run
    def train(state):
        while state.step < 6:
            optimizer.zero_grad()
            goal = state.ranks.rank + 1.0
            sum(((each - goal) ** 2).sum() for each in everything).backward()
            for each in everything:
                if each.requires_grad:
                    state.ranks.allreduce(each.grad.numpy().reshape(-1))
            optimizer.step()
            state.mean = weights.detach().mean()
            state.step += 1
            layers[1].requires_grad_(state.step >= 3)
            state.commit()
        assert state.weights is weights and state.again is weights
        assert all(mine is theirs for mine, theirs in zip(state.layers, layers))
        assert state.heads["one"] is heads["one"] and state.heads["more"][0] is heads["more"][0]
        assert state.heads["more"][1] == "a name" and type(state.heads["more"]) is tuple

    state = elastic.State(
        weights=weights, layers=layers, heads=heads, again=weights, optimizer=optimizer, mean=torch.zeros(()), step=0
    )
    train(state)
    content = b"".join(each.detach().numpy().tobytes() for each in everything)
    print("digest", hashlib.sha256(content).hexdigest(), state.mean.item(), flush=True)
    """

# What an optimizer holds, or what was computed with a history, where no rank could be given it back as it was.
LOST = """
    import pickle, types
    import torch
    import rejoin
    from rejoin import elastic

    class Holds:
        def __init__(self, value):
            self.value = value

    def refused(code, text, call):
        try:
            call()
        except rejoin.RejoinError as error:
            assert error.code.name == code and text in str(error), error
        else:
            raise AssertionError(f"expected to be refused: {text}")

    trained = torch.ones(3, requires_grad=True)
    text = "the state has a tensor that is trained (torch.float32 of shape (3,)) inside an object"
    for inside in (Holds(trained), [Holds(trained)], {"in a set": {trained}}):
        refused("BAD_ARGUMENT", text, lambda: elastic.State(value=inside))
    inside = [torch.nn.Linear(4, 3)]
    refused("BAD_ARGUMENT", "(torch.float32 of shape (3, 4)) inside an object", lambda: elastic.State(value=inside))
    refused("BAD_ARGUMENT", "detach() it", lambda: elastic.State(loss=trained.sum()))
    around = [trained]
    around.append(around)
    try:
        elastic.State(value=around)
    except ValueError as error:
        assert "cyclic" in str(error), error
    else:
        raise AssertionError("a list that contains itself can't be put back")

    state = elastic.State(first=trained, second=None, more=[])
    told = []
    state.ranks = types.SimpleNamespace(abandon=lambda code, text: told.append(code.name))
    # What wasn't there comes back as it was, for whoever makes an optimizer of it.
    grown = elastic.State(first=trained, second=torch.ones(2, requires_grad=True), more=[torch.nn.Parameter(trained)])
    state._put(grown._kept)
    assert state.first is trained and state.second.requires_grad and type(state.more[0]) is torch.nn.Parameter
    wider = elastic.State(first=torch.ones(4, requires_grad=True), second=None, more=[])
    refused("INCOMPATIBLE", "torch.float32 of shape (4,)", lambda: state._put(wider._kept))
    moved = elastic.State(first=None, second=torch.ones(3, requires_grad=True), more=[])
    state.second = None
    refused("INCOMPATIBLE", "torch.float32 of shape (3,)", lambda: state._put(moved._kept))
    state.second = state.first = trained
    two = elastic.State(first=torch.zeros(3, requires_grad=True), second=torch.ones(3, requires_grad=True), more=[])
    refused("INCOMPATIBLE", "clone()", lambda: state._put(two._kept))
    assert told == ["INCOMPATIBLE"] * 3, told
    print("all are refused", flush=True)
    """


@unittest.skipIf(
    importlib.util.find_spec("torch") is None,
    f"{sys.executable} has no PyTorch: pip install torch, or apt-get install python3-torch",
)
class Torch(Launched):
    # PyTorch's import alone takes seconds for each process, and there are more processes than cores.
    limit = "10m"
    overdue = 660

    def test_gradients_are_those_of_all_ranks_and_what_can_be_none_is_refused(self):
        out, _ = self.run_ranks(2, GRADIENTS)
        self.assertEqual(out.count("as by hand"), 2, out)

    def test_a_mean_of_whole_numbers_is_refused_and_other_tensors_keep_their_shapes(self):
        program = """
            import torch
            import rejoin.torch as hvd

            hvd.init()

            @hvd.elastic.run
            def train(state):
                numbers = torch.arange(6).reshape(2, 3).t()
                assert (hvd.allreduce(numbers, op=hvd.Sum) == 2 * numbers).all()
                assert hvd.allreduce(torch.tensor(float(hvd.rank()))).item() == 0.5
                bits = hvd.allreduce(torch.ones(3, dtype=torch.bfloat16) * (1 + hvd.rank()), op=hvd.Sum)
                assert bits.dtype == torch.bfloat16 and (bits == 3).all()
                try:
                    hvd.allreduce(numbers)
                except Exception as error:
                    print(error, flush=True)

            train(hvd.elastic.State())
            """
        out, _ = self.run_ranks(2, program)
        self.assertEqual(out.count("BAD_ARGUMENT: the mean of torch.int64 was asked for"), 2, out)

    def test_a_loop_in_horovods_words_ends_with_one_model_whatever_dies(self):
        kills = [
            [],
            ["--restart", "--kill", "rank=0,version=0,seqno=1"],
            ["--restart", "--kill", "rank=1,version=0,seqno=3"],
            ["--restart", "--kill", "rank=1,version=5,seqno=2"],
            ["--restart", "--kill", "rank=0,version=5,seqno=4"],
        ]
        for kill in kills:
            with self.subTest(kill=kill):
                out, err = self.run_ranks(3, PROGRAM, *kill)
                self.assertEqual(err.count("fired"), len(kill) // 3, err)
                self.digest(out)
                self.assertEqual(out.count("of 3, digest"), 3, out)
        fewer = ["--min", "2", "--elastic-timeout", "300ms", "--kill", "rank=1,version=5,seqno=2"]
        out, _ = self.run_ranks(3, PROGRAM, *fewer)
        self.digest(out)
        self.assertEqual(out.count("of 2, digest"), 2, out)

    def test_parameters_without_a_module_stay_those_of_the_optimizer_whatever_dies(self):
        kill = ["--kill", "rank=1,version=4,seqno=1"]
        fewer = ["--min", "2", "--elastic-timeout", "300ms", *kill]
        for options, world in (([], 3), (["--restart", *kill], 3), (fewer, 2)):
            with self.subTest(options=options):
                out, err = self.run_ranks(3, BARE, *options)
                self.assertEqual(err.count("fired"), options.count("--kill"), err)
                self.digest(out)
                self.assertEqual(out.count("digest "), world, out)

    def test_what_is_trained_and_could_only_come_back_as_something_else_is_refused(self):
        out, _ = self.run_ranks(1, LOST)
        self.assertIn("all are refused", out)

    def test_sums_over_a_samplers_batches_are_those_of_one_process_although_some_are_empty_and_a_rank_dies(self):
        def trained(world, *options):
            out, err = self.run_ranks(world, SAMPLED, *options)
            found = re.findall(r"empty batches (\d+) weights (.*)", out)
            self.assertEqual(len(found), world, out)
            return [[float(each) for each in weights.split()] for _, weights in found], [int(n) for n, _ in found], err

        (alone,), _, _ = trained(1)
        for options in ([], ["--restart", "--kill", "rank=2,version=9,seqno=0"]):
            with self.subTest(options=options):
                models, empty, err = trained(3, *options)
                self.assertEqual(err.count("fired"), len(options) // 3, err)
                self.assertGreater(max(empty), 0, "expected a rank without a sample at the tail")
                for model in models:
                    self.assertEqual(model, models[0])
                    for ours, theirs in zip(model, alone):
                        self.assertAlmostEqual(ours, theirs, places=12)

    def test_a_process_that_comes_into_a_loop_in_horovods_words_has_the_rate_of_the_new_world(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "slots.sh")
            script.write_text(f"#!/bin/sh\n[ -e {folder}/two ] && echo localhost:3 || echo localhost:2\n")
            script.chmod(0o700)
            waits = f"""
            state.commit()
            open("{folder}/two", "w").close()
            while state.step == 2 and hvd.size() < 3:
                time.sleep(0.01)
                state.commit()
            """
            program = PROGRAM.replace("            state.commit()\n", waits.lstrip("\n"), 1)
            program = program.replace("import hashlib", "import hashlib, time", 1)
            options = ["--min", "2", "--max", "3", "--discovery", str(script), "--resize-interval", "100ms"]
            out, _ = self.run_ranks(2, program, *options)
        self.digest(out)
        self.assertEqual(out.count("of 3, digest"), 3, out)

    def test_horovods_own_example_with_the_guides_changes_ends_although_a_rank_is_killed(self):
        horovod = os.environ.get(HOROVOD)
        if horovod is None:
            self.skipTest(f"{HOROVOD} isn't set: the folder of Horovod 0.28.1, of which {EXAMPLE} is run")
        if importlib.util.find_spec("torchvision") is None:
            self.skipTest(f"{sys.executable} has no torchvision, whose model the example trains")
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "ported.py")
            program.write_text(pathlib.Path(horovod, EXAMPLE).read_text())
            subprocess.run(["patch", "--fuzz=0", str(program)], input=changes(), text=True, check=True)
            sizes = "--model resnet18 --no-cuda --batch-size 2 --num-warmup-batches 1 --num-batches-per-iter 2".split()
            for more in (["--restart"], ["--elastic-timeout", "1s"]):
                options = ["--min", "1", *more, "--kill", "rank=1,version=2,seqno=1"]
                arguments = [*sizes, "--num-iters", "3"]
                out, err = self.run_ranks(2, program, *options, arguments=arguments, OMP_NUM_THREADS="1")
                self.assertIn("fired", err)
                world = 2 if "--restart" in more else 1
                self.assertRegex(out, rf"Total img/sec on {world} CPU\(s\): ")


class Guide(unittest.TestCase):
    def test_horovods_example_needs_ten_lines_at_most(self):
        lines = [line for line in changes().splitlines() if line[:1] in ("-", "+") and line[:3] not in ("---", "+++")]
        self.assertTrue(lines)
        self.assertLessEqual(len(lines), 10, lines)


def changes():
    """The guide's diff."""
    guide = (ROOT / "docs" / "elastic.md").read_text()
    block = re.search(r"```diff file=pytorch_synthetic_benchmark_elastic.py\n(.*?)```", guide, re.DOTALL)
    assert block, "expected the diff of Horovod's example in docs/elastic.md"
    return block.group(1)


if __name__ == "__main__":
    unittest.main()

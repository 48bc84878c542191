# `make demo` and `make test` are what the README begins with. Each target does all the set-up that it needs.

KILL ?= 1@240
CHECKPOINT_ROUNDS ?= 0
export KILL CHECKPOINT_ROUNDS

.PHONY: setup setup-tests build demo demo-flink demo-python quick test test-long test-nightly model model-long soak lint
.PHONY: install wheel smoke clean bench bench-fit bench-spark bench-flink bench-python bench-collectives bench-network

setup:
	@scripts/setup.sh

setup-tests:
	@scripts/setup.sh tests

build: setup
	@scripts/build.sh

# A real Spark cluster on this machine; KILL=rank@round[,rank@round] chooses who dies when,
# CHECKPOINT_ROUNDS=1 a checkpoint after every round instead of the default rhythm.
demo: build
	@integration-tests/demo.sh

# A real Flink cluster on this machine; RANK and VERSION choose whose TaskManager is killed, and when.
demo-flink: build
	@integration-tests/demo-flink.sh

# XGBoost's own PySpark estimator on executors of this machine; KILL=round chooses when a Python
# worker, and then an executor, are killed. Two minutes, once built.
demo-python: setup
	@KILL=$(if $(filter file,$(origin KILL)),,$(KILL)) integration-tests/demo-python.sh

# The inner loop, at most 5 minutes once built: units, state machines, a short simulation. SEEDS (1000) of it.
quick:
	@scripts/quick.sh

# What each change has to pass, in about an hour on 2 cores, downloads included: units, simulator, model, real clusters
# with real kills.
test: setup-tests
	@scripts/test.sh

# Several hours: ten times the seeds, the cross product of faults, trainings, settings and versions,
# and MINUTES (6) of random kills. REPEAT=4 repetitions, FULL=1 for every cell on every pair of
# versions, SEED=... for the same again (CONTRIBUTING.md).
test-long: setup-tests
	@scripts/test.sh long

# One release of XGBoost4J from Maven Central, on a real cluster with a real kill: the models have to be the
# same. SCALA=2.13 for the one on Spark 4.1.
smoke: setup
	@scripts/smoke.sh "$(XGBOOST)"

# Miri, sanitizers, and fuzzing under them, for whoever has a nightly toolchain; says what is missing otherwise.
test-nightly:
	@scripts/test-nightly.sh

bench: build
	@scripts/bench.sh

# The whole fit in Spark, from Parquet to the model: ours and the stock estimator's in turn, time and
# memory. VERSIONS=spark35-xgb320 or spark41-xgb311 for the others; half an hour with PAIRS=9.
bench-fit: build
	@BENCH=fit scripts/bench.sh

# What four faults cost a training on a real cluster (ours, ours with a spare, the stock estimator), and a lost host.
# TRIALS=10 of each, some four hours; ROUNDS, REPEAT and ONLY as in scripts/bench-spark.sh.
bench-spark: build
	@scripts/bench-spark.sh

# Whole fits of PySpark's XGBoost, ours and stock's in turn: time, memory, a killed worker.
bench-python: setup
	@scripts/bench-python.sh

bench-flink: build
	@scripts/bench-flink.sh

# The engine's rendezvous, checkpoints and recovery, then allreduce among ranks of this machine,
# Open MPI and Gloo beside it, and the same beside load processes, two for each core, with Open MPI
# and a ring of blocking sockets (Debian: openmpi-bin libopenmpi-dev libgloo-dev g++).
bench-collectives:
	@cargo build --release --locked -p rejoin-bench -p rejoin-cli
	@$${CARGO_TARGET_DIR:-target}/release/rejoin-bench engine --repetitions $${PAIRS:-9}
	@BUILD_DIR=$(CURDIR)/build/peers $${CARGO_TARGET_DIR:-target}/release/rejoin-bench compare --pairs $${PAIRS:-9}
	@BUILD_DIR=$(CURDIR)/build/peers $${CARGO_TARGET_DIR:-target}/release/rejoin-bench compare --pairs $${PAIRS:-9} --busy

# On hosts (network namespaces) with 1 Gbit/s and 1 ms between them: every algorithm of every
# collective on 4 and on 2 of them, and whether the tables of choices
# (native/collectives/src/choice.rs) say the fastest; allreduce on 4, Gloo beside it; then XGBoost
# on 2, the stock collective beside it. Needs root.
SCHEDULE_SIZES = 8,1024,4096,16384,65536,262144,1048576,4194304,16777216
bench-network: build
	@cargo build --release --locked -p rejoin-bench
	@bench=$$(realpath $${CARGO_TARGET_DIR:-target}/release/rejoin-bench); \
	  schedules="schedules --rounds $${PAIRS:-9} --budget-ms 200"; \
	  $$bench network --hosts 4 -- $$bench $$schedules --worlds 4,8 --sizes $(SCHEDULE_SIZES) && \
	  $$bench network --hosts 4 -- $$bench $$schedules --worlds 8 --sizes $(SCHEDULE_SIZES) --placement together && \
	  $$bench network --hosts 2 -- $$bench $$schedules --worlds 4 --sizes $(SCHEDULE_SIZES) --placement together
	@bench=$$(realpath $${CARGO_TARGET_DIR:-target}/release/rejoin-bench); \
	  BUILD_DIR=$(CURDIR)/build/peers $$bench network --hosts 4 -- \
	    $$bench compare --pairs $${PAIRS:-9} --worlds 4,8 --sizes 8,1024,65536,1048576,16777216
	@bench=$$(realpath $${CARGO_TARGET_DIR:-target}/release/rejoin-bench); \
	  BENCH=training $$bench network --hosts 2 -- scripts/bench.sh

# The Python package with all that it needs, as build/wheel/*.whl.
wheel: build
	@scripts/wheel.sh

# The C library, its header and pkg-config file, and the launcher.
PREFIX ?= /usr/local
install:
	@scripts/install.sh "$(PREFIX)"

# The model with more faults than `make test` has time for (docs/testing.md: states, seconds and memory of each).
model:
	@cargo build --release --locked -p rejoin-model
	@for setup in "two-versions --crashes 1" "boot-and-one --crashes 1" "two-collectives --cuts 1" \
	    "two-versions --world 2 --zombies 1" "with-a-spare --world 2 --zombies 1 --reduced" \
	    "two-versions --world 2 --crashes 1 --cuts 1" \
	    "both-lanes --world 2 --crashes 1 --rendezvous" "one-collective --tracker-deaths 1" \
	    "two-collectives --crashes 1" "one-collective --crashes 2 --reduced" "two-collectives --crashes 2 --reduced" \
	    "one-collective --crashes 1 --tracker-deaths 1 --reduced" \
	    "one-collective --world 2 --crashes 1 --tracker-deaths 2 --rendezvous --reduced" \
	    "growing --world 2 --tracker-deaths 1" \
	    "one-collective --least 2 --crashes 1 --victims 0 --tracker-deaths 1" \
	    "one-collective --world 2 --crashes 2 --victims 0,2 --tracker-deaths 1 --rendezvous --reduced"; do \
	  $${CARGO_TARGET_DIR:-target}/release/rejoin-model $$setup || exit 1; done

# Two crashes together with the tracker's: half an hour, 5 GB of memory.
model-long:
	@cargo build --release --locked -p rejoin-model
	@$${CARGO_TARGET_DIR:-target}/release/rejoin-model \
	  one-collective --crashes 2 --victims 1,3 --tracker-deaths 1 --reduced

# Random deaths through `rejoin run`, results checked all the time, memory and descriptors flat at the end.
soak:
	@cargo build --release --locked -p rejoin-cli --bins --examples
	@scripts/soak.py --minutes $${MINUTES:-10} --binaries $${CARGO_TARGET_DIR:-target}/release

lint: setup
	@scripts/lint.sh

clean:
	rm -rf target build */build

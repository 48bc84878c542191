# The two commands of the README are `make demo` and `make test`. Each does all the set-up that it needs.

KILL ?= 1@30
export KILL

.PHONY: demo test test-long bench bench-collectives lint setup build clean

setup:
	@scripts/setup.sh

build: setup
	@scripts/build.sh

# A real Spark cluster on this machine; KILL=rank@round[,rank@round] chooses who dies when.
demo: build
	@integration-tests/demo.sh

# Everything within 25 minutes on 2 cores: units, simulator, real clusters with real kills.
test: setup
	@scripts/test.sh

# The cross product of faults, settings and versions; MINUTES adds random kills for so long.
test-long: setup
	@scripts/test.sh long

bench: build
	@scripts/bench.sh

# Allreduce among ranks of this machine, Open MPI and Gloo beside it (Debian: openmpi-bin libopenmpi-dev libgloo-dev g++).
bench-collectives:
	@cargo build --release --locked -p rejoin-bench
	@BUILD_DIR=$(CURDIR)/build/peers $${CARGO_TARGET_DIR:-target}/release/rejoin-bench compare --pairs $${PAIRS:-9}

lint: setup
	@scripts/lint.sh

clean:
	rm -rf target build */build

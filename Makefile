# SPDX-License-Identifier: GPL-2.0-only
# `make help` tells what there is. All that is built lands in build/; stock kernels, their headers and the
# UML debug kernel are cached outside the tree, see tests/lab/README and tests/uml/README.

SHELL := /bin/bash
BUILD := $(CURDIR)/build
KERNEL ?= 6.1
PREFIX ?= /usr/local
LAB := $(BUILD)/tests/lab/ibrelk-lab

.DEFAULT_GOAL := help
.PHONY: help deps module user demo check check-unit check-fuzz check-sim check-model check-kunit check-lab check-mpich \
	check-long bench bench-full bench-mpi bench-mpi-counted sim fuzz scale coverage mutation lab install format lint clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

deps: ## install the Debian packages that building and testing need (apt, root)
	@tests/deps.sh

module: deps ## build ibrelk.ko for KERNEL (6.1 by default, or 6.12) in build/module-KERNEL/
	@tests/build-module.sh $(KERNEL) $(BUILD)/module-$(KERNEL)

user: deps ## build library, tools, examples, tests and the lab in build/
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_INSTALL_PREFIX=$(PREFIX) >$(BUILD).cmake.log 2>&1 || { cat $(BUILD).cmake.log; exit 1; }
	@rm -f $(BUILD).cmake.log
	@cmake --build $(BUILD) >&2

demo: module user ## two nodes exchange verified messages over a lossy wire, then MPI programs do
	@IBRELK_LAB_KERNEL=$(KERNEL) $(BUILD)/tests/cluster/ibrelk-demo

check: module user ## all but what takes long: unit, fuzzers, simulator, model, KUnit in a debug kernel, two-node lab
	@tests/check.sh fuzz+model kunit+adapter+steps+unit lab+sim+overlap

check-unit: user ## unit tests of the pure code and the library (ASan, UBSan)
	@tests/check.sh unit

check-fuzz: deps ## each fuzzer for a minute
	@tests/check.sh fuzz

check-sim: user ## the simulator: what was found before, a fixed set of seeds, and some fresh ones
	@tests/check.sh sim+steps

check-model: deps ## spin explores the model of the handshake with two faults
	@tests/check.sh model-long

check-kunit: user ## KUnit suites in a UML kernel with KASAN and lockdep
	@tests/check.sh kunit+adapter

check-lab: user ## self-tests on two QEMU nodes: 6.1, and a smoke run on 6.12
	@tests/check.sh lab

check-mpich: user ## MPICH and its own tests over the libfabric provider, built from Debian's source package (cached)
	@tests/check.sh mpich

check-long: module user ## every test: cluster tests and soaks on 6.1 and 6.12, KUnit on 6.12, and on 7.x with SMP
	@IBRELK_SIM_FIXED=4000 tests/check.sh unit fuzz sim+steps steps-long model-long mutation kunit-long overlap-long lab-long mpich

bench: module user ## deterministic benchmark (icount): table, CSV and plots in build/bench/
	@tests/bench/run.sh

bench-full: module user ## long sweeps of size, window, loss and delay: build/bench/full.csv and plots
	@tests/bench/run.sh --full

ROUNDS ?= 5
bench-mpi: module user ## Open MPI between two nodes, over ibrelk and other networks: build/bench/mpi.csv and plot (an hour and a half)
	@IBRELK_LAB_KERNEL=$(KERNEL) tests/bench/mpi.sh --rounds $(ROUNDS)

bench-mpi-counted: module user ## the same in counted time, two ranks on one processor: build/bench/mpi-counted.csv
	@tests/bench/mpi.sh --counted

SEED ?= 1
N ?= 1000
HOURS ?= 0
sim: user ## simulate N runs from SEED on, for HOURS: make sim SEED=7 N=100000 HOURS=2
	@$(BUILD)/tests/sim/ibrelk-sim --seed $(SEED) --runs $(N) --hours $(HOURS)

scale: user ## engines of up to 100,000 nodes, incast, loss: table, CSV and plots in build/scale/ (16 GiB)
	@tests/sim/scale/run.sh

SECONDS ?= 600
fuzz: deps ## run each fuzzer for SECONDS, two at once: make fuzz SECONDS=1800
	@tests/fuzz/check.sh $(SECONDS)

coverage: ## lines and branches of the engine that unit tests and simulator run: table, and build/coverage/html
	@tests/coverage.sh

mutation: N = 100
mutation: ## break N places of the engine (0: all); a test must fail for each: make mutation SEED=7 N=50
	@tests/deps.sh python3
	@tests/mutation/mutate.py --seed $(SEED) --count $(N)

lab: module user ## an interactive lab: a shell on either of two nodes
	@$(LAB) shell --kernel $(KERNEL)

install: module user ## install library, tools, headers and man pages under PREFIX (the module stays in build/)
	@cmake --install $(BUILD)

format: ## clang-format for the C++
	@git ls-files '*.cpp' '*.hpp' | xargs -r clang-format -i

lint: module user ## checkpatch rules, sparse, W=1, clang-tidy, clang-format, kernel-doc, tables of mutants
	@tests/lint.sh

clean: ## remove build/
	@rm -rf $(BUILD)

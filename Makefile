# Every command that a person or the CI runs. `make` alone lists them.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# What is built goes where cargo puts it; the system tests take the release build from there.
target := $(abspath $(or $(CARGO_TARGET_DIR),target))
export SLUICE_BIN ?= $(target)/release/sluice

cargo := cargo
# What a person passes on.
ARGS ?=
TOPIC ?=
TARGET ?=
# Networks that are played, and the seed of the first.
RUNS ?= 10000
SEED ?= 1
# For each target of the fuzzer: six minutes for all of them.
SECONDS ?= 50

# In this order: what is quick to fail comes first, and the tests find the release build there.
quick := fmt clippy unit doc tidy
steps := setup fmt clippy release unit sim doc tidy system fuzz

help: ## lists the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "A first look: make run. Before a change goes out: make test."

run: release ## builds the controller and starts it; ARGS="--app hub" is passed on
	@exec $(SLUICE_BIN) run $(ARGS)

play: release ## the controller and a network that is not there, on the terminal; ARGS="--topo ring,4" is passed on
	@exec $(SLUICE_BIN) play $(ARGS)

test: ## everything that proves the whole: needs root and 27 minutes on two cores
	@FUZZ_SEED=1 scripts/steps.sh $(steps)

check: ## the quick part of it, while you work
	@scripts/steps.sh $(quick)

bless: ## rewrites golden files, config/example.toml and docs/config.md; the diff is the review
	SLUICE_BLESS=1 $(cargo) test --locked --workspace --exclude sluice-system-tests
	git status --short

bench: ## measures the controller beside the ceiling of this machine, and prints the table
	@test -x lab/run.sh || { echo "make bench: there is no lab/run.sh" >&2; exit 1; }
	@$(MAKE) release
	lab/run.sh $(ARGS)

lab: ## measures one question again and files it: TOPIC=look-ahead
	@test -n "$(TOPIC)" || { echo "make lab: which one? TOPIC=<a folder of lab/>" >&2; exit 1; }
	@test -x "lab/$(TOPIC)/run.sh" || { echo "make lab: there is no lab/$(TOPIC)/run.sh" >&2; exit 1; }
	@$(MAKE) release
	lab/$(TOPIC)/run.sh $(ARGS)

fuzz: ## looks for input that breaks a parser; SECONDS=600 TARGET=message FUZZ_SEED=1
	@fuzz/run.sh $(SECONDS) $(TARGET)

setup: ## installs what the tests use beside Rust (Debian, Ubuntu; once as root)
	@scripts/setup.sh

release: ## builds target/release/sluice
	$(cargo) build --locked --release --bin sluice

fmt: ## the form of the source
	$(cargo) fmt --all --check
	$(cargo) fmt --manifest-path fuzz/Cargo.toml --check

clippy: ## the lints, warnings are errors
	$(cargo) clippy --locked --workspace --all-targets -- -D warnings

unit: ## the tests of the crates
	$(cargo) test --locked --workspace --exclude sluice-system-tests --no-fail-fast

sim: ## networks with trouble, in virtual time; SEED=7 RUNS=1 plays one again
	SLUICE_SIM_RUNS=$(RUNS) SLUICE_SIM_SEED=$(SEED) $(cargo) test --locked --profile sim -p sluice-apps --test simulation

# Links to what is private lead people who read the source, and harm nobody else.
doc: ## the documentation of the crates, warnings are errors
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(cargo) doc --locked --workspace --no-deps

tidy: ## the rules of the house: arrows between crates, walls, dependencies, links
	$(cargo) test --locked -p sluice-system-tests --test tidy --no-fail-fast -- --show-output

system: release ## the binary against Open vSwitch, Mininet and foreign decoders; needs root
	$(cargo) test --locked -p sluice-system-tests --no-fail-fast $(system_tests)

# All tests of the package but tidy, which has a step of its own.
system_tests = --lib $(patsubst tests/tests/%.rs,--test %,$(filter-out %/tidy.rs,$(wildcard tests/tests/*.rs)))

clean: ## removes what was built
	$(cargo) clean
	rm -rf fuzz/target fuzz/artifacts fuzz/seeds

.PHONY: help run play test check bless bench lab fuzz setup release fmt clippy unit sim doc tidy system clean

# Commands for users, developers and CI. `make` alone lists them.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# The system tests use the release build in cargo's target folder.
target := $(abspath $(or $(CARGO_TARGET_DIR),target))
export SLUICE_BIN ?= $(target)/release/sluice

cargo := cargo
# Options that are passed on to `run`, `play`, `bench`, `study` and `lab`.
ARGS ?=
# Folder of lab/ for `lab`; fuzz target for `fuzz`.
TOPIC ?=
TARGET ?=
# Number of simulated networks, and the seed of the first.
RUNS ?= 2000
SEED ?= 1
# Duration of each fuzz target in `fuzz`.
SECONDS ?= 60
# Duration of `soak`.
SOAK_SECONDS ?= 1200

# The packages for `unit` and `sim`: the same, so that cargo builds their dependencies once, with the same features.
crates := --locked --workspace --exclude sluice-system-tests --exclude sluice-openflow
# `openflow` is tested apart, since `test`, which builds everything anew, does not optimise its tests: that takes longer to
# compile than they run. The other crates always link the optimised library.
openflow := --locked -p sluice-openflow --all-features
# Steps of `check` and of `test`. Targets joined by `+` run at the same time: linking the release build leaves a core
# idle, and the system tests mostly wait.
quick := fmt clippy unit tidy
steps := setup fmt web web-unit release+clippy+doc unit examples sim tidy web-test system+fuzz-regression

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "First: make run. Before you submit a change: make test."

run: release ## build the controller and start it; ARGS="--app hub" passes options
	@exec $(SLUICE_BIN) run $(ARGS)

play: release ## controller and emulated network on the terminal; ARGS="--topo ring,4" passes options
	@exec $(SLUICE_BIN) play $(ARGS)

test: ## all tests, with their set-up; needs root, about an hour on two cores
	@CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_CODEGEN_UNITS=2 UNOPTIMISED=sluice-openflow scripts/steps.sh $(steps)

check: ## the quick tests, for while you work
	@scripts/steps.sh $(quick)

bless: ## rewrite golden files, config/example.toml and generated docs; review the diff
	SLUICE_BLESS=1 $(cargo) test $(crates)
	SLUICE_BLESS=1 $(cargo) test $(openflow)
	git status --short

bench: ## measure the controller relative to the null responder
	@$(MAKE) release
	lab/run.sh $(ARGS)

study: release ## compare the controllers that install by package, in about nine minutes; ARGS="--output DIR"
	@SLUICE_CONTROLLERS=$${SLUICE_CONTROLLERS:-$(target)/controllers} scripts/study-controllers.sh
	SLUICE_CONTROLLERS=$${SLUICE_CONTROLLERS:-$(target)/controllers} $(SLUICE_BIN) study run --plan study/short.toml $(ARGS)

lab: ## repeat a measurement and store its data; TOPIC=look-ahead
	@test -n "$(TOPIC)" || { echo "make lab: TOPIC is missing (a folder of lab/)" >&2; exit 1; }
	@test -x "lab/$(TOPIC)/run.sh" || { echo "make lab: lab/$(TOPIC)/run.sh does not exist" >&2; exit 1; }
	@$(MAKE) release
	lab/$(TOPIC)/run.sh $(ARGS)

fuzz: ## search for new crashing inputs; SECONDS=600 TARGET=message
	@fuzz/run.sh $(SECONDS) $(TARGET)

fuzz-regression: ## run every fuzz target with a fixed seed and number of runs
	@fuzz/run.sh regression $(TARGET)

setup: ## install what the tests need besides Rust (Debian, Ubuntu; as root)
	@scripts/setup.sh

web: ## build the web page, which the binary contains
	@scripts/web.sh

release: web ## build target/release/sluice
	@scripts/clang.sh
	$(cargo) build --locked --release --bin sluice

dist: ## write archive, Debian package, bill of materials and checksums into target/dist, and run what they contain (needs root)
	@scripts/dist.sh

fmt: ## check the formatting
	$(cargo) fmt --all --check
	$(cargo) fmt --manifest-path fuzz/Cargo.toml --check
	$(cargo) fmt --manifest-path examples/access-list/Cargo.toml --check

clippy: ## run the lints; warnings are errors
	$(cargo) clippy --locked --workspace --all-targets -- -D warnings

unit: ## run the tests of the crates
	code=0; $(cargo) test $(openflow) $(UNOPTIMISED:%=--config profile.dev.package.%.opt-level=0) --no-fail-fast || code=1; \
	$(cargo) test $(crates) --no-fail-fast && exit $$code

# A crate outside of the workspace, as users have them. It shares the target folder, so that only the crate itself is built.
examples: ## lint and test the application in a crate of its own
	CARGO_TARGET_DIR=$(target) $(cargo) clippy --locked --manifest-path examples/access-list/Cargo.toml --all-targets -- -D warnings
	CARGO_TARGET_DIR=$(target) $(cargo) test --locked --manifest-path examples/access-list/Cargo.toml

sim: ## run simulated networks with faults; SEED=7 RUNS=1 repeats one
	SLUICE_SIM_RUNS=$(RUNS) SLUICE_SIM_SEED=$(SEED) $(cargo) test $(crates) --test simulation

sim-bugs: ## check that the simulation finds the bugs of crates/testkit/bugs; takes half an hour
	scripts/sim-bugs.sh

# Links to private items are useful to readers of the source.
doc: ## build the documentation of the crates; warnings are errors
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(cargo) doc --locked --workspace --no-deps

tidy: ## check layers, dependencies, links and words
	$(cargo) test --locked -p sluice-system-tests --test tidy --no-fail-fast -- --show-output

# Tests that may share the machine run six at a time, since they mostly wait; the others take a lock.
system: release ## test the binary with Open vSwitch, Mininet and other decoders; needs root
	$(cargo) test --locked -p sluice-system-tests --no-fail-fast --lib --test system --test limits --test connection_floods --test connection_cost --test cost --test soak -- --test-threads 6

web-unit: web ## check the types and test the logic of the web page
	cd web && npm run --silent check && npm run --silent test

# They start chromium, and have the machine for themselves.
web-test: release ## test the web page in Chromium with Open vSwitch and emulated networks; needs root
	$(cargo) test --locked -p sluice-system-tests --no-fail-fast --test web -- --test-threads 1

# `system` has two minutes of it.
soak: release ## 20 minutes of load amid all faults; needs root; SOAK_SECONDS=3600
	SLUICE_SOAK_SECONDS=$(SOAK_SECONDS) $(cargo) test --locked -p sluice-system-tests --test soak -- --nocapture

clean: ## remove build products
	$(cargo) clean
	rm -rf fuzz/target fuzz/artifacts fuzz/seeds web/node_modules web/dist/assets web/dist/*.* web/dist/.sources

.PHONY: help run play test check bless bench study lab fuzz fuzz-regression setup web web-unit web-test release dist fmt clippy unit examples sim sim-bugs doc tidy system soak clean

#!/usr/bin/env bash
# Checks that the simulation finds bugs: applies each patch of crates/testkit/bugs to a copy of the sources and runs
# simulated networks, of which one must fail. Without a patch none may fail. Prints a table; exits with 1 if the simulation
# misses a bug.
#
# usage: scripts/sim-bugs.sh [TEXT]     only patches whose name contains TEXT
#
# SIM_RUNS is the number of networks, 2000 by default.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${SIM_RUNS:-2000} text=${1:-}
dir=$PWD/target/bugs
tree=$dir/tree log=$dir/log
export CARGO_TARGET_DIR=$dir/target CARGO_INCREMENTAL=0

# The copy stays where it is, and only what differs is written, so that cargo compiles only that again.
mkdir -p "$tree"
(cd "$tree" && find . -type f -printf '%P\0') | while IFS= read -r -d '' file; do
    [[ -f $file ]] || rm "$tree/$file"
done
git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
    [[ ! -f $file ]] || cmp --quiet "$file" "$tree/$file" || install -D --mode=644 "$file" "$tree/$file"
done

# Simulates $2 networks from seed $1 on. Returns 1 if one fails; $seed is the lowest such seed, and $why what was wrong, without
# the conditions of the network.
simulate() {
    if (cd "$tree" && SLUICE_SIM_SEED=$1 SLUICE_SIM_RUNS=$2 timeout 1200 cargo test --quiet --locked \
        --package sluice-apps --test simulation after_faults) >"$log" 2>&1; then
        return 0
    fi
    local failure
    failure=$(grep -oP 'SLUICE_SIM_RUNS=1 SLUICE_SIM_SEED=\K.*' "$log" | sort --numeric-sort | head -n 1)
    [[ -n $failure ]] || { cat "$log" >&2; exit 1; }
    seed=${failure%%:*} why=${failure#*\}: }
    return 1
}

# Whether all networks work. Most bugs show in the first hundred.
all_work() {
    local first=$((runs < 100 ? runs : 100))
    simulate 1 "$first" && { ((runs == first)) || simulate $((first + 1)) $((runs - first)); }
}

if [[ -z $text ]]; then
    all_work || { echo "without a bug: seed $seed fails: $why"; exit 1; }
    echo "without a bug: $runs networks work"
fi
missed=0 patch=
trap '[[ -z $patch ]] || patch --quiet --reverse --strip=1 --directory="$tree" <"$patch"' EXIT
for file in "$PWD"/crates/testkit/bugs/*"$text"*.patch; do
    patch --quiet --strip=1 --directory="$tree" <"$file"
    patch=$file
    if all_work; then
        missed=$((missed + 1)) seed="not found" why=
    fi
    printf '%-34s %-9s %.200s\n' "$(basename "$file" .patch)" "$seed" "$why"
    patch --quiet --reverse --strip=1 --directory="$tree" <"$file"
    patch=
done
echo "$missed bugs were not found"
((missed == 0))

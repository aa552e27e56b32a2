#!/usr/bin/env bash
# Looks for input that makes a parser panic, hang or grow.
#
#   fuzz/run.sh [SECONDS] [TARGET...]     each target for SECONDS (50), all of them without TARGET
#
# Stable Rust: the coverage that libFuzzer steers by is a pass of LLVM, named below.
set -euo pipefail
cd "$(dirname "$0")"

seconds=50
if [[ ${1-} =~ ^[0-9]+$ ]]; then seconds=$1; shift; fi
targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
    for file in targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

triple=x86_64-unknown-linux-gnu
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions"
cargo build --locked --release --target "$triple" --bins
bin=$(realpath "${CARGO_TARGET_DIR:-target}")/$triple/release

# Every golden message is a seed of every target; of a packet-in, the frame in it as well.
octets() { printf "$(sed '/^---$/,$d; /^#/d; s/[0-9a-f][0-9a-f]/\\x&/g; s/ //g' "$1" | tr -d '\n')"; }
seed() {
    mkdir -p "corpus/$1" "artifacts/$1"
    local file name
    for file in ../crates/wire/tests/golden/*.hex; do
        name=$(basename "$file" .hex)
        [[ -e corpus/$1/$name ]] || octets "$file" >"corpus/$1/$name"
        case $name in
        1.0_packet_in*) tail -c +19 "corpus/$1/$name" >"corpus/$1/$name.frame" ;;
        1.3_packet_in*) tail -c +43 "corpus/$1/$name" >"corpus/$1/$name.frame" ;;
        esac
        # Of a session: 1.0 or 1.3, either end, before and after the handshake; a pause, a length of pieces.
        if [[ $1 == session ]]; then
            local mode modes=(0 2 4 6)
            [[ $name == 1.3* ]] && modes=(1 3 5 7)
            for mode in "${modes[@]}"; do
                { printf "\\x$mode\x01\x3f"; octets "$file"; } >"corpus/$1/$name.$mode"
            done
        fi
    done
}

# What Open vSwitch said is a seed of what reads streams of any messages; the flows of the recording are lines of text.
seed_live() {
    local file n=0 line command
    for file in ../crates/wire/tests/golden/live/*.hex; do
        while read -r line; do
            case $1:$line in
            model:[0-9a-f]*)
                n=$((n + 1))
                [[ -e corpus/$1/live.$n ]] || printf "$(sed 's/../\\x&/g' <<<"$line")" >"corpus/$1/live.$n" ;;
            text:*add-flow\ *BR\ *)
                n=$((n + 1))
                command=${line#*BR }
                printf '\0%s' "$command" >"corpus/$1/live.$n" ;;
            esac
        done <"$file"
    done
}

failed=0
for target in "${targets[@]}"; do
    seed "$target"
    case $target in model | text) seed_live "$target" ;; esac
    echo "== $target, $seconds s"
    if ! "$bin/$target" "corpus/$target" -max_total_time="$seconds" -rss_limit_mb=512 \
        -malloc_limit_mb=64 -max_len=4096 -timeout=5 -print_final_stats=1 -verbosity=1 \
        -artifact_prefix="artifacts/$target/" 2>"artifacts/$target/log"; then
        failed=1
        grep -A4 -e 'panicked at' -e '^SUMMARY' -e '^==.*ERROR' "artifacts/$target/log" | cut -c1-300
        for input in "artifacts/$target"/{crash,oom,timeout,leak,slow-unit}-*; do
            if [[ -e $input ]]; then echo "replay: cd fuzz && $bin/$target $input"; fi
        done
    else
        grep -E '^(stat::number_of_executed_units|stat::peak_rss_mb)|^#.*DONE' "artifacts/$target/log"
    fi
done
exit $failed

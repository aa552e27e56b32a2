#!/usr/bin/env bash
# Looks for input that makes a parser panic, hang or grow.
#
#   fuzz/run.sh [SECONDS] [TARGET...]     each target for SECONDS (50), all of them without TARGET
#
# What leads somewhere new is kept in corpus/ for the next run, and the way there is another each time. With FUZZ_SEED,
# a number over 0, each run begins with the seeds alone and takes the same way, as far as it comes in its time. So does
# `make test`: what it finds was brought by the change, and not by luck; `make fuzz` is for luck.
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
bytes() { printf "$(sed '/^---$/,$d; /^#/d; s/[0-9a-f][0-9a-f]/\\x&/g; s/ //g' "$1" | tr -d '\n')"; }
seed() {
    mkdir -p "corpus/$1" "seeds/$1" "artifacts/$1"
    local file name
    for file in ../crates/openflow/tests/golden/*.hex; do
        name=$(basename "$file" .hex)
        bytes "$file" >"seeds/$1/$name"
        case $name in
        1.0_packet_in*) tail -c +19 "seeds/$1/$name" >"seeds/$1/$name.frame" ;;
        1.3_packet_in*) tail -c +43 "seeds/$1/$name" >"seeds/$1/$name.frame" ;;
        esac
        # Of a session: 1.0 or 1.3, either end, before and after the handshake; a pause, a length of pieces.
        if [[ $1 == session ]]; then
            local mode modes=(0 2 4 6)
            [[ $name == 1.3* ]] && modes=(1 3 5 7)
            for mode in "${modes[@]}"; do
                { printf "\\x$mode\x01\x3f"; bytes "$file"; } >"seeds/$1/$name.$mode"
            done
        fi
    done
}

# What Open vSwitch said is a seed of what reads streams of any messages; the flows of the recording are lines of text.
seed_live() {
    local file n=0 line command
    for file in ../crates/openflow/tests/golden/live/*.hex; do
        while read -r line; do
            case $1:$line in
            model:[0-9a-f]*)
                n=$((n + 1))
                printf "$(sed 's/../\\x&/g' <<<"$line")" >"seeds/$1/live.$n" ;;
            text:*add-flow\ *BR\ *)
                n=$((n + 1))
                command=${line#*BR }
                printf '\0%s' "$command" >"seeds/$1/live.$n" ;;
            esac
        done <"$file"
    done
}

# Flows in the words of Open vSwitch; its words and ours are those that a text is likely to be made of.
seed_text() {
    local n=0 line
    grep -v -e '^#' -e '^1\.' ../crates/openflow/tests/golden/flow_texts.txt | while read -r line; do
        n=$((n + 1))
        printf '\0%s' "${line#= }" >"seeds/text/flow.$n"
    done
    cat ../crates/openflow/tests/texts.txt ../crates/openflow/tests/golden/flow_texts.txt |
        grep -oE '[A-Za-z_][A-Za-z0-9_]+' | sort -u | sed 's/.*/"&"/' >seeds/text.words
}

failed=0
for target in "${targets[@]}"; do
    rm -rf "seeds/$target"
    seed "$target"
    case $target in model | text) seed_live "$target" ;; esac
    from=("corpus/$target" "seeds/$target")
    if [[ $target == text ]]; then seed_text; from+=(-dict=seeds/text.words); fi
    if [[ ${FUZZ_SEED:-0} -ne 0 ]]; then
        # A directory lists its files in no order that is always the same.
        printf '%s\n' "seeds/$target"/* | LC_ALL=C sort | paste -sd, >"seeds/$target.list"
        rm -rf "seeds/$target.found"
        mkdir "seeds/$target.found"
        from=("seeds/$target.found" "-seed_inputs=@seeds/$target.list" "${from[@]:2}" -reload=0)
    fi
    echo "== $target, $seconds s"
    if ! "$bin/$target" "${from[@]}" -seed="${FUZZ_SEED:-0}" -max_total_time="$seconds" -rss_limit_mb=512 \
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

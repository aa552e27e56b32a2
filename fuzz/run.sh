#!/usr/bin/env bash
# Fuzzes the parsers: looks for input that makes one panic, hang or use too much memory.
#
#   fuzz/run.sh SECONDS [TARGET...]     each target for SECONDS, starting from corpus/, to which new inputs are added
#   fuzz/run.sh regression [TARGET...]  each target for the number of runs below, with a fixed seed and without corpus/:
#                                       every machine executes the same inputs, so what it finds was caused by the change
#
# Without TARGET, all targets. As many run at a time as there are cores.
#
# Works with stable Rust: libFuzzer's coverage instrumentation is an LLVM pass, which is named below.
set -euo pipefail
cd "$(dirname "$0")"

mode=${1:?"usage: fuzz/run.sh SECONDS|regression [TARGET...]"}
shift
# Runs of each target in `regression`: some ten seconds or less on one core.
declare -A runs=(
    [ethernet]=1000000 [hello]=1000000 [message]=200000 [model]=100000
    [packet_in]=1000000 [session]=40000 [text]=100000
)
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

# Seeds of every target: the golden messages, and the frames in those that are packet-ins.
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
        # The first three bytes choose version, end and state of the session, a pause, and the length of the pieces.
        if [[ $1 == session ]]; then
            local mode modes=(0 2 4 6)
            [[ $name == 1.3* ]] && modes=(1 3 5 7)
            for mode in "${modes[@]}"; do
                { printf "\\x$mode\x01\x3f"; bytes "$file"; } >"seeds/$1/$name.$mode"
            done
        fi
    done
}

# Seeds from recordings of Open vSwitch: messages for the target `model`, flows in text form for the target `text`.
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

# Seeds and dictionary of the target `text`: flows as Open vSwitch prints them, and the keywords of the syntax.
seed_text() {
    local n=0 line
    grep -v -e '^#' -e '^1\.' ../crates/openflow/tests/golden/flow_texts.txt | while read -r line; do
        n=$((n + 1))
        printf '\0%s' "${line#= }" >"seeds/text/flow.$n"
    done
    cat ../crates/openflow/tests/texts.txt ../crates/openflow/tests/golden/flow_texts.txt |
        grep -oE '[A-Za-z_][A-Za-z0-9_]+' | sort -u | sed 's/.*/"&"/' >seeds/text.words
}

prepare() {
    rm -rf "seeds/$1"
    seed "$1"
    case $1 in model | text) seed_live "$1" ;; esac
    if [[ $1 == text ]]; then seed_text; fi
}

# Fuzzes one target; its output is in artifacts/TARGET/log.
fuzz() {
    local target=$1 from options=(-verbosity=1 -print_final_stats=1 -rss_limit_mb=512 -malloc_limit_mb=64 -max_len=4096
        -timeout=5 -artifact_prefix="artifacts/$1/")
    if [[ $target == text ]]; then options+=(-dict=seeds/text.words); fi
    if [[ $mode == regression ]]; then
        # An explicit list, since the order of files in a folder differs between machines.
        printf '%s\n' "seeds/$target"/* | LC_ALL=C sort | paste -sd, >"seeds/$target.list"
        rm -rf "seeds/$target.found"
        mkdir "seeds/$target.found"
        from=("seeds/$target.found" "-seed_inputs=@seeds/$target.list")
        options+=(-reload=0 -seed=1 -runs="${runs[$target]}")
    else
        mkdir -p "corpus/$target"
        from=("corpus/$target" "seeds/$target")
        options+=(-max_total_time="$mode")
    fi
    "$bin/$target" "${from[@]}" "${options[@]}" 2>"artifacts/$target/log"
}

# Prints the result of a target that has ended with exit code $2.
report() {
    local target=$1 code=$2 input
    echo "== fuzz $target"
    if [[ $code -eq 0 ]]; then
        grep -E '^(stat::number_of_executed_units|stat::peak_rss_mb)|^#.*DONE' "artifacts/$target/log"
        return 0
    fi
    grep -A4 -e 'panicked at' -e '^SUMMARY' -e '^==.*ERROR' "artifacts/$target/log" | cut -c1-300
    for input in "artifacts/$target"/{crash,oom,timeout,leak,slow-unit}-*; do
        if [[ -e $input ]]; then echo "replay: cd fuzz && $bin/$target $input"; fi
    done
    return 1
}

for target in "${targets[@]}"; do prepare "$target"; done
failed=0
declare -A running=()
finish_one() {
    local pid code=0
    wait -n -p pid "${!running[@]}" || code=$?
    report "${running[$pid]}" "$code" || failed=1
    unset "running[$pid]"
}
for target in "${targets[@]}"; do
    if [[ ${#running[@]} -ge $(nproc) ]]; then finish_one; fi
    fuzz "$target" &
    running[$!]=$target
done
while [[ ${#running[@]} -gt 0 ]]; do finish_one; done
exit $failed

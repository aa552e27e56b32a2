#!/usr/bin/env bash
# Runs the given steps one after the other, and continues after a failure. At the end it prints the duration and the
# result of each, and a last line `N passed, N failed`.
#
# A step is a make target, or several joined by `+`, which run at the same time: the first at normal priority, the others
# only while the processor is idle. Their output is printed after that of the first.
#
# A target counts the tests that its runner reports; one without a runner counts as one test. A target that takes longer
# than STEP_SECONDS is killed and has failed.
set -uo pipefail
cd "$(dirname "$0")/.."

limit=${STEP_SECONDS:-1500}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0 table= failures=
declare -A pids=()
# A target has a process group of its own, which ends with this script.
trap '[[ ${#pids[@]} -eq 0 ]] || kill "${pids[@]}"; exit 130' INT TERM

# Starts a target with the given priority; its output and its time of end are files in $dir.
start() {
    local target=$1
    shift
    : >"$dir/$target.log"
    timeout --kill-after=10 "$limit" "$@" bash -c 'make "$0"; code=$?; date +%s >"$1"; exit $code' \
        "$target" "$dir/$target.end" >"$dir/$target.log" 2>&1 &
    pids[$target]=$!
}

# Sum of a column of the lines `test result: ok. 12 passed; 0 failed; …` of cargo's test runner.
count() { awk -v at="$2" '/^test result: /{ gsub(";", ""); n += $at } END { print n + 0 }' "$1"; }

# The failed tests in the output of cargo's test runner, and the first lines of their panics, which a log of megabytes may follow.
failures_of() {
    grep -E '^test .* FAILED$' "$1"
    grep -A 3 -E "^thread '.*' .*panicked at " "$1" | cut -c -300 | head -n 100
}

# Prints the output of a target as it comes, waits for its end, and adds its result to the table.
finish() {
    local target=$1 log=$dir/$1.log code end good bad targets
    echo "== make $target"
    # In the background, since bash handles signals only between foreground commands.
    tail --lines=+1 --follow --sleep-interval=0.2 --pid="${pids[$target]}" "$log" &
    wait $!
    wait "${pids[$target]}"
    code=$?
    unset "pids[$target]"
    # 137: it ignored the first signal.
    if [[ $code -eq 124 || $code -eq 137 ]]; then echo "make $target was killed after $limit s"; fi
    end=$(cat "$dir/$target.end" 2>/dev/null || date +%s)

    good=$(count "$log" 4) bad=$(count "$log" 6)
    # Output of the fuzzer: a heading for each target, and statistics if it found nothing.
    targets=$(grep -c '^== fuzz ' "$log")
    if [[ $targets -gt 0 ]]; then
        good=$(grep -c '^stat::number_of_executed_units' "$log")
        bad=$((targets - good))
    fi
    # A target that failed without a failed test counts as one failure.
    if [[ $code -ne 0 && $bad -eq 0 ]]; then bad=1; fi
    if [[ $code -eq 0 && $((good + bad)) -eq 0 ]]; then good=1; fi

    passed=$((passed + good)) failed=$((failed + bad))
    if [[ $bad -gt 0 ]]; then failures+=$(failures_of "$log")$'\n'; fi
    table+=$(printf '%-16s %5d s %6d passed %4d failed' "$target" $((end - began)) "$good" "$bad")$'\n'
}

for step in "$@"; do
    IFS=+ read -ra targets <<<"$step"
    began=$(date +%s)
    priority=()
    for target in "${targets[@]}"; do
        start "$target" "${priority[@]}"
        priority=(chrt --idle 0)
    done
    for target in "${targets[@]}"; do finish "$target"; done
done

printf '\n%s\n%s\n%d passed, %d failed\n' "$failures" "$table" "$passed" "$failed"
[[ $failed -eq 0 ]]

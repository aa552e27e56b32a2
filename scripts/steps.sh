#!/usr/bin/env bash
# Runs the given make targets one after the other, and continues after a failure. At the end it prints the duration and
# the result of each, and a last line `N passed, N failed`.
#
# A step counts the tests that its runner reports; a step without a runner counts as one test. A step that takes longer
# than STEP_SECONDS is killed and has failed.
set -uo pipefail
cd "$(dirname "$0")/.."

limit=${STEP_SECONDS:-900}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 table= child=
# A step has a process group of its own, which ends with this script.
trap '[[ -z $child ]] || kill $child; exit 130' INT TERM

count() { awk -v at="$1" '/^test result: /{ gsub(";", ""); n += $at } END { print n + 0 }' "$log"; }

for step in "$@"; do
    echo "== make $step"
    began=$(date +%s)
    exec {out}> >(tee "$log")
    tee=$!
    timeout --kill-after=10 "$limit" make "$step" >&$out 2>&1 &
    child=$!
    wait $child
    code=$?
    if [[ $code -eq 124 ]]; then echo "make $step was killed after $limit s" >&$out; fi
    exec {out}>&-
    wait $tee
    took=$(($(date +%s) - began))

    # Output of cargo's test runner: `test result: ok. 12 passed; 0 failed; …`.
    good=$(count 4) bad=$(count 6)
    # Output of the fuzzer: a heading for each target, and statistics if it found nothing.
    targets=$(grep -c '^== fuzz ' "$log")
    if [[ $targets -gt 0 ]]; then
        good=$(grep -c '^stat::number_of_executed_units' "$log")
        bad=$((targets - good))
    fi
    # A step that failed without a failed test counts as one failure.
    if [[ $code -ne 0 && $bad -eq 0 ]]; then bad=1; fi
    if [[ $code -eq 0 && $((good + bad)) -eq 0 ]]; then good=1; fi

    passed=$((passed + good)) failed=$((failed + bad))
    table+=$(printf '%-8s %5d s %6d passed %4d failed' "$step" "$took" "$good" "$bad")$'\n'
done

printf '\n%s\n%d passed, %d failed\n' "$table" "$passed" "$failed"
[[ $failed -eq 0 ]]

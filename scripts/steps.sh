#!/usr/bin/env bash
# Makes the targets that are named, one after the other, and goes on after a failure.
# At the end: how each ended, how long it took, and one line, `N passed, N failed`.
#
# A step counts the tests that its runner reports; a step without a runner counts as one test. A step that hangs is
# ended after STEP_SECONDS, and has failed.
set -uo pipefail
cd "$(dirname "$0")/.."

limit=${STEP_SECONDS:-900}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 table= child=
# What runs has a process group of its own; it ends with this.
trap '[[ -z $child ]] || kill $child; exit 130' INT TERM

sum() { awk -v at="$1" '/^test result: /{ gsub(";", ""); n += $at } END { print n + 0 }' "$log"; }

for step in "$@"; do
    echo "== make $step"
    began=$(date +%s)
    exec {out}> >(tee "$log")
    tee=$!
    timeout --kill-after=10 "$limit" make "$step" >&$out 2>&1 &
    child=$!
    wait $child
    code=$?
    if [[ $code -eq 124 ]]; then echo "make $step did not end within $limit s" >&$out; fi
    exec {out}>&-
    wait $tee
    took=$(($(date +%s) - began))

    # Of cargo's test runners: `test result: ok. 12 passed; 0 failed; …`.
    good=$(sum 4) bad=$(sum 6)
    # Of the fuzzer: a heading for each target, and its last word if it found nothing.
    targets=$(grep -c '^== .* s$' "$log")
    if [[ $targets -gt 0 ]]; then
        good=$(grep -c '^stat::number_of_executed_units' "$log")
        bad=$((targets - good))
    fi
    # What broke without a test that says so is a failure all the same.
    if [[ $code -ne 0 && $bad -eq 0 ]]; then bad=1; fi
    if [[ $code -eq 0 && $((good + bad)) -eq 0 ]]; then good=1; fi

    passed=$((passed + good)) failed=$((failed + bad))
    table+=$(printf '%-8s %5d s %6d passed %4d failed' "$step" "$took" "$good" "$bad")$'\n'
done

printf '\n%s\n%d passed, %d failed\n' "$table" "$passed" "$failed"
[[ $failed -eq 0 ]]

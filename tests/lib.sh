# lib.sh: counting and saying results; for tests/run.sh, tests/one.sh and .ci/run. Each result is one line; the last says the sums.
#
# Expects $LOGS, a directory for what failed tests printed.

passed=0
failed=0
skipped=0

pass() {
  passed=$((passed + 1))
  printf 'ok    %s\n' "$1"
}

skip() {  # NAME REASON
  skipped=$((skipped + 1))
  printf 'skip  %s (%s)\n' "$1" "$2"
}

fail() {  # NAME [LOG]: the end of the log is shown
  failed=$((failed + 1))
  printf 'FAIL  %s\n' "$1"
  if [ -n "${2:-}" ] && [ -s "$2" ]; then
    tail -n 40 "$2" | sed 's/^/      | /'
  fi
}

# check NAME COMMAND...: passes when the command does; exit status 77 skips, the last line of its output is the reason
check() {
  check_name=$1
  check_log=$LOGS/$(echo "$1" | tr '/: ' '___').log
  shift
  check_status=0
  "$@" > "$check_log" 2>&1 < /dev/null || check_status=$?
  case $check_status in
    0) pass "$check_name" ;;
    77) skip "$check_name" "$(tail -n 1 "$check_log")" ;;
    *) fail "$check_name" "$check_log" ;;
  esac
}

# cmocka_program PATH: each test of the program is one line. A line `skipped: REASON` may stand before a skipped one.
cmocka_program() {
  program=$(basename "$1")
  log=$LOGS/$program.log
  status=0
  CMOCKA_MESSAGE_OUTPUT=TAP timeout "${TESTS_LONG:+1}1200" "$1" > "$log" 2> "$log.err" < /dev/null || status=$?
  planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$log" | tail -n 1)
  cat "$log.err" >> "$log"
  seen=0
  bad=""
  reason="the test says so"
  while read -r line; do
    name=$(echo "$line" | sed 's/^not //; s/^ok [0-9]* *//; s/^- //; s/^# [Ss][Kk][Ii][Pp] *//')
    case $line in
      "skipped: "*)
        reason=${line#skipped: }
        continue
        ;;
      *"# SKIP"* | *"# skip"*) skip "$program $name" "$reason" ;;
      ok*) pass "$program $name" ;;
      *)
        fail "$program $name" "${bad:-$log}"  # what the program said is shown once
        bad=/dev/null
        ;;
    esac
    seen=$((seen + 1))
  done << END
$(grep -E '^(not )?ok [0-9]+|^skipped: ' "$log")
END
  if [ "$status" != 0 ] && [ -z "$bad" ] || [ -z "$planned" ] || [ "$planned" != "$seen" ]; then
    fail "$program: status $status after $seen of ${planned:-?} tests" "$log"
  fi
}

# take FILE: adds the sums on its last line; fails where it has none
take() {
  take_sums=$(tail -n 1 "$1" 2> /dev/null | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p')
  [ -n "$take_sums" ] || return 1
  passed=$((passed + ${take_sums%% *}))
  failed=$((failed + $(echo "$take_sums" | cut -d ' ' -f 2)))
  skipped=$((skipped + ${take_sums##* }))
}

summary() {
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" = 0 ]
}

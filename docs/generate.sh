#!/bin/sh
# generate.sh: makes the reference pages that are lists from the .def files; --check compares instead, for CI.
#
# A .def file is comments and one entry a line: MACRO(argument, ...) with an optional comment behind it. The comment at
# the top introduces the page; a comment between entries becomes the text above the table of those that follow.
set -eu
cd "$(dirname "$0")/.."

# page FILE.def TITLE 'HEADER | CELLS' 'awk expression of one row over a[1], a[2], ... and note'
page() {
  awk -v file="$1" -v title="$2" -v header="$3" '
    # Cuts the arguments of an entry into a[]; commas in quotes do not count. What follows the entry is the note.
    function cut(line,    i, c, quoted, depth, n) {
      split("", a); n = 1; a[1] = ""; note = ""
      for (i = index(line, "(") + 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (c == "\"") quoted = !quoted
        else if (!quoted && c == "(") depth++
        else if (!quoted && c == ")" && depth-- == 0) break
        if (c == "," && !quoted && depth == 0) { n++; a[n] = ""; continue }
        if (c != "\"") a[n] = a[n] c
      }
      for (c in a) { gsub(/^[ \t\047]+|[ \t\047]+$/, "", a[c]); gsub(/\|/, "\\|", a[c]) }
      note = substr(line, i + 1)
      sub(/^[ \t]*(\/\/)?[ \t]*/, "", note); gsub(/\|/, "\\|", note)
    }
    function operands(least, most) { return most < 0 ? least " or more" : least == most ? least : least " to " most }
    function named(rule, prefix) { sub("^" prefix, "", rule); gsub(/_/, " ", rule); return rule }
    function class(letter) {
      return letter == "R" ? "real" : letter == "I" ? "integer" : letter == "=" ? "that of its operand" : \
             letter == "P" ? "that of its port" : ""
    }
    function say() { if (text != "") print "\n" text; text = "" }
    function programs(set) {
      if (set ~ /TRAIN.*DECODE/) return "training, decoding"
      return set == "TRAIN" ? "training" : set == "DECODE" ? "decoding" : set == "REFRESH" ? "refresh" : set == "EACH" ? "all but refresh" : "all"
    }
    function properties(set) { gsub(/ *\\\| */, ", ", set); return set == "NONE" ? "" : tolower(set) }
    # Those that may be unset with a question mark.
    function attributes(set,    may) {
      if (match(set, /MAY\([^)]*\)/)) {
        may = substr(set, RSTART + 4, RLENGTH - 5)
        gsub(/[A-Z0-9]+/, "&?", may)
        set = substr(set, 1, RSTART - 1) may
      }
      return properties(set)
    }
    function facts(set) { gsub(/ *\\\| */, ", ", set); return set == "NOTHING" ? "" : tolower(set) }
    function rule(    line) { line = header; gsub(/[^|]+/, "---", line); return line }
    BEGIN {
      print "# " title "\n\nMade from `" file "` by `docs/generate.sh`; change that file, not this one."
    }
    FNR == 1 {
      sub(/^\/\/ [^ ]+: /, "")
      $0 = "// " toupper(substr($0, 1, 1)) substr($0, 2)
    }
    /^[ \t]*$/ { say(); next }
    /^\/\// {
      line = $0; sub(/^\/\/ ?/, "", line)
      if (line == "") { say(); next }
      text = text (text == "" ? "" : "\n") line; table = 0; next
    }
    /^[A-Z_]+\(/ {
      if (text != "") { say(); table = 0 }
      if (!table) { print "\n| " header " |\n|" rule() "|"; table = 1 }
      cut($0)
      print "| " '"$4"' " |"; next
    }
    END { say() }
  ' "$1"
}

# shellcheck disable=SC2016  # what stands in single quotes is awk
pages() {
  page compiler/ir/ops.def "Operations" "op | operands | attributes | gradient | cost | properties" \
    '"`" a[2] "` | " operands(a[3], a[4]) " | " attributes(a[11]) " | " (a[6] == "gradient_none" ? "none" : "yes") " | " named(a[7], "cost_") " | " properties(a[12])' \
    > "$1/ops.md"
  echo >> "$1/ops.md"
  page compiler/ir/properties.def "Properties" "property | says of an operation" 'tolower(a[1]) " | " a[3]' >> "$1/ops.md"
  page compiler/ir/kernel.def "Instructions of fused kernels" "instruction | operands | takes | gives | notes" \
    '"`" a[2] "` | " a[3] " | " class(a[4]) " | " class(a[5]) " | " note' > "$1/kernel_ops.md"
  page base/errors.def "Error codes" "code | stands for" 'a[1] " | " a[2]' > "$1/errors.md"
  if [ -f compiler/pass/passes.def ]; then
    page compiler/pass/passes.def "Passes, in order" "pass | programs | needs | gives | what it does" \
      '"`" a[1] "` | " programs(a[3]) " | " facts(a[4]) " | " facts(a[5]) " | " a[6]' > "$1/passes.md"
    echo >> "$1/passes.md"
    page compiler/pass/facts.def "Facts" "fact | looked at after every pass | what is then so" 'tolower(a[1]) " | " (a[2] == "NULL" ? "" : "yes") " | " a[3]' >> "$1/passes.md"
  fi
}

case "${1:-}" in
  "")
    pages docs
    ;;
  --check)
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh"' EXIT
    pages "$fresh"
    for made in "$fresh"/*.md; do
      if ! diff -u "docs/$(basename "$made")" "$made"; then
        echo "docs/$(basename "$made") is not what docs/generate.sh makes: run it" >&2
        exit 1
      fi
    done
    ;;
  *)
    echo "usage: docs/generate.sh [--check]" >&2
    exit 2
    ;;
esac

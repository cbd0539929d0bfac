#!/bin/bash
# pages.sh: completions and manual pages have every command and option of the help texts; a real bash completes.
. "${ROOT:?}/tests/cli/lib.sh"

# options HELP...: the long options that a help text lists
options() {
  sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z-]*\).*/\2/p' "$@" | sort -u
}

for program in "$MDL" "$MDLC"; do
  name=$(basename "$program")
  for form in bash zsh fish; do
    "$program" help --completions $form > "$name.$form"
  done
  "$program" help --man > "$name.1"
  commands=$("$program" help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -v '^help$')
  [ "$(echo "$commands" | wc -w)" -ge 5 ] || die "$name help lists no commands"
  for command in $commands; do
    inner=$command
    [ "$command" != data ] || inner="data_encode data_train-tokenizer"
    for one in $inner; do
      "$program" ${one/_/ } --help > help.txt
      mentions "$name.zsh" "'${one/_/ }')"
      mentions "$name.fish" "-a ${one#*_} "
      # Of this command's own part in bash, zsh and the page; in fish each line names the command.
      awk -v at="    '${one/_/ }')" '$0 == at {on = 1; next} on && /^    \047/ {exit} on' "$name.bash" > part.bash
      awk -v at="    '${one/_/ }')" '$0 == at {on = 1; next} on && /^    \047/ {exit} on' "$name.zsh" > part.zsh
      grep "__fish_seen_subcommand_from ${one#*_}'" "$name.fish" > part.fish || true
      awk -v at="${one/_/ }" '/^\.S/ {gsub(/\\/, ""); gsub(/"/, ""); on = $0 == ".SS " at} on' "$name.1" > part.1
      [ -s part.bash ] && [ -s part.zsh ] && [ -s part.1 ] || die "$name ${one/_/ } is missing"
      for option in $(options help.txt); do
        mentions part.bash "$option"
        mentions part.zsh "$option"
        mentions part.fish "-l ${option#--} "
        mentions part.1 "${option//-/\\-}"
      done
    done
  done
done

# The pages as their formatters see them.
if command -v man > /dev/null && command -v groff > /dev/null; then
  for page in mdl.1 mdlc.1; do
    LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" > shown.txt 2> warnings.txt
    [ ! -s warnings.txt ] || { cat warnings.txt >&2; die "man warns of $page"; }
    grep -q 'EXIT STATUS' shown.txt
  done
fi
if command -v mandoc > /dev/null; then
  mandoc -T lint -W warning mdl.1 mdlc.1
fi
if command -v zsh > /dev/null; then zsh -n mdl.zsh && zsh -n mdlc.zsh; fi
if command -v fish > /dev/null; then fish -n mdl.fish && fish -n mdlc.fish; fi

# completes LINE WORD...: what bash offers at the end of the line. As readline does, a = is a word of its own.
touch text.mdl
mkdir folder
cat > complete.sh << 'END'
. ./mdl.bash
. ./mdlc.bash
read -r -a words <<< "${1//=/ = }"
[ "${1% }" = "$1" ] || words+=("")
COMP_WORDS=("${words[@]}")
COMP_CWORD=$((${#words[@]} - 1))
"_${words[0]}"
printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd ' '
END
completes() {
  local line=$1
  shift
  same "completion of '$line'" "$(bash complete.sh "$line")" "$*"
}
completes 'mdl tr' train
completes 'mdlc ' --help --version check compile explain fmt help lsp print
completes 'mdl train --dev' --device
completes 'mdl train text.mdl --device ' auto cpu cuda
completes 'mdl train text.mdl --device=cu' cuda
completes 'mdl train text.mdl --steps ' ''
completes 'mdl train te' text.mdl
completes 'mdl train text.mdl --out fol' folder
completes 'mdl train text.mdl -o fol' folder
completes 'mdl train --out te' ''
completes 'mdl data ' --help encode train-tokenizer
completes 'mdl data encode --ty' --type
completes 'mdl data encode --type ' u16 u32
completes 'mdl help ge' generate
completes 'mdl help --completions ' bash fish zsh
completes 'mdlc fmt --che' --check

# Wrong words are usage errors.
expect 2 "$MDL" help --completions tcsh
mentions err bash zsh fish
expect 2 "$MDL" help --completions
expect 2 "$MDLC" help --mann

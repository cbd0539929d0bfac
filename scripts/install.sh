#!/bin/sh
# install.sh: installs the packages of the given groups that are missing, on Debian 12, Ubuntu 24.04 and their kin.
#
#   scripts/install.sh [build] [test] [check] [corpus]
#
#   build   what building and training need         test    what tests/run.sh needs besides
#   check   what .ci/run needs besides              corpus  a public-domain English text, for examples/quickstart.sh
#
# Does nothing, and asks for no password, when everything is there.
set -eu

missing=""

# need PACKAGE COMMAND...: the package unless the command succeeds
need() {
  package=$1
  shift
  if ! "$@" > /dev/null 2>&1; then
    missing="$missing $package"
  fi
}

wished=""

# wish PACKAGE COMMAND...: the same of one without which something is left out
wish() {
  package=$1
  shift
  if ! "$@" > /dev/null 2>&1; then
    wished="$wished $package"
  fi
}

library() {  # a shared library that is loaded while running
  ldconfig -p 2> /dev/null | grep -q "$1" || /sbin/ldconfig -p | grep -q "$1"
}

for group in "$@"; do
  case $group in
    build)
      need build-essential sh -c 'cc --version && make --version'
      need cmake cmake --version
      need pkg-config pkg-config --version
      need libjansson-dev pkg-config --exists jansson
      need libxxhash-dev pkg-config --exists libxxhash
      need libpcre2-dev pkg-config --exists libpcre2-8
      wish zlib1g-dev pkg-config --exists zlib
      wish libzstd-dev pkg-config --exists libzstd
      wish liblzma-dev pkg-config --exists liblzma
      wish libutf8proc-dev pkg-config --exists libutf8proc
      need libopenblas0-pthread library libopenblas.so.0
      ;;
    test)
      need libcmocka-dev pkg-config --exists cmocka
      need time test -x /usr/bin/time
      wish strace strace --version
      ;;
    check)
      need clang clang --version
      need clang-format clang-format --version
      need clang-tidy clang-tidy --version
      need re2c re2c --version
      need bison bison --version
      ;;
    corpus)
      need bible-kjv sh -c 'command -v bible'
      need bible-kjv-text test -e /usr/lib/bible.data
      ;;
    *)
      echo "install.sh: there is no group of packages '$group'" >&2
      exit 2
      ;;
  esac
done

if [ -z "$missing$wished" ]; then
  exit 0
fi
if ! command -v apt-get > /dev/null; then
  echo "install.sh: please install what Debian calls:$missing$wished" >&2
  [ -z "$missing" ] && exit 0 || exit 1
fi
root=""
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "install.sh: not root and no sudo; please install:$missing$wished" >&2
    [ -z "$missing" ] && exit 0 || exit 1
  fi
  root="sudo"
fi

# packages NAME...
packages() {
  # shellcheck disable=SC2086  # words on purpose
  $root env DEBIAN_FRONTEND=noninteractive apt-get -y -qq --no-install-recommends install "$@" > /dev/null
}

echo "installing:$missing$wished"
# shellcheck disable=SC2086  # words on purpose
if ! packages $missing $wished 2> /dev/null; then
  $root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
  [ -z "$missing" ] || packages $missing
  [ -z "$wished" ] || packages $wished || echo "install.sh: without:$wished" >&2
fi

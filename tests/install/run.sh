#!/bin/bash
# run.sh: what `cmake --install` puts into a prefix works after the prefix was moved: pkg-config, find_package, programs,
# completions, manual pages.
. "${ROOT:?}/tests/cli/lib.sh"
for tool in cmake pkg-config cc; do
  command -v $tool > /dev/null || { echo "there is no $tool to install or compile with"; exit 77; }
done
[ -e "$BUILD/pages/mdl.1" ] || { echo "$BUILD was not built as a whole: there are no pages to install"; exit 77; }

cmake --install "$BUILD" --prefix "$WORK/first" > install.log
mv first moved
P=$WORK/moved
pc=$(find "$P" -name mdl.pc)
export PKG_CONFIG_PATH=${pc%/*}
LIB=$(cd "$PKG_CONFIG_PATH/.." && pwd)

# The shared library shows what mdl.h declares, and nothing else.
nm -D --defined-only "$LIB/libmdl.so" | sed 's/.* //' | sort > shown
grep -v '^mdl_' shown && die "the shared library shows symbols that mdl.h does not declare"
sed -n 's/.*[ *]\(mdl_[a-z_]*\)(.*/\1/p' "$P/include/mdl.h" | sort -u | comm -23 - shown > missing
[ ! -s missing ] || die "the shared library lacks $(tr '\n' ' ' < missing)"

# The example of the C interface: through pkg-config, and through CMake with either library.
mentions "$ROOT/docs/api.md" 'examples/api.c'
cp "$ROOT/examples/api.c" .
cc -std=c11 -Wall -Wextra -Werror api.c $(pkg-config --cflags --libs mdl) -lm -Wl,-rpath,"$LIB" -o by_pkgconfig
mkdir project
cp api.c project/
cat > project/CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.22)
project(user C)
find_package(mdl 0.1 REQUIRED)
foreach(kind mdl static)
  add_executable(by_${kind} api.c)
  target_link_libraries(by_${kind} PRIVATE mdl::${kind} m)
endforeach()
END
cmake -S project -B project/build -DCMAKE_PREFIX_PATH="$P" > cmake.log
cmake --build project/build > build.log
for program in ./by_pkgconfig project/build/by_mdl project/build/by_static; do
  rm -rf runs
  expect 0 $program "$ROOT/LICENSE"
  mentions out 'step 1 of 5: loss 5.' 'head.w [embed 32, vocab 256]' 'runs/bigram-1 is at step 5'
  cp out "$(basename $program).out"
done
same "the libraries" "$(cat by_mdl.out)" "$(cat by_static.out)"
ldd project/build/by_static | grep libmdl && die "mdl::static is the shared library"
ldd project/build/by_mdl | grep "$LIB/libmdl.so.0" > /dev/null || die "mdl::mdl is not that of the prefix"

# The same in C++ sees the header.
if command -v c++ > /dev/null; then
  printf '#include <mdl.h>\n#include <cstdio>\nint main() { std::puts(mdl_version()); }\n' > version.cc
  c++ version.cc $(pkg-config --cflags --libs mdl) -Wl,-rpath,"$LIB" -o version
  [ "$(./version)" = "$(pkg-config --modversion mdl)" ] || die "the version is not that of mdl.pc"
fi

# Programs have the library of texts inside. No path of the sources is left in them but in debugging information.
mkdir elsewhere
(cd elsewhere && env -i PATH=/usr/bin:/bin "$P/bin/mdlc" compile "$P/share/mdl/models/gpt2.mdl" --recipe tiny -o gpt2.mdlx > ../compiled)
[ -s elsewhere/gpt2.mdlx ] || die "the installed mdlc compiles no model"
for program in mdl mdlc; do
  strip -o bare "$P/bin/$program"
  if grep -qF "$ROOT/" bare; then die "$program knows where its sources were"; fi
done
expect 0 "$P/bin/mdl" --version
cmp "$ROOT/stdlib/nn.mdl" "$P/share/mdl/stdlib/nn.mdl"

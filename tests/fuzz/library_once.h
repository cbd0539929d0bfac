// library_once.h: the standard library is parsed once for a process, not for each text that imports it.
#ifndef MDL_TESTS_FUZZ_LIBRARY_ONCE_H
#define MDL_TESTS_FUZZ_LIBRARY_ONCE_H

#include "base/names.h"

// Until the next call, files of the library that are parsed with this table of names are those that were parsed before,
// and names that the library has are the library's. NULL: as if there were none of this. The linker wraps parse_file
// and what makes names (tests/CMakeLists.txt).
void library_once(const Names *names);

#endif

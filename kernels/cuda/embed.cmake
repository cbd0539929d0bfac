# embed.cmake: writes the files of kernels/cuda/text/ as C strings, cuda_text_NAME. Called by the build with OUT and FILES.
set(text "// Generated from kernels/cuda/text/*.cu by kernels/cuda/embed.cmake.\n#include \"kernels/cuda/embedded.h\"\n\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND text "const char cuda_text_${name}[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUT} "${text}")

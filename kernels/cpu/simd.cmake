# simd.cmake: compiles kernels/cpu/simd_*.c once for each instruction set, and those on reals for f32 and f64.
set(MDL_SIMD_ISAS base)
set(MDL_SIMD_base "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND MDL_SIMD_ISAS avx2 avx512)
  set(MDL_SIMD_avx2 -mavx2 -mfma -mbmi2)
  set(MDL_SIMD_avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mbmi2 -mprefer-vector-width=512)
endif()
set(MDL_SIMD_INTEGER kernels/cpu/simd_integer.c)
set(MDL_SIMD_REAL kernels/cpu/simd_elementwise.c kernels/cpu/simd_reduce.c kernels/cpu/simd_random.c
  kernels/cpu/simd_attention.c kernels/cpu/simd_product.c)
# No -ffast-math: NaN and infinity keep their meaning, and sums keep their order.
set(MDL_SIMD_FLAGS $<IF:$<CONFIG:Debug>,-O0,-O3> -fno-math-errno -fno-trapping-math -ffp-contract=fast)
if(CMAKE_C_COMPILER_ID MATCHES Clang)
  list(APPEND MDL_SIMD_FLAGS -Wno-pass-failed)  # a loop of library calls stays scalar
endif()
if(MDL_FUZZ)  # with it clang takes minutes for each file
  list(APPEND MDL_SIMD_FLAGS -fno-sanitize=undefined)
endif()

function(mdl_simd_object name isa sources)
  add_library(${name} OBJECT ${sources})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${MDL_SIMD_FLAGS} ${MDL_SIMD_${isa}})
  target_compile_definitions(${name} PRIVATE SIMD_ISA=${isa} ${ARGN})
  target_sources(libmdl PRIVATE $<TARGET_OBJECTS:${name}>)
endfunction()

foreach(isa IN LISTS MDL_SIMD_ISAS)
  mdl_simd_object(simd_integer_${isa} ${isa} "${MDL_SIMD_INTEGER}")
  foreach(bits 32 64)
    mdl_simd_object(simd_real${bits}_${isa} ${isa} "${MDL_SIMD_REAL}" SIMD_REAL_BITS=${bits})
  endforeach()
endforeach()

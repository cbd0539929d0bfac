# install.cmake: the shared library, and what `cmake --install` puts where.
#
#   bin/            mdl, mdlc                      include/mdl.h
#   lib/            libmdl.a, libmdl.so            lib/pkgconfig/mdl.pc, lib/cmake/mdl/
#   share/mdl/      the texts of stdlib/ (the programs have them inside) and models/
#   share/man/man1/, share/bash-completion/completions/, share/zsh/site-functions/, share/fish/vendor_completions.d/
#
# Nothing of it knows the prefix: the tree can be moved.
include(GNUInstallDirs)

# All of the archive as one file, for other languages. It shows the symbols of mdl.h alone.
add_library(libmdl_shared SHARED runtime/mdl.h)
set_target_properties(libmdl_shared PROPERTIES OUTPUT_NAME mdl VERSION ${PROJECT_VERSION} SOVERSION 0 LINKER_LANGUAGE C
  LINK_DEPENDS $<TARGET_FILE:libmdl>)
add_dependencies(libmdl_shared libmdl)
get_target_property(MDL_LIBRARIES libmdl INTERFACE_LINK_LIBRARIES)
target_link_libraries(libmdl_shared PRIVATE
  -Wl,--whole-archive $<TARGET_FILE:libmdl> -Wl,--no-whole-archive ${MDL_LIBRARIES})

# Completions and manual pages come from the tables of options in the programs.
set(MDL_PAGES ${CMAKE_BINARY_DIR}/pages)
file(MAKE_DIRECTORY ${MDL_PAGES})
foreach(program mdl mdlc)
  foreach(page "bash:--completions bash" "zsh:--completions zsh" "fish:--completions fish" "1:--man")
    string(REGEX REPLACE ":.*" "" ending ${page})
    string(REGEX REPLACE "^[^:]*:" "" words ${page})
    separate_arguments(words)
    set(file ${MDL_PAGES}/${program}.${ending})
    add_custom_command(OUTPUT ${file} COMMAND ${program} help ${words} > ${file} DEPENDS ${program} VERBATIM)
    list(APPEND MDL_PAGE_FILES ${file})
  endforeach()
endforeach()
add_custom_target(pages ALL DEPENDS ${MDL_PAGE_FILES})

# Files with which other builds find this one.
set(MDL_PKGCONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(MDL_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/mdl)
file(RELATIVE_PATH MDL_PKGCONFIG_TO_PREFIX /${MDL_PKGCONFIG_DIR} /)
file(RELATIVE_PATH MDL_CMAKE_TO_PREFIX /${MDL_CMAKE_DIR} /)
set(MDL_REQUIRES "jansson libxxhash")
set(MDL_STATIC_LIBRARIES "jansson;xxhash")
if(UTF8PROC_FOUND)
  string(APPEND MDL_REQUIRES " libutf8proc")
  list(APPEND MDL_STATIC_LIBRARIES utf8proc)
endif()
if(PCRE2_FOUND)
  string(APPEND MDL_REQUIRES " libpcre2-8")
  list(APPEND MDL_STATIC_LIBRARIES pcre2-8)
endif()
foreach(library ZLIB ZSTD LZMA)
  if(${library}_FOUND)
    string(APPEND MDL_REQUIRES " ${${library}_MODULE_NAME}")
    list(APPEND MDL_STATIC_LIBRARIES ${${library}_LIBRARIES})
  endif()
endforeach()
configure_file(cmake/mdl.pc.in mdl.pc @ONLY)
configure_file(cmake/mdlConfig.cmake.in mdlConfig.cmake @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/mdlConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS mdl mdlc libmdl libmdl_shared
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES runtime/mdl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/mdl.pc DESTINATION ${MDL_PKGCONFIG_DIR})
install(FILES ${CMAKE_BINARY_DIR}/mdlConfig.cmake ${CMAKE_BINARY_DIR}/mdlConfigVersion.cmake
  DESTINATION ${MDL_CMAKE_DIR})
install(DIRECTORY stdlib models DESTINATION ${CMAKE_INSTALL_DATADIR}/mdl FILES_MATCHING PATTERN "*.mdl" PATTERN "*.hf" PATTERN "*.peft")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(program mdl mdlc)
  install(FILES ${MDL_PAGES}/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${MDL_PAGES}/${program}.bash RENAME ${program}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${MDL_PAGES}/${program}.zsh RENAME _${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${MDL_PAGES}/${program}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()

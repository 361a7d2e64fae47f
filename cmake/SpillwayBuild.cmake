# The build's few words: spillway_library, spillway_program, spillway_test. Everything else is plain CMake.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(SPILLWAY_BUILD_TESTS "Build the tests" ON)
option(SPILLWAY_WITH_GRPC "Build what links gRPC (off: the sanitizer trees of the pure parts)" ON)
option(SPILLWAY_FUZZ "Build the libFuzzer programs of tests/fuzz (clang)" OFF)
set(SPILLWAY_SANITIZE "" CACHE STRING "address,undefined or thread")

# -O2 without NDEBUG: assertions stay on in production.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")

find_program(CCACHE ccache)
if(CCACHE)
  # The source folder is made relative and the current folder left out, so that every clone shares the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(Protobuf MODULE REQUIRED)
if(SPILLWAY_WITH_GRPC)
  find_package(gRPC CONFIG REQUIRED)
endif()
find_package(PkgConfig REQUIRED)

add_library(spillway_options INTERFACE)
target_include_directories(spillway_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(spillway_options INTERFACE -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(spillway_options INTERFACE -Wthread-safety)
else()
  # GCC 12 reports these falsely inside libstdc++ at -O2.
  target_compile_options(spillway_options INTERFACE -Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overread -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(SPILLWAY_SANITIZE)
  # -O1: a third less time to compile, and better traces.
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")
  target_compile_options(spillway_options INTERFACE -fsanitize=${SPILLWAY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(spillway_options INTERFACE -fsanitize=${SPILLWAY_SANITIZE})
endif()
if(SPILLWAY_FUZZ)
  target_compile_options(spillway_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# spillway_library(NAME [UNITY] SOURCES a.cc ... DEPS x y): a static library; DEPS are public.
# UNITY compiles six files at a time: it pays where small files stand behind the same large headers.
function(spillway_library name)
  cmake_parse_arguments(ARG "UNITY" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(ARG_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE spillway_options)
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
endfunction()

# spillway_program(NAME SOURCES a.cc DEPS x y): build/bin/NAME, and part of the target `programs`.
function(spillway_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} spillway_options)
  set_property(GLOBAL APPEND PROPERTY SPILLWAY_PROGRAMS ${name})
endfunction()

# spillway_test(NAME [APART] SOURCES a_test.cc ... DEPS x y [LABELS l] [ENV K=V]): one GoogleTest program a folder, one ctest entry a program.
# Its files are compiled as one, since most of a test file's time goes into the same headers; APART where the files' own names would clash.
function(spillway_test name)
  cmake_parse_arguments(ARG "APART" "TIMEOUT" "SOURCES;DEPS;LABELS;ENV" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  list(LENGTH ARG_SOURCES count)
  if(count GREATER 1 AND NOT ARG_APART)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} spillway_options GTest::gmock GTest::gtest GTest::gtest_main)
  if(NOT SPILLWAY_SANITIZE)
    # Half the time to compile. What is tested keeps its -O2.
    target_compile_options(${name} PRIVATE -Og)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  # `pure` tests link no gRPC and start no programs of ours that do: the sanitized trees build and run these.
  if(NOT "${ARG_DEPS}" MATCHES "spillway_grpc|spillway_rpc|spillway_client(;|$)" AND NOT "e2e" IN_LIST ARG_LABELS)
    list(APPEND ARG_LABELS pure)
    set_property(GLOBAL APPEND PROPERTY SPILLWAY_PURE_TESTS ${name})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "SPILLWAY_BIN=${CMAKE_BINARY_DIR}/bin;SPILLWAY_SOURCE=${CMAKE_SOURCE_DIR};${ARG_ENV}")
endfunction()

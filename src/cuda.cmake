# Decides whether the CUDA backend is built. Sets EXP_HAVE_CUDA, EXP_CUDNN_INCLUDE and
# EXP_CUDNN_FRONTEND_INCLUDE. The result needs no CUDA to start: the CUDA runtime is linked
# statically, the driver and cuDNN are opened when the backend is asked for (docs/cuda.md).
set(EXP_HAVE_CUDA OFF)

# EXP_CUDA=ON makes a missing part an error, AUTO only says that the backend is left out.
function(_exp_cuda_left_out why)
  if(EXP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "EXP_CUDA=ON, but ${why}")
  endif()
  message(STATUS "CUDA backend: left out, ${why}")
endfunction()

# "75;80;90" -> "75-real;80-real;90": machine code for each, and PTX of the newest for later cards.
function(_exp_cuda_architectures out)
  set(result "")
  set(list ${EXP_CUDA_ARCHITECTURES})
  list(SORT list COMPARE NATURAL)
  list(LENGTH list count)
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    list(GET list ${i} arch)
    if(i LESS last AND arch MATCHES "^[0-9]+[a-f]?$")
      string(APPEND arch "-real")
    endif()
    list(APPEND result ${arch})
  endforeach()
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

if(EXP_CUDA STREQUAL "OFF")
  message(STATUS "CUDA backend: left out, EXP_CUDA is OFF")
  return()
endif()

_exp_cuda_architectures(CMAKE_CUDA_ARCHITECTURES)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(EXP_NVCC nvcc HINTS /usr/local/cuda/bin /opt/cuda/bin)
  if(EXP_NVCC)
    set(CMAKE_CUDA_COMPILER ${EXP_NVCC})
  endif()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  _exp_cuda_left_out("no CUDA compiler was found (nvcc is not on PATH nor in /usr/local/cuda/bin)")
  return()
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
# CMake before 3.26 doesn't know that nvcc 12 and newer speak C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit REQUIRED)

find_path(EXP_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDNN_PATH
          PATH_SUFFIXES include)
if(NOT EXP_CUDNN_INCLUDE)
  _exp_cuda_left_out("no cuDNN headers were found (cudnn.h; set EXP_CUDNN_INCLUDE)")
  return()
endif()

# cudnn-frontend is header-only; examples/install_cudnn_frontend.sh takes it from its PyPI wheel.
find_path(EXP_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
          HINTS ${CMAKE_SOURCE_DIR}/third_party/cudnn-frontend/include
                $ENV{HOME}/.cache/exp/cudnn-frontend/include)
if(NOT EXP_CUDNN_FRONTEND_INCLUDE)
  _exp_cuda_left_out("no cudnn-frontend headers were found (run examples/install_cudnn_frontend.sh)")
  return()
endif()

set(EXP_HAVE_CUDA ON)
message(STATUS "CUDA backend: nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}, "
               "cuDNN headers in ${EXP_CUDNN_INCLUDE}, "
               "cudnn-frontend in ${EXP_CUDNN_FRONTEND_INCLUDE}")

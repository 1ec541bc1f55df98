// Runs a measurement and turns what it throws into the row's status; private to src/bench.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "exp/base/error.h"
#include "exp/bench/row.h"

namespace xp::bench {

template <class Body>
void Guarded(Row* row, Body body) {
  try {
    body();
  } catch (const Error& e) {
    const std::string& what = e.text().what;
    bool memory = what.starts_with("mem lim") || what.starts_with("the GPU is full");
    row->status = memory ? Status::kMemoryLimit : Status::kFailed;
    row->reason = what;
  } catch (const std::bad_alloc&) {
    row->status = Status::kMemoryLimit;
    row->reason = "mem lim: the system gave no more memory";
  } catch (const std::exception& e) {
    row->status = Status::kFailed;
    row->reason = e.what();
  }
}

}  // namespace xp::bench

// Runs a measurement and turns what it throws into the row's status, but for an interruption. The
// row gets the time of its end. Private to src/bench.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "exp/base/error.h"
#include "exp/base/stop.h"
#include "exp/bench/row.h"
#include "src/bench/time_bound.h"

namespace xp::bench {

template <class Body>
void Guarded(Row* row, Body body) {
  try {
    body();
  } catch (const TimeLimit& e) {
    row->status = Status::kTimeLimit;
    row->milliseconds = e.step() * 1e3;
    row->reason = e.text().what;
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kInterrupted) throw;
    constexpr std::string_view kLimit = "mem lim: ";
    const std::string& what = e.text().what;
    bool memory = what.starts_with(kLimit) || what.starts_with("the GPU is full");
    row->status = memory ? Status::kMemoryLimit : Status::kFailed;
    // Which file or device failed is half of the reason; what is full is the case's own device.
    row->reason = what.starts_with(kLimit)           ? what.substr(kLimit.size())
                  : memory || e.text().where.empty() ? what
                                                     : e.text().where + ": " + what;
  } catch (const std::bad_alloc&) {
    row->status = Status::kMemoryLimit;
    row->reason = "the system gave no more memory";
  } catch (const std::exception& e) {
    row->status = Status::kFailed;
    row->reason = e.what();
  }
  row->measured_ns = NowNs();
}

}  // namespace xp::bench

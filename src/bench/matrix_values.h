// Values and lists of a matrix file, with what they may be; private to src/bench. All throw
// UsageError with file:line:column, of the one value in a list that is wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exp/config/reader.h"

namespace xp::bench {

// A list, or one value. Values that stand twice count once. No list is empty.
std::vector<int> Numbers(const config::Reader& r, const char* key, std::vector<int64_t> fallback,
                         int64_t most, int64_t least = 1);
std::vector<bool> Switches(const config::Reader& r, const char* key, std::vector<bool> fallback);
// What is wrong with a value, and what was expected; an empty first: nothing.
using Verdict = std::pair<std::string, std::string>;
std::vector<std::string> Words(const config::Reader& r, const char* key,
                               std::vector<std::string> fallback,
                               const std::function<Verdict(const std::string&)>& judge);
std::vector<std::string> Models(const config::Reader& r, std::vector<std::string> fallback,
                                bool classifiers = false);
std::vector<std::string> Precisions(const config::Reader& r, std::vector<std::string> fallback);
std::vector<std::string> Devices(const config::Reader& r, std::vector<std::string> fallback);

// One value, no list.
int Number(const config::Reader& r, const char* key, int fallback, int64_t most, int64_t least = 1);
double Seconds(const config::Reader& r, const char* key, double fallback);  // above 0, to an hour

// Throws for the first key that nothing has read, with those that may stand there.
void RequireKnownKeys(const config::Reader& r);

}  // namespace xp::bench

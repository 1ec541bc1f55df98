// Small texts that several checks need; private to src/doctor.
#pragma once

#include <string>
#include <vector>

#include "exp/doctor/finding.h"

namespace xp::doctor {

std::vector<std::string> Lines(const std::string& text);
std::vector<std::string> Words(const std::string& text);
std::string Trimmed(const std::string& text);
// "13.0" of a text that holds "release 13.0, V13.0.88" after `mark`; empty where it doesn't.
std::string VersionAfter(const std::string& text, const std::string& mark);
std::string MajorOf(const std::string& version);  // "13" of "13.0"
// -1, 0, 1; parts are compared as numbers: 550.54.9 < 550.54.15, 12.4 == 12.4.0.
int CompareVersions(const std::string& a, const std::string& b);
std::string Gib(double bytes);  // "12.3 GiB"
// The finding with texts of a length that a person reads: what a file holds may be megabytes.
Finding Shortened(Finding finding);
// "a, b and c".
std::string Listed(const std::vector<std::string>& words);

}  // namespace xp::doctor

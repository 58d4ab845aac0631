// SPDX-License-Identifier: BSD-3-Clause
// Writes sizes, laws and subjects of a scaling report for text and HTML. All results are printable UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/scale/scale.hpp"

namespace clusterprof::report {

std::string size_text(double size);                           // "8", "1.5e+06"
std::string law_text(const Law& law);                         // "constant", "log p", "p^0.5"
std::string exponents_text(const Law& law);                   // "0.4 .. 0.6"
std::string refusal_text(Refusal refusal, const SizeOf& of);  // a sentence
std::string mode_text(const ScaleReport& report);             // a sentence
std::string tenth_text(const GrowthRow& row);                 // "64", "about 300", "-"
// Of a function, line or MPI call. `width`: columns.
std::string subject_text(DiffTable table, const GrowthRow& row, std::size_t width);
// Of a call path, its last function.
std::string subject_text(const LossRow& row, std::size_t width);
std::vector<std::string> remarks_of(const ScaleReport& report);  // what to keep in mind, a sentence each

// Callers of nearly everything, such as main(): they grow as the run does.
bool calls_all(const GrowthRow& row);

}  // namespace clusterprof::report

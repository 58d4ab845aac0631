// SPDX-License-Identifier: BSD-3-Clause
// How a time grows with the size of a run: a law fitted to several sizes. docs/scaling.md has the formulas.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace clusterprof::report {

// Fewer different sizes tell no law: a constant, a coefficient and an exponent need three.
inline constexpr std::size_t kLeastSizes = 4;

// What was measured at one size.
struct SizeSample {
  double size = 0;             // at least 1
  std::vector<double> values;  // of the runs of that size; at least one
  double variance = 0;         // of one value by counting samples; 0: it was not counted in samples
};

enum class Term : std::uint8_t { kConstant = 0, kLog, kPower, kPowerLog };
inline constexpr std::array<const char*, 4> kTermNames = {"constant", "log p", "p^a", "p log p"};
constexpr const char* name_of(Term term) { return kTermNames[static_cast<std::size_t>(term)]; }

// constant + coefficient * term(p). The coefficient is not negative. The constant is negative only if there
// is next to nothing at the smallest size; the law itself is never below 0. Logarithms are of base 2.
struct Law {
  Term term = Term::kConstant;
  double exponent = 0;  // of p in the term: 0 of a constant and of a logarithm
  double coefficient = 0, constant = 0;
  // The exponents that the measurements allow. Of a constant: those of one power of p through all of it.
  double least_exponent = 0, most_exponent = 0;

  [[nodiscard]] double at(double size) const;
};

// What a run of that size would measure, by the law, and between what limits with a probability of 95 %.
struct Prediction {
  double value = 0, low = 0, high = 0;
};

// Why there is no law.
enum class Refusal : std::uint8_t { kNone = 0, kFewSizes, kNotKnown, kLittleTime };
inline constexpr std::array<const char*, 4> kRefusalNames = {"", "few_sizes", "not_known", "little_time"};
constexpr const char* name_of(Refusal refusal) { return kRefusalNames[static_cast<std::size_t>(refusal)]; }

class FittedLaw {
 public:
  // By ascending size. There is a law from kLeastSizes sizes on, unless all values are 0.
  explicit FittedLaw(std::span<const SizeSample> samples);

  [[nodiscard]] const std::optional<Law>& law() const { return law_; }
  // Needs a law. The limits hold for every law that the measurements allow, and for a single run.
  [[nodiscard]] Prediction predict(double size) const;

 private:
  // A law that the measurements allow, with what its error is computed from.
  struct Allowed {
    Law law;
    double offset = 0;                        // subtracted from the term's values
    double sum_w = 0, sum_f = 0, sum_ff = 0;  // weights, and those values with them
  };

  std::optional<Law> law_;
  std::vector<Allowed> allowed_;
  double scale_ = 1;     // of the variances that the weights assume
  double quantile_ = 0;  // Student's
  double largest_ = 0;   // of the means
};

}  // namespace clusterprof::report

// tbb CALLS: loops of oneTBB in 16 chunks of work each. Prints, as JSON, how long the main thread was in them.
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace {

constexpr int kChunks = 16;

double work(const tbb::blocked_range<int>& range, double sum) {
  for (int i = range.begin(); i < range.end(); ++i) {
    volatile double value = i;
    for (int j = 0; j < 200'000; ++j) value = value * 1.000001 + j;
    sum += value;
  }
  return sum;
}

template <typename Loop>
double seconds(Loop&& loop) {
  const auto begin = std::chrono::steady_clock::now();
  loop();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 2);
  const int calls = argc > 1 ? std::atoi(argv[1]) : 1;
  const tbb::blocked_range<int> range(0, kChunks);
  double for_s = 0, reduce_s = 0;
  volatile double result = 0;
  for (int i = 0; i < calls; ++i) {
    for_s += seconds([&] { tbb::parallel_for(range, [](const auto& part) { work(part, 0); }); });
    reduce_s += seconds([&] { result = tbb::parallel_reduce(range, 0.0, work, std::plus<>()); });
  }
  std::printf("{\"for_s\": %.9f, \"reduce_s\": %.9f}\n", for_s, reduce_s);
}

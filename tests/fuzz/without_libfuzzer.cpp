// SPDX-License-Identifier: BSD-3-Clause
// Does what libFuzzer does, but without its guidance and with any compiler: runs the seeds and random changes
// of them.
//
//   NAME SEEDS RUNS [SEED]     exit status: 0 all good, 1 not
//
// Whole HDF5 files are run as they are, changes are those of EditedFile: what HDF5 itself makes of damage is
// for tests/faults/damaged_files to see, in processes of their own. A target's own way to change inputs is
// used where it has one.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);
extern "C" [[gnu::weak]] std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size,
                                                             std::size_t most, unsigned seed);
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* bytes, std::size_t size, std::size_t most);

namespace {

constexpr std::size_t kMaxGrowth = 4096;

using Input = std::vector<std::uint8_t>;

bool is_whole_file(const Input& input) {
  return input.size() >= 4 && std::memcmp(input.data(), "\x89HDF", 4) == 0;
}

void change(Input& input, const std::vector<Input>& others, std::mt19937_64& random) {
  const auto place = [&](const Input& of) { return static_cast<std::ptrdiff_t>(random() % (of.size() + 1)); };
  switch (random() % 6) {
    case 0:
    case 1:
      if (!input.empty()) input[random() % input.size()] = static_cast<std::uint8_t>(random());
      break;
    case 2:
      if (!input.empty()) input[random() % input.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
      break;
    case 3: {  // a number that is extreme
      const std::uint64_t number = random() % 2 == 0 ? ~std::uint64_t{0} >> random() % 64 : random() % 3;
      if (input.empty()) break;
      const std::size_t at = random() % input.size();
      std::memcpy(input.data() + at, &number, std::min<std::size_t>(input.size() - at, 1u << random() % 4));
      break;
    }
    case 4: {
      const Input& other = others[random() % others.size()];
      const std::ptrdiff_t from = place(other), to = place(input);
      const std::ptrdiff_t most =
          std::min<std::ptrdiff_t>(64, static_cast<std::ptrdiff_t>(other.size()) - from);
      input.insert(input.begin() + to, other.begin() + from, other.begin() + from + most);
      break;
    }
    default: {
      const std::ptrdiff_t at = place(input);
      const std::ptrdiff_t most =
          std::min<std::ptrdiff_t>(16, static_cast<std::ptrdiff_t>(input.size()) - at);
      input.erase(input.begin() + at, input.begin() + at + most);
      break;
    }
  }
}

std::mt19937_64 the_random;
std::vector<Input> seeds;

void change_once(Input& input) {
  if (LLVMFuzzerCustomMutator == nullptr) {
    change(input, seeds, the_random);
    return;
  }
  const std::size_t size = input.size();
  input.resize(size + kMaxGrowth);
  input.resize(
      LLVMFuzzerCustomMutator(input.data(), size, input.size(), static_cast<unsigned>(the_random())));
}

}  // namespace

// For custom mutators.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* bytes, std::size_t size, std::size_t most) {
  Input input(bytes, bytes + size);
  change(input, seeds, the_random);
  input.resize(std::min(input.size(), most));
  std::copy(input.begin(), input.end(), bytes);
  return input.size();
}

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const Input input(std::istreambuf_iterator<char>(in), {});
    LLVMFuzzerTestOneInput(input.data(), input.size());
    if (!is_whole_file(input)) seeds.push_back(input);
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: no seeds\n", argv[1]);
    return 1;
  }
  const unsigned long runs = std::strtoul(argv[2], nullptr, 10);
  std::mt19937_64& random = the_random;
  random.seed(argc == 4 ? std::strtoul(argv[3], nullptr, 10) : 1);
  for (unsigned long run = 0; run < runs; ++run) {
    Input input = seeds[random() % seeds.size()];
    for (std::uint64_t changes = 1 + random() % 8; changes > 0; --changes) change_once(input);
    if (is_whole_file(input)) continue;
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu seeds and %lu changes of them\n", paths.size(), runs);
}

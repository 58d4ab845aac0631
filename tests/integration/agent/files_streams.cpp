// SPDX-License-Identifier: BSD-3-Clause
// As files.c, with C++ streams.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string path = std::string(argv[1]) + "/streams";
  std::size_t bytes = 0;
  {
    std::ofstream out(path);
    for (int i = 0; i < 10000; ++i) {
      const std::string line = "line " + std::to_string(i) + "\n";
      out << line;
      bytes += line.size();
    }
    const std::string block(1 << 20, 'x');
    out.write(block.data(), static_cast<std::streamsize>(block.size()));
    bytes += block.size();
    if (!out.flush()) return 1;
  }
  std::size_t read = 0;
  {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) read += line.size() + (in.eof() ? 0 : 1);
  }
  if (read != bytes) return 1;
  std::printf("expect %s open 2 0\nexpect %s write -1 %zu\nexpect %s read -1 %zu\nexpect %s close 2 0\n",
              path.c_str(), path.c_str(), bytes, path.c_str(), bytes, path.c_str());
}

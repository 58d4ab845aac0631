// SPDX-License-Identifier: BSD-3-Clause
// team_program MODE: uses MpiTeam in ways whose outcome is known; member 0 prints it.
#include <time.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "aggregator/mpi/mpi_team.hpp"

namespace {

using clusterprof::aggregator::Bytes;
using clusterprof::aggregator::MpiTeam;

Bytes bytes_of(const std::string& text) {
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Differs from byte to byte and from message to message.
Bytes pattern(std::size_t size, std::size_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u + seed) >> 7);
  return bytes;
}

// Members by number in order, whatever the tree, and the longest message several pieces long.
int exchange(MpiTeam& team) {
  const auto concatenate = [](Bytes mine, Bytes theirs) {
    mine.insert(mine.end(), theirs.begin(), theirs.end());
    return mine;
  };
  std::string result;
  for (int round = 0; round < 3; ++round) {
    const std::string mine = round == 1 && team.member() % 2 == 1 ? "" : std::to_string(team.member()) + " ";
    Bytes all = team.reduce(bytes_of(mine), concatenate);
    if (team.member() != 0) all = bytes_of("nothing");
    team.broadcast(all);
    result += text_of(all) + "| ";
  }
  // Everyone has it: the last member tells what it got.
  const int last = team.size() - 1;
  if (team.member() == last && last != 0) team.send(0, bytes_of(result));
  if (team.member() == 0) std::printf("%s\n", (last == 0 ? result : text_of(team.receive(last))).c_str());

  std::size_t seed = 0;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{100'000}, std::size_t{70'000'001}}) {
    ++seed;
    if (last == 0) continue;
    if (team.member() == 0) team.send(last, pattern(size, seed));
    if (team.member() == last && team.receive(0) != pattern(size, seed)) return 5;
  }
  return 0;
}

// Every other member posts what member 0 takes later, in order, and answers.
int post(MpiTeam& team) {
  const std::vector<std::size_t> sizes{0, 1, 100'000, 70'000'001};
  if (team.member() != 0) {
    std::size_t seed = static_cast<std::size_t>(team.member());
    for (const std::size_t size : sizes) team.post(0, pattern(size, seed++));
    while (!team.has_posted(0)) team.progress();
    if (team.take(0) != bytes_of("thanks")) return 6;
    if (team.has_posted(0)) return 7;
    Bytes end;
    team.broadcast(end);
    return end == bytes_of("end") ? 0 : 8;
  }
  for (int member = team.size() - 1; member > 0; --member) {
    std::size_t seed = static_cast<std::size_t>(member);
    for (const std::size_t size : sizes)
      if (team.take(member) != pattern(size, seed++)) return 9;
    team.post(member, bytes_of("thanks"));
  }
  Bytes end = bytes_of("end");
  team.broadcast(end);
  return 0;
}

double processor_time_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// What the others spend while member 0 is busy for a second.
int idle(MpiTeam& team) {
  const double before_s = processor_time_s();
  Bytes bytes;
  if (team.member() == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  team.broadcast(bytes);
  const std::string spent = std::to_string(processor_time_s() - before_s);
  if (team.member() != 0) team.send(0, bytes_of(spent));
  if (team.member() != 0) return 0;
  for (int other = 1; other < team.size(); ++other) std::printf("%s\n", text_of(team.receive(other)).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "late" && argc > 2) {  // RANK: that one does not come
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    if (rank == nullptr) rank = std::getenv("PMI_RANK");
    if (rank != nullptr && std::strcmp(rank, argv[2]) == 0)
      std::this_thread::sleep_for(std::chrono::seconds(20));
  }
  MpiTeam team(mode == "late" ? 1 : 60);
  int status = 0;
  if (mode == "exchange") status = exchange(team);
  if (mode == "post") status = post(team);
  if (mode == "idle") status = idle(team);
  if (mode == "status") status = team.member() == 0 ? 0 : team.member() % 2 + 3;
  if (mode == "gone" && team.member() == 0) (void)team.receive(team.size() - 1);
  if (mode == "gone" && team.member() == team.size() - 1) status = 7;
  if (mode == "unwanted" && team.member() == 0) team.send(team.size() - 1, bytes_of("nobody takes it"));
  return team.finish(status);
}

// SPDX-License-Identifier: BSD-3-Clause
// The steps, in this order: the ranks agree along a tree whether all of them take part; the lowest rank of
// each node is found; these leaders exchange messages in pairs, and each learns its clock's offset from that
// of rank 0.
#include "mpi-wrap/src/clock_sync.hpp"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "formats/wire/hello.h"
#include "formats/wire/launch_evidence.h"
#include "formats/wire/segment.h"
#include "mpi-wrap/src/clock_rendezvous.hpp"
#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/hash.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/worlds.hpp"

namespace clusterprof::mpi_wrap {
namespace {

// Number of children of a rank in the tree along which the ranks agree.
constexpr int kFanout = 8;
constexpr int kTag = 17232;
// A rank that has offered to take part is never this late, as long as launcher and library number the ranks
// alike.
constexpr std::uint64_t kAnswerTimeout_ns = 30'000'000'000, kNoTimeout_ns = ~std::uint64_t{0};

// Number of round trips between two leaders. They go on until one round trip was short; for a limited time if
// none can be short, and longer if processes wait for a core. Connecting and first waits do not count.
constexpr int kEnoughExchanges = 64, kMaxExchanges = 2000;
constexpr std::uint64_t kShortTrip_ns = 20'000, kUsualTrip_ns = 100'000;
constexpr std::uint64_t kUsualTime_ns = 10'000'000, kLongestTime_ns = 50'000'000;
// How long a waiting rank spins, and then yields.
constexpr std::uint64_t kSpin_ns = 20'000, kYield_ns = 100'000'000;
// Greatest drift between clocks of different nodes.
constexpr std::uint64_t kDrift_ppm = 100;

bool succeeded(int result) noexcept { return result == MPI_SUCCESS; }

struct Functions {
  decltype(&::MPI_Comm_rank) comm_rank;
  decltype(&::MPI_Comm_size) comm_size;
  decltype(&::MPI_Comm_get_parent) get_parent;
  decltype(&::MPI_Comm_group) comm_group;
  decltype(&::MPI_Group_incl) group_incl;
  decltype(&::MPI_Group_free) group_free;
  decltype(&::MPI_Comm_create_group) create_group;
  decltype(&::MPI_Comm_free) comm_free;
  decltype(&::MPI_Comm_get_errhandler) get_errhandler;
  decltype(&::MPI_Comm_set_errhandler) set_errhandler;
  decltype(&::MPI_Errhandler_free) errhandler_free;
  decltype(&::MPI_Allgather) allgather;
  decltype(&::MPI_Send) send;
  decltype(&::MPI_Irecv) irecv;
  decltype(&::MPI_Test) test;
  decltype(&::MPI_Cancel) cancel;
  decltype(&::MPI_Request_free) request_free;
  MPI_Datatype byte;
  MPI_Errhandler errors_return;

  bool find() noexcept {
    comm_rank = CLUSTERPROF_LIBRARY(MPI_Comm_rank);
    comm_size = CLUSTERPROF_LIBRARY(MPI_Comm_size);
    get_parent = CLUSTERPROF_LIBRARY(MPI_Comm_get_parent);
    comm_group = CLUSTERPROF_LIBRARY(MPI_Comm_group);
    group_incl = CLUSTERPROF_LIBRARY(MPI_Group_incl);
    group_free = CLUSTERPROF_LIBRARY(MPI_Group_free);
    create_group = CLUSTERPROF_LIBRARY(MPI_Comm_create_group);
    comm_free = CLUSTERPROF_LIBRARY(MPI_Comm_free);
    get_errhandler = CLUSTERPROF_LIBRARY(MPI_Comm_get_errhandler);
    set_errhandler = CLUSTERPROF_LIBRARY(MPI_Comm_set_errhandler);
    errhandler_free = CLUSTERPROF_LIBRARY(MPI_Errhandler_free);
    allgather = CLUSTERPROF_LIBRARY(MPI_Allgather);
    send = CLUSTERPROF_LIBRARY(MPI_Send);
    irecv = CLUSTERPROF_LIBRARY(MPI_Irecv);
    test = CLUSTERPROF_LIBRARY(MPI_Test);
    cancel = CLUSTERPROF_LIBRARY(MPI_Cancel);
    request_free = CLUSTERPROF_LIBRARY(MPI_Request_free);
#if CLUSTERPROF_MPI_OPENMPI
    byte = static_cast<MPI_Datatype>(library_symbol("ompi_mpi_byte"));
    errors_return = static_cast<MPI_Errhandler>(library_symbol("ompi_mpi_errors_return"));
    if (byte == nullptr || errors_return == nullptr) return false;
#else
    byte = MPI_BYTE;
    errors_return = MPI_ERRORS_RETURN;
#endif
    return comm_rank != nullptr && comm_size != nullptr && get_parent != nullptr && comm_group != nullptr &&
           group_incl != nullptr && group_free != nullptr && create_group != nullptr &&
           comm_free != nullptr && get_errhandler != nullptr && set_errhandler != nullptr &&
           errhandler_free != nullptr && allgather != nullptr && send != nullptr && irecv != nullptr &&
           test != nullptr && cancel != nullptr && request_free != nullptr;
  }
};
Functions mpi;

std::uint64_t hash_of_node() noexcept {
  const char* name = getenv("CLUSTERPROF_NODE");
  char host[256] = "";
  if (name == nullptr || *name == '\0') {
    gethostname(host, sizeof(host) - 1);
    name = host;
  }
  const std::uint64_t hash = hash_of_text(name);
  return hash == 0 ? 1 : hash;
}

// --- who takes part --------------------------------------------------------------------------------------

static_assert(ClockRendezvous::kMaxAsked == kFanout + 1);
constinit ClockRendezvous rendezvous;
bool offered, all_recorded;
// Set by the first one that offers: there is one exchange in a process.
std::atomic<bool> has_begun;
MPI_Comm everyone;  // of all ranks of the world, in their order; valid when offered
MPI_Comm leaders;   // of the nodes; valid when has_leaders
bool has_leaders;
std::int32_t leader_index, leader_count;

// Of sessions: where the exchange is offered, as the environment said before the first one, and whether it
// was there that it was.
char session_place[4096];
bool knows_session_place, is_of_session;

// Answer of a rank that this rank has talked to. Not on the stack: a receive that is given up stays open, so
// that a message that arrives after all does not match a receive of the program.
struct Answer {
  MPI_Request request;
  std::uint64_t agreed;
  bool open;
};
Answer answers[kFanout + 1];

// False if the request failed or is not complete after the timeout. Spins, then yields, then sleeps:
// libraries only spin, and on a machine with fewer cores than ranks nobody would make progress.
bool wait_for(MPI_Request& request, std::uint64_t timeout_ns) noexcept {
  const std::uint64_t start_ns = agent->now_ns();
  for (int done = 0;;) {
    if (!succeeded(mpi.test(&request, &done, MPI_STATUS_IGNORE))) return false;
    if (done != 0) return true;
    const std::uint64_t waited_ns = agent->now_ns() - start_ns;
    if (waited_ns >= timeout_ns) return false;
    if (waited_ns >= kYield_ns) {
      usleep(1000);
    } else if (waited_ns >= kSpin_ns) {
      sched_yield();
    }
  }
}

// Receives the answer of that rank. False if none has come after the timeout.
bool receive_answer(Answer& answer, int from, std::uint64_t timeout_ns) noexcept {
  if (!succeeded(mpi.irecv(&answer.agreed, sizeof(answer.agreed), mpi.byte, from, kTag, everyone,
                           &answer.request))) {
    return false;
  }
  answer.open = !wait_for(answer.request, timeout_ns);
  return !answer.open && answer.agreed == 1;
}

void send_answer(int to, bool agreed) noexcept {
  const std::uint64_t word = agreed ? 1 : 0;
  mpi.send(&word, sizeof(word), mpi.byte, to, kTag, everyone);
}

// Returns the same on all ranks. Messages are only sent between ranks that have both found the other's offer.
bool all_take_part(int rank, int size, bool agreed) noexcept {
  const std::int64_t first_child = std::int64_t{rank} * kFanout + 1;
  const int children = first_child >= size             ? 0
                       : first_child + kFanout <= size ? kFanout
                                                       : static_cast<int>(size - first_child);
  const int parent = (rank - 1) / kFanout;
  const bool has_parent = rank != 0 && rendezvous.takes_part(parent);
  agreed = agreed && (rank == 0 || has_parent);
  bool present[kFanout];
  for (int i = 0; i < children; ++i) {
    present[i] = rendezvous.takes_part(static_cast<int>(first_child) + i);
    agreed = agreed && present[i];
  }
  for (int i = 0; i < children; ++i) {
    if (!present[i]) continue;
    if (!receive_answer(answers[i], static_cast<int>(first_child) + i, kAnswerTimeout_ns)) agreed = false;
  }
  if (has_parent) {
    send_answer(parent, agreed);
    // A rank that has agreed must go on: others may already rely on it.
    agreed = receive_answer(answers[kFanout], parent, agreed ? kNoTimeout_ns : kAnswerTimeout_ns);
  }
  for (int i = 0; i < children; ++i) {
    if (present[i]) send_answer(static_cast<int>(first_child) + i, agreed);
  }
  return agreed;
}

// --- the nodes ----------------------------------------------------------------------------------------

// Writes the lowest rank of each node, in order of rank, to `first`. `nodes` holds each rank's node. `seen`
// is empty and has `slots` entries, a power of two greater than the number of ranks.
std::int32_t find_leaders(const std::uint64_t* nodes, std::int32_t size, std::uint64_t* seen,
                          std::uint64_t slots, std::int32_t* first) noexcept {
  std::int32_t count = 0;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    std::uint64_t at = mix(nodes[rank]) & (slots - 1);
    while (seen[at] != 0 && seen[at] != nodes[rank]) at = (at + 1) & (slots - 1);
    if (seen[at] != 0) continue;
    seen[at] = nodes[rank];
    first[count++] = rank;
  }
  return count;
}

// What gather_leaders needs. Allocated before another rank relies on this one.
struct LeaderSearch {
  std::uint64_t* nodes = nullptr;
  std::uint64_t* seen = nullptr;
  std::int32_t* first = nullptr;
  std::uint64_t slots = 1;
  std::size_t bytes = 0;

  explicit LeaderSearch(int size) noexcept {
    while (slots <= static_cast<std::uint64_t>(size)) slots *= 2;
    const auto ranks = static_cast<std::size_t>(size);
    bytes = (ranks + slots) * sizeof(std::uint64_t) + ranks * sizeof(std::int32_t);
    nodes = static_cast<std::uint64_t*>(allocate_pages(bytes));
    if (nodes == nullptr) return;
    seen = nodes + ranks;
    first = reinterpret_cast<std::int32_t*>(seen + slots);
  }
  LeaderSearch(const LeaderSearch&) = delete;
  LeaderSearch& operator=(const LeaderSearch&) = delete;
  ~LeaderSearch() { free_pages(nodes, bytes); }
};

// Creates `leaders` if there are several nodes and this rank is the lowest of its node. Called on all ranks.
void gather_leaders(int rank, int size, LeaderSearch& search) noexcept {
  const std::uint64_t mine = hash_of_node();
  if (!succeeded(
          mpi.allgather(&mine, sizeof(mine), mpi.byte, search.nodes, sizeof(mine), mpi.byte, everyone))) {
    return;
  }
  leader_count = find_leaders(search.nodes, size, search.seen, search.slots, search.first);
  leader_index = -1;
  for (std::int32_t i = 0; i < leader_count; ++i) {
    if (search.first[i] == rank) leader_index = i;
  }
  if (leader_count < 2 || leader_index < 0) return;
  MPI_Group world, group;
  if (!succeeded(mpi.comm_group(everyone, &world))) return;
  if (succeeded(mpi.group_incl(world, leader_count, search.first, &group))) {
    has_leaders = succeeded(mpi.create_group(everyone, group, kTag, &leaders)) &&
                  succeeded(mpi.set_errhandler(leaders, mpi.errors_return));
    mpi.group_free(&group);
  }
  mpi.group_free(&world);
}

// --- the clocks ---------------------------------------------------------------------------------------

struct Clock {
  bool known;
  std::uint64_t local_ns, error_ns;
  std::int64_t offset_ns;  // of the clock of rank 0 of this world, minus this one
};

struct Question {
  std::uint64_t last;
};
// Times are of the clock of the rank that answers.
struct Reply {
  std::uint64_t received_ns, sent_ns;
  std::uint64_t known, error_ns;  // how far that clock is from rank 0's
  std::int64_t offset_ns;
};

// One round trip. Its times bound the offset between the two clocks from both sides.
struct RoundTrip {
  std::uint64_t middle_ns, duration_ns;
  std::int64_t least_ns, most_ns;
};

std::int64_t difference(std::uint64_t a, std::uint64_t b) noexcept {
  return static_cast<std::int64_t>(a - b);
}

// At most, of two clocks in that time.
std::uint64_t drift_ns(std::uint64_t passed_ns) noexcept { return passed_ns * kDrift_ppm / 1'000'000 + 1; }

bool receive(void* message, std::size_t bytes, int from) noexcept {
  MPI_Request request;
  return succeeded(mpi.irecv(message, static_cast<int>(bytes), mpi.byte, from, kTag, leaders, &request)) &&
         wait_for(request, kNoTimeout_ns);
}

bool send(const void* message, std::size_t bytes, int to) noexcept {
  return succeeded(mpi.send(message, static_cast<int>(bytes), mpi.byte, to, kTag, leaders));
}

void answer_questions(int asking, const Clock& own) noexcept {
  Question question{};
  Reply reply{0, 0, own.known ? 1u : 0u, own.error_ns, own.offset_ns};
  while (question.last == 0) {
    if (!receive(&question, sizeof(question), asking)) return;
    reply.received_ns = agent->now_ns();
    reply.sent_ns = agent->now_ns();
    // Since its own offset was measured, this clock may have drifted.
    if (leader_index != 0) reply.error_ns = own.error_ns + drift_ns(reply.sent_ns - own.local_ns);
    if (!send(&reply, sizeof(reply), asking)) return;
  }
}

Clock combine_round_trips(const RoundTrip* trips, int count, const Reply& reply) noexcept {
  const RoundTrip* shortest = trips;
  for (const RoundTrip* trip = trips; trip != trips + count; ++trip) {
    if (trip->duration_ns < shortest->duration_ns) shortest = trip;
  }
  std::int64_t least_ns = shortest->least_ns, most_ns = shortest->most_ns;
  for (const RoundTrip* trip = trips; trip != trips + count; ++trip) {
    const std::int64_t apart_ns = difference(trip->middle_ns, shortest->middle_ns);
    const auto drifted_ns =
        static_cast<std::int64_t>(drift_ns(static_cast<std::uint64_t>(apart_ns < 0 ? -apart_ns : apart_ns)));
    if (trip->least_ns - drifted_ns > least_ns) least_ns = trip->least_ns - drifted_ns;
    if (trip->most_ns + drifted_ns < most_ns) most_ns = trip->most_ns + drifted_ns;
  }
  // The clocks drift faster than assumed: use only the shortest round trip.
  if (least_ns > most_ns) least_ns = shortest->least_ns, most_ns = shortest->most_ns;
  const std::int64_t to_partner_ns = least_ns + (most_ns - least_ns) / 2;
  return {true, shortest->middle_ns, static_cast<std::uint64_t>(most_ns - least_ns + 1) / 2 + reply.error_ns,
          to_partner_ns + reply.offset_ns};
}

Clock ask_partner(int partner) noexcept {
  static RoundTrip trips[kMaxExchanges];
  Question question{0};
  Reply reply{};
  if (!send(&question, sizeof(question), partner) || !receive(&reply, sizeof(reply), partner)) return {};
  const std::uint64_t start_ns = agent->now_ns();
  std::uint64_t shortest_ns = ~std::uint64_t{0};
  int count = 0;
  while (question.last == 0) {
    const std::uint64_t sent_ns = agent->now_ns(), spent_ns = sent_ns - start_ns;
    const bool good = count >= kEnoughExchanges && shortest_ns <= kShortTrip_ns;
    const bool usual = spent_ns > kUsualTime_ns && shortest_ns <= kUsualTrip_ns;
    if (good || usual || spent_ns > kLongestTime_ns || count + 1 == kMaxExchanges) question.last = 1;
    if (!send(&question, sizeof(question), partner) || !receive(&reply, sizeof(reply), partner)) return {};
    const std::uint64_t received_ns = agent->now_ns();
    const std::uint64_t trip_ns = received_ns - sent_ns - (reply.sent_ns - reply.received_ns);
    if (trip_ns < shortest_ns) shortest_ns = trip_ns;
    // The partner's clock showed at most reply.received_ns at sent_ns, and at least reply.sent_ns at
    // received_ns.
    trips[count++] = {sent_ns + (received_ns - sent_ns) / 2, trip_ns, difference(reply.sent_ns, received_ns),
                      difference(reply.received_ns, sent_ns)};
  }
  return reply.known != 0 ? combine_round_trips(trips, count, reply) : Clock{};
}

// In the round with distance d, leaders with an index below d answer those from d on. There are log2(leaders)
// rounds.
void measure(wire::ClockMeasurement wire::SegmentHeader::*place) noexcept {
  Clock own{leader_index == 0, agent->now_ns(), 0, 0};
  for (std::int64_t distance = 1; distance < leader_count; distance *= 2) {
    if (leader_index >= 2 * distance) continue;
    if (leader_index >= distance) {
      own = ask_partner(static_cast<int>(leader_index - distance));
    } else if (leader_index + distance < leader_count) {
      answer_questions(static_cast<int>(leader_index + distance), own);
    }
  }
  auto* segment = static_cast<wire::SegmentHeader*>(agent->segment());
  if (segment == nullptr || !own.known) return;
  wire::ClockMeasurement& result = segment->*place;
  result.reference_rank = first_rank();
  result.local_ns = own.local_ns;
  result.offset_ns = own.offset_ns;
  result.error_ns = own.error_ns;
  result.ready.store(1, std::memory_order_release);
}

// Of a world that was spawned and is not known, the ranks would be taken for others.
bool has_ranks_of_others() noexcept {
  MPI_Comm parent = handles.comm_null;
  return !succeeded(mpi.get_parent(&parent)) || (parent != handles.comm_null && first_rank() == 0);
}

void exchange() noexcept {
  int rank = 0, size = 0;
  if (!succeeded(mpi.comm_rank(everyone, &rank)) || !succeeded(mpi.comm_size(everyone, &size)) || size < 2)
    return;
  if (!all_recorded && rank != rendezvous.rank()) return;
  // From here on others may rely on this rank. If something fails, it answers no instead of leaving.
  LeaderSearch search(size);
  MPI_Errhandler program_handler;
  const bool known = succeeded(mpi.get_errhandler(everyone, &program_handler));
  const bool able =
      known && succeeded(mpi.set_errhandler(everyone, mpi.errors_return)) && search.nodes != nullptr;
  if (all_recorded ? able : all_take_part(rank, size, able)) gather_leaders(rank, size, search);
  if (known) {
    mpi.set_errhandler(everyone, program_handler);
    mpi.errhandler_free(&program_handler);
  }
  if (has_leaders) measure(&wire::SegmentHeader::clock_at_init);
}

// Where the exchange is offered, or wire::kClockVouched; null if it is not. MPI jobs that the program itself
// has started take no part.
const char* read_place() noexcept {
  const char* setting = getenv(wire::kClockVariable);
  if (setting == nullptr) return nullptr;
  char* place = nullptr;
  const std::uint64_t evidence = strtoull(setting, &place, 16);
  return *place++ == ':' && evidence == wire::launch_evidence(getenv) ? place : nullptr;
}

void offer(const char* place, std::uint64_t occasion) noexcept {
  if (!mpi.find()) return;
  all_recorded = strcmp(place, wire::kClockVouched) == 0;
  offered = all_recorded || rendezvous.offer(place, hash_of_node(), occasion);
}

// Before the library ends.
void clean_up() noexcept {
  offered = false;
  if (!all_recorded) rendezvous.end();
  for (Answer& answer : answers) {
    if (!answer.open) continue;
    answer.open = false;
    if (succeeded(mpi.cancel(&answer.request))) mpi.request_free(&answer.request);
  }
}

}  // namespace

void offer_clock_exchange() noexcept {
  if (has_begun.exchange(true)) return;
  const char* const place = read_place();
  everyone = handles.comm_world;
  if (place != nullptr) offer(place, 0);
}

void exchange_clocks_at_init(bool initialised) noexcept {
  if (!offered || is_of_session) return;
  if (initialised && !has_ranks_of_others()) exchange();
  if (!all_recorded) rendezvous.leave();
}

void exchange_clocks_at_finalize() noexcept {
  if (!offered || is_of_session) return;
  clean_up();
  if (!has_leaders) return;
  has_leaders = false;
  measure(&wire::SegmentHeader::clock_at_finalize);
  mpi.comm_free(&leaders);
}

// --- sessions ---------------------------------------------------------------------------------------------

void prepare_clock_exchange_of_sessions() noexcept {
  static std::atomic<bool> is_prepared;
  if (is_prepared.exchange(true) || state.attached) return;
  const char* const place = read_place();
  if (place == nullptr || strlen(place) >= sizeof(session_place)) return;
  if (strcmp(place, wire::kClockVouched) != 0 && !rendezvous.learn_rank()) return;
  strcpy(session_place, place);
  knows_session_place = true;
}

bool offer_clock_exchange(MPI_Group group, const char* tag) noexcept {
  if (!knows_session_place || has_begun.load() || !is_own_world(group)) return false;
  if (has_begun.exchange(true)) return false;
  is_of_session = true;
  const std::uint64_t occasion = hash_of_text(tag);
  offer(session_place, occasion == 0 ? 1 : occasion);
  return offered;
}

void exchange_clocks_on(MPI_Comm made, bool was_made) noexcept {
  if (was_made && made != handles.comm_null) {
    everyone = made;
    exchange();
    // No later call is sure to be made by all of them.
    if (has_leaders) mpi.comm_free(&leaders);
    has_leaders = false;
  }
  if (!all_recorded) rendezvous.leave();
}

void end_clock_exchange_of_sessions() noexcept {
  if (offered && is_of_session) clean_up();
}

}  // namespace clusterprof::mpi_wrap

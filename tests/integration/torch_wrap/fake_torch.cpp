// SPDX-License-Identifier: BSD-3-Clause
// A library with those classes and functions of libtorch that are recorded, under the same mangled names, and
// with objects that are laid out like those of libtorch 1.13. Its operations do nothing but keep what they
// were given, so that fake_scenario() finds out whether calls and results pass unchanged.
//
// With FAKE_TORCH_2, ProcessGroupGloo has another base class, as in libtorch 2.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace at {
struct TensorImpl {
  char others[168] = {};
  std::int64_t elements;
  std::uint16_t type;  // 6: float
};
struct Tensor {
  TensorImpl* impl;
};
}  // namespace at

namespace c10 {
namespace detail {
template <typename T>
struct intrusive_target_default_null_type {};
}  // namespace detail
template <typename T, typename Null = detail::intrusive_target_default_null_type<T>>
struct intrusive_ptr {
  T* pointer = nullptr;
  intrusive_ptr() = default;
  explicit intrusive_ptr(T* p) : pointer(p) {}
  intrusive_ptr(const intrusive_ptr& other) : pointer(other.pointer) {}
  ~intrusive_ptr() { pointer = nullptr; }
  T* operator->() const { return pointer; }
};
struct Target {
  virtual ~Target() = default;
  std::size_t counts[2] = {};
};
}  // namespace c10

namespace c10d {

using Milliseconds = std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;

class Store : public c10::Target {
 public:
  virtual int number() { return 1; }
  Milliseconds timeout{0};
};
class PrefixStore : public Store {
 public:
  PrefixStore(std::string prefix, Store* store) : prefix_(std::move(prefix)), store_(store) {}
  int number() override;
  std::string prefix_;
  c10::intrusive_ptr<Store> store_;
};
int PrefixStore::number() { return 2; }

// The constructor by which builds with the C++11 ABI are known. Nobody calls it.
extern "C" void prefix_store_of_cxx11_abi() __asm__(
    "_ZN4c10d11PrefixStoreC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEN3c1013intrusive_ptrINS_"
    "5StoreENS9_6detail34intrusive_target_default_null_typeISB_EEEE");
extern "C" void prefix_store_of_cxx11_abi() {}

struct Options {
  char reduce_op[40] = {};
};
struct BroadcastOptions {
  std::int64_t root = 0;
};
struct AllreduceOptions : Options {};
struct AllreduceCoalescedOptions : Options {};
struct ReduceOptions : Options {
  std::int64_t root = 0;
};
struct AllgatherOptions {};
struct GatherOptions : BroadcastOptions {};
struct ScatterOptions : BroadcastOptions {};
struct ReduceScatterOptions : Options {};
struct AllToAllOptions {
  int number = 0;
};
struct BarrierOptions {};

class Work : public c10::Target {
 public:
  ~Work() override;
  virtual bool wait(Milliseconds timeout);
  int answer = 1;
};
Work::~Work() { answer = -1; }
bool Work::wait(Milliseconds timeout) {
  if (timeout.count() == 13) throw std::runtime_error("the wait failed");
  return answer != 0;
}
using WorkPtr = c10::intrusive_ptr<Work>;

class ProcessGroup : public c10::Target {
 public:
  virtual WorkPtr broadcast(Tensors&, const BroadcastOptions&) = 0;
};
class Backend : public ProcessGroup {};
#ifdef FAKE_TORCH_2
using Base = Backend;
#else
using Base = ProcessGroup;
#endif

class ProcessGroupGloo : public Base {
 public:
  struct Options : c10::Target {};
  class AsyncWork : public Work {
   public:
    static void execute(c10::intrusive_ptr<AsyncWork> work);
  };
  class SendWork : public Work {
   public:
    bool wait(Milliseconds timeout) override;
  };
  class RecvWork : public Work {
   public:
    virtual int sourceRank() const;
    bool wait(Milliseconds timeout) override;
    int source = 1;
  };
  ProcessGroupGloo(const c10::intrusive_ptr<Store>& store, int rank, int size,
                   c10::intrusive_ptr<Options> options);
  WorkPtr broadcast(Tensors&, const BroadcastOptions&) override;
  virtual WorkPtr allreduce(Tensors&, const AllreduceOptions&);
  virtual WorkPtr allreduce_coalesced(Tensors&, const AllreduceCoalescedOptions&);
  virtual WorkPtr reduce(Tensors&, const ReduceOptions&);
  virtual WorkPtr allgather(Lists&, Tensors&, const AllgatherOptions&);
  virtual WorkPtr _allgather_base(at::Tensor&, at::Tensor&, const AllgatherOptions&);
  virtual WorkPtr allgather_coalesced(Lists&, Tensors&, const AllgatherOptions&);
  virtual WorkPtr gather(Lists&, Tensors&, const GatherOptions&);
  virtual WorkPtr scatter(Tensors&, Lists&, const ScatterOptions&);
  virtual WorkPtr reduce_scatter(Tensors&, Lists&, const ReduceScatterOptions&);
  virtual WorkPtr alltoall_base(at::Tensor&, at::Tensor&, std::vector<std::int64_t>&,
                                std::vector<std::int64_t>&, const AllToAllOptions&);
  virtual WorkPtr send(Tensors&, int destination, int tag);
  virtual WorkPtr recv(Tensors&, int source, int tag);
  virtual WorkPtr recvAnysource(Tensors&, int tag);
  virtual WorkPtr barrier(const BarrierOptions&);
  virtual void monitoredBarrier(const BarrierOptions&, bool all);

  Work work;
  SendWork send_work;
  RecvWork recv_work;
  const void* given[6] = {};
  long numbers[3] = {};
  int rank, size;

 private:
  WorkPtr keep(Work& made, const void* a, const void* b = nullptr, const void* c = nullptr,
               const void* d = nullptr, const void* e = nullptr) {
    const void* const all[] = {a, b, c, d, e};
    for (int i = 0; i < 5; ++i) given[i] = all[i];
    return WorkPtr(&made);
  }
};

void ProcessGroupGloo::AsyncWork::execute(c10::intrusive_ptr<AsyncWork> work) { work->wait(Milliseconds(0)); }
bool ProcessGroupGloo::SendWork::wait(Milliseconds timeout) { return timeout.count() == 5; }
bool ProcessGroupGloo::RecvWork::wait(Milliseconds timeout) { return timeout.count() == 6; }
int ProcessGroupGloo::RecvWork::sourceRank() const { return source; }
ProcessGroupGloo::ProcessGroupGloo(const c10::intrusive_ptr<Store>& store, int r, int s,
                                   c10::intrusive_ptr<Options> options)
    : rank(r), size(s) {
  given[0] = store.pointer;
  given[1] = options.pointer;
}
WorkPtr ProcessGroupGloo::broadcast(Tensors& t, const BroadcastOptions& o) { return keep(work, &t, &o); }
WorkPtr ProcessGroupGloo::allreduce(Tensors& t, const AllreduceOptions& o) { return keep(work, &t, &o); }
WorkPtr ProcessGroupGloo::allreduce_coalesced(Tensors& t, const AllreduceCoalescedOptions& o) {
  return keep(work, &t, &o);
}
WorkPtr ProcessGroupGloo::reduce(Tensors& t, const ReduceOptions& o) { return keep(work, &t, &o); }
WorkPtr ProcessGroupGloo::allgather(Lists& l, Tensors& t, const AllgatherOptions& o) {
  return keep(work, &l, &t, &o);
}
WorkPtr ProcessGroupGloo::_allgather_base(at::Tensor& a, at::Tensor& b, const AllgatherOptions& o) {
  return keep(work, &a, &b, &o);
}
WorkPtr ProcessGroupGloo::allgather_coalesced(Lists& l, Tensors& t, const AllgatherOptions& o) {
  return keep(work, &l, &t, &o);
}
WorkPtr ProcessGroupGloo::gather(Lists& l, Tensors& t, const GatherOptions& o) {
  return keep(work, &l, &t, &o);
}
WorkPtr ProcessGroupGloo::scatter(Tensors& t, Lists& l, const ScatterOptions& o) {
  return keep(work, &t, &l, &o);
}
WorkPtr ProcessGroupGloo::reduce_scatter(Tensors&, Lists&, const ReduceScatterOptions&) {
  throw std::runtime_error("gloo cannot do that");
}
WorkPtr ProcessGroupGloo::alltoall_base(at::Tensor& a, at::Tensor& b, std::vector<std::int64_t>& c,
                                        std::vector<std::int64_t>& d, const AllToAllOptions& o) {
  return keep(work, &a, &b, &c, &d, &o);
}
WorkPtr ProcessGroupGloo::send(Tensors& t, int destination, int tag) {
  numbers[0] = destination;
  numbers[1] = tag;
  return keep(send_work, &t);
}
WorkPtr ProcessGroupGloo::recv(Tensors& t, int source, int tag) {
  numbers[0] = source;
  numbers[1] = tag;
  return keep(recv_work, &t);
}
WorkPtr ProcessGroupGloo::recvAnysource(Tensors& t, int tag) {
  numbers[1] = tag;
  return keep(recv_work, &t);
}
WorkPtr ProcessGroupGloo::barrier(const BarrierOptions& o) { return keep(work, &o); }
void ProcessGroupGloo::monitoredBarrier(const BarrierOptions& o, bool all) {
  keep(work, &o);
  numbers[2] = all ? 1 : 0;
}

struct GradBucket {
  ProcessGroupGloo* group;
  Tensors tensors;
};
class Reducer {
 public:
  [[gnu::noinline]] WorkPtr run_comm_hook(GradBucket& bucket);
  [[gnu::noinline]] void finalize_backward();
  int finalized = 0;
};
WorkPtr Reducer::run_comm_hook(GradBucket& bucket) {
  return bucket.group->allreduce(bucket.tensors, AllreduceOptions());
}
void Reducer::finalize_backward() { ++finalized; }

}  // namespace c10d

namespace {

using namespace c10d;

int wrong;
void check(bool right, const char* what) {
  if (right) return;
  std::printf("wrong: %s\n", what);
  ++wrong;
}

}  // namespace

extern "C" int fake_scenario() {
  at::TensorImpl impl{{}, 100, 6};
  Tensors tensors{{&impl}, {&impl}};
  Lists lists{tensors, tensors};
  at::Tensor single{&impl}, other{&impl};
  std::vector<std::int64_t> ins, outs;
  Store base;
  PrefixStore prefix("default_pg", &base);
  const c10::intrusive_ptr<Store> store(&prefix);
  ProcessGroupGloo::Options options;
  // Calls go through the table of virtual functions.
  ProcessGroupGloo* volatile pointer =
      new ProcessGroupGloo(store, 0, 2, c10::intrusive_ptr<ProcessGroupGloo::Options>(&options));
  ProcessGroupGloo* const group = pointer;
  check(group->rank == 0 && group->size == 2 && group->given[0] == &prefix && group->given[1] == &options,
        "new");
  const auto is_given = [&](const WorkPtr& work, Work* expected, std::vector<const void*> given,
                            const char* what) {
    bool right = work.pointer == expected;
    for (std::size_t i = 0; i < given.size(); ++i) right = right && group->given[i] == given[i];
    check(right, what);
    check(work->wait(Milliseconds(expected == &group->send_work   ? 5
                                  : expected == &group->recv_work ? 6
                                                                  : 0)),
          what);
  };
  BroadcastOptions broadcast;
  is_given(group->broadcast(tensors, broadcast), &group->work, {&tensors, &broadcast}, "broadcast");
  AllreduceOptions allreduce;
  for (int i = 0; i < 3; ++i)
    is_given(group->allreduce(tensors, allreduce), &group->work, {&tensors, &allreduce}, "allreduce");
  AllreduceCoalescedOptions coalesced;
  is_given(group->allreduce_coalesced(tensors, coalesced), &group->work, {&tensors, &coalesced}, "coalesced");
  ReduceOptions reduce;
  is_given(group->reduce(tensors, reduce), &group->work, {&tensors, &reduce}, "reduce");
  AllgatherOptions allgather;
  is_given(group->allgather(lists, tensors, allgather), &group->work, {&lists, &tensors, &allgather},
           "allgather");
  is_given(group->_allgather_base(single, other, allgather), &group->work, {&single, &other, &allgather},
           "base");
  is_given(group->allgather_coalesced(lists, tensors, allgather), &group->work, {&lists, &tensors},
           "coalesced");
  GatherOptions gather;
  is_given(group->gather(lists, tensors, gather), &group->work, {&lists, &tensors, &gather}, "gather");
  ScatterOptions scatter;
  is_given(group->scatter(tensors, lists, scatter), &group->work, {&tensors, &lists, &scatter}, "scatter");
  AllToAllOptions alltoall;
  is_given(group->alltoall_base(single, other, ins, outs, alltoall), &group->work,
           {&single, &other, &ins, &outs, &alltoall}, "alltoall: the last argument is on the stack");
  is_given(group->send(tensors, 1, 7), &group->send_work, {&tensors}, "send");
  check(group->numbers[0] == 1 && group->numbers[1] == 7, "send's numbers");
  is_given(group->recv(tensors, 1, 8), &group->recv_work, {&tensors}, "recv");
  check(group->numbers[0] == 1 && group->numbers[1] == 8, "recv's numbers");
  is_given(group->recvAnysource(tensors, 9), &group->recv_work, {&tensors}, "recv from any");
  check(group->numbers[1] == 9, "its tag");
  BarrierOptions barrier;
  is_given(group->barrier(barrier), &group->work, {&barrier}, "barrier");
  group->monitoredBarrier(barrier, true);
  check(group->numbers[2] == 1, "monitored barrier");
  // Exceptions pass, with what destructors do on their way.
  for (int i = 0; i < 2; ++i) {
    bool destroyed = false, caught = false;
    try {
      const std::unique_ptr<bool, void (*)(bool*)> object(&destroyed, [](bool* b) { *b = true; });
      group->reduce_scatter(tensors, lists, ReduceScatterOptions());
    } catch (const std::runtime_error& error) {
      caught = std::string(error.what()) == "gloo cannot do that";
    }
    check(caught && destroyed, "an exception of an operation");
  }
  const WorkPtr failing = group->barrier(barrier);
  try {
    failing->wait(Milliseconds(13));
    check(false, "no exception");
  } catch (const std::runtime_error&) {
  }
  group->work.answer = 0;
  check(!failing->wait(Milliseconds(0)), "the result of a wait");
  group->work.answer = 1;
  ProcessGroupGloo::AsyncWork done;
  ProcessGroupGloo::AsyncWork::execute(c10::intrusive_ptr<ProcessGroupGloo::AsyncWork>(&done));
  Reducer reducer;
  GradBucket bucket{group, tensors};
  for (int i = 0; i < 4; ++i) check(reducer.run_comm_hook(bucket).pointer == &group->work, "hook");
  reducer.finalize_backward();
  check(reducer.finalized == 1, "finalize");
  return wrong;
}

// SPDX-License-Identifier: BSD-3-Clause
// A library with those classes and functions of libtorch that are recorded, under the same mangled names, and
// with objects that are laid out like those of libtorch 1.13. Its operations do nothing but keep what they
// were given, so that fake_scenario() finds out whether calls and results pass unchanged.
//
// FAKE_TORCH_2: as in libtorch 2. FAKE_SMALL_COUNTS: objects with smaller counts of references, as in 2.6.
// FAKE_LATER: as in 2.14, other names, and tensors with one pointer less. FAKE_UNKNOWN: tensors as in no
// release. FAKE_SYMBOLIC: linked so that its calls do not leave it.
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#ifdef FAKE_SMALL_COUNTS
using Count = std::uint32_t;
#else
using Count = std::size_t;
#endif
#if defined(FAKE_LATER)
constexpr std::size_t kPointersLess = 1;
#else
constexpr std::size_t kPointersLess = 0;
#endif
#ifdef FAKE_UNKNOWN
constexpr std::size_t kPointersMore = 1;
#else
constexpr std::size_t kPointersMore = 0;
#endif

namespace at {
struct TensorImpl {
  void* functions = nullptr;
  Count counts[2] = {};
  char others[144 + 8 * kPointersMore - 8 * kPointersLess] = {};
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
  intrusive_ptr& operator=(const intrusive_ptr&) = default;
  ~intrusive_ptr() { pointer = nullptr; }
  T* operator->() const { return pointer; }
};
struct Target {
  virtual ~Target() = default;
  Count counts[2] = {};
};
// Returned in memory, like an intrusive_ptr.
struct SymInt {
  explicit SymInt(std::int64_t value) : data(value) {}
  SymInt(const SymInt& other) : data(other.data) {}
  ~SymInt() { data = 0; }
  std::int64_t data;
};
}  // namespace c10

namespace at::native {
// By which the place of a tensor's type and number of elements is found. ComplexHalf, ComplexFloat,
// ComplexDouble.
bool is_complex(const Tensor& tensor) { return tensor.impl->type >= 8 && tensor.impl->type <= 10; }
#ifdef FAKE_TORCH_2
c10::SymInt sym_numel(const Tensor& tensor) { return c10::SymInt(tensor.impl->elements); }
#endif
}  // namespace at::native

namespace c10d {

using Milliseconds = std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;

class Store : public c10::Target {
 public:
  virtual int number() { return 1; }
  Milliseconds timeout{0};
};
#ifdef FAKE_TORCH_2
using Prefix = std::string;
#else
using Prefix = const std::string&;
#endif
class PrefixStore : public Store {
 public:
  PrefixStore(Prefix prefix, c10::intrusive_ptr<Store> store);
  int number() override;
  c10::intrusive_ptr<Store> getUnderlyingStore();
  std::string prefix_;
  c10::intrusive_ptr<Store> store_;
};
PrefixStore::PrefixStore(Prefix prefix, c10::intrusive_ptr<Store> store) : prefix_(prefix), store_(store) {}
int PrefixStore::number() { return 2; }
c10::intrusive_ptr<Store> PrefixStore::getUnderlyingStore() {
  if (store_.pointer != nullptr) ++store_.pointer->counts[0];
  return store_;
}

struct ReduceOp : c10::Target {
  std::uint8_t operation = 0;
  void* supplement = nullptr;
};
struct Options {
  ReduceOp reduce_op;
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

class ProcessGroup : public c10::Target {};
class Backend : public c10::Target {};
#ifdef FAKE_TORCH_2
using Base = Backend;
#else
using Base = ProcessGroup;
#endif
#ifdef FAKE_LATER
#define _allgather_base all_gather_single
#define alltoall_base all_to_all_single
#define allgather_into_tensor_coalesced all_gather_single_coalesced
#define _reduce_scatter_base reduce_scatter_single
#define reduce_scatter_tensor_coalesced reduce_scatter_single_coalesced
#endif

namespace {
// Of an operation that is made of another one: its functions are not seen by anyone.
class LambdaWork : public Work {
 public:
  bool wait(Milliseconds timeout) override { return inner.pointer->wait(timeout); }
  WorkPtr inner;
};
}  // namespace

class ProcessGroupGloo : public Base {
 public:
  struct Options : c10::Target {};
  class AsyncWork : public Work {
   public:
#ifdef FAKE_TORCH_2
    static void execute(const c10::intrusive_ptr<AsyncWork>& work);
#else
    static void execute(c10::intrusive_ptr<AsyncWork> work);
#endif
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
  virtual WorkPtr broadcast(Tensors&, const BroadcastOptions&);
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
#ifdef FAKE_TORCH_2
  virtual WorkPtr allgather_into_tensor_coalesced(Tensors&, Tensors&, const AllgatherOptions&);
  virtual WorkPtr _reduce_scatter_base(at::Tensor&, at::Tensor&, const ReduceScatterOptions&);
  virtual WorkPtr reduce_scatter_tensor_coalesced(Tensors&, Tensors&, const ReduceScatterOptions&);
  const std::unique_ptr<Work> made_of_others{new LambdaWork};
#endif
#ifdef FAKE_LATER
  virtual WorkPtr alltoall(Tensors&, Tensors&, const AllToAllOptions&);
  void connectContexts(int rank, int size, const c10::intrusive_ptr<Store>& store);
#endif

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

#ifdef FAKE_TORCH_2
void ProcessGroupGloo::AsyncWork::execute(const c10::intrusive_ptr<AsyncWork>& work) {
  work->wait(Milliseconds(0));
}
#else
void ProcessGroupGloo::AsyncWork::execute(c10::intrusive_ptr<AsyncWork> work) { work->wait(Milliseconds(0)); }
#endif
bool ProcessGroupGloo::SendWork::wait(Milliseconds timeout) { return timeout.count() == 5; }
bool ProcessGroupGloo::RecvWork::wait(Milliseconds timeout) { return timeout.count() == 6; }
int ProcessGroupGloo::RecvWork::sourceRank() const { return source; }
ProcessGroupGloo::ProcessGroupGloo(const c10::intrusive_ptr<Store>& store, int r, int s,
                                   c10::intrusive_ptr<Options> options)
    : rank(r), size(s) {
#ifdef FAKE_LATER
  connectContexts(r, s, store);
#endif
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

#ifdef FAKE_TORCH_2
WorkPtr ProcessGroupGloo::allgather_into_tensor_coalesced(Tensors& a, Tensors& b, const AllgatherOptions& o) {
  return keep(work, &a, &b, &o);
}
WorkPtr ProcessGroupGloo::_reduce_scatter_base(at::Tensor& a, at::Tensor& b, const ReduceScatterOptions& o) {
  Tensors outputs{a}, inputs{b};
  const WorkPtr made = reduce_scatter_tensor_coalesced(outputs, inputs, o);
  return keep(*made.pointer, &a, &b, &o);
}
WorkPtr ProcessGroupGloo::reduce_scatter_tensor_coalesced(Tensors& a, Tensors& b,
                                                          const ReduceScatterOptions& o) {
  static_cast<LambdaWork*>(made_of_others.get())->inner = allreduce(b, AllreduceOptions());
  return keep(*made_of_others, &a, &b, &o);
}
#endif
#ifdef FAKE_LATER
WorkPtr ProcessGroupGloo::alltoall(Tensors& a, Tensors& b, const AllToAllOptions& o) {
  return keep(work, &a, &b, &o);
}
void ProcessGroupGloo::connectContexts(int r, int s, const c10::intrusive_ptr<Store>& store) {
  rank = r;
  size = s;
  given[0] = store.pointer;
}
#endif

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

// As a library that uses this one constructs a group.
ProcessGroupGloo* new_group(const c10::intrusive_ptr<Store>& store, int rank, int size,
                            c10::intrusive_ptr<ProcessGroupGloo::Options> options) {
#ifdef FAKE_SYMBOLIC
  auto* const construct = reinterpret_cast<void (*)(void*, const c10::intrusive_ptr<Store>&, int, int,
                                                    c10::intrusive_ptr<ProcessGroupGloo::Options>*)>(
      dlsym(RTLD_DEFAULT,
            "_ZN4c10d16ProcessGroupGlooC1ERKN3c1013intrusive_ptrINS_5StoreENS1_6detail34intrusive_target_"
            "default_null_typeIS3_EEEEiiNS2_INS0_7OptionsENS5_ISA_EEEE"));
  if (construct != nullptr) {
    void* const memory = ::operator new(sizeof(ProcessGroupGloo));
    construct(memory, store, rank, size, &options);
    return static_cast<ProcessGroupGloo*>(memory);
  }
#endif
  return new ProcessGroupGloo(store, rank, size, options);
}

}  // namespace

extern "C" int fake_scenario() {
  at::TensorImpl impl{};
  impl.elements = 100;
  impl.type = 6;
  Tensors tensors{{&impl}, {&impl}};
  Lists lists{tensors, tensors};
  at::Tensor single{&impl}, other{&impl};
  std::vector<std::int64_t> ins, outs;
  Store base;
  PrefixStore outer("default_pg", c10::intrusive_ptr<Store>(&base));
  PrefixStore of_pair("pair/", c10::intrusive_ptr<Store>(&outer));
#ifdef FAKE_TORCH_2
  PrefixStore prefix("cpu/", c10::intrusive_ptr<Store>(&outer));
  PrefixStore pair("cpu/", c10::intrusive_ptr<Store>(&of_pair));
#else
  PrefixStore &prefix = outer, &pair = of_pair;
#endif
  const c10::intrusive_ptr<Store> store(&prefix);
  ProcessGroupGloo::Options options;
  // Calls go through the table of virtual functions.
  ProcessGroupGloo* volatile pointer =
      new_group(store, 0, 2, c10::intrusive_ptr<ProcessGroupGloo::Options>(&options));
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
  ProcessGroupGloo* const second = new_group(c10::intrusive_ptr<Store>(&pair), 0, 2,
                                             c10::intrusive_ptr<ProcessGroupGloo::Options>(&options));
  check(second->barrier(barrier)->wait(Milliseconds(0)), "a second group");
#ifdef FAKE_TORCH_2
  ReduceScatterOptions scattered;
  is_given(group->allgather_into_tensor_coalesced(tensors, tensors, allgather), &group->work,
           {&tensors, &tensors, &allgather}, "into");
  is_given(group->_reduce_scatter_base(single, other, scattered), group->made_of_others.get(),
           {&single, &other, &scattered}, "reduce_scatter");
  is_given(group->reduce_scatter_tensor_coalesced(tensors, tensors, scattered), group->made_of_others.get(),
           {&tensors, &tensors, &scattered}, "reduce_scatter of several");
#endif
#ifdef FAKE_LATER
  is_given(group->alltoall(tensors, tensors, alltoall), &group->work, {&tensors, &tensors, &alltoall},
           "alltoall of several");
  group->connectContexts(0, 2, c10::intrusive_ptr<Store>(&outer));
  check(group->given[0] == &outer && group->rank == 0 && group->size == 2, "connect");
#endif
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

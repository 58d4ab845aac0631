// SPDX-License-Identifier: BSD-3-Clause
// A library with those classes and functions of libtorch by which its operators are seen, under the same
// mangled names, with objects that are laid out as there, and callbacks that are called as there. Its
// operators do nothing.
//
// FAKE_KEYWORDS: objects as in later releases than 1.13. FAKE_UNKNOWN: as in none. FAKE_OLDER: without one of
// the functions.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace fake {

// A list as c10::SmallVector is: what it has is inside of it. More than four are not needed here.
template <typename T>
class FewOf {
 public:
  FewOf() noexcept : first_(place_) {}
  FewOf(const FewOf& other) : first_(place_) {
    for (const T& one : other) add(one);
  }
  FewOf(FewOf&& other) noexcept : first_(place_) {
    for (T& one : other) add(std::move(one));
    other.clear();
  }
  ~FewOf() { clear(); }
  FewOf& operator=(const FewOf&) = delete;
  template <typename... Arguments>
  void add(Arguments&&... arguments) {
    if (count_ == kRoom) throw std::length_error("more than four callbacks");
    new (begin() + count_) T(std::forward<Arguments>(arguments)...);
    ++count_;
  }
  void clear() noexcept {
    while (count_ != 0) begin()[--count_].~T();
  }
  T* begin() const noexcept { return static_cast<T*>(first_); }
  T* end() const noexcept { return begin() + count_; }
  std::uint32_t size() const noexcept { return count_; }

 private:
  static constexpr std::uint32_t kRoom = 4;
  void* first_;
  std::uint32_t count_ = 0, room_ = kRoom;
  alignas(T) unsigned char place_[kRoom * sizeof(T)];
};

}  // namespace fake

namespace at {

enum class RecordScope : std::uint8_t {
  FUNCTION,
  BACKWARD_FUNCTION,
  TORCHSCRIPT_FUNCTION,
  KERNEL_FUNCTION_DTYPE,
  CUSTOM_CLASS,
  BUILD_FEATURE,
  LITE_INTERPRETER,
  USER_SCOPE,
  STATIC_RUNTIME_OP,
  STATIC_RUNTIME_MODEL,
  NUM_SCOPES
};

struct ObserverContext {
  virtual ~ObserverContext() = default;
};
struct RecordFunction;
using Start = std::unique_ptr<ObserverContext> (*)(const RecordFunction&);
using End = void (*)(const RecordFunction&, ObserverContext*);

class RecordFunctionCallback {
 public:
  Start start = nullptr;
  End end = nullptr;
  double sampling_probability = 1.0;
  bool scopes[static_cast<std::size_t>(RecordScope::NUM_SCOPES)] = {};
  bool needs_inputs = false, needs_outputs = false, needs_ids = false;
};

struct StepCallbacks {
  struct Pair {
    Start start;
    End end;
  };
  fake::FewOf<Pair> callbacks;
  std::uint64_t thread = 0;
  RecordScope scope = RecordScope::FUNCTION;
  bool needs_inputs = false, needs_outputs = false, needs_ids = false;
};

namespace {

std::mutex g_lock;
std::vector<RecordFunctionCallback> g_callbacks;
thread_local std::uint64_t t_next_node = 0;

}  // namespace

struct Schema {
  std::string name;
};

struct [[gnu::visibility("default")]] RecordFunction {
  explicit RecordFunction(RecordScope scope);
  explicit RecordFunction(StepCallbacks && step);
  RecordFunction(const RecordFunction&) = delete;
  RecordFunction& operator=(const RecordFunction&) = delete;
  virtual ~RecordFunction();
  const char* name() const;
  static std::uint64_t currentThreadId();

  void before(std::variant<std::string, std::reference_wrapper<const Schema>> what, std::int64_t node);
  void end();
  void set_forward_thread(std::uint64_t thread) { forward_thread_ = thread; }

 private:
  struct Inputs {
    const void* first = nullptr;
    std::size_t count = 0;
  };
  StepCallbacks step_;
  bool has_begun_ = false;
  fake::FewOf<std::unique_ptr<ObserverContext>> contexts_;
  std::variant<std::string, std::reference_wrapper<const Schema>> name_;
#ifdef FAKE_UNKNOWN
  std::int64_t more_ = -1;
#endif
  std::int64_t node_ = -1;
  Inputs inputs_;
#ifdef FAKE_KEYWORDS
  std::unordered_map<std::string, int> keywords_;
#endif
  std::vector<int> outputs_;
  std::uint64_t forward_thread_ = 0;
  std::uint64_t handle_ = 0;
  bool is_asynchronous_ = false;
  std::int64_t debug_handle_ = -1;
  bool is_static_ = false;
#ifdef FAKE_KEYWORDS
  bool is_nccl_ = false;
#endif
};

[[gnu::visibility("default"), gnu::noinline]] StepCallbacks getStepCallbacks(RecordScope scope) {
  StepCallbacks step;
  step.thread = RecordFunction::currentThreadId();
  step.scope = scope;
  const std::lock_guard held(g_lock);
  for (const RecordFunctionCallback& callback : g_callbacks)
    if (callback.scopes[static_cast<std::size_t>(scope)] && callback.sampling_probability == 1.0)
      step.callbacks.add(StepCallbacks::Pair{callback.start, callback.end});
  return step;
}

[[gnu::visibility("default"), gnu::noinline]] std::optional<StepCallbacks> getStepCallbacksUnlessEmpty(
    RecordScope scope) {
  StepCallbacks step = getStepCallbacks(scope);
  if (step.callbacks.size() == 0) return std::nullopt;
  return std::optional<StepCallbacks>(std::move(step));
}

[[gnu::visibility("default")]] std::uint64_t addGlobalCallback(RecordFunctionCallback callback) {
  const std::lock_guard held(g_lock);
  g_callbacks.push_back(callback);
  return g_callbacks.size();
}

RecordFunction::RecordFunction(RecordScope scope) : RecordFunction(getStepCallbacks(scope)) {}
RecordFunction::RecordFunction(StepCallbacks&& step) : step_(std::move(step)) {
  for (std::uint32_t i = 0; i < step_.callbacks.size(); ++i) contexts_.add(nullptr);
}
RecordFunction::~RecordFunction() { end(); }

const char* RecordFunction::name() const {
  if (const auto* const text = std::get_if<std::string>(&name_)) return text->c_str();
  return std::get<1>(name_).get().name.c_str();
}

void RecordFunction::before(std::variant<std::string, std::reference_wrapper<const Schema>> what,
                            std::int64_t node) {
  name_ = std::move(what);
  node_ = node;
  for (std::uint32_t i = 0; i < step_.callbacks.size(); ++i)
    contexts_.begin()[i] = step_.callbacks.begin()[i].start(*this);
  has_begun_ = true;
}

void RecordFunction::end() {
  if (!has_begun_) return;
  for (std::uint32_t i = 0; i < step_.callbacks.size(); ++i)
    step_.callbacks.begin()[i].end(*this, contexts_.begin()[i].get());
  step_.callbacks.clear();
  has_begun_ = false;
}

std::uint64_t RecordFunction::currentThreadId() {
  static std::atomic<std::uint64_t> latest = 0;
  static thread_local std::uint64_t own = 0;
  if (own == 0) own = ++latest;
  return own;
}

#ifndef FAKE_OLDER
namespace sequence_number {
[[gnu::visibility("default")]] std::uint64_t peek() { return t_next_node; }
}  // namespace sequence_number
#endif

}  // namespace at

namespace {

using at::RecordScope;

// As libtorch's dispatcher does it.
template <typename Body>
void call_operator(const at::Schema& schema, const Body& body) {
  auto step = at::getStepCallbacksUnlessEmpty(RecordScope::FUNCTION);
  if (!step) return body();
  at::RecordFunction record(std::move(*step));
  record.before(std::cref(schema), static_cast<std::int64_t>(at::t_next_node));
  body();
}

}  // namespace

extern "C" {

// An operator that calls the next one, `count` in all. The innermost one makes so many nodes.
[[gnu::visibility("default")]] void fake_operators(const char* const* names, int count, int nodes) {
  const at::Schema schema{names[0]};
  call_operator(schema, [&] {
    if (count > 1) return fake_operators(names + 1, count - 1, nodes);
    at::t_next_node += static_cast<std::uint64_t>(nodes);
  });
}

// The number that the thread's next node will have, and that of the thread.
[[gnu::visibility("default")]] std::uint64_t fake_next_node(void) { return at::t_next_node; }
[[gnu::visibility("default")]] std::uint64_t fake_thread(void) {
  return at::RecordFunction::currentThreadId();
}

// As autograd's engine does it: a range of its own around that of the node, which calls an operator.
[[gnu::visibility("default")]] void fake_backward(const char* name, const char* inner, std::int64_t node,
                                                  std::uint64_t thread) {
  at::RecordFunction around(RecordScope::FUNCTION);
  around.before(std::string("autograd::engine::evaluate_function: ") + name, node);
  auto step = at::getStepCallbacksUnlessEmpty(RecordScope::BACKWARD_FUNCTION);
  std::optional<at::RecordFunction> record;
  if (step) {
    record.emplace(std::move(*step));
    record->set_forward_thread(thread);
    record->before(std::string(name), node);
  }
  const at::Schema schema{inner};
  call_operator(schema, [] {});
}

// An operator that throws. 1: what it threw has come here.
[[gnu::visibility("default")]] int fake_throw(const char* name) {
  const at::Schema schema{name};
  try {
    call_operator(schema, [] { throw std::runtime_error("an operator"); });
  } catch (const std::runtime_error&) {
    return 1;
  }
  return 0;
}

[[gnu::visibility("default")]] void* fake_begin(const char* name, int scope) {
  auto* const record = new at::RecordFunction(static_cast<RecordScope>(scope));
  record->before(std::string(name), -1);
  return record;
}
[[gnu::visibility("default")]] void fake_end(void* record) {
  delete static_cast<at::RecordFunction*>(record);
}

// Nanoseconds of one of so many operators.
[[gnu::visibility("default")]] double fake_cost(int operators) {
  const at::Schema schema{"aten::add"};
  const auto from = std::chrono::steady_clock::now();
  for (int i = 0; i < operators; ++i) call_operator(schema, [] { __asm__ volatile(""); });
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - from;
  return time.count() / operators;
}
}

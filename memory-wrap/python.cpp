// SPDX-License-Identifier: BSD-3-Clause
// Up to CPython 3.13, a sampled object is diverted: pymalloc is asked for more than it has pools for, so that
// it gets the block from malloc, where it is recorded. When the object is freed, pymalloc finds it in no pool
// and calls free(), which we see. So nothing stands in front of PyObject_Free, and the interpreter's own
// counts stay right.
//
// In later versions it stays in the pool that it has anyway, and a hook in front of PyObject_Free sees its
// end.
//
// The hooks may be put in while other threads run Python: each of the words that change is valid with the old
// and with the new value of the others, since `ctx` stays what it is.
#include "memory-wrap/python.hpp"

#include <dlfcn.h>

#include <cstring>

#include "memory-wrap/slow_path.hpp"

namespace clusterprof::memory_wrap {
namespace {

// As in pymem.h and objimpl.h.
struct Allocator {
  void* context;
  void* (*allocate)(void*, std::size_t);
  void* (*allocate_zeroed)(void*, std::size_t, std::size_t);
  void* (*reallocate)(void*, void*, std::size_t);
  void (*free)(void*, void*);
};
struct ArenaAllocator {
  void* context;
  void* (*allocate)(void*, std::size_t);
  void (*free)(void*, void*, std::size_t);
};
enum Domain : int { kRaw = 0, kMem = 1, kObject = 2 };

constexpr std::size_t kLargestSmall = 512;  // of pymalloc's pools
constexpr std::size_t kDiverted = kLargestSmall + 1;

constinit Allocator g_original[3] = {};
constinit ArenaAllocator g_original_arena = {};

// While an object lives, the blocks that malloc gives to this thread are the interpreter's.
class OfPython {
 public:
  OfPython() noexcept : before_(t_state.of_python) { t_state.of_python = true; }
  ~OfPython() { t_state.of_python = before_; }
  OfPython(const OfPython&) = delete;
  OfPython& operator=(const OfPython&) = delete;

 private:
  bool before_;
};

// While an object lives, the next block that malloc gives to this thread is recorded as this sample.
class Diversion {
 public:
  Diversion(const Sample& sample, std::size_t bytes) noexcept
      : left_(t_state.heap.left), before_(t_state.request) {
    t_state.request = {true, bytes, sample};
    t_state.heap.left = 0;  // leads malloc to the slow path
  }
  ~Diversion() {
    t_state.request = before_;
    t_state.heap.left = left_;
  }
  Diversion(const Diversion&) = delete;
  Diversion& operator=(const Diversion&) = delete;
  [[nodiscard]] static bool is_done() noexcept { return !t_state.request.is_open; }

 private:
  OfPython of_python_;
  std::int64_t left_;
  ObjectRequest before_;
};

[[gnu::noinline]] void* allocate_slowly(const Allocator& original, void* context, std::size_t bytes,
                                        bool zeroed) noexcept {
  clusterprof_memory_wrap_v1.python_called.store(true, std::memory_order_relaxed);
  const auto allocate = [&](std::size_t size) {
    return zeroed ? original.allocate_zeroed(context, 1, size) : original.allocate(context, size);
  };
  if (bytes > kLargestSmall) {
    const OfPython of_python;
    return allocate(bytes);
  }
  const Sample sample = decide(bytes);
  if (!sample.taken) return allocate(bytes);
  const Diversion diversion(sample, bytes);
  return allocate(kDiverted);
}

// The object may be in a pool, or come from malloc: only pymalloc knows.
[[gnu::noinline]] void* reallocate_slowly(const Allocator& original, void* context, void* object,
                                          std::size_t bytes) noexcept {
  clusterprof_memory_wrap_v1.python_called.store(true, std::memory_order_relaxed);
  if (object == nullptr) return allocate_slowly(original, context, bytes, false);
  if (bytes > kLargestSmall) {
    const OfPython of_python;
    return original.reallocate(context, object, bytes);
  }
  const Sample sample = decide(bytes);
  if (!sample.taken) return original.reallocate(context, object, bytes);
  void* moved = nullptr;
  {
    const Diversion diversion(sample, bytes);
    moved = original.reallocate(context, object, bytes);
    if (moved == nullptr || diversion.is_done()) return moved;
  }
  // It is in a pool, and has its new size.
  void* diverted = nullptr;
  {
    const Diversion diversion(sample, bytes);
    diverted = original.allocate(context, kDiverted);
  }
  if (diverted == nullptr) return moved;
  std::memcpy(diverted, moved, bytes);
  original.free(context, moved);
  return diverted;
}

template <Domain kDomain>
void* hooked_allocate(void* context, std::size_t bytes) noexcept {
  const Allocator& original = g_original[kDomain];
  if (bytes > kLargestSmall || is_due(bytes)) [[unlikely]]
    return allocate_slowly(original, context, bytes, false);
  return original.allocate(context, bytes);
}

template <Domain kDomain>
void* hooked_allocate_zeroed(void* context, std::size_t count, std::size_t size) noexcept {
  const Allocator& original = g_original[kDomain];
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return original.allocate_zeroed(context, count, size);
  if (bytes > kLargestSmall || is_due(bytes)) [[unlikely]]
    return allocate_slowly(original, context, bytes, true);
  return original.allocate_zeroed(context, count, size);
}

template <Domain kDomain>
void* hooked_reallocate(void* context, void* object, std::size_t bytes) noexcept {
  const Allocator& original = g_original[kDomain];
  if (bytes > kLargestSmall || is_due(bytes)) [[unlikely]]
    return reallocate_slowly(original, context, object, bytes);
  return original.reallocate(context, object, bytes);
}

[[gnu::noinline]] void* allocate_in_place(const Allocator& original, void* context, std::size_t bytes,
                                          bool zeroed) noexcept {
  clusterprof_memory_wrap_v1.python_called.store(true, std::memory_order_relaxed);
  const auto allocate = [&] {
    return zeroed ? original.allocate_zeroed(context, 1, bytes) : original.allocate(context, bytes);
  };
  if (bytes > kLargestSmall) {  // malloc's
    const OfPython of_python;
    return allocate();
  }
  const Sample sample = decide(bytes);
  if (!sample.taken) return allocate();
  void* object = nullptr;
  {
    const Counted counted;  // without an arena, pymalloc asks malloc
    object = allocate();
  }
  const OfPython of_python;
  record(sample, object, bytes, nullptr);
  return object;
}

[[gnu::noinline]] void* reallocate_in_place(const Allocator& original, void* context, void* object,
                                            std::size_t bytes) noexcept {
  clusterprof_memory_wrap_v1.python_called.store(true, std::memory_order_relaxed);
  if (object == nullptr) return allocate_in_place(original, context, bytes, false);
  const auto ends = [](Reallocation& old, const void* moved) {
    if (moved == nullptr)
      old.failed();
    else
      old.succeeded();
  };
  Reallocation old(object);
  if (bytes > kLargestSmall) {
    const OfPython of_python;
    if (old.bytes() > kLargestSmall) {
      old.failed();  // malloc's, and realloc sees what becomes of it
      return original.reallocate(context, object, bytes);
    }
    void* const moved = original.reallocate(context, object, bytes);
    ends(old, moved);
    return moved;
  }
  const Sample sample = decide(bytes);
  void* moved = nullptr;
  {
    const Counted counted;  // malloc's blocks stay malloc's when they become small
    moved = original.reallocate(context, object, bytes);
  }
  ends(old, moved);
  if (!sample.taken) return moved;
  const OfPython of_python;
  record(sample, moved, bytes, nullptr);
  return moved;
}

template <Domain kDomain>
void* placed_allocate(void* context, std::size_t bytes) noexcept {
  const Allocator& original = g_original[kDomain];
  if (bytes > kLargestSmall || is_due(bytes)) [[unlikely]]
    return allocate_in_place(original, context, bytes, false);
  return original.allocate(context, bytes);
}

template <Domain kDomain>
void* placed_allocate_zeroed(void* context, std::size_t count, std::size_t size) noexcept {
  const Allocator& original = g_original[kDomain];
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return original.allocate_zeroed(context, count, size);
  if (bytes > kLargestSmall || is_due(bytes)) [[unlikely]]
    return allocate_in_place(original, context, bytes, true);
  return original.allocate_zeroed(context, count, size);
}

template <Domain kDomain>
void* placed_reallocate(void* context, void* object, std::size_t bytes) noexcept {
  const Allocator& original = g_original[kDomain];
  if (bytes > kLargestSmall || filter_may_have(g_filter, object) || is_due(bytes)) [[unlikely]]
    return reallocate_in_place(original, context, object, bytes);
  return original.reallocate(context, object, bytes);
}

template <Domain kDomain>
void placed_free(void* context, void* object) noexcept {
  if (filter_may_have(g_filter, object)) [[unlikely]]
    note_free(object);
  g_original[kDomain].free(context, object);
}

template <Domain kDomain>
Allocator hooks(agent::ObjectRecording how) noexcept {
  const Allocator& original = g_original[kDomain];
  if (how == agent::ObjectRecording::kDiverted)
    return {original.context, hooked_allocate<kDomain>, hooked_allocate_zeroed<kDomain>,
            hooked_reallocate<kDomain>, original.free};
  return {original.context, placed_allocate<kDomain>, placed_allocate_zeroed<kDomain>,
          placed_reallocate<kDomain>, placed_free<kDomain>};
}

void* hooked_arena(void* context, std::size_t bytes) noexcept {
  t_state.maps_for_heap = true;
  void* const arena = g_original_arena.allocate(context, bytes);
  t_state.maps_for_heap = false;
  return arena;
}

}  // namespace

bool hook_python(void* handle, agent::ObjectRecording how) noexcept {
  using GetAllocator = void(int, Allocator*);
  using GetArenaAllocator = void(ArenaAllocator*);
  auto* const get = reinterpret_cast<GetAllocator*>(dlsym(handle, "PyMem_GetAllocator"));
  auto* const set = reinterpret_cast<GetAllocator*>(dlsym(handle, "PyMem_SetAllocator"));
  auto* const get_arena = reinterpret_cast<GetArenaAllocator*>(dlsym(handle, "PyObject_GetArenaAllocator"));
  auto* const set_arena = reinterpret_cast<GetArenaAllocator*>(dlsym(handle, "PyObject_SetArenaAllocator"));
  dlerror();
  if (get == nullptr || set == nullptr || get_arena == nullptr || set_arena == nullptr) return false;
  get(kMem, &g_original[kMem]);
  get(kObject, &g_original[kObject]);
  // What malloc gives out anyway is counted there: with PYTHONMALLOC=malloc, or built without pymalloc.
  Allocator raw = {};
  get(kRaw, &raw);
  if (g_original[kObject].allocate == raw.allocate || g_original[kMem].allocate == raw.allocate) return false;
  clusterprof_memory_wrap_v1.python_hooked.store(true, std::memory_order_relaxed);
  get_arena(&g_original_arena);
  ArenaAllocator arena = {g_original_arena.context, hooked_arena, g_original_arena.free};
  set_arena(&arena);
  Allocator mem = hooks<kMem>(how), object = hooks<kObject>(how);
  set(kMem, &mem);
  set(kObject, &object);
  return true;
}

}  // namespace clusterprof::memory_wrap

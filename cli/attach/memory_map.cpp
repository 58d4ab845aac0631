// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/memory_map.hpp"

#include <elfutils/libdwfl.h>

#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base_name.hpp"

namespace clusterprof::cli::attach {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLongestWalk{10};  // the thread is held meanwhile

// Nothing but what is in the objects themselves is needed.
int no_debug_file(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                  char**) {
  return -1;
}

constexpr Dwfl_Callbacks kCallbacks = {dwfl_linux_proc_find_elf, no_debug_file, nullptr, nullptr};

struct EndDwfl {
  void operator()(Dwfl* dwfl) const noexcept { dwfl_end(dwfl); }
};

std::string file_of(Dwfl_Module* module) {
  const char* main_file = nullptr;
  const char* const name =
      dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, &main_file, nullptr);
  return main_file != nullptr ? main_file : name != nullptr ? name : "";
}

// Where an object has all of its symbols, those with versions are called "dlopen@@GLIBC_2.34", and older
// ones, which nothing is linked to any more, "dlopen@GLIBC_2.2.5".
bool is_named(std::string_view symbol, std::string_view name) {
  return symbol.starts_with(name) &&
         (symbol.size() == name.size() || symbol.substr(name.size()).starts_with("@@"));
}

std::uint64_t find_function(Dwfl_Module* module, const std::string& name) {
  const int count = dwfl_module_getsymtab(module);
  for (int i = 1; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    GElf_Word section = SHN_UNDEF;
    const char* const found =
        dwfl_module_getsym_info(module, i, &symbol, &address, &section, nullptr, nullptr);
    if (found == nullptr || section == SHN_UNDEF || GELF_ST_TYPE(symbol.st_info) != STT_FUNC ||
        GELF_ST_BIND(symbol.st_info) == STB_LOCAL)
      continue;
    if (is_named(found, name)) return address;
  }
  return 0;
}

}  // namespace

struct MemoryMap::Impl {
  struct Object {
    Dwfl_Module* module;
    std::string file;
    Place place;
  };

  std::unique_ptr<Dwfl, EndDwfl> dwfl{dwfl_begin(&kCallbacks)};
  std::vector<Object> objects;

  static int add(Dwfl_Module* module, void**, const char*, Dwarf_Addr, void* given) {
    auto& self = *static_cast<Impl*>(given);
    std::string file = file_of(module);
    const Place place = place_of_object(file);
    self.objects.push_back({module, std::move(file), place});
    return DWARF_CB_OK;
  }

  [[nodiscard]] const Object* at(std::uint64_t address) const {
    Dwfl_Module* const module = dwfl_addrmodule(dwfl.get(), address);
    for (const Object& object : objects)
      if (module != nullptr && object.module == module) return &object;
    return nullptr;
  }

  struct Walk {
    const Impl* self;
    ThreadStack* stack;
    Clock::time_point end;
  };
  static int frame(Dwfl_Frame* state, void* given) {
    constexpr std::size_t kMostFrames = 2000;
    const auto& walk = *static_cast<const Walk*>(given);
    Dwarf_Addr pc = 0;
    bool is_activation = false;
    if (!dwfl_frame_pc(state, &pc, &is_activation)) return DWARF_CB_ABORT;
    if (!is_activation) --pc;  // behind the call
    StackFrame frame;
    if (const Object* const object = walk.self->at(pc)) {
      frame.place = object->place;
      const char* const name =
          frame.place == Place::kLibc ? dwfl_module_addrname(object->module, pc) : nullptr;
      if (name != nullptr) frame.function = name;
    }
    walk.stack->frames.push_back(std::move(frame));
    const bool is_enough = walk.stack->frames.size() == kMostFrames || Clock::now() >= walk.end;
    return is_enough ? DWARF_CB_ABORT : DWARF_CB_OK;
  }
};

MemoryMap::MemoryMap(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MemoryMap::MemoryMap(MemoryMap&&) noexcept = default;
MemoryMap& MemoryMap::operator=(MemoryMap&&) noexcept = default;
MemoryMap::~MemoryMap() = default;

Result<MemoryMap> MemoryMap::read(pid_t pid) {
  auto impl = std::make_unique<Impl>();
  const auto failed = [] {
    const char* const why = dwfl_errmsg(-1);
    return Error{std::string("its memory map cannot be read: ") + (why != nullptr ? why : "no reason known")};
  };
  Dwfl* const dwfl = impl->dwfl.get();
  if (dwfl == nullptr) return failed();
  if (const int error = dwfl_linux_proc_report(dwfl, pid); error != 0)
    return Error{std::string("its memory map cannot be read: ") +
                 (error > 0 ? std::strerror(error) : dwfl_errmsg(-1))};
  if (dwfl_report_end(dwfl, nullptr, nullptr) != 0) return failed();
  if (dwfl_getmodules(dwfl, Impl::add, impl.get(), 0) < 0) return failed();
  for (Impl::Object& object : impl->objects) {
    GElf_Addr bias = 0;
    (void)dwfl_module_getelf(object.module, &bias);
    (void)dwfl_module_eh_cfi(object.module, &bias);
    // Under whatever name. The program itself is never out of its own stack: has_own_malloc().
    if (object.place == Place::kLibc || &object == impl->objects.data())
      (void)dwfl_module_getsymtab(object.module);
    else if (object.place == Place::kProgram && find_function(object.module, "malloc") != 0)
      object.place = Place::kAllocator;
  }
  // The threads are stopped by this process when their stacks are asked for.
  if (const int error = dwfl_linux_proc_attach(dwfl, pid, true); error != 0) return failed();
  return MemoryMap(std::move(impl));
}

std::uint64_t MemoryMap::function_of_libc(const std::string& name) const {
  for (const Impl::Object& object : impl_->objects)
    if (object.place == Place::kLibc)
      if (const std::uint64_t address = find_function(object.module, name); address != 0) return address;
  return 0;
}

std::uint64_t MemoryMap::function_of(const std::string& file_name, const std::string& name) const {
  for (const Impl::Object& object : impl_->objects)
    if (base_name(object.file) == file_name)
      if (const std::uint64_t address = find_function(object.module, name); address != 0) return address;
  return 0;
}

// The program comes first.
bool MemoryMap::has_own_malloc() const {
  return !impl_->objects.empty() && find_function(impl_->objects.front().module, "malloc") != 0;
}

ThreadStack MemoryMap::stack_of(pid_t tid, long call) const {
  ThreadStack stack;
  stack.call = call;
  Impl::Walk walk{impl_.get(), &stack, Clock::now() + kLongestWalk};
  stack.complete = dwfl_getthread_frames(impl_->dwfl.get(), tid, Impl::frame, &walk) == 0;
  return stack;
}

}  // namespace clusterprof::cli::attach

// SPDX-License-Identifier: BSD-3-Clause
#include "cli/doctor/papi_facts.hpp"

#include <dlfcn.h>
#include <link.h>
#include <papi.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cli/doctor/fact_line.hpp"

namespace clusterprof::cli::doctor {
namespace {

constexpr const char* kPapiLibraries[] = {"libpapi.so.7", "libpapi.so.7.0", "libpapi.so"};

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::string ask_papi() {
  void* library = nullptr;
  std::string text;
  for (const char* name : kPapiLibraries)
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  const link_map* map = nullptr;
  text +=
      fact_line("library", ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : kPapiLibraries[0]);

  decltype(PAPI_library_init)* init = nullptr;
  decltype(PAPI_num_components)* count_components = nullptr;
  decltype(PAPI_get_component_info)* component_info = nullptr;
  decltype(PAPI_enum_event)* next_event = nullptr;
  decltype(PAPI_get_event_info)* event_info = nullptr;
  decltype(PAPI_query_event)* query = nullptr;
  decltype(PAPI_create_eventset)* create_set = nullptr;
  decltype(PAPI_add_event)* add_event = nullptr;
  decltype(PAPI_cleanup_eventset)* clean_set = nullptr;
  decltype(PAPI_strerror)* error_text = nullptr;
  if (!find(library, "PAPI_library_init", init) || !find(library, "PAPI_num_components", count_components) ||
      !find(library, "PAPI_get_component_info", component_info) ||
      !find(library, "PAPI_enum_event", next_event) || !find(library, "PAPI_get_event_info", event_info) ||
      !find(library, "PAPI_query_event", query) || !find(library, "PAPI_create_eventset", create_set) ||
      !find(library, "PAPI_add_event", add_event) || !find(library, "PAPI_cleanup_eventset", clean_set) ||
      !find(library, "PAPI_strerror", error_text))
    return text + fact_line("problem", "it lacks functions of PAPI 7");
  const int version = init(PAPI_VER_CURRENT);
  if (version != static_cast<int>(PAPI_VER_CURRENT))
    return text + fact_line("problem", version > 0
                                           ? "it is of another version than 7"
                                           : std::string("it does not start: ") + error_text(version));
  text += fact_line("version", std::to_string(PAPI_VERSION_MAJOR(version)) + "." +
                                   std::to_string(PAPI_VERSION_MINOR(version)));

  std::uint64_t native = 0;
  for (int i = 0; i < count_components(); ++i) {
    const PAPI_component_info_t* const info = component_info(i);
    if (info == nullptr) continue;
    text += fact_line("component", info->name, info->disabled != 0 ? info->disabled_reason : "");
    if (info->disabled == 0) native += static_cast<std::uint64_t>(info->num_native_events);
  }
  text += fact_line("native", std::to_string(native));

  int set = PAPI_NULL;
  const bool can_try = create_set(&set) == PAPI_OK;
  int event = static_cast<int>(PAPI_PRESET_MASK);
  for (int found = next_event(&event, PAPI_ENUM_FIRST); found == PAPI_OK;
       found = next_event(&event, PAPI_ENUM_EVENTS)) {
    PAPI_event_info_t info = {};
    if (event_info(event, &info) != PAPI_OK) continue;
    if (info.count == 0) {
      text += fact_line("unavailable", info.symbol, "not supported by this processor");
      continue;
    }
    int result = query(event);
    if (result == PAPI_OK && can_try) {
      result = add_event(set, event);
      clean_set(set);
    }
    if (result != PAPI_OK) {
      text += fact_line("unavailable", info.symbol, error_text(result));
    } else {
      text += fact_line("preset", info.symbol);
    }
  }
  return text;
}

PapiFacts papi_facts_of(const std::string& text) {
  PapiFacts facts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string entry = text.substr(at, end - at);
    at = end + 1;
    const std::size_t first = entry.find('\t');
    if (first == std::string::npos) continue;
    const std::size_t second = std::min(entry.find('\t', first + 1), entry.size());
    const std::string key = entry.substr(0, first), value = entry.substr(first + 1, second - first - 1);
    const std::string more = second < entry.size() ? entry.substr(second + 1) : std::string();
    if (key == "library") facts.library = value;
    if (key == "problem") facts.problem = value;
    if (key == "version") facts.version = value;
    if (key == "component") facts.components.push_back(more.empty() ? value : value + ": " + more);
    if (key == "native") facts.native_events = std::strtoull(value.c_str(), nullptr, 10);
    if (key == "preset") facts.presets.push_back(value);
    if (key == "unavailable") facts.unavailable.emplace_back(value, more);
  }
  return facts;
}

}  // namespace clusterprof::cli::doctor

// SPDX-License-Identifier: BSD-3-Clause
// Prints the compiled-in offsets: "MINOR FIELD VALUE" per line, for layouts_test.py. "13t" is 3.13 without
// GIL.
#include <cstdio>
#include <initializer_list>

#include "agent/pyabi/cpython_3_08.h"
#include "agent/pyabi/cpython_3_09.h"
#include "agent/pyabi/cpython_3_10.h"
#include "agent/pyabi/cpython_3_11.h"
#include "agent/pyabi/cpython_3_12.h"
#include "agent/pyabi/cpython_3_13.h"
#include "agent/pyabi/cpython_3_14.h"
#include "agent/pyabi/cpython_3_15.h"
#include "agent/pyabi/instance_layout.h"
#include "agent/pyabi/task_layout.h"
#include "agent/sigsafe/gc_state.h"

using namespace clusterprof::agent;

int main() {
  for (const PythonLayout* layout :
       {&kPython308, &kPython309, &kPython310, &kPython311, &kPython312, &kPython313, &kPython314,
        &kPython315, &kPython313FreeThreaded, &kPython314FreeThreaded, &kPython315FreeThreaded}) {
    const auto print = [layout](const char* field, unsigned value) {
      if (value != kAbsent)
        std::printf("%u%s %s %u\n", layout->minor, layout->free_threaded ? "t" : "", field, value);
    };
#define PRINT(field) print(#field, layout->field)
    PRINT(tstate_interp);
    PRINT(tstate_frame);
    PRINT(tstate_thread_id);
    PRINT(tstate_gil);
    PRINT(tstate_datastack_chunk);
    PRINT(tstate_datastack_top);
    PRINT(tstate_base_frame);
    PRINT(tstate_executor);
    PRINT(cframe_current_frame);
    PRINT(cframe_previous);
    PRINT(frame_code);
    PRINT(frame_previous);
    PRINT(frame_instruction);
    PRINT(frame_owner);
    PRINT(frame_is_entry);
    PRINT(generator_state);
    PRINT(code_filename);
    PRINT(code_name);
    PRINT(code_first_line);
    PRINT(code_line_table);
    PRINT(code_instructions);
    PRINT(bytes_size);
    PRINT(bytes_data);
    PRINT(str_length);
    PRINT(str_state);
    PRINT(str_ascii_data);
    PRINT(str_compact_data);
    PRINT(object_type);
    PRINT(str_state_shift);
    PRINT(frame_tlbc_index);
    PRINT(code_tlbc);
#undef PRINT
    if (layout->free_threaded) continue;  // nothing else is read there
    if (const InstanceLayout* const instance = instance_layout(layout->minor)) {
      print("frame_locals", instance->frame_locals);
      print("type_basic_size", kTypeBasicSize);
      print("type_flags", kTypeFlags);
      print("type_dict_offset", kTypeDictOffset);
      print("dict_keys", kDictKeys);
      print("dict_values", kDictValues);
      if (instance->minor >= 11) {
        print("keys_entry_count", instance->keys_entry_count);
        print("keys_size", instance->keys_size);
        print("keys_indices", instance->keys_indices);
        print("type_cached_keys", instance->type_cached_keys);
        print("values_data", instance->values_data);
        print("keys_kind", kKeysKind);
      }
      if (instance->minor == 13) print("values_valid", kValuesValid);
    }
    if (const TaskLayout* const task = task_layout(layout->minor)) {
      print("generator_frame", task->generator_frame);
      print("generator_frame_state", task->generator_state);
      print("stack_field", task->stack_field);
      if (task->stack_values != 0) print("stack_values", task->stack_values);
      if (task->function_code != 0) {
        print("function_code", task->function_code);
        print("function_closure", task->function_closure);
      }
      print("type_name", kTypeName);
      print("type_base", kTypeBase);
      print("builtin_definition", kBuiltinDefinition);
      print("builtin_self", kBuiltinSelf);
      print("method_function", kMethodFunction);
      print("method_self", kMethodSelf);
      print("sequence_size", kSequenceSize);
      if (layout->minor <= 13) print("tuple_items", kTupleItems);
      print("list_items", kListItems);
      print("cell_content", kCellContent);
      print("set_mask", kSetMask);
      print("set_table", kSetTable);
      print("set_entry_bytes", kSetEntryBytes);
    }
    if (layout->minor > 12) continue;
    print("gc_enabled", kGcEnabled);
    print("gc_debug", kGcDebug);
    print("gc_generations", kGcGenerations);
    print("gc_generation0", kGcGeneration0);
    print("gc_permanent", kGcPermanent);
    print("gc_stats", kGcStats);
    print("gc_collecting", kGcCollecting);
    print("gc_generation_threshold", kGcThreshold);
    print("gc_generation_count", kGcCount);
    print("gc_generation_bytes", kGcGenerationBytes);
  }
}

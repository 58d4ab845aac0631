# SPDX-License-Identifier: BSD-3-Clause
"""Compares the compiled-in offsets with the headers of every CPython whose headers are installed.

    layouts_test.py PRINT_LAYOUTS C_COMPILER"""
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile


def expressions(minor, free_threaded):
    """C expressions for the fields of PythonLayout."""
    def offset(type_, member):
        return "offsetof(%s, %s)" % (type_, member)

    old = minor < 11
    frame = "PyFrameObject" if old else "_PyInterpreterFrame"
    state = "PyThreadState"
    fields = {
        "tstate_interp": offset(state, "interp"),
        "tstate_frame": offset(state, "frame" if old else "cframe" if minor < 13 else "current_frame"),
        "tstate_thread_id": offset(state, "thread_id"),
        "frame_code": offset(frame, "f_code" if minor < 13 else "f_executable"),
        "frame_previous": offset(frame, "f_back" if old else "previous"),
        "frame_instruction": offset(frame, "f_lasti" if old else "prev_instr" if minor < 13 else "instr_ptr"),
        "code_filename": offset("PyCodeObject", "co_filename"),
        "code_name": offset("PyCodeObject", "co_name" if old else "co_qualname"),
        "code_first_line": offset("PyCodeObject", "co_firstlineno"),
        "code_line_table": offset("PyCodeObject", "co_lnotab" if minor < 10 else "co_linetable"),
        "bytes_size": offset("PyBytesObject", "ob_base.ob_size"),
        "bytes_data": offset("PyBytesObject", "ob_sval"),
        "str_length": offset("PyASCIIObject", "length"),
        "str_state": offset("PyASCIIObject", "state"),
        "str_ascii_data": "sizeof(PyASCIIObject)",
        "str_compact_data": "sizeof(PyCompactUnicodeObject)",
    }
    fields["object_type"] = offset("PyObject", "ob_type")
    fields["str_state_shift"] = ("({ PyASCIIObject text; memset(&text, 0, sizeof text); text.state.kind = 7; unsigned bits; "
                                 "memcpy(&bits, &text.state, sizeof bits); __builtin_ctz(bits) - 2; })")
    if not old:
        fields["tstate_datastack_chunk"] = offset(state, "datastack_chunk")
        fields["tstate_datastack_top"] = offset(state, "datastack_top")
        fields["frame_owner"] = offset(frame, "owner")
        fields["code_instructions"] = offset("PyCodeObject", "co_code_adaptive")
    if minor in (11, 12):
        fields["cframe_current_frame"] = offset("_PyCFrame", "current_frame")
        fields["cframe_previous"] = offset("_PyCFrame", "previous")
    if minor == 11:
        fields["frame_is_entry"] = offset(frame, "is_entry")
        fields["generator_state"] = offset("PyGenObject", "gi_iframe") + " - " + offset("PyGenObject", "gi_frame_state")
    if minor == 12:
        fields["tstate_gil"] = offset(state, "_status")
    if minor >= 13:
        fields["tstate_gil"] = offset(state, "state")
    if minor >= 14:
        fields["tstate_executor"] = offset(state, "current_executor")
    if minor >= 15:
        fields["tstate_base_frame"] = offset(state, "base_frame")
    if free_threaded:
        if minor >= 14:
            fields["frame_tlbc_index"] = offset(frame, "tlbc_index")
            fields["code_tlbc"] = offset("PyCodeObject", "co_tlbc")
        return fields
    if minor <= 12:
        for name, member in (("enabled", "enabled"), ("debug", "debug"), ("generations", "generations"),
                             ("generation0", "generation0"), ("permanent", "permanent_generation"),
                             ("stats", "generation_stats"), ("collecting", "collecting")):
            fields["gc_" + name] = offset("struct _gc_runtime_state", member)
        for name in ("threshold", "count"):
            fields["gc_generation_" + name] = offset("struct gc_generation", name)
        fields["gc_generation_bytes"] = "sizeof(struct gc_generation)"
    if minor <= 13:
        fields["frame_locals"] = offset(frame, "f_localsplus" if old else "localsplus")
        fields["type_basic_size"] = offset("PyTypeObject", "tp_basicsize")
        fields["type_flags"] = offset("PyTypeObject", "tp_flags")
        fields["type_dict_offset"] = offset("PyTypeObject", "tp_dictoffset")
        fields["dict_keys"] = offset("PyDictObject", "ma_keys")
        fields["dict_values"] = offset("PyDictObject", "ma_values")
    if 11 <= minor <= 13:  # before that, no header has them; truth.thread_names reads names there
        fields["keys_entry_count"] = offset("struct _dictkeysobject", "dk_nentries")
        fields["keys_size"] = offset("struct _dictkeysobject", "dk_log2_index_bytes")
        fields["keys_indices"] = offset("struct _dictkeysobject", "dk_indices")
        fields["type_cached_keys"] = offset("PyHeapTypeObject", "ht_cached_keys")
        fields["values_data"] = offset("struct _dictvalues", "values")
        fields["keys_kind"] = offset("struct _dictkeysobject", "dk_kind")
    if minor == 13:
        fields["values_valid"] = offset("struct _dictvalues", "valid")
    fields["generator_frame"] = offset("PyGenObject", "gi_frame" if old else "gi_iframe")
    if not old:
        fields["generator_frame_state"] = offset("PyGenObject", "gi_frame_state")
    fields["stack_field"] = offset(frame, "f_stacktop" if minor < 10 else "f_stackdepth" if minor == 10 else
                                   "stacktop" if minor <= 13 else "stackpointer")
    if minor == 10:
        fields["stack_values"] = offset(frame, "f_valuestack")
    if 11 <= minor <= 13:
        fields["stack_values"] = offset(frame, "localsplus")
    if minor <= 13:
        fields["function_code"] = offset("PyFunctionObject", "func_code")
        fields["function_closure"] = offset("PyFunctionObject", "func_closure")
    for name, type_, member in (("type_name", "PyTypeObject", "tp_name"), ("type_base", "PyTypeObject", "tp_base"),
                                ("builtin_definition", "PyCFunctionObject", "m_ml"),
                                ("builtin_self", "PyCFunctionObject", "m_self"),
                                ("method_function", "PyMethodObject", "im_func"),
                                ("method_self", "PyMethodObject", "im_self"),
                                ("sequence_size", "PyTupleObject", "ob_base.ob_size"),
                                ("list_items", "PyListObject", "ob_item"),
                                ("cell_content", "PyCellObject", "ob_ref"), ("set_mask", "PySetObject", "mask"),
                                ("set_table", "PySetObject", "table")):
        fields[name] = offset(type_, member)
    fields["set_entry_bytes"] = "sizeof(setentry)"
    if minor <= 13:  # not read in later versions
        fields["tuple_items"] = offset("PyTupleObject", "ob_item")
    return fields


def offsets(compiler, include, minor, free_threaded, folder):
    source, program = os.path.join(folder, "p.c"), os.path.join(folder, "p")
    lines = ["#define Py_BUILD_CORE 1", "#include <Python.h>", "#include <stddef.h>", "#include <stdio.h>",
             "#include <string.h>"]
    if minor < 11:
        lines += ["#include <frameobject.h>"]
    else:
        lines += ["#include <internal/pycore_frame.h>", "#include <internal/pycore_genobject.h>"]
    if 11 <= minor <= 13:
        lines += ["#include <internal/pycore_dict.h>"]
    if minor <= 12:
        lines += ["#include <internal/%s.h>" % ("pycore_pymem" if minor == 8 else "pycore_gc")]
    lines += ["int main(void) {"]
    lines += ['printf("%s %%zu\\n", (size_t)(%s));' % item for item in expressions(minor, free_threaded).items()]
    lines += ["}"]
    with open(source, "w") as file:
        file.write("\n".join(lines))
    kind = ["-DPy_GIL_DISABLED=1"] if free_threaded else []
    subprocess.run([compiler, "-w", *kind, "-I" + include, "-I" + os.path.join(include, "internal"), source, "-o", program],
                   check=True)
    output = subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout.decode()
    return {name: int(value) for name, value in (line.split() for line in output.splitlines())}


def main():
    printed = collections.defaultdict(dict)
    for line in subprocess.run([sys.argv[1]], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines():
        minor, field, value = line.split()
        printed[minor][field] = int(value)
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    found = glob.glob(os.path.join(root, "versions", "3.*", "include", "python3.*")) + glob.glob("/usr/include/python3.*")
    compared, failed = 0, False
    for include in sorted(found):
        minor = int(re.search(r"python3\.(\d+)", os.path.basename(include)).group(1))
        if str(minor) not in printed or not os.path.exists(os.path.join(include, "Python.h")):
            print("SKIPPED: nothing to compare with in", include)
            continue
        # The headers are the same with the GIL and without.
        for free_threaded in (False, True) if minor >= 13 else (False,):
            version = "%d%s" % (minor, "t" if free_threaded else "")
            with tempfile.TemporaryDirectory() as folder:
                actual = offsets(sys.argv[2], include, minor, free_threaded, folder)
            for field in sorted(set(actual) | set(printed[version])):
                if actual.get(field) != printed[version].get(field):
                    print("FAILED 3.%s %s: %s in %s, %s in the table" % (version, field, actual.get(field), include,
                                                                        printed[version].get(field)))
                    failed = True
            print("3.%s: %d offsets compared with %s" % (version, len(actual), include))
            compared += 1
    if not compared:
        print("SKIPPED: no CPython headers found")
        return 77
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

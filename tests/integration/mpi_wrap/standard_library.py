#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the C source of a library with the interface of the MPI standard that forwards to MPICH.

standard_library.py GENERATOR STANDARD_HEADER MPICH_INCLUDE MPICH_LIBRARY OUTPUT

For programs built against the standard's mpi.h, on as many ranks as MPICH's launcher starts. Handles, statuses, ranks, tags
and errors are translated; callbacks get MPICH's handles. A function that MPICH lacks, or whose arguments are not understood
here, returns MPI_ERR_UNSUPPORTED_OPERATION. With ONLY_PMPI defined, the library has the PMPI_ functions alone, and with ONLY_MPI
the others, which lead to those.
"""

import pathlib
import re
import sys

HANDLES = ("Comm", "Datatype", "Op", "Group", "Win", "File", "Session", "Message", "Info", "Errhandler", "Request")
RANKS = ("source", "dest", "rank", "root", "target_rank")
TAGS = ("tag", "sendtag", "recvtag")
# Numbers of the standard whose names are those of MPICH's constants, by argument. Flags are translated one by one.
CHOICES = {
    "required": ("MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"),
    "provided": ("MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"),
    "result": ("MPI_IDENT", "MPI_CONGRUENT", "MPI_SIMILAR", "MPI_UNEQUAL"),
    "split_type": ("MPI_COMM_TYPE_SHARED",),
    "lock_type": ("MPI_LOCK_EXCLUSIVE", "MPI_LOCK_SHARED"),
    "order": ("MPI_ORDER_C", "MPI_ORDER_FORTRAN"),
    "whence": ("MPI_SEEK_SET", "MPI_SEEK_CUR", "MPI_SEEK_END"),
    "comm_keyval": ("MPI_TAG_UB", "MPI_IO", "MPI_WTIME_IS_GLOBAL", "MPI_APPNUM", "MPI_UNIVERSE_SIZE", "MPI_KEYVAL_INVALID"),
    "win_keyval": ("MPI_WIN_BASE", "MPI_WIN_SIZE", "MPI_WIN_DISP_UNIT", "MPI_WIN_CREATE_FLAVOR", "MPI_WIN_MODEL"),
}
FLAGS = {
    "amode": ("MPI_MODE_APPEND", "MPI_MODE_CREATE", "MPI_MODE_DELETE_ON_CLOSE", "MPI_MODE_EXCL", "MPI_MODE_RDONLY",
              "MPI_MODE_RDWR", "MPI_MODE_SEQUENTIAL", "MPI_MODE_UNIQUE_OPEN", "MPI_MODE_WRONLY"),
    "assert": ("MPI_MODE_NOCHECK", "MPI_MODE_NOPRECEDE", "MPI_MODE_NOPUT", "MPI_MODE_NOSTORE", "MPI_MODE_NOSUCCEED"),
}
LENGTHS = {"array_of_requests": ("count", "incount"), "array_of_types": ("count",), "array_of_info": ("count",)}
BY_HAND = ("MPI_Abi_get_version", "MPI_Error_class", "MPI_Error_string", "MPI_Get_version", "MPI_Topo_test")

HEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct standard_status {
  int source, tag, error, internal[5];
};

static void* real(const char* name) {
  static void* library;
  // Its calls of functions of its own must not come back here.
  if (library == NULL) library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  void* function = library == NULL ? NULL : dlsym(library, name);
  if (function == NULL) abort();
  return function;
}
#define REAL(name) ((typeof(&name))real(#name))

static int rank_in(int rank) {
  return rank == -1 ? MPI_ANY_SOURCE : rank == -3 ? MPI_PROC_NULL : rank == -4 ? MPI_ROOT : rank;
}
static int rank_out(int rank) { return rank == MPI_ANY_SOURCE ? -1 : rank == MPI_PROC_NULL ? -3 : rank; }
static int tag_in(int tag) { return tag == -2 ? MPI_ANY_TAG : tag; }
static int tag_out(int tag) { return tag == MPI_ANY_TAG ? -2 : tag; }
static const void* buffer_in(const void* buffer) { return buffer == (void*)1 ? MPI_IN_PLACE : buffer; }
static const int* weights_in(const int* weights) {
  if (weights == (int*)10) return *(int**)real("MPI_UNWEIGHTED");
  return weights == (int*)11 ? *(int**)real("MPI_WEIGHTS_EMPTY") : weights;
}

// MPICH has one status for nobody's, and the standard has the null pointer.
static MPI_Status* statuses_in(const struct standard_status* theirs, int count) {
  if (theirs == NULL) return MPI_STATUSES_IGNORE;
  MPI_Status* ours = calloc((size_t)count + 1, sizeof *ours);
  for (int i = 0; i < count; ++i) {
    ours[i].MPI_SOURCE = rank_in(theirs[i].source);
    ours[i].MPI_TAG = tag_in(theirs[i].tag);
    ours[i].count_lo = theirs[i].internal[3];
    ours[i].count_hi_and_cancelled = theirs[i].internal[4];
  }
  return ours;
}
static int error_out(int code);
static void statuses_out(struct standard_status* theirs, MPI_Status* ours, int count, int with_errors) {
  if (theirs == NULL) return;
  for (int i = 0; i < count; ++i) {
    theirs[i].source = rank_out(ours[i].MPI_SOURCE);
    theirs[i].tag = tag_out(ours[i].MPI_TAG);
    theirs[i].internal[3] = ours[i].count_lo;
    theirs[i].internal[4] = ours[i].count_hi_and_cancelled;
    if (with_errors) theirs[i].error = error_out(ours[i].MPI_ERROR);
  }
  free(ours);
}

// How many blocks an operation on the communicator has.
static int peers(MPI_Comm comm) {
  int inter = 0, size = 0;
  REAL(PMPI_Comm_test_inter)(comm, &inter);
  if (inter) REAL(PMPI_Comm_remote_size)(comm, &size);
  else REAL(PMPI_Comm_size)(comm, &size);
  return size;
}
static int neighbours(MPI_Comm comm, int out) {
  int kind = 0, ins = 0, outs = 0, weighted = 0;
  REAL(PMPI_Topo_test)(comm, &kind);
  if (kind == MPI_CART) {
    REAL(PMPI_Cartdim_get)(comm, &ins);
    return 2 * ins;
  }
  if (kind == MPI_GRAPH) {
    int rank = 0;
    REAL(PMPI_Comm_rank)(comm, &rank);
    REAL(PMPI_Graph_neighbors_count)(comm, rank, &ins);
    return ins;
  }
  REAL(PMPI_Dist_graph_neighbors_count)(comm, &ins, &outs, &weighted);
  return out ? outs : ins;
}
"""


def constants(header):
    """Returns the values of the standard's constants: handles by kind, and numbers."""
    handles = {kind: {} for kind in HANDLES}
    for name, kind, value in re.findall(r"#define (MPI_\w+) \(\(MPI_(\w+)\)0x(\w+)\)", header):
        handles[kind][name] = int(value, 16)
    numbers = {name: int(value) for name, value in re.findall(r"^  (MPI_\w+) = (-?\d+),", header, re.M)}
    return handles, numbers


def translations(handles, numbers, in_mpich):
    out = []
    for kind in HANDLES:
        # MPICH's handles are integers, but for those of files.
        integer = "(intptr_t)" if kind == "File" else "(intptr_t)(int)"
        there = [(n, v) for n, v in handles[kind].items() if n in in_mpich]
        out += [f"static MPI_{kind} {kind}_in(void* handle) {{", "  switch ((uintptr_t)handle) {"]
        out += [f"    case {v:#x}: return {n};" for n, v in there]
        out += ["  }", f"  return (MPI_{kind})(intptr_t)handle;", "}"]
        out += [f"static void* {kind}_out(MPI_{kind} handle) {{"]
        out += [f"  if (handle == {n}) return (void*){v:#x};" for n, v in there]
        out += [f"  return (void*){integer}handle;", "}"]
    for name, choices in CHOICES.items():
        out += [f"static int {name}_in(int value) {{"]
        out += [f"  if (value == {numbers[c]}) return {c};" for c in choices]
        out += ["  return value;", "}", f"static int {name}_out(int value) {{"]
        out += [f"  if (value == {c}) return {numbers[c]};" for c in choices]
        out += ["  return value;", "}"]
    for name, flags in FLAGS.items():
        out += [f"static int {name}_in(int value) {{", "  return " +
                " | ".join(f"((value & {numbers[f]}) != 0 ? {f} : 0)" for f in flags) + ";", "}"]
    classes = [n for n in numbers if n.startswith("MPI_ERR_") and n in in_mpich and n != "MPI_ERR_LASTCODE"]
    out += ["static int error_out(int code) {", "  int kind = code;", "  if (code == MPI_SUCCESS) return 0;",
            "  REAL(PMPI_Error_class)(code, &kind);", "  switch (kind) {"]
    out += [f"    case {n}: return {numbers[n]};" for n in classes]
    out += ["  }", f"  return {numbers['MPI_ERR_OTHER']};", "}", "static int error_in(int code) {", "  switch (code) {"]
    out += [f"    case {numbers[n]}: return {n};" for n in classes]
    out += ["  }", "  return code;", "}"]
    return out


class NotUnderstood(Exception):
    pass


class Forward:
    """Writes one function."""

    def __init__(self, function):
        self.f = function
        self.parameters, self.before, self.passed, self.after = [], [], [], []
        for argument in function.arguments:
            self.argument(argument)

    def length(self, name):
        for candidate in LENGTHS.get(name, ()):
            if candidate in self.f.by_name:
                return candidate
        raise NotUnderstood

    def blocks(self, name):
        comm = "Comm_in(comm)"
        if "neighbor" in self.f.name.lower():
            return f"neighbours({comm}, {int(name.startswith('send'))})"
        return f"peers({comm})"

    def argument(self, a):
        kind, name = a.element.removeprefix("MPI_"), a.name
        stars = a.type.count("*")
        if kind in HANDLES:
            if stars == 0:
                self.take(f"void* {name}", f"{kind}_in({name})")
            elif "[" in a.declaration:
                count = self.blocks(name) if name in ("sendtypes", "recvtypes") else self.length(name)
                self.handles(name, kind, count, "const" not in a.declaration)
            else:
                self.before += [f"MPI_{kind} its_{name};", f"if ({name} != NULL) its_{name} = {kind}_in(*{name});"]
                self.take(f"void** {name}", f"{name} == NULL ? NULL : &its_{name}")
                self.after.append(f"if ({name} != NULL) *{name} = {kind}_out(its_{name});")
        elif kind == "Status":
            count, errors = "1", 0
            if name == "array_of_statuses":
                count, errors = self.length("array_of_requests"), 1
            constant = "const " if "const" in a.declaration else ""
            self.before.append(f"MPI_Status* its_{name} = statuses_in({name}, {count});")
            self.take(f"{constant}struct standard_status* {name}", f"its_{name}")
            if constant:
                self.after.append(f"free(its_{name});")
            else:
                errors = "returned == MPI_ERR_IN_STATUS" if errors else "0"
                self.after.append(f"statuses_out({name}, its_{name}, {count}, {errors});")
        elif stars == 0:
            how = "rank_in" if name in RANKS else "tag_in" if name in TAGS else \
                "error_in" if name in ("errorcode", "errorclass") else f"{name}_in" if name in {**CHOICES, **FLAGS} else ""
            self.take(a.declaration, f"{how}({name})" if kind == "int" else name)
        elif kind == "int" and name in CHOICES:
            self.take(a.declaration, name)
            self.after.append(f"*{name} = {name}_out(*{name});")
        elif name in ("rank_source", "rank_dest"):
            self.take(a.declaration, name)
            self.after.append(f"*{name} = rank_out(*{name});")
        elif name in ("sourceweights", "destweights", "weights"):
            self.take(a.declaration, f"(int*)weights_in({name})")
        elif kind == "void" and stars == 1:
            self.take(a.declaration, f"(void*)buffer_in({name})" if "buf" in name else name)
        else:
            self.take(a.declaration, name)

    def handles(self, name, kind, count, changed):
        self.before += [f"int count_{name} = {count};",
                        f"MPI_{kind}* its_{name} = calloc((size_t)count_{name} + 1, sizeof *its_{name});",
                        f"for (int i = 0; {name} != NULL && i < count_{name}; ++i) its_{name}[i] = {kind}_in({name}[i]);"]
        self.take(f"void* {'' if changed else 'const '}{name}[]", f"its_{name}")
        # What a nonblocking operation was started with stays.
        if changed:
            self.after.append(f"for (int i = 0; i < count_{name}; ++i) {name}[i] = {kind}_out(its_{name}[i]);")
            self.after.append(f"free(its_{name});")

    def take(self, parameter, passed):
        self.parameters.append(parameter)
        self.passed.append(passed)

    def body(self):
        call = f"REAL(P{self.f.name})({', '.join(self.passed)})"
        if self.f.returns != "int":
            return [f"return {call};"]
        return [*self.before, f"int returned = {call};", *self.after, "return error_out(returned);"]


def define(name, returns, parameters, body):
    arguments = ", ".join(parameters) or "void"
    return ["#ifdef ONLY_MPI", f'__asm__(".globl {name}; .type {name},@function; {name}: jmp P{name}@PLT");',
            "#elif defined(ONLY_PMPI)", f'{returns} standard_{name}({arguments}) __asm__("P{name}");', "#else",
            f'{returns} standard_{name}({arguments}) __asm__("{name}");',
            f'{returns} standard_P{name}({arguments}) __asm__("P{name}") __attribute__((alias("{name}")));', "#endif",
            "#ifndef ONLY_MPI", f"{returns} standard_{name}({arguments}) {{", *(f"  {line}" for line in body), "}", "#endif"]


def main():
    generator, header, include, library, output = sys.argv[1:]
    sys.path.insert(0, generator)
    import compare_headers
    import spec
    text = pathlib.Path(header).read_text()
    handles, numbers = constants(text)
    mpi_h = (pathlib.Path(include) / "mpi.h").read_text()
    in_mpich = set(re.findall(r"\bMPI_\w+", mpi_h))
    declared, _ = compare_headers.declared(include)
    functions = {f.name: f for f in spec.load((pathlib.Path(generator).parent / "spec/mpi_functions.toml").read_text())}
    ours = re.findall(r"\b(MPI_\w+)\(", (pathlib.Path(header).parent / "functions.h").read_text())
    out = ["// Written by standard_library.py.", f'#define LIBRARY "{library}"', HEAD, *translations(handles, numbers, in_mpich)]
    for name in dict.fromkeys(ours):
        f = functions[name]
        if name in BY_HAND or f.returns not in ("int", "double", "MPI_Aint") or "..." in f.prototype:
            continue
        try:
            if name not in declared:
                raise NotUnderstood
            forward = Forward(f)
            out += define(name, f.returns, forward.parameters, forward.body())
        except NotUnderstood:
            out += define(name, f.returns, [], [f"return {numbers['MPI_ERR_UNSUPPORTED_OPERATION']};"])
    out += define("MPI_Abi_get_version", "int", ["int* major", "int* minor"], ["*major = 1;", "*minor = 0;", "return 0;"])
    out += define("MPI_Get_version", "int", ["int* major", "int* minor"], ["*major = 5;", "*minor = 0;", "return 0;"])
    out += define("MPI_Topo_test", "int", ["void* comm", "int* kind"], [
        "const int returned = REAL(PMPI_Topo_test)(Comm_in(comm), kind);",
        *(f"if (*kind == {n}) {{ *kind = {numbers[n]}; return error_out(returned); }}" for n in ("MPI_CART", "MPI_GRAPH", "MPI_DIST_GRAPH")),
        "return error_out(returned);"])
    out += define("MPI_Error_class", "int", ["int code", "int* kind"], ["*kind = code;", "return 0;"])
    out += define("MPI_Error_string", "int", ["int code", "char* text", "int* length"],
                  ["return error_out(REAL(PMPI_Error_string)(error_in(code), text, length));"])
    pathlib.Path(output).write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()

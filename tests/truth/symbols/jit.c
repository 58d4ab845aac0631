// SPDX-License-Identifier: BSD-3-Clause
// Runs code it has made itself, and says what it is called: in /tmp/perf-PID.map, like the compilers of node and
// java, or in a list for debuggers, like LLVM. Usage: jit SECONDS (map|none|twice|link|described|replaced)
// replaced: after half of the time, other code is in the place of what was described.
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../support/jit_list.h"

// push %rbp; mov %rsp,%rbp; mov %rdi,%rcx; 1: dec %rcx; jnz 1b; pop %rbp; ret
static const unsigned char kLoop[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf9,
                                      0x48, 0xff, 0xc9, 0x75, 0xfb, 0x5d, 0xc3};

static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// --- the list for debuggers ---

struct jit_descriptor __jit_debug_descriptor = {kJitVersion, 0, NULL, NULL};
void __jit_debug_register_code(void);
__attribute__((noinline)) void __jit_debug_register_code(void) { __asm__ volatile("" ::: "memory"); }

struct object {
  Elf64_Ehdr header;
  Elf64_Sym symbols[2];
  char names[32], section_names[40];
  Elf64_Shdr sections[5];
};

static void place(struct object* object, int section, int name, unsigned type, const void* content, size_t bytes) {
  Elf64_Shdr* const header = &object->sections[section];
  header->sh_name = (Elf64_Word)name;
  header->sh_type = type;
  header->sh_offset = (Elf64_Off)((const char*)content - (const char*)object);
  header->sh_size = bytes;
  header->sh_addralign = 1;
}

// Describes the loop at `code` as a function of that name.
static struct jit_code_entry* describe(const char* name, const unsigned char* code) {
  struct object* const object = calloc(1, sizeof *object);
  struct jit_code_entry* const entry = calloc(1, sizeof *entry);
  if (object == NULL || entry == NULL) exit(1);
  memcpy(object->header.e_ident, "\177ELF\2\1\1", 7);
  object->header.e_type = ET_REL;
  object->header.e_machine = EM_X86_64;
  object->header.e_version = EV_CURRENT;
  object->header.e_ehsize = sizeof object->header;
  object->header.e_shoff = (Elf64_Off)((char*)object->sections - (char*)object);
  object->header.e_shentsize = sizeof object->sections[0];
  object->header.e_shnum = 5;
  object->header.e_shstrndx = 4;
  snprintf(object->names + 1, sizeof object->names - 1, "%s", name);
  memcpy(object->section_names, "\0.text\0.symtab\0.strtab\0.shstrtab", 33);
  object->symbols[1].st_name = 1;
  object->symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  object->symbols[1].st_shndx = 1;
  object->symbols[1].st_size = sizeof kLoop;
  place(object, 1, 1, SHT_PROGBITS, object, sizeof kLoop);
  object->sections[1].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
  object->sections[1].sh_addr = (Elf64_Addr)code;
  place(object, 2, 7, SHT_SYMTAB, object->symbols, sizeof object->symbols);
  object->sections[2].sh_link = 3;
  object->sections[2].sh_info = 1;
  object->sections[2].sh_entsize = sizeof object->symbols[0];
  place(object, 3, 15, SHT_STRTAB, object->names, sizeof object->names);
  place(object, 4, 23, SHT_STRTAB, object->section_names, sizeof object->section_names);
  entry->object = (const char*)object;
  entry->object_bytes = sizeof *object;
  jit_list_add(&__jit_debug_descriptor, entry);
  __jit_debug_register_code();
  return entry;
}

static void forget(struct jit_code_entry* entry) {
  jit_list_remove(&__jit_debug_descriptor, entry);
  __jit_debug_register_code();
  memset((char*)entry->object, 0, sizeof(struct object));
  free((char*)entry->object);
  free(entry);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  unsigned char* const code =
      mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) return 1;
  memcpy(code + 256, kLoop, sizeof(kLoop));
  memcpy(code + 4096, kLoop, sizeof(kLoop));
  char path[64];
  char target[128];
  snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
  snprintf(target, sizeof(target), "%s", path);
  if (strcmp(argv[2], "link") == 0) {  // another file's content under the name
    snprintf(target, sizeof(target), "%s.real", path);
    if (symlink(target, path) != 0) return 1;
  }
  const int is_replaced = strcmp(argv[2], "replaced") == 0;
  struct jit_code_entry* described = NULL;
  if (is_replaced || strcmp(argv[2], "described") == 0) {
    describe("described_second_loop", code + 4096);
    described = describe("described_first_loop", code + 256);
  } else if (strcmp(argv[2], "none") != 0) {
    FILE* const map = fopen(target, "w");
    if (map == NULL) return 1;
    fprintf(map, "%lx %zx jitted first loop\n", (unsigned long)(code + 256), sizeof(kLoop));
    fprintf(map, "damaged line\n");
    fprintf(map, "%lx %zx jitted second loop\n", (unsigned long)(code + 4096), sizeof(kLoop));
    if (strcmp(argv[2], "twice") == 0)  // the first one's memory had another function in it at some time
      fprintf(map, "%lx %zx some other function\n", (unsigned long)(code + 256), sizeof(kLoop));
    fclose(map);
  }
  void (*const first)(long) = (void (*)(long))(code + 256);
  void (*const second)(long) = (void (*)(long))(code + 4096);
  const double begin = cpu_s(), end = begin + atof(argv[1]);
  // Reading the CPU clock is rare: see hot.cpp.
  while (cpu_s() < end) {
    if (is_replaced && described != NULL && cpu_s() > (begin + end) / 2) {
      forget(described);
      described = NULL;
      memcpy(code + 256, kLoop, sizeof(kLoop));
      describe("replaced_first_loop", code + 256);
    }
    for (int i = 0; i < 100; ++i) {
      first(700000);
      second(300000);
    }
  }
  return 0;
}

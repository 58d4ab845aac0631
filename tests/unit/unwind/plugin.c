/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that is loaded and unloaded. */
void unwind_plugin_call(void (*callback)(void*), void* data);
static volatile int sink;
void unwind_plugin_call(void (*callback)(void*), void* data) {
  volatile char room[100];
  room[5] = 1;
  callback(data);
  sink += room[5];
}

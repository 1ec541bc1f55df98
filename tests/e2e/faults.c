// Loaded into the program with LD_PRELOAD: at the N-th call that changes a file, the program is killed or the disk is full.
//   FAULT_AT=N     counted from 1 over FAULT_ON, also in threads
//   FAULT_ON=...   of rename,unlink,sync,truncate,mkdir,write; separated by commas
//   FAULT=full     that call and all after it fail with ENOSPC; else SIGKILL
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long count;

static int named(const char* list, const char* name) {
  const size_t length = strlen(name);
  for (const char* at = list; (at = strstr(at, name)) != NULL; at += length) {
    if ((at == list || at[-1] == ',') && (at[length] == '\0' || at[length] == ',')) return 1;
  }
  return 0;
}

// Whether the call is to fail, errno being set.
static int fails(const char* name) {
  const char *at = getenv("FAULT_AT"), *on = getenv("FAULT_ON"), *fault = getenv("FAULT");
  if (at == NULL || on == NULL || !named(on, name)) return 0;
  const long now = __sync_add_and_fetch(&count, 1);
  const int full = fault != NULL && strcmp(fault, "full") == 0;
  if (now < atol(at) || (now > atol(at) && !full)) return 0;
  if (!full) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  errno = ENOSPC;
  return 1;
}

// A terminal and a pipe take text also when the disk is full.
static int on_disk(int file) {
  struct stat status;
  return fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

#define REAL(result, name, ...) \
  static result (*real)(__VA_ARGS__); \
  if (real == NULL) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

int rename(const char* from, const char* to) {
  REAL(int, rename, const char*, const char*);
  return fails("rename") ? -1 : real(from, to);
}
int unlink(const char* path) {
  REAL(int, unlink, const char*);
  return fails("unlink") ? -1 : real(path);
}
int remove(const char* path) {
  REAL(int, remove, const char*);
  return fails("unlink") ? -1 : real(path);
}
int fsync(int file) {
  REAL(int, fsync, int);
  return fails("sync") ? -1 : real(file);
}
int fdatasync(int file) {
  REAL(int, fdatasync, int);
  return fails("sync") ? -1 : real(file);
}
int ftruncate(int file, off_t size) {
  REAL(int, ftruncate, int, off_t);
  return fails("truncate") ? -1 : real(file, size);
}
int ftruncate64(int file, off64_t size) {
  REAL(int, ftruncate64, int, off64_t);
  return fails("truncate") ? -1 : real(file, size);
}
int mkdir(const char* path, mode_t mode) {
  REAL(int, mkdir, const char*, mode_t);
  return fails("mkdir") ? -1 : real(path, mode);
}
ssize_t write(int file, const void* bytes, size_t size) {
  REAL(ssize_t, write, int, const void*, size_t);
  return on_disk(file) && fails("write") ? -1 : real(file, bytes, size);
}
ssize_t pwrite(int file, const void* bytes, size_t size, off_t at) {
  REAL(ssize_t, pwrite, int, const void*, size_t, off_t);
  return on_disk(file) && fails("write") ? -1 : real(file, bytes, size, at);
}
ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t at) {
  REAL(ssize_t, pwrite64, int, const void*, size_t, off64_t);
  return on_disk(file) && fails("write") ? -1 : real(file, bytes, size, at);
}

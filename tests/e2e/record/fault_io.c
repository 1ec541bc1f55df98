// LD_PRELOAD for tests of endings: counts what a process does to the files below FAULT_PATH (writes, truncations, syncs, renames,
// removals, creations) and lets the FAULT_AT-th of them fail.
//   FAULT_MODE=once: it fails, the next works again; full: it and all after it fail; kill: the process is killed before it;
//   torn: half of the write reaches the file, then the process is killed. FAULT_ERRNO: with which error (EIO).
//   FAULT_COUNT: a file that gets the number of all of them when the process ends.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int count;

static int below(const char* path) {
  const char* prefix = getenv("FAULT_PATH");
  return prefix && path && strncmp(path, prefix, strlen(prefix)) == 0;
}

static int fd_below(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  return below(path);
}

// 0: go on; 1: fail with errno; 2: write half, then die.
static int fate(void) {
  const char *at = getenv("FAULT_AT"), *mode = getenv("FAULT_MODE"), *error = getenv("FAULT_ERRNO");
  int n = atomic_fetch_add(&count, 1) + 1, wanted = at ? atoi(at) : 0;
  if (wanted == 0 || !mode) return 0;
  int full = strcmp(mode, "full") == 0;
  if (full ? n < wanted : n != wanted) return 0;
  if (strcmp(mode, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(mode, "torn") == 0) return 2;
  errno = error ? atoi(error) : EIO;
  return 1;
}

static void die(void) { kill(getpid(), SIGKILL); }

__attribute__((destructor)) static void report(void) {
  const char* file = getenv("FAULT_COUNT");
  FILE* f = file && count > 0 ? fopen(file, "w") : NULL;
  if (f) fprintf(f, "%d\n", count), fclose(f);
}

#define REAL(name, result, ...) \
  static result (*real)(__VA_ARGS__); \
  if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void* p, size_t n) {
  REAL("write", ssize_t, int, const void*, size_t);
  if (fd > 2 && fd_below(fd)) {
    int f = fate();
    if (f == 1) return -1;
    if (f == 2) real(fd, p, n / 2), die();
  }
  return real(fd, p, n);
}
ssize_t pwrite64(int fd, const void* p, size_t n, off64_t o) {
  REAL("pwrite64", ssize_t, int, const void*, size_t, off64_t);
  if (fd_below(fd)) {
    int f = fate();
    if (f == 1) return -1;
    if (f == 2) real(fd, p, n / 2, o), die();
  }
  return real(fd, p, n, o);
}
ssize_t pwrite(int fd, const void* p, size_t n, off_t o) { return pwrite64(fd, p, n, o); }
int ftruncate64(int fd, off64_t n) {
  REAL("ftruncate64", int, int, off64_t);
  if (fd_below(fd) && fate()) return -1;
  return real(fd, n);
}
int ftruncate(int fd, off_t n) { return ftruncate64(fd, n); }
int fsync(int fd) {
  REAL("fsync", int, int);
  if (fd_below(fd) && fate()) return -1;
  return real(fd);
}
int fdatasync(int fd) {
  REAL("fdatasync", int, int);
  if (fd_below(fd) && fate()) return -1;
  return real(fd);
}
int rename(const char* a, const char* b) {
  REAL("rename", int, const char*, const char*);
  if (below(b) && fate()) return -1;
  return real(a, b);
}
int unlink(const char* a) {
  REAL("unlink", int, const char*);
  if (below(a) && fate()) return -1;
  return real(a);
}
static int creates(const char* path, int flags) {
  struct stat info;
  return (flags & O_CREAT) && below(path) && stat(path, &info) != 0;
}
int open64(const char* path, int flags, ...) {
  REAL("open64", int, const char*, int, ...);
  va_list list;
  va_start(list, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (creates(path, flags) && fate()) return -1;
  return real(path, flags, mode);
}
int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open64(path, flags, mode);
}

// LD_PRELOAD: sets the wall clock back by FAKE_CLOCK_BACK seconds; where FAKE_CLOCK_FILE is given, only once that file exists.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long back(void) {
  const char *seconds = getenv("FAKE_CLOCK_BACK"), *file = getenv("FAKE_CLOCK_FILE");
  return seconds && (!file || access(file, F_OK) == 0) ? atol(seconds) : 0;
}
int clock_gettime(clockid_t id, struct timespec* t) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  int rc = real(id, t);
  if (rc == 0 && id == CLOCK_REALTIME) t->tv_sec -= back();
  return rc;
}

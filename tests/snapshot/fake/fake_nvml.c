// One GPU that is hot and throttled, behind NVML's names; with FAKE_NVML_GPUS so many, of which nothing is told.
// FAKE_NVML_FAULT: "load" ends the process that loads it, "1 ends" and "1 hangs" the one that asks for card 1's name.
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned gpus(void) {
  const char* text = getenv("FAKE_NVML_GPUS");
  return text ? (unsigned)strtoul(text, 0, 10) : 0;
}

static int fault(const char* text) {
  const char* named = getenv("FAKE_NVML_FAULT");
  return named != 0 && strcmp(named, text) == 0;
}

// A handle is 16 and the card's number.
static unsigned card(void* d) { return (unsigned)((uintptr_t)d - 16); }

int nvmlInit_v2(void) {
  if (fault("load")) abort();
  return 0;
}
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char* out, unsigned n) { return snprintf(out, n, "550.54.15") < 0; }
int nvmlSystemGetCudaDriverVersion_v2(int* v) { *v = gpus() ? 0 : 12040; return 0; }
int nvmlDeviceGetCount_v2(unsigned* n) { *n = gpus() ? gpus() : 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** d) { *d = (void*)(uintptr_t)(16 + i); return i != 0 && !gpus(); }
// One MIG instance, of the second card.
int nvmlDeviceGetHandleByUUID(const char* uuid, void** d) { *d = (void*)2; return strcmp(uuid, "MIG-41b36413") != 0; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* mig, void** d) { *d = (void*)3; return mig != (void*)2; }
int nvmlDeviceGetIndex(void* d, unsigned* i) { *i = 1; return d != (void*)3; }
const char* nvmlErrorString(int status) { return status == 1 ? "GPU is lost" : ""; }
// With FAKE_NVML_MIG the card of that number has one instance, with a gap before it.
static int split(void* d) {
  const char* text = getenv("FAKE_NVML_MIG");
  return text != 0 && card(d) == (unsigned)atoi(text);
}
int nvmlDeviceGetMigMode(void* d, unsigned* now, unsigned* later) { *now = *later = split(d); return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void* d, unsigned* n) { *n = split(d) ? 7 : 0; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void* d, unsigned i, void** mig) { *mig = (void*)2; return !split(d) || i != 3; }
int nvmlDeviceGetName(void* d, char* out, unsigned n) {
  if (card(d) == 1 && fault("1 ends")) abort();
  if (card(d) == 1 && fault("1 hangs")) sleep(100);
  return snprintf(out, n, card(d) == 2 ? "Fake A40" : "Fake H200") < 0;
}
int nvmlDeviceGetUUID(void* d, char* out, unsigned n) {
  return snprintf(out, n, card(d) == 0 ? "GPU-fake" : "GPU-%u000", card(d)) < 0;
}
int nvmlDeviceGetMemoryInfo(void* d, unsigned long long* m) {
  (void)d;
  m[0] = 150000000000ull;
  m[1] = 100000000000ull;
  m[2] = 50000000000ull;
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* d, int* a, int* b) { (void)d; *a = 9; *b = 0; return 0; }
int nvmlDeviceGetPersistenceMode(void* d, int* m) { (void)d; *m = 1; return 0; }
int nvmlDeviceGetEccMode(void* d, int* a, int* b) { (void)d; *a = 1; *b = 1; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void* d, unsigned* p) { (void)d; *p = 500000; return 0; }
int nvmlDeviceGetPowerManagementLimitConstraints(void* d, unsigned* a, unsigned* b) {
  (void)d;
  *a = 200000;
  *b = 700000;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void* d, unsigned t, unsigned* c) { (void)d; *c = t == 1 ? 1980 : 3201; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void* d, unsigned* g) { (void)d; *g = 5; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void* d, unsigned* w) { (void)d; *w = 16; return 0; }
int nvmlDeviceGetTemperatureThreshold(void* d, unsigned t, unsigned* c) { (void)d; (void)t; *c = gpus() ? UINT_MAX : 87; return 0; }
int nvmlDeviceGetTemperature(void* d, unsigned s, unsigned* t) { (void)d; (void)s; *t = gpus() ? UINT_MAX : 88; return 0; }
int nvmlDeviceGetPowerUsage(void* d, unsigned* p) { (void)d; *p = 499000; return 0; }
int nvmlDeviceGetClockInfo(void* d, unsigned t, unsigned* c) { (void)d; *c = t == 1 ? 1200 : 3201; return 0; }
int nvmlDeviceGetUtilizationRates(void* d, unsigned* u) { (void)d; u[0] = 97; u[1] = 60; return 0; }
// 0x20 software thermal slowdown, 0x04 software power cap.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* d, unsigned long long* r) { (void)d; *r = 0x24; return 0; }

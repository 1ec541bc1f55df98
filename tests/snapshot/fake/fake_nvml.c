// One GPU that is hot and throttled, behind NVML's names; with FAKE_NVML_GPUS so many, of which nothing is told.
// FAKE_NVML_FAULT: "load" ends the process that loads it, "load hangs" hangs it, "1 ends" and "1 hangs" the one that asks for
// card 1's name. FAKE_NVML_REFUSES: a function that isn't supported. FAKE_NVML_LOST: once there is a file of that name, the
// cards are lost. FAKE_NVML_HEAT: card 0's temperature, the next ones' are each a degree above. FAKE_NVML_LOADS: a file that gets a byte each time that NVML is started.
#include <fcntl.h>
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

// NVML's status where the function `name` can't tell: 3 not supported, 15 the GPU is lost.
static int refusal(const char* name) {
  const char* refused = getenv("FAKE_NVML_REFUSES");
  const char* lost = getenv("FAKE_NVML_LOST");
  if (refused != 0 && strcmp(refused, name) == 0) return 3;
  return lost != 0 && strstr(name, "Device") != 0 && strstr(name, "Count") == 0 && access(lost, F_OK) == 0 ? 15 : 0;
}
#define REFUSE \
  if (refusal(__func__) != 0) return refusal(__func__)

// A handle is 16 and the card's number.
static unsigned card(void* d) { return (unsigned)((uintptr_t)d - 16); }

int nvmlInit_v2(void) {
  const char* loads = getenv("FAKE_NVML_LOADS");
  if (loads != 0) {
    int file = open(loads, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(file, "x", 1) != 1) abort();
    close(file);
  }
  if (fault("load")) abort();
  if (fault("load hangs")) sleep(1000);
  REFUSE;
  return 0;
}
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char* out, unsigned n) { REFUSE; return snprintf(out, n, "550.54.15") < 0; }
int nvmlSystemGetCudaDriverVersion_v2(int* v) { REFUSE; *v = gpus() ? 0 : 12040; return 0; }
int nvmlDeviceGetCount_v2(unsigned* n) { REFUSE; *n = gpus() ? gpus() : 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** d) { REFUSE; *d = (void*)(uintptr_t)(16 + i); return i != 0 && !gpus(); }
// One MIG instance, of the second card.
int nvmlDeviceGetHandleByUUID(const char* uuid, void** d) { REFUSE; *d = (void*)2; return strcmp(uuid, "MIG-41b36413") != 0; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* mig, void** d) { REFUSE; *d = (void*)3; return mig != (void*)2; }
int nvmlDeviceGetIndex(void* d, unsigned* i) {
  REFUSE;
  *i = d == (void*)3 ? 1 : card(d);
  return d == 0;
}
// Places from 0000:10:00.0 on, from the last card to the first: as where CUDA's order isn't NVML's.
int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** d) {
  REFUSE;
  const unsigned bus = (unsigned)strtoul(place + 5, 0, 16) - 16, count = gpus() ? gpus() : 1;
  *d = (void*)(uintptr_t)(16 + count - 1 - bus);
  return bus >= count;
}
const char* nvmlErrorString(int status) { return status == 1 || status == 15 ? "GPU is lost" : status == 3 ? "Not Supported" : ""; }
// With FAKE_NVML_MIG the card of that number has one instance, with a gap before it.
static int split(void* d) {
  const char* text = getenv("FAKE_NVML_MIG");
  return text != 0 && card(d) == (unsigned)atoi(text);
}
int nvmlDeviceGetMigMode(void* d, unsigned* now, unsigned* later) { REFUSE; *now = *later = split(d); return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void* d, unsigned* n) { REFUSE; *n = split(d) ? 7 : 0; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void* d, unsigned i, void** mig) { REFUSE; *mig = (void*)2; return !split(d) || i != 3; }
int nvmlDeviceGetName(void* d, char* out, unsigned n) {
  REFUSE;
  if (card(d) == 1 && fault("1 ends")) abort();
  if (card(d) == 1 && fault("1 hangs")) sleep(100);
  return snprintf(out, n, card(d) == 2 ? "Fake A40" : "Fake H200") < 0;
}
int nvmlDeviceGetUUID(void* d, char* out, unsigned n) {
  REFUSE;
  return snprintf(out, n, card(d) == 0 ? "GPU-fake" : "GPU-%u000", card(d)) < 0;
}
int nvmlDeviceGetMemoryInfo(void* d, unsigned long long* m) {
  REFUSE;
  (void)d;
  m[0] = 150000000000ull;
  m[1] = 100000000000ull;
  m[2] = 50000000000ull;
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* d, int* a, int* b) { REFUSE; (void)d; *a = 9; *b = 0; return 0; }
int nvmlDeviceGetPersistenceMode(void* d, int* m) { REFUSE; (void)d; *m = 1; return 0; }
int nvmlDeviceGetEccMode(void* d, int* a, int* b) { REFUSE; (void)d; *a = 1; *b = 1; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void* d, unsigned* p) { REFUSE; (void)d; *p = 500000; return 0; }
int nvmlDeviceGetPowerManagementLimitConstraints(void* d, unsigned* a, unsigned* b) {
  REFUSE;
  (void)d;
  *a = 200000;
  *b = 700000;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void* d, unsigned t, unsigned* c) { REFUSE; (void)d; *c = t == 1 ? 1980 : 3201; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void* d, unsigned* g) { REFUSE; (void)d; *g = 5; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void* d, unsigned* w) { REFUSE; (void)d; *w = 16; return 0; }
int nvmlDeviceGetTemperatureThreshold(void* d, unsigned t, unsigned* c) { REFUSE; (void)d; (void)t; *c = gpus() ? UINT_MAX : 87; return 0; }
static unsigned heat(void* d) {
  const char* text = getenv("FAKE_NVML_HEAT");
  return text ? (unsigned)atoi(text) + card(d) : gpus() ? UINT_MAX : 88;
}
int nvmlDeviceGetTemperature(void* d, unsigned s, unsigned* t) { REFUSE; (void)d; (void)s; *t = heat(d); return 0; }
int nvmlDeviceGetPowerUsage(void* d, unsigned* p) { REFUSE; (void)d; *p = 499000; return 0; }
int nvmlDeviceGetClockInfo(void* d, unsigned t, unsigned* c) { REFUSE; (void)d; *c = t == 1 ? 1200 : 3201; return 0; }
int nvmlDeviceGetUtilizationRates(void* d, unsigned* u) { REFUSE; (void)d; u[0] = 97; u[1] = 60; return 0; }
// 0x20 software thermal slowdown, 0x04 software power cap.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* d, unsigned long long* r) { REFUSE; (void)d; *r = 0x24; return 0; }
int nvmlDeviceGetComputeMode(void* d, int* m) { REFUSE; (void)d; *m = 0; return 0; }
int nvmlDeviceGetPowerManagementDefaultLimit(void* d, unsigned* p) { REFUSE; (void)d; *p = 700000; return 0; }
int nvmlDeviceGetCurrPcieLinkGeneration(void* d, unsigned* g) { REFUSE; (void)d; *g = 1; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void* d, unsigned* w) { REFUSE; (void)d; *w = 16; return 0; }
int nvmlDeviceGetTotalEccErrors(void* d, int kind, int since, unsigned long long* n) { REFUSE; (void)d; (void)kind; (void)since; *n = 0; return 0; }
int nvmlDeviceGetRetiredPages(void* d, int cause, unsigned* n, unsigned long long* where) { REFUSE; (void)d; (void)cause; (void)where; *n = 0; return 0; }
int nvmlDeviceGetRetiredPagesPendingStatus(void* d, int* p) { REFUSE; (void)d; *p = 0; return 0; }
int nvmlDeviceGetRemappedRows(void* d, unsigned* a, unsigned* b, unsigned* c, unsigned* e) { REFUSE; (void)d; *a = *b = *c = *e = 0; return 0; }

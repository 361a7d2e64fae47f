/* A stand-in for the driver's library, for machines without one: two devices, and one that does not answer. */
typedef struct { unsigned long long total, free, used; } Memory;

static int devices[3] = {0, 1, 2};

static void Copy(char* out, unsigned length, const char* text) {
  unsigned i = 0;
  for (; text[i] != '\0' && i + 1 < length; ++i) out[i] = text[i];
  out[i] = '\0';
}

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "error"; }
int nvmlDeviceGetCount_v2(unsigned* count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return index == 1 ? 15 : 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  Copy(name, length, *(int*)device == 0 ? "NVIDIA H100 80GB HBM3" : "NVIDIA A100-SXM4-80GB");
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  Copy(uuid, length, *(int*)device == 0 ? "GPU-0" : "GPU-2");
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  (void)device;
  memory->total = 80ull << 30;
  return 0;
}

/* libnvidia-ml.so.1 for tests: plays the facts of a scenario file, through the interface of the real library.
 *
 * The file is $FAKE_NVML_SCENARIO, else "<this library>.scenario". One fact per line: "<scope> <key> <value…>".
 * Scopes: "sys", a device "0", a MIG device "0/2". A key without a fact is NOT_SUPPORTED. A number may be
 * "@base+rate": base + rate x seconds since "sys t0" (CLOCK_MONOTONIC). "ret.<function>" is what a call returns,
 * "hang.<function>" lets it wait until the fact is gone. The file is read anew when it is replaced.
 * Written by scenario.py, which says what every key means. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int R;
typedef void *D;
typedef unsigned U;
typedef unsigned long long ULL;
enum { OK, UNINIT, EINVAL_, ENOTSUP_, EPERM_, ENOTFOUND_ = 6, ESMALL = 7, ETIMEOUT = 10, ELOST = 15 };
enum { SLOTS = 1 << 14, TEXT = 1024 };

struct fact { char *name, *text; struct fact *next; };
static struct fact *table[SLOTS];
static char *loaded;
static struct stat seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users, generation_at_init;
static char marker[PATH_MAX + 64];

static const char *scenario(void) {
    static char beside[4096];
    const char *named = getenv("FAKE_NVML_SCENARIO");
    Dl_info me;
    if (named) return named;
    if (!*beside && dladdr((void *)scenario, &me)) snprintf(beside, sizeof beside, "%s.scenario", me.dli_fname);
    return beside;
}

static unsigned hash(const char *s) {
    unsigned h = 2166136261u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
    return h % SLOTS;
}

static void reload(void) { /* with the lock held */
    struct stat now;
    char *p, *line, *text;
    FILE *f;
    if (stat(scenario(), &now)) return;
    if (loaded && now.st_ino == seen.st_ino && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec &&
        now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_size == seen.st_size) return;
    for (int i = 0; i < SLOTS; i++)
        for (struct fact *next; table[i]; table[i] = next) { next = table[i]->next; free(table[i]); }
    free(loaded);
    loaded = calloc(1, now.st_size + 1);
    seen = now;
    if (!(f = fopen(scenario(), "r"))) return;
    if (fread(loaded, 1, now.st_size, f) != (size_t)now.st_size) loaded[0] = 0;
    fclose(f);
    for (p = loaded; (line = strsep(&p, "\n"));) {
        if (!(text = strchr(line, ' ')) || !(text = strchr(text + 1, ' '))) continue;
        *text++ = 0;
        struct fact *one = malloc(sizeof *one), **slot = &table[hash(line)];
        *one = (struct fact){ line, text, *slot };
        *slot = one;
    }
}

static int find(const char *scope, const char *key, char *text) {
    char name[TEXT];
    int found = 0;
    snprintf(name, sizeof name, "%s %s", scope, key);
    pthread_mutex_lock(&lock);
    reload();
    for (struct fact *f = table[hash(name)]; f; f = f->next)
        if (!strcmp(f->name, name)) { snprintf(text, TEXT, "%s", f->text); found = 1; break; }
    pthread_mutex_unlock(&lock);
    return found;
}

static double monotonic(void) {
    struct timespec a;
    clock_gettime(CLOCK_MONOTONIC, &a);
    return a.tv_sec + a.tv_nsec / 1e9;
}

/* The next number of a text: "12", "0x1f", "1.5", "nan" or "@base+rate". */
static int number(char **p, double *value, ULL *whole) {
    char *end, text[TEXT];
    while (**p == ' ') ++*p;
    if (!**p) return 0;
    if (**p == '@') {
        double base = strtod(*p + 1, &end), rate = strtod(end, p), start = find("sys", "t0", text) ? atof(text) : 0;
        *value = base + rate * (monotonic() - start);
        *whole = *value < 0 ? 0 : (ULL)*value;
        return 1;
    }
    *value = strtod(*p, &end);
    *whole = **p == '-' ? (ULL)strtoll(*p, NULL, 0) : strtoull(*p, NULL, 0);
    *p = end;
    return 1;
}

static long fact(const char *scope, const char *key, long otherwise) {
    char text[TEXT];
    return find(scope, key, text) ? strtol(text, NULL, 0) : otherwise;
}

static R outcome(const char *scope, const char *function) {
    char key[128];
    snprintf(key, sizeof key, "hang.%s", function);
    for (char text[TEXT]; find(scope, key, text);) usleep(20000);
    snprintf(key, sizeof key, "ret.%s", function);
    return fact(scope, key, strncmp(function, "Device", 6) ? OK : fact(scope, "ret.*", OK));
}

static int current(void) { return fact("sys", "generation", 0); }

/* A handle is its generation, device and MIG device: one of before a driver reload is known as such. */
static D handle(int device, int mig) { return (D)(intptr_t)((current() & 0xff) << 24 | (device + 1) << 8 | (mig + 1)); }
static int device_of(D d) { return (((intptr_t)d >> 8) & 0xffff) - 1; }
static int mig_of(D d) { return ((intptr_t)d & 0xff) - 1; }

static void scope_of(D d, char *scope) {
    if (mig_of(d) < 0) snprintf(scope, 32, "%d", device_of(d));
    else snprintf(scope, 32, "%d/%d", device_of(d), mig_of(d));
}

static R enter(D d, const char *function, char *scope) {
    if (!users || generation_at_init != current()) return UNINIT;
    if (!d || (((intptr_t)d >> 24) & 0xff) != (current() & 0xff)) return EINVAL_;
    scope_of(d, scope);
    return outcome(scope, function);
}

/* Read `n` numbers of a key into `value` and `whole`, each of which may be NULL. */
static R numbers(D d, const char *function, const char *key, int n, double *value, ULL *whole) {
    char scope[32], text[TEXT], *p = text;
    double v;
    ULL w;
    R r = enter(d, function, scope);
    if (r) return r;
    if (!find(scope, key, text)) return ENOTSUP_;
    for (int i = 0; i < n; i++) {
        if (!number(&p, &v, &w)) v = w = 0;
        if (value) value[i] = v;
        if (whole) whole[i] = w;
    }
    return OK;
}

static R into(U *out, int n, R r, const ULL *whole) {
    if (!r) for (int i = 0; i < n; i++) out[i] = (U)whole[i];
    return r;
}

static R words(D d, const char *function, const char *key, char *out, U length) {
    char scope[32], text[TEXT];
    R r = enter(d, function, scope);
    if (r) return r;
    if (!find(scope, key, text)) return ENOTSUP_;
    for (char *p = text, *o = out; o < out + length; p++) { /* \xNN stands for a byte */
        if (p[0] == '\\' && p[1] == 'x') { char h[3] = { p[2], p[3], 0 }; *o++ = (char)strtol(h, NULL, 16); p += 3; }
        else if (!(*o++ = *p)) break;
    }
    out[length - 1] = 0;
    return OK;
}

#define ONE(name, type)                                                                                              \
    R nvmlDeviceGet##name(D d, type *out) {                                                                          \
        ULL w;                                                                                                       \
        R r = numbers(d, "DeviceGet" #name, #name, 1, NULL, &w);                                                     \
        if (!r) *out = (type)w;                                                                                      \
        return r;                                                                                                    \
    }
#define TWO(name)                                                                                                    \
    R nvmlDeviceGet##name(D d, U *a, U *b) {                                                                         \
        ULL w[2];                                                                                                    \
        R r = numbers(d, "DeviceGet" #name, #name, 2, NULL, w);                                                      \
        if (!r) { *a = (U)w[0]; *b = (U)w[1]; }                                                                      \
        return r;                                                                                                    \
    }
#define BY(name)                                                                                                     \
    R nvmlDeviceGet##name(D d, U which, U *out) {                                                                    \
        char key[64];                                                                                                \
        ULL w;                                                                                                       \
        snprintf(key, sizeof key, #name ".%u", which);                                                               \
        return into(out, 1, numbers(d, "DeviceGet" #name, key, 1, NULL, &w), &w);                                    \
    }
#define SAY(name)                                                                                                    \
    R nvmlDeviceGet##name(D d, char *out, U length) { return words(d, "DeviceGet" #name, #name, out, length); }

ONE(Index, U) ONE(MinorNumber, U) ONE(Brand, U) ONE(Architecture, U) ONE(VirtualizationMode, U)
ONE(PowerUsage, U) ONE(EnforcedPowerLimit, U) ONE(PowerManagementLimit, U) ONE(PowerManagementDefaultLimit, U)
ONE(TotalEnergyConsumption, ULL) ONE(PerformanceState, U) ONE(FanSpeed, U) ONE(PcieReplayCounter, U)
ONE(CurrentClocksEventReasons, ULL) ONE(CurrentClocksThrottleReasons, ULL)
ONE(CurrPcieLinkGeneration, U) ONE(MaxPcieLinkGeneration, U) ONE(CurrPcieLinkWidth, U) ONE(MaxPcieLinkWidth, U)
ONE(MaxMigDeviceCount, U) ONE(GpuInstanceId, U) ONE(ComputeInstanceId, U) ONE(AccountingMode, U)
TWO(PowerManagementLimitConstraints) TWO(EncoderUtilization) TWO(DecoderUtilization)
TWO(JpgUtilization) TWO(OfaUtilization) TWO(MigMode) TWO(EccMode)
BY(ClockInfo) BY(ApplicationsClock) BY(MaxClockInfo) BY(Temperature) BY(TemperatureThreshold) BY(PcieThroughput)
BY(NvLinkState)
SAY(Name) SAY(UUID) SAY(Serial) SAY(VbiosVersion) SAY(InforomImageVersion)

R nvmlDeviceGetUtilizationRates(D d, U *out) {
    ULL w[2];
    return into(out, 2, numbers(d, "DeviceGetUtilizationRates", "UtilizationRates", 2, NULL, w), w);
}
R nvmlDeviceGetInforomVersion(D d, U object, char *out, U length) {
    char key[64];
    snprintf(key, sizeof key, "InforomVersion.%u", object);
    return words(d, "DeviceGetInforomVersion", key, out, length);
}
R nvmlDeviceGetMarginTemperature(D d, U *s) {
    ULL w;
    return into(s + 1, 1, numbers(d, "DeviceGetMarginTemperature", "MarginTemperature", 1, NULL, &w), &w);
}
R nvmlDeviceGetTotalEccErrors(D d, U kind, U counter, ULL *out) {
    char key[64];
    snprintf(key, sizeof key, "TotalEccErrors.%u.%u", kind, counter);
    return numbers(d, "DeviceGetTotalEccErrors", key, 1, NULL, out);
}
R nvmlDeviceGetNvLinkErrorCounter(D d, U link, U counter, ULL *out) {
    char key[64];
    snprintf(key, sizeof key, "NvLinkErrorCounter.%u.%u", link, counter);
    return numbers(d, "DeviceGetNvLinkErrorCounter", key, 1, NULL, out);
}
R nvmlDeviceGetRetiredPages(D d, U cause, U *count, ULL *pages) {
    char key[64];
    ULL w;
    snprintf(key, sizeof key, "RetiredPages.%u", cause);
    R r = numbers(d, "DeviceGetRetiredPages", key, 1, NULL, &w);
    if (r) return r;
    if (!pages || *count < w) { *count = (U)w; return w ? ESMALL : OK; }
    for (U i = 0; i < w; i++) pages[i] = 0x1000 * i;
    *count = (U)w;
    return OK;
}
R nvmlDeviceGetRemappedRows(D d, U *correctable, U *uncorrectable, U *pending, U *failure) {
    ULL w[4];
    R r = numbers(d, "DeviceGetRemappedRows", "RemappedRows", 4, NULL, w);
    if (!r) { *correctable = w[0]; *uncorrectable = w[1]; *pending = w[2]; *failure = w[3]; }
    return r;
}
/* Memory facts are "total reserved used" in bytes; free is what is left. */
R nvmlDeviceGetMemoryInfo(D d, ULL *out) {
    ULL w[3];
    R r = numbers(d, "DeviceGetMemoryInfo", "MemoryInfo", 3, NULL, w);
    if (!r) { out[0] = w[0]; out[2] = w[1] + w[2]; out[1] = w[0] - out[2]; } /* version 1 counts reserved as used */
    return r;
}
struct memory2 { U version; ULL total, reserved, free, used; };
R nvmlDeviceGetMemoryInfo_v2(D d, struct memory2 *out) {
    ULL w[3];
    R r = numbers(d, "DeviceGetMemoryInfo_v2", "MemoryInfo", 3, NULL, w);
    if (!r) *out = (struct memory2){ out->version, w[0], w[1], w[0] - w[1] - w[2], w[2] };
    return r;
}
R nvmlDeviceGetBAR1MemoryInfo(D d, ULL *out) {
    ULL w[2];
    R r = numbers(d, "DeviceGetBAR1MemoryInfo", "BAR1MemoryInfo", 2, NULL, w);
    if (!r) { out[0] = w[0]; out[1] = w[0] - w[1]; out[2] = w[1]; }
    return r;
}
struct pci { char legacy[16]; U domain, bus, device, id, subsystem; char bus_id[32]; };
R nvmlDeviceGetPciInfo_v3(D d, struct pci *out) {
    memset(out, 0, sizeof *out);
    R r = words(d, "DeviceGetPciInfo", "PciInfo", out->bus_id, sizeof out->bus_id);
    if (!r) sscanf(out->bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    return r;
}
/* GridLicense: whether vGPU licences are supported, state of the first feature (at byte 12 of the answer). */
R nvmlDeviceGetGridLicensableFeatures_v4(D d, U *out) {
    ULL w[2];
    R r = numbers(d, "DeviceGetGridLicensableFeatures", "GridLicense", 2, NULL, w);
    if (!r) { out[0] = (U)w[0]; out[1] = 1; out[2] = 0; out[3] = (U)w[1]; }
    return r;
}
/* Attributes: multiprocessors, GPU slices, compute slices, MB. */
struct attributes { U multiprocessors, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices; ULL mb; };
R nvmlDeviceGetAttributes_v2(D d, struct attributes *out) {
    ULL w[4];
    R r = numbers(d, "DeviceGetAttributes", "Attributes", 4, NULL, w);
    if (!r) *out = (struct attributes){ w[0], 0, 0, 0, 0, 0, w[1], w[2], w[3] };
    return r;
}

/* Field values: fact "fi.<id>.<scope>" and, where it is not an unsigned long long, "fi.<id>.<scope>.type". */
struct field { uint32_t id, scope; int64_t time, latency; int type, ret; union { double d; U u; ULL ull; int i; } v; };
R nvmlDeviceGetFieldValues(D d, int n, struct field *fields) {
    char scope[32], key[64], text[TEXT], *p;
    double v;
    ULL w;
    R r = enter(d, "DeviceGetFieldValues", scope);
    if (r) return r;
    for (struct field *f = fields; f < fields + n; f++) {
        snprintf(key, sizeof key, "FieldValue.%u", f->id);
        f->ret = outcome(scope, key);
        snprintf(key, sizeof key, "fi.%u.%u", f->id, f->scope);
        if (f->ret) continue;
        if (!find(scope, key, text)) { f->ret = ENOTSUP_; continue; }
        p = text;
        number(&p, &v, &w);
        strcat(key, ".type");
        f->type = (int)fact(scope, key, 3);
        f->time = (int64_t)(time(NULL)) * 1000000;
        if (f->type == 0) f->v.d = v;
        else if (f->type == 1) f->v.u = (U)w;
        else if (f->type == 5) f->v.i = (int)w;
        else f->v.ull = w;
    }
    return OK;
}

/* MIG devices are the scopes "<device>/<slot>" that have a UUID. */
R nvmlDeviceGetMigDeviceHandleByIndex(D d, U slot, D *out) {
    char scope[32], text[TEXT];
    R r = enter(d, "DeviceGetMigDeviceHandleByIndex", scope);
    if (r) return r;
    snprintf(scope, sizeof scope, "%d/%u", device_of(d), slot);
    if (!find(scope, "UUID", text)) return ENOTFOUND_;
    *out = handle(device_of(d), (int)slot);
    return OK;
}
R nvmlDeviceGetDeviceHandleFromMigDeviceHandle(D d, D *out) {
    if (mig_of(d) < 0) return EINVAL_;
    *out = handle(device_of(d), -1);
    return OK;
}

/* Processes: "<kind>.<n>" = "pid bytes gi ci"; drivers 535.43 … 535.86 have one more field in version 3. */
struct process { U pid; ULL bytes; U gi, ci; };
struct process_535 { U pid; ULL bytes; U gi, ci; ULL confidential; };
static R processes(D d, const char *function, const char *kind, U *count, void *out, int version) {
    char scope[32], key[64], text[TEXT];
    int minor = 0, n = 0, odd;
    R r = enter(d, function, scope);
    if (r) return r;
    odd = version == 3 && find("sys", "DriverVersion", text) && sscanf(text, "535.%d", &minor) == 1 && minor >= 43 && minor <= 86;
    for (;; n++) {
        snprintf(key, sizeof key, "%s.%d", kind, n);
        if (!find(scope, key, text)) break;
    }
    if (!out || *count < (U)n) { *count = n; return n ? ESMALL : OK; }
    for (int i = 0; i < n; i++) {
        ULL w[4];
        char *p = text;
        double v;
        snprintf(key, sizeof key, "%s.%d", kind, i);
        find(scope, key, text);
        for (int k = 0; k < 4; k++) if (!number(&p, &v, &w[k])) w[k] = ~0ull;
        if (odd) ((struct process_535 *)out)[i] = (struct process_535){ w[0], w[1], w[2], w[3], 0 };
        else ((struct process *)out)[i] = (struct process){ w[0], w[1], w[2], w[3] };
    }
    *count = n;
    return OK;
}
#define PROCESSES(name)                                                                                              \
    R nvmlDeviceGet##name##RunningProcesses_v2(D d, U *n, void *out) {                                               \
        return processes(d, "DeviceGet" #name "RunningProcesses", #name, n, out, 2);                                 \
    }                                                                                                                \
    R nvmlDeviceGet##name##RunningProcesses_v3(D d, U *n, void *out) {                                               \
        return processes(d, "DeviceGet" #name "RunningProcesses", #name, n, out, 3);                                 \
    }
PROCESSES(Compute) PROCESSES(Graphics) PROCESSES(MPSCompute)

/* Process samples: "Sample.<n>" = "pid time sm memory encoder decoder"; only those newer than `since` count. */
struct sample { U pid; ULL time; U sm, memory, encoder, decoder; };
R nvmlDeviceGetProcessUtilization(D d, struct sample *out, U *count, ULL since) {
    char scope[32], key[64], text[TEXT];
    U n = 0;
    R r = enter(d, "DeviceGetProcessUtilization", scope);
    if (r) return r;
    if (fact(scope, "ProcessUtilization", 1) == 0) return ENOTSUP_;
    for (int i = 0;; i++) {
        ULL w[6];
        char *p = text;
        double v;
        snprintf(key, sizeof key, "Sample.%d", i);
        if (!find(scope, key, text)) break;
        for (int k = 0; k < 6; k++) if (!number(&p, &v, &w[k])) w[k] = 0;
        if (w[1] <= since) continue;
        if (out && n < *count) out[n] = (struct sample){ w[0], w[1], w[2], w[3], w[4], w[5] };
        n++;
    }
    if (!n) return ENOTFOUND_;
    if (!out || *count < n) { *count = n; return ESMALL; }
    *count = n;
    return OK;
}

/* GPM: fact "gpm.<metric>" of the device or MIG device; "Gpm 1" says that the device has it. */
struct gpm_sample { char scope[32]; double time; };
struct gpm_metric { U id; R ret; double value; void *info[3]; };
struct gpm_metrics { U version, n; struct gpm_sample *first, *second; struct gpm_metric metrics[]; };
R nvmlGpmQueryDeviceSupport(D d, U *s) {
    ULL w = 0;
    R r = numbers(d, "GpmQueryDeviceSupport", "Gpm", 1, NULL, &w);
    if (r == ENOTSUP_) r = OK;
    s[1] = (U)w;
    return r;
}
R nvmlGpmSampleAlloc(struct gpm_sample **out) { return (*out = calloc(1, sizeof **out)) ? OK : 20; }
R nvmlGpmSampleFree(struct gpm_sample *s) { free(s); return OK; }
R nvmlGpmSampleGet(D d, struct gpm_sample *s) {
    s->time = monotonic();
    return enter(d, "GpmSampleGet", s->scope);
}
R nvmlGpmMigSampleGet(D d, U gi, struct gpm_sample *s) {
    char scope[32];
    R r = enter(d, "GpmMigSampleGet", scope);
    for (int slot = 0; !r && slot < 8; slot++) {
        snprintf(s->scope, sizeof s->scope, "%d/%d", device_of(d), slot);
        if (fact(s->scope, "GpuInstanceId", -1) == (long)gi) { s->time = monotonic(); return OK; }
    }
    return r ? r : ENOTFOUND_;
}
R nvmlGpmMetricsGet(struct gpm_metrics *m) {
    char key[64], text[TEXT];
    if (m->version != 1 || !m->first || !m->second) return EINVAL_;
    if (strcmp(m->first->scope, m->second->scope) || m->second->time < m->first->time) return EINVAL_;
    for (struct gpm_metric *one = m->metrics; one < m->metrics + m->n; one++) {
        char *p = text;
        ULL w;
        snprintf(key, sizeof key, "gpm.%u", one->id);
        one->ret = find(m->second->scope, key, text) ? OK : ENOTSUP_;
        if (!one->ret) number(&p, &one->value, &w);
    }
    return OK;
}

/* Events: "sys event.<n>" = "device type data gi ci", delivered once each, to whoever registered for the type. */
struct event { D device; ULL type, data; U gi, ci; };
static ULL registered[64];
static int delivered;
R nvmlEventSetCreate(D *set) { *set = (D)1; delivered = fact("sys", "events_before", 0); return outcome("sys", "EventSetCreate"); }
R nvmlEventSetFree(D set) { (void)set; return OK; }
R nvmlDeviceRegisterEvents(D d, ULL types, D set) {
    char scope[32];
    (void)set;
    R r = enter(d, "DeviceRegisterEvents", scope);
    if (!r) registered[device_of(d)] = types;
    return r;
}
R nvmlDeviceGetSupportedEventTypes(D d, ULL *types) { return numbers(d, "DeviceGetSupportedEventTypes", "EventTypes", 1, NULL, types); }
R nvmlEventSetWait_v2(D set, struct event *out, U timeout_ms) {
    char key[64], text[TEXT];
    (void)set;
    for (double end = monotonic() + timeout_ms / 1e3;;) {
        R r = outcome("sys", "EventSetWait");
        if (r) return r;
        if (!users || generation_at_init != current()) return UNINIT;
        snprintf(key, sizeof key, "event.%d", delivered);
        if (find("sys", key, text)) {
            ULL w[5];
            char *p = text;
            double v;
            delivered++;
            for (int k = 0; k < 5; k++) if (!number(&p, &v, &w[k])) w[k] = ~0ull;
            if (!(registered[w[0]] & w[1])) continue;
            *out = (struct event){ handle((int)w[0], -1), w[1], w[2], (U)w[3], (U)w[4] };
            return OK;
        }
        if (monotonic() >= end) return ETIMEOUT;
        usleep(10000);
    }
}

/* vGPU: "vgpu.<n>" of a device = "<instance> <bytes> <VM's id>". */
static R vgpu(U instance, char *vm, ULL *bytes) {
    char scope[32], key[64], text[TEXT], id[TEXT];
    for (int d = 0; d < 64; d++) {
        snprintf(scope, sizeof scope, "%d", d);
        for (int n = 0;; n++) {
            U found;
            ULL size;
            snprintf(key, sizeof key, "vgpu.%d", n);
            if (!find(scope, key, text)) break;
            if (sscanf(text, "%u %llu %1000s", &found, &size, id) == 3 && found == instance) {
                if (vm) strcpy(vm, id);
                if (bytes) *bytes = size;
                return OK;
            }
        }
    }
    return ENOTFOUND_;
}
R nvmlDeviceGetActiveVgpus(D d, U *count, U *out) {
    char scope[32], key[64], text[TEXT];
    U n = 0;
    R r = enter(d, "DeviceGetActiveVgpus", scope);
    if (r) return r;
    for (;; n++) {
        snprintf(key, sizeof key, "vgpu.%u", n);
        if (!find(scope, key, text)) break;
        if (out && n < *count) out[n] = (U)strtoul(text, NULL, 10);
    }
    r = out && *count >= n ? OK : n ? ESMALL : OK;
    *count = n;
    return r;
}
R nvmlVgpuInstanceGetVmID(U instance, char *out, U length, U *kind) {
    char vm[TEXT];
    R r = vgpu(instance, vm, NULL);
    if (!r) { snprintf(out, length, "%s", vm); *kind = 1; }
    return r;
}
R nvmlVgpuInstanceGetFbUsage(U instance, ULL *bytes) { return vgpu(instance, NULL, bytes); }

static R system_words(const char *function, const char *key, char *out, U length) {
    char text[TEXT];
    R r = users ? outcome("sys", function) : UNINIT;
    if (r) return r;
    if (!find("sys", key, text)) return ENOTSUP_;
    snprintf(out, length, "%s", text);
    return OK;
}
R nvmlSystemGetDriverVersion(char *out, U length) { return system_words("SystemGetDriverVersion", "DriverVersion", out, length); }
R nvmlSystemGetNVMLVersion(char *out, U length) { return system_words("SystemGetNVMLVersion", "NVMLVersion", out, length); }
R nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = (int)fact("sys", "CudaVersion", 12040); return users ? OK : UNINIT; }

R nvmlInitWithFlags(U flags) {
    (void)flags;
    R r = outcome("sys", "Init");
    if (r) return r;
    users++;
    generation_at_init = current();
    snprintf(marker, sizeof marker, "%s.open.%d", scenario(), getpid()); /* shows that handles are held */
    FILE *f = fopen(marker, "w");
    if (f) fclose(f);
    return OK;
}
R nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
R nvmlShutdown(void) {
    if (!users) return UNINIT;
    if (!--users) unlink(marker);
    return OK;
}
const char *nvmlErrorString(R r) {
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "fake error %d", r);
    return r ? text : "Success";
}
R nvmlDeviceGetCount_v2(U *n) {
    if (!users || generation_at_init != current()) return UNINIT;
    *n = (U)fact("sys", "count", 0);
    return outcome("sys", "GetCount");
}
R nvmlDeviceGetHandleByIndex_v2(U i, D *d) {
    char scope[32];
    if (!users || generation_at_init != current()) return UNINIT;
    if ((long)i >= fact("sys", "count", 0)) return EINVAL_;
    snprintf(scope, sizeof scope, "%u", i);
    *d = handle((int)i, -1);
    return outcome(scope, "GetHandleByIndex");
}
R nvmlDeviceGetHandleByUUID(const char *uuid, D *d) {
    char scope[32], text[TEXT];
    for (int i = 0; i < fact("sys", "count", 0); i++) {
        snprintf(scope, sizeof scope, "%d", i);
        if (find(scope, "UUID", text) && !strcmp(text, uuid)) { *d = handle(i, -1); return outcome(scope, "GetHandleByUUID"); }
    }
    return ENOTFOUND_;
}

/* A libdcgm that plays a file, beside itself as `<library>.scenario`, read at each call:
 *   connect CODE                    what dcgmConnect_v2 returns
 *   watch FIELD CODE                what dcgmWatchFields returns for a group of that field
 *   gpu ID UUID
 *   instance ID GPU GPU_INSTANCE
 *   value GROUP ID FIELD TYPE VALUE STATUS AGE_SECONDS     TYPE is d or i
 * Layouts after dcgm_structs.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_DEVICES 32
enum { OK = 0, BADPARAM = -1, VER_MISMATCH = -11, NO_DATA = -14 };
typedef uintptr_t H;
typedef struct { unsigned version, persist, timeout_ms, is_unix; } connect_v2;
typedef struct {
    unsigned version, group, id;
    unsigned short field, type;
    int status;
    unsigned unused;
    int64_t ts;
    union { int64_t i64; double dbl; char str[256]; char blob[4096]; } value;
} value_v2;
typedef struct { unsigned group, id; } entity;
typedef struct { char uuid[128]; unsigned index, instance, compute, profile, slices; } info;
typedef struct { entity self, parent; info info; } hierarchy_entry;
typedef struct { unsigned version, count; hierarchy_entry list[MAX_DEVICES * 14]; } hierarchy_v2;
#define VERSION(type, n) (unsigned)(sizeof(type) | (unsigned)(n) << 24)

static unsigned short groups[256];
static int group_count;

static FILE *scenario(void) {
    Dl_info me;
    char path[4096];
    dladdr((void *)scenario, &me);
    snprintf(path, sizeof path, "%s.scenario", me.dli_fname);
    return fopen(path, "r");
}

static int code_of(const char *format, int key) {
    FILE *file = scenario();
    char line[512];
    int found = OK, a, b;
    while (file && fgets(line, sizeof line, file)) {
        int n = sscanf(line, format, &a, &b);
        if (key < 0 && n == 1) found = a;
        if (key >= 0 && n == 2 && a == key) found = b;
    }
    if (file) fclose(file);
    return found;
}

static int uuid_of(unsigned gpu, char *out) {
    FILE *file = scenario();
    char line[512], uuid[128];
    unsigned id;
    int found = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "gpu %u %127s", &id, uuid) == 2 && id == gpu) { strcpy(out, uuid); found = 1; }
    if (file) fclose(file);
    return found;
}

int dcgmInit(void) { return OK; }
int dcgmShutdown(void) { return OK; }
int dcgmDisconnect(H handle) { (void)handle; return OK; }

int dcgmConnect_v2(const char *address, connect_v2 *params, H *handle) {
    if (params->version != VERSION(connect_v2, 2)) return VER_MISMATCH;
    if (!address || !strchr(address, ':')) return BADPARAM;
    *handle = 0x7ffff001;
    return code_of("connect %d", -1);
}

int dcgmFieldGroupCreate(H handle, int count, unsigned short *fields, const char *name, H *group) {
    if (handle != 0x7ffff001 || count != 1 || !name || group_count >= 256) return BADPARAM;
    groups[group_count] = fields[0];
    *group = (H)group_count++;
    return OK;
}

int dcgmWatchFields(H handle, H entities, H group, long long us, double keep, int samples) {
    if (handle != 0x7ffff001 || us < 1000000 || keep < 1.0 || samples < 1) return BADPARAM;
    if (entities != 0x7fffffff && entities != 0x7ffffffd) return BADPARAM;
    return code_of("watch %d %d", groups[group]);
}

int dcgmGetAllDevices(H handle, unsigned ids[MAX_DEVICES], int *count) {
    FILE *file = scenario();
    char line[512], uuid[128];
    unsigned id;
    (void)handle;
    *count = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "gpu %u %127s", &id, uuid) == 2) ids[(*count)++] = id;
    if (file) fclose(file);
    return OK;
}

int dcgmGetGpuInstanceHierarchy(H handle, hierarchy_v2 *out) {
    FILE *file = scenario();
    char line[512];
    unsigned id, gpu, instance;
    (void)handle;
    if (out->version != VERSION(hierarchy_v2, 2)) return VER_MISMATCH;
    out->count = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "instance %u %u %u", &id, &gpu, &instance) == 3) {
            hierarchy_entry *entry = &out->list[out->count++];
            memset(entry, 0, sizeof *entry);
            entry->self = (entity){ 4, id };
            entry->parent = (entity){ 1, gpu };
            entry->info.instance = instance;
            uuid_of(gpu, entry->info.uuid);
        }
    if (file) fclose(file);
    return OK;
}

int dcgmEntitiesGetLatestValues(H handle, entity *entities, unsigned n, unsigned short *fields, unsigned m,
                                unsigned flags, value_v2 *values) {
    (void)handle;
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < m; j++) {
            value_v2 *v = &values[i * m + j];
            if (v->version != VERSION(value_v2, 2)) return VER_MISMATCH;
            *v = (value_v2){ v->version, entities[i].group, entities[i].id, fields[j], 'd', NO_DATA, 0, 0, { 0 } };
            if (fields[j] == 54 && entities[i].group == 1 && (flags & 1)) {
                v->type = 's';
                v->status = uuid_of(entities[i].id, v->value.str) ? OK : NO_DATA;
                continue;
            }
            FILE *file = scenario();
            char line[512], type, text[64];
            unsigned group, id, field;
            int status, age;
            while (file && fgets(line, sizeof line, file))
                if (sscanf(line, "value %u %u %u %c %63s %d %d", &group, &id, &field, &type, text, &status, &age) == 7
                    && group == entities[i].group && id == entities[i].id && field == fields[j]) {
                    v->type = (unsigned short)type;
                    v->status = status;
                    v->ts = ((int64_t)time(NULL) - age) * 1000000;
                    if (type == 'd') v->value.dbl = atof(text); else v->value.i64 = strtoll(text, NULL, 10);
                }
            if (file) fclose(file);
        }
    return OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.c - a libnvidia-ml of the tests' own: it answers what the text file named by SPUR_STUB_NVML says.
 *
 *     gpu N bdf 0000:06:00.0 minor N name NAME arch A gen G      arch 0: the function is not supported; "_" in NAME is a blank
 *     link A B COUNT          COUNT NVLinks between two GPUs
 *     half A B COUNT          the same, seen from A alone
 *     switch A COUNT          COUNT links of A end at switches
 *     ancestor A B LEVEL      common ancestor
 *     fabric A HEX CLIQUE     32 digits of the cluster
 *     mig A NAME GI CI        A is in MIG mode and has this instance
 *     fail FUNCTION CODE      it returns CODE       (for links of switches: fail nvmlDeviceGetNvLinkRemoteDeviceType 3)
 *     hang FUNCTION           it never returns; crash FUNCTION: it ends the process
 *     xid A NUMBER            an event, once; lost A: the GPU has fallen off the bus
 *
 * The file is read anew at each call, so a test changes the hardware by writing to it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../plugins/gpu/nvml/nvml.h"

#define API __attribute__((visibility("default")))
#define GPUS 16

#define PROTOTYPE(function, member, parameters) int function parameters;
NVML_CALLS(PROTOTYPE, PROTOTYPE)
#undef PROTOTYPE
const char *nvmlErrorString(int code);

struct nvml_device { unsigned gpu; int mig; };      /* mig: -1 a whole GPU */
struct nvml_event_set { unsigned seen; };

struct text { struct { char bdf[20], name[64]; unsigned minor, arch, gen; int lost, has_fabric; unsigned clique; char cluster[33]; } gpus[GPUS];
              unsigned count, links[GPUS][GPUS], switches[GPUS], xid_count, xid_gpu[64], xids[64], mig_count[GPUS];
              int ancestors[GPUS][GPUS]; struct { char name[64]; unsigned gi, ci; } migs[GPUS][8]; };
static struct text now;
static struct nvml_device whole[GPUS], parts[GPUS][8];

/* What FUNCTION shall return: 0 to go on. */
static int look(const char *function)
{
    const char *path = getenv("SPUR_STUB_NVML");
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[256], word[64], word2[64];
    unsigned a, b, c;
    int code = 0;

    memset(&now, 0, sizeof now);
    memset(now.ancestors, 0xff, sizeof now.ancestors);
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "gpu %u", &a) == 1 && a < GPUS) {
            sscanf(line, "gpu %*u bdf %19s minor %u name %63s arch %u gen %u", now.gpus[a].bdf, &now.gpus[a].minor, now.gpus[a].name, &now.gpus[a].arch, &now.gpus[a].gen);
            now.count = a + 1 > now.count ? a + 1 : now.count;
        } else if (sscanf(line, "link %u %u %u", &a, &b, &c) == 3 && a < GPUS && b < GPUS) {
            now.links[a][b] = now.links[b][a] = c;
        } else if (sscanf(line, "half %u %u %u", &a, &b, &c) == 3 && a < GPUS && b < GPUS) {
            now.links[a][b] = c;
        } else if (sscanf(line, "switch %u %u", &a, &c) == 2 && a < GPUS) {
            now.switches[a] = c;
        } else if (sscanf(line, "ancestor %u %u %u", &a, &b, &c) == 3 && a < GPUS && b < GPUS) {
            now.ancestors[a][b] = now.ancestors[b][a] = (int)c;
        } else if (sscanf(line, "fabric %u %32s %u", &a, word, &c) == 3 && a < GPUS) {
            now.gpus[a].has_fabric = 1;
            snprintf(now.gpus[a].cluster, sizeof now.gpus[a].cluster, "%.32s", word);
            now.gpus[a].clique = c;
        } else if (sscanf(line, "mig %u %63s %u %u", &a, word, &b, &c) == 4 && a < GPUS && now.mig_count[a] < 8) {
            snprintf(now.migs[a][now.mig_count[a]].name, 64, "%s", word);
            now.migs[a][now.mig_count[a]].gi = b;
            now.migs[a][now.mig_count[a]++].ci = c;
        } else if (sscanf(line, "fail %63s %u", word2, &c) == 2 && !strcmp(word2, function)) {
            code = (int)c;
        } else if (sscanf(line, "hang %63s", word2) == 1 && !strcmp(word2, function)) {
            for (;;)
                pause();
        } else if (sscanf(line, "crash %63s", word2) == 1 && !strcmp(word2, function)) {
            kill(getpid(), SIGKILL);        /* no core, no handler of a sanitizer */
        } else if (sscanf(line, "xid %u %u", &a, &c) == 2 && a < GPUS && now.xid_count < 64) {
            now.xid_gpu[now.xid_count] = a;
            now.xids[now.xid_count++] = c;
        } else if (sscanf(line, "lost %u", &a) == 1 && a < GPUS) {
            now.gpus[a].lost = 1;
        }
    }
    if (f)
        fclose(f);
    return code;
}
#define LOOK() do { int code_ = look(__func__); if (code_) return code_; } while (0)

static unsigned index_of(const struct nvml_device *d) { return d->gpu; }

static int pci_fill(unsigned i, struct nvml_pci *p)
{
    memset(p, 0, sizeof *p);
    snprintf(p->bus_id, sizeof p->bus_id, "%s", now.gpus[i].bdf);
    return sscanf(now.gpus[i].bdf, "%x:%x:%x", &p->domain, &p->bus, &p->device) == 3 ? NVML_OK : NVML_UNKNOWN;
}

/* The GPU at the far end of a link: those to GPUs come first, then those to switches. GPUS: a switch; -1: no such link. */
static int far_end(unsigned i, unsigned link)
{
    for (unsigned k = 0; k < now.count; k++) {
        if (link < now.links[i][k])
            return (int)k;
        link -= now.links[i][k];
    }
    return link < now.switches[i] ? GPUS : -1;
}

API int nvmlInit_v2(void) { LOOK(); return NVML_OK; }
API int nvmlShutdown(void) { return NVML_OK; }
API const char *nvmlErrorString(int code) { return code == NVML_GPU_IS_LOST ? "GPU is lost" : code == NVML_DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Unknown Error"; }
API int nvmlDeviceGetCount_v2(unsigned *n) { LOOK(); *n = now.count; return NVML_OK; }

API int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct nvml_device **d)
{
    LOOK();
    if (i >= now.count)
        return NVML_INVALID_ARGUMENT;
    whole[i] = (struct nvml_device){ i, -1 };
    *d = &whole[i];
    return NVML_OK;
}

API int nvmlDeviceGetPciInfo_v3(struct nvml_device *d, struct nvml_pci *p) { LOOK(); return pci_fill(index_of(d), p); }
API int nvmlDeviceGetMinorNumber(struct nvml_device *d, unsigned *n) { LOOK(); *n = now.gpus[index_of(d)].minor; return NVML_OK; }

API int nvmlDeviceGetUUID(struct nvml_device *d, char *out, unsigned size)
{
    LOOK();
    if (now.gpus[d->gpu].lost)
        return NVML_GPU_IS_LOST;
    d->mig < 0 ? snprintf(out, size, "GPU-0000000%u-stub", d->gpu) : snprintf(out, size, "MIG-0000000%u-%d-stub", d->gpu, d->mig);
    return NVML_OK;
}

API int nvmlDeviceGetName(struct nvml_device *d, char *out, unsigned size)
{
    LOOK();
    d->mig < 0 ? snprintf(out, size, "%s", now.gpus[d->gpu].name) : snprintf(out, size, "%s MIG %s", now.gpus[d->gpu].name, now.migs[d->gpu][d->mig].name);
    for (char *at = out; *at; at++)
        *at = *at == '_' ? ' ' : *at;
    return NVML_OK;
}

API int nvmlDeviceGetArchitecture(struct nvml_device *d, unsigned *out) { LOOK(); *out = now.gpus[d->gpu].arch; return *out ? NVML_OK : NVML_NOT_SUPPORTED; }

API int nvmlDeviceGetNvLinkState(struct nvml_device *d, unsigned link, int *active)
{
    LOOK();
    *active = far_end(d->gpu, link) >= 0;
    return NVML_OK;
}

API int nvmlDeviceGetNvLinkVersion(struct nvml_device *d, unsigned link, unsigned *out) { (void)d; (void)link; LOOK(); *out = 2; return NVML_OK; }

API int nvmlDeviceGetNvLinkRemoteDeviceType(struct nvml_device *d, unsigned link, int *out)
{
    LOOK();
    *out = far_end(d->gpu, link) == GPUS ? NVML_REMOTE_SWITCH : NVML_REMOTE_GPU;
    return NVML_OK;
}

API int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct nvml_device *d, unsigned link, struct nvml_pci *p)
{
    int k;

    LOOK();
    k = far_end(d->gpu, link);
    if (k >= 0 && k < GPUS)
        return pci_fill((unsigned)k, p);
    *p = (struct nvml_pci){ .bus = 0xf0, .device = link };      /* a switch */
    return NVML_OK;
}

API int nvmlDeviceGetTopologyCommonAncestor(struct nvml_device *a, struct nvml_device *b, int *out)
{
    LOOK();
    *out = now.ancestors[a->gpu][b->gpu];
    return *out >= 0 ? NVML_OK : NVML_NOT_SUPPORTED;
}

API int nvmlDeviceGetGpuFabricInfo(struct nvml_device *d, struct nvml_fabric *f)
{
    LOOK();
    if (!now.gpus[d->gpu].has_fabric)
        return NVML_NOT_SUPPORTED;
    *f = (struct nvml_fabric){ .status = NVML_OK, .clique = now.gpus[d->gpu].clique, .state = NVML_FABRIC_COMPLETED };
    for (int i = 0; i < 16; i++) {
        unsigned byte = 0;

        sscanf(now.gpus[d->gpu].cluster + 2 * i, "%2x", &byte);
        f->cluster[i] = (unsigned char)byte;
    }
    return NVML_OK;
}

API int nvmlDeviceGetMaxPcieLinkGeneration(struct nvml_device *d, unsigned *out) { LOOK(); *out = now.gpus[d->gpu].gen; return NVML_OK; }
API int nvmlDeviceGetMaxPcieLinkWidth(struct nvml_device *d, unsigned *out) { (void)d; LOOK(); *out = 16; return NVML_OK; }
API int nvmlDeviceGetMigMode(struct nvml_device *d, unsigned *mode, unsigned *pending) { LOOK(); *mode = *pending = now.mig_count[d->gpu] > 0; return NVML_OK; }
API int nvmlDeviceGetMaxMigDeviceCount(struct nvml_device *d, unsigned *out) { (void)d; LOOK(); *out = 8; return NVML_OK; }

API int nvmlDeviceGetMigDeviceHandleByIndex(struct nvml_device *d, unsigned i, struct nvml_device **out)
{
    LOOK();
    if (i >= now.mig_count[d->gpu])
        return NVML_NOT_FOUND;
    parts[d->gpu][i] = (struct nvml_device){ d->gpu, (int)i };
    *out = &parts[d->gpu][i];
    return NVML_OK;
}

API int nvmlDeviceGetGpuInstanceId(struct nvml_device *d, unsigned *out) { LOOK(); *out = now.migs[d->gpu][d->mig].gi; return NVML_OK; }
API int nvmlDeviceGetComputeInstanceId(struct nvml_device *d, unsigned *out) { LOOK(); *out = now.migs[d->gpu][d->mig].ci; return NVML_OK; }

API int nvmlEventSetCreate(struct nvml_event_set **out)
{
    LOOK();
    *out = calloc(1, sizeof **out);
    return *out ? NVML_OK : NVML_UNKNOWN;
}

API int nvmlEventSetFree(struct nvml_event_set *s) { free(s); return NVML_OK; }
API int nvmlDeviceRegisterEvents(struct nvml_device *d, unsigned long long types, struct nvml_event_set *s) { (void)d; (void)types; (void)s; LOOK(); return NVML_OK; }

API int nvmlEventSetWait_v2(struct nvml_event_set *s, struct nvml_event *e, unsigned ms)
{
    (void)ms;
    LOOK();
    if (s->seen >= now.xid_count)
        return NVML_TIMEOUT;
    *e = (struct nvml_event){ .device = &whole[now.xid_gpu[s->seen]], .type = NVML_EVENT_XID, .data = now.xids[s->seen] };
    s->seen++;
    return NVML_OK;
}

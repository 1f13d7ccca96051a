/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.h - the part of NVIDIA's management library that is called, in prototypes of our own: no vendor header is needed at build, and no
 * library at start. The numbers are those of the library's documented interface; structs are only ever passed by address. */
#ifndef GPU_NVML_H
#define GPU_NVML_H

struct nvml_device;             /* opaque */
struct nvml_event_set;

enum { NVML_OK = 0, NVML_INVALID_ARGUMENT = 2, NVML_NOT_SUPPORTED = 3, NVML_NO_PERMISSION = 4, NVML_NOT_FOUND = 6, NVML_DRIVER_NOT_LOADED = 9, NVML_TIMEOUT = 10,
       NVML_GPU_IS_LOST = 15, NVML_UNKNOWN = 999 };
enum { NVML_REMOTE_GPU = 0, NVML_REMOTE_NPU = 1, NVML_REMOTE_SWITCH = 2 };
enum { NVML_ANCESTOR_INTERNAL = 0, NVML_ANCESTOR_SINGLE = 10, NVML_ANCESTOR_MULTIPLE = 20, NVML_ANCESTOR_HOSTBRIDGE = 30, NVML_ANCESTOR_NODE = 40, NVML_ANCESTOR_SYSTEM = 50 };
enum { NVML_FABRIC_COMPLETED = 3 };
#define NVML_EVENT_DOUBLE_BIT_ECC 2ull
#define NVML_EVENT_XID 8ull
#define NVML_LINKS_MAX 36u

struct nvml_pci { char legacy_id[16]; unsigned domain, bus, device, pci_id, subsystem_id; char bus_id[32]; };
struct nvml_fabric { unsigned char cluster[16]; int status; unsigned clique; unsigned char state; };
struct nvml_event { struct nvml_device *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };

/* CALL(function, member, parameters): those without which nothing can be said; MAY: those that an older driver may lack. */
#define NVML_CALLS(CALL, MAY) \
    CALL(nvmlInit_v2, init, (void)) \
    CALL(nvmlShutdown, shutdown, (void)) \
    CALL(nvmlDeviceGetCount_v2, count, (unsigned *)) \
    CALL(nvmlDeviceGetHandleByIndex_v2, handle, (unsigned, struct nvml_device **)) \
    CALL(nvmlDeviceGetPciInfo_v3, pci, (struct nvml_device *, struct nvml_pci *)) \
    CALL(nvmlDeviceGetUUID, uuid, (struct nvml_device *, char *, unsigned)) \
    CALL(nvmlDeviceGetName, name, (struct nvml_device *, char *, unsigned)) \
    CALL(nvmlDeviceGetMinorNumber, minor, (struct nvml_device *, unsigned *)) \
    MAY(nvmlDeviceGetArchitecture, architecture, (struct nvml_device *, unsigned *)) \
    MAY(nvmlDeviceGetNvLinkState, link_state, (struct nvml_device *, unsigned, int *)) \
    MAY(nvmlDeviceGetNvLinkVersion, link_version, (struct nvml_device *, unsigned, unsigned *)) \
    MAY(nvmlDeviceGetNvLinkRemoteDeviceType, link_remote_type, (struct nvml_device *, unsigned, int *)) \
    MAY(nvmlDeviceGetNvLinkRemotePciInfo_v2, link_remote_pci, (struct nvml_device *, unsigned, struct nvml_pci *)) \
    MAY(nvmlDeviceGetNvLinkRemotePciInfo, link_remote_pci_old, (struct nvml_device *, unsigned, struct nvml_pci *)) \
    MAY(nvmlDeviceGetTopologyCommonAncestor, ancestor, (struct nvml_device *, struct nvml_device *, int *)) \
    MAY(nvmlDeviceGetGpuFabricInfo, fabric, (struct nvml_device *, struct nvml_fabric *)) \
    MAY(nvmlDeviceGetMaxPcieLinkGeneration, pcie_generation, (struct nvml_device *, unsigned *)) \
    MAY(nvmlDeviceGetMaxPcieLinkWidth, pcie_width, (struct nvml_device *, unsigned *)) \
    MAY(nvmlDeviceGetMigMode, mig_mode, (struct nvml_device *, unsigned *, unsigned *)) \
    MAY(nvmlDeviceGetMaxMigDeviceCount, mig_count, (struct nvml_device *, unsigned *)) \
    MAY(nvmlDeviceGetMigDeviceHandleByIndex, mig_handle, (struct nvml_device *, unsigned, struct nvml_device **)) \
    MAY(nvmlDeviceGetGpuInstanceId, gpu_instance, (struct nvml_device *, unsigned *)) \
    MAY(nvmlDeviceGetComputeInstanceId, compute_instance, (struct nvml_device *, unsigned *)) \
    MAY(nvmlEventSetCreate, event_set, (struct nvml_event_set **)) \
    MAY(nvmlEventSetFree, event_set_free, (struct nvml_event_set *)) \
    MAY(nvmlDeviceRegisterEvents, event_register, (struct nvml_device *, unsigned long long, struct nvml_event_set *)) \
    MAY(nvmlEventSetWait_v2, event_wait, (struct nvml_event_set *, struct nvml_event *, unsigned))

struct nvml_calls {
#define NVML_MEMBER(function, member, parameters) int (*member) parameters;
    NVML_CALLS(NVML_MEMBER, NVML_MEMBER)
#undef NVML_MEMBER
    const char *(*error_text)(int);
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* slurm/pmi2.h - PMI-2, the second interface by which the processes of a parallel program find each other. Library: libpmi2.so.0 (-lpmi2).
 *
 * The launcher (`srun --mpi=pmi2`, or another that speaks PMI-2 on the descriptor in PMI_FD) holds three kinds of data: the job's keyval space (what is put
 * before a fence can be got by all after it), attributes of the node (seen by its own processes, at once) and attributes of the job, which it gives itself.
 * Without a launcher a program is alone: rank 0 of 1, with tables of its own. All functions return PMI2_SUCCESS or an error of this list, and want PMI2_Init
 * before. Several threads may call them at the same time; a fence is asked for by one thread of each process.
 */
#ifndef SPUR_SLURM_PMI2_H
#define SPUR_SLURM_PMI2_H

#ifdef __cplusplus
extern "C" {
#endif

#define PMI2_SUCCESS                0
#define PMI2_FAIL                   (-1)
#define PMI2_ERR_INIT               1       /* PMI2_Init has not been called, or could not reach the launcher */
#define PMI2_ERR_NOMEM              2
#define PMI2_ERR_INVALID_ARG        3
#define PMI2_ERR_INVALID_KEY        4
#define PMI2_ERR_INVALID_KEY_LENGTH 5
#define PMI2_ERR_INVALID_VAL        6
#define PMI2_ERR_INVALID_VAL_LENGTH 7
#define PMI2_ERR_INVALID_LENGTH     8
#define PMI2_ERR_INVALID_NUM_ARGS   9
#define PMI2_ERR_INVALID_ARGS       10
#define PMI2_ERR_INVALID_NUM_PARSED 11
#define PMI2_ERR_INVALID_KEYVALP    12
#define PMI2_ERR_INVALID_SIZE       13
#define PMI2_ERR_OTHER              14      /* the launcher refuses: no such key, a name that is published already */

#define PMI2_MAX_KEYLEN    64
#define PMI2_MAX_VALLEN    1024
#define PMI2_MAX_ATTRVALUE 1024
#define PMI2_ID_NULL       (-1)             /* for PMI2_KVS_Get: any process may have put it */

/* How two jobs would talk while they join; and MPI's info objects. Both come from an MPI library, and only their addresses pass here. */
typedef struct PMI2_Connect_comm {
    int  (*read)(void *buf, int maxlen, void *ctx);
    int  (*write)(const void *buf, int len, void *ctx);
    void  *ctx;
    int    isMaster;
} PMI2_Connect_comm_t;
struct MPID_Info;

/* ---- the process and its job ---- */
int PMI2_Init(int *spawned, int *size, int *rank, int *appnum);
int PMI2_Finalize(void);
int PMI2_Initialized(void);                 /* 1 or 0 */
int PMI2_Abort(int flag, const char msg[]); /* flag: end the whole job and not this process alone; does not return */
int PMI2_Job_GetId(char jobid[], int jobid_size);
int PMI2_Job_GetRank(int *rank);
int PMI2_Info_GetSize(int *size);           /* processes of the job */
/* A step keeps the size it was started with, and jobs cannot be joined: these three return PMI2_FAIL. */
int PMI2_Job_Spawn(int count, const char *cmds[], int argcs[], const char **argvs[], const int maxprocs[], const int info_keyval_sizes[],
                   const struct MPID_Info *info_keyval_vectors[], int preput_keyval_size, const struct MPID_Info *preput_keyval_vector[],
                   char jobId[], int jobIdSize, int errors[]);
int PMI2_Job_Connect(const char jobid[], PMI2_Connect_comm_t *conn);
int PMI2_Job_Disconnect(const char jobid[]);

/* ---- the keyval space ---- */
int PMI2_KVS_Put(const char key[], const char value[]);
int PMI2_KVS_Fence(void);
/* jobid NULL: this job's own. *vallen: the value's length; its negative where maxvalue bytes do not hold it and the NUL, and the value is cut. */
int PMI2_KVS_Get(const char *jobid, int src_pmi_id, const char key[], char value[], int maxvalue, int *vallen);

/* ---- attributes ---- */
int PMI2_Info_PutNodeAttr(const char name[], const char value[]);
int PMI2_Info_GetNodeAttr(const char name[], char value[], int valuelen, int *found, int waitfor);      /* waitfor: until a process has put it */
int PMI2_Info_GetNodeAttrIntArray(const char name[], int array[], int arraylen, int *outlen, int *found);   /* of a value like "1,2,5" */
int PMI2_Info_GetJobAttr(const char name[], char value[], int valuelen, int *found);                    /* PMI_process_mapping, universeSize, hasNameServ */
int PMI2_Info_GetJobAttrIntArray(const char name[], int array[], int arraylen, int *outlen, int *found);

/* ---- published names: as long as the step lives ---- */
int PMI2_Nameserv_publish(const char service_name[], const struct MPID_Info *info_ptr, const char port[]);
int PMI2_Nameserv_lookup(const char service_name[], const struct MPID_Info *info_ptr, char port[], int portLen);
int PMI2_Nameserv_unpublish(const char service_name[], const struct MPID_Info *info_ptr);

/* All processes in a ring: each gives a value and gets those of its neighbours. *rank of *ranks is its place. */
int PMIX_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue);

#ifdef __cplusplus
}
#endif
#endif

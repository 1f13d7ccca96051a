/* SPDX-License-Identifier: Apache-2.0 */
/* slurm/pmi.h - PMI-1, the interface by which the processes of a parallel program find each other. Library: libpmi.so.0 (-lpmi).
 *
 * A program that `srun --mpi=pmi2` has started, or any launcher that speaks PMI-1 on the descriptor in PMI_FD, has a keyval space that all its processes
 * share: what one puts before a barrier, all can get after it. Without such a launcher a program is alone: rank 0 of 1, with a keyval space of its own.
 * All functions return PMI_SUCCESS or an error of this list; all but PMI_Init and PMI_Initialized want PMI_Init before. They may be called by several
 * threads, one waits for the other. Lengths of buffers count the closing NUL.
 */
#ifndef SPUR_SLURM_PMI_H
#define SPUR_SLURM_PMI_H

#ifdef __cplusplus
extern "C" {
#endif

#define PMI_SUCCESS                 0
#define PMI_FAIL                    (-1)
#define PMI_ERR_INIT                1       /* PMI_Init has not been called, or could not reach the launcher */
#define PMI_ERR_NOMEM               2
#define PMI_ERR_INVALID_ARG         3
#define PMI_ERR_INVALID_KEY         4
#define PMI_ERR_INVALID_KEY_LENGTH  5
#define PMI_ERR_INVALID_VAL         6
#define PMI_ERR_INVALID_VAL_LENGTH  7
#define PMI_ERR_INVALID_LENGTH      8
#define PMI_ERR_INVALID_NUM_ARGS    9
#define PMI_ERR_INVALID_ARGS        10
#define PMI_ERR_INVALID_NUM_PARSED  11
#define PMI_ERR_INVALID_KEYVALP     12
#define PMI_ERR_INVALID_SIZE        13
#define PMI_ERR_INVALID_KVS         14

typedef int PMI_BOOL;
#define PMI_TRUE  1
#define PMI_FALSE 0

typedef struct PMI_keyval_t { const char *key; char *val; } PMI_keyval_t;

/* ---- the process and its group ---- */
int PMI_Init(int *spawned);                             /* *spawned: 1 when another program's PMI_Spawn_multiple has started this one */
int PMI_Initialized(int *initialized);
int PMI_Finalize(void);
int PMI_Get_size(int *size);
int PMI_Get_rank(int *rank);
int PMI_Get_universe_size(int *size);                   /* processes that there is room for */
int PMI_Get_appnum(int *appnum);
int PMI_Get_id(char id_str[], int length);              /* the name of the group; the same text names its keyval space */
int PMI_Get_kvs_domain_id(char id_str[], int length);
int PMI_Get_id_length_max(int *length);
int PMI_Barrier(void);
int PMI_Get_clique_size(int *size);                     /* processes of this node */
int PMI_Get_clique_ranks(int ranks[], int length);      /* length: at least the clique's size */
int PMI_Abort(int exit_code, const char error_msg[]);   /* ends all processes; does not return */

/* ---- keyval spaces ---- */
int PMI_KVS_Get_my_name(char kvsname[], int length);
int PMI_KVS_Get_name_length_max(int *length);
int PMI_KVS_Get_key_length_max(int *length);
int PMI_KVS_Get_value_length_max(int *length);
int PMI_KVS_Create(char kvsname[], int length);         /* a step has one: PMI_FAIL where the launcher knows no second */
int PMI_KVS_Destroy(const char kvsname[]);
int PMI_KVS_Put(const char kvsname[], const char key[], const char value[]);
int PMI_KVS_Commit(const char kvsname[]);
int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length);
/* One pair after the other, in no order; at the end both texts are empty. */
int PMI_KVS_Iter_first(const char kvsname[], char key[], int key_len, char val[], int val_len);
int PMI_KVS_Iter_next(const char kvsname[], char key[], int key_len, char val[], int val_len);

/* ---- published names: as long as the step lives ---- */
int PMI_Publish_name(const char service_name[], const char port[]);
int PMI_Unpublish_name(const char service_name[]);
int PMI_Lookup_name(const char service_name[], char port[]);        /* port: room for the longest value */

/* ---- further processes: PMI_FAIL under srun, where a step keeps the size it was started with ---- */
int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[], const int info_keyval_sizesp[],
                       const PMI_keyval_t *info_keyval_vectors[], int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[], int errors[]);

/* ---- options of a launcher within a program's arguments: there are none, so nothing is taken out ---- */
int PMI_Parse_option(int num_args, char *args[], int *num_parsed, PMI_keyval_t **keyvalp, int *size);
int PMI_Args_to_keyval(int *argcp, char *((*argvp)[]), PMI_keyval_t **keyvalp, int *size);
int PMI_Free_keyvals(PMI_keyval_t keyvalp[], int size);
int PMI_Get_options(char *str, int *length);

#ifdef __cplusplus
}
#endif
#endif

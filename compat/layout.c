/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - holds the layouts of slurm.h against those of 22.05 on machines with 64 bits, where programs are compiled with either header.
 * tests/compat/layout.c does the same member by member where Slurm's own header is installed. */
#include <slurm/slurm.h>

#if defined(__LP64__)
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " has not the size of 22.05")
SIZE(job_desc_msg_t, 880);
SIZE(slurm_job_info_t, 904);
SIZE(job_info_msg_t, 32);
SIZE(node_info_t, 336);
SIZE(node_info_msg_t, 24);
SIZE(partition_info_t, 232);
SIZE(partition_info_msg_t, 24);
SIZE(submit_response_msg_t, 24);
SIZE(slurm_step_id_t, 12);
SIZE(slurm_hash_t, 33);
SIZE(dynamic_plugin_data_t, 16);
SIZE(acct_gather_energy_t, 48);
SIZE(ext_sensors_data_t, 32);
SIZE(power_mgmt_data_t, 56);
#endif

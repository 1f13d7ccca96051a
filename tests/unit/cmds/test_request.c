/* SPDX-License-Identifier: Apache-2.0 */
/* Options and what they put into a record, field by field as protobuf names them. */
#include <stdio.h>
#include <unistd.h>

#include "base/str.h"
#include "cmds/common/request.h"
#include "test_cmds.h"

/* A record's fields that are set, sorted as declared: "name=x ntasks=3". */
static void spec_print(const Wire__JobSpec *spec, struct str *out)
{
    const ProtobufCMessageDescriptor *d = &wire__job_spec__descriptor;

    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        const char *at = (const char *)spec + f->offset;

        if (f->label == PROTOBUF_C_LABEL_REPEATED)
            continue;
        if (f->type == PROTOBUF_C_TYPE_STRING) {
            const char *text = *(char *const *)(const void *)at;

            if (text)
                str_addf(out, "%s%s=%s", out->len ? " " : "", f->name, text);
            continue;
        }
        if (!*(const protobuf_c_boolean *)((const char *)spec + f->quantifier_offset))
            continue;
        str_addf(out, "%s%s=", out->len ? " " : "", f->name);
        if (f->type == PROTOBUF_C_TYPE_BOOL)
            str_add(out, *(const protobuf_c_boolean *)at ? "yes" : "no");
        else if (f->type == PROTOBUF_C_TYPE_UINT32)
            str_addf(out, "%u", *(const uint32_t *)(const void *)at);
        else if (f->type == PROTOBUF_C_TYPE_INT32)
            str_addf(out, "%d", *(const int32_t *)(const void *)at);
        else if (f->type == PROTOBUF_C_TYPE_UINT64 || f->type == PROTOBUF_C_TYPE_INT64)
            str_addf(out, "%lld", *(const long long *)(const void *)at);
    }
}

/* `line`: words apart by blanks; '_' stands for a blank inside a word. 0 and the record, or the exit code and what was said. */
static int record(unsigned command, const char *line, struct str *out)
{
    struct option_row *rows = mem_array(request_row_count(), sizeof *rows);
    char *copy = mem_copy(line), *cursor = copy, *argv[32] = { (char *)(uintptr_t)"sbatch" }, *word;
    struct option_table table;
    struct spur_error err = { 0 };
    struct request r;
    int argc = 1, first, rc;

    while ((word = word_next(&cursor, " "))) {
        for (char *p = word; *p; p++)
            *p = *p == '_' ? ' ' : *p;
        argv[argc++] = word;
    }
    request_table(command, rows, &table);
    request_init(&r, command);
    str_clear(out);
    caught_begin();
    rc = options_environment(&table, &r);
    if (!rc)
        rc = options_read(&table, argc, argv, &r, &first);
    if (!rc && request_finish(&r, &err) < 0) {
        fprintf(stderr, "sbatch: fatal: %s\n", err.text);
        rc = err.code == SPUR_ESYNTAX ? 255 : 1;
    }
    str_add(out, caught_end());
    if (!rc) {
        str_clear(out);
        spec_print(&r.spec, out);
    }
    request_fini(&r);
    free(rows);
    free(copy);
    return rc;
}

static const struct { const char *line, *spec; } good[] = {
    { "", "" },
    { "-J two_words -A acc -q high -p a,b --comment=deadline_run --wckey w", "name=two words partition=a,b account=acc qos=high comment=deadline run wckey=w" },
    { "-N2", "min_nodes=2 max_nodes=2" },
    { "-N 2-4", "min_nodes=2 max_nodes=4" },
    { "-N 1k", "min_nodes=1024 max_nodes=1024" },
    { "-N2 --ntasks-per-node=8 -c 4", "min_nodes=2 max_nodes=2 ntasks=16 cpus_per_task=4 ntasks_per_node=8" },
    { "--ntasks-per-node=8", "ntasks=8 ntasks_per_node=8" },
    { "-n 3 --tasks-per-node=2", "ntasks=3 ntasks_per_node=2" },
    { "-n1 -N2", "min_nodes=1 max_nodes=1 ntasks=1" },
    { "-n1 -N2-4", "min_nodes=1 max_nodes=4 ntasks=1" },
    { "-w n[1-3]", "req_nodes=n[1-3] min_nodes=3" },
    { "-w n[1-3],n2 -N4", "req_nodes=n[1-3] min_nodes=4 max_nodes=4" },
    { "-w g02,g01,g04 -x g10,g9", "req_nodes=g[01-02,04] exc_nodes=g[9-10] min_nodes=3" },
    { "-i none -p a", "partition=a std_in=/dev/null" },
    { "-x g[07-08] -C a100&ib --prefer=ib", "features=a100&ib prefer=ib exc_nodes=g[07-08]" },
    { "-t 10", "time_limit_min=10" },
    { "-t 0", "time_limit_min=4294967295" },
    { "-t 0:30", "time_limit_min=1" },
    { "-t 48:00:00", "time_limit_min=2880" },
    { "--time=UNLIMITED", "time_limit_min=4294967295" },
    { "--mem=480g", "mem_per_node_mib=491520" },
    { "--mem 0", "mem_per_node_mib=0" },
    { "--mem-per-cpu=100", "mem_per_cpu_mib=100" },
    { "--mem-per-gpu=1G", "mem_per_gpu_mib=1024" },
    { "--tmp=1G --mincpus=4", "min_cpus_node=4 tmp_mib=1024" },
    { "--gres=gpu:8", "tres_per_node=gres:gpu:8" },
    { "--gres=gpu:a100:4,shard:2", "tres_per_node=gres:gpu:a100:4,gres:shard:2" },
    { "--gres=gpu", "tres_per_node=gres:gpu" },
    { "--gres=none", "" },
    { "--gpus-per-node=8", "tres_per_node=gres:gpu:8" },
    { "--gres=shard:1 --gpus-per-node=a100:2", "tres_per_node=gres:shard:1,gres:gpu:a100:2" },
    { "-G 4 --cpus-per-gpu=2", "tres_per_job=gres:gpu:4 cpus_per_gpu=2" },
    { "--gpus=a100:2,h100:1", "tres_per_job=gres:gpu:a100:2,gres:gpu:h100:1" },
    { "--gpus-per-task=1 --gpus-per-socket=2", "tres_per_socket=gres:gpu:2 tres_per_task=gres:gpu:1" },
    { "--tres-per-task=cpu=4,gres/gpu=1", "cpus_per_task=4 tres_per_task=gres:gpu:1" },
    { "-a 0-99:2%5 -d afterok:1:2?singleton", "dependency=afterok:1:2?singleton array=0-99:2%5" },
    { "-H --nice --requeue", "hold=yes nice=100 requeue=yes" },
    { "--nice=-5 --no-requeue --priority=7", "priority=7 nice=-5 requeue=no" },
    { "--exclusive", "exclusive=exclusive" },
    { "-s --contiguous -O --spread-job", "exclusive=oversubscribe contiguous=yes overcommit=yes spread=yes" },
    { "--signal=USR1", "signal=USR1 warn_signal=10 warn_time_s=60 warn_flags=0" },
    { "--signal=B:USR1@120", "signal=B:USR1@120 warn_signal=10 warn_time_s=120 warn_flags=1" },
    { "--signal=B:15@5", "signal=B:15@5 warn_signal=15 warn_time_s=5 warn_flags=1" },
    { "-o logs/%x-%j.out -e /dev/null -i in --open-mode=a", "open_mode=append std_in=in std_out=logs/%x-%j.out std_err=/dev/null" },
    { "-B 2:*:1 --cores-per-socket=8", "sockets_per_node=2 cores_per_socket=8 threads_per_core=1" },
    { "-m cyclic --hint=nomultithread", "threads_per_core=1 distribution=cyclic hint=nomultithread" }, { "--hint=nomultithread --threads-per-core=2", "threads_per_core=2" },
    { "-m block:cyclic,NoPack", "distribution=block:cyclic,NoPack" }, { "-m plane=2", "distribution=plane=2" }, { "-k", "no_kill=yes" }, { "--no-kill=off", "" },
    { "--mail-type=NONE --mail-user=a@b", "mail_user=a@b" },
    { "--kill-on-invalid-dep=yes --wait-all-nodes=1", "kill_on_invalid_dep=yes wait_all_nodes=yes" },
    { "--begin=2027-03-28T10:00:00Z", NULL },
    { "--switches=2 --segment=4 --extra=x", "switches=2 extra=x segment=4" }, { "--no-kill --spares=2", "no_kill=yes spares=2" }, { "--no-kill=off", "" },
    { "--gres-flags=enforce-binding --exclusive=topo", "gres_flags=enforce-binding exclusive=topo" },
    { "--switches=1@2:30", "switches=1 switch_wait_s=150" },
    { "--propagate=NONE --profile=none --mem-bind=none", "propagate_set=yes" },
    { "--gpu-bind=none", "tres_bind=gres/gpu:none" }, { "--gpu-bind=verbose,single:2", "tres_bind=gres/gpu:verbose,single:2" }, { "--tres-bind=gres/gpu:closest", "tres_bind=gres/gpu:closest" },
};

START_TEST(options_fill_the_record)
{
    struct str out;
    int rc;

    str_init(&out);
    rc = record(REQUEST_SBATCH, good[_i].line, &out);
    if (good[_i].spec) {
        ck_assert_msg(rc == 0, "%s: %s", good[_i].line, out.text);
        ck_assert_msg(!strcmp(out.text, good[_i].spec), "%s: %s, expected %s", good[_i].line, out.text, good[_i].spec);
    }
    str_fini(&out);
}
END_TEST

/* Exit codes as measured: 1 for numbers, 255 for other values. */
static const struct { const char *line; int rc; const char *says; } bad[] = {
    { "-t abc", 255, "Invalid --time specification: \"abc\"" }, { "-t 3600.0", 255, "\"3600.0\"" }, { "-t _10", 255, "--time" }, { "-t +10", 255, "--time" },
    { "-t 1:2:3:4", 255, "--time" }, { "-n abc", 1, "Invalid numeric value \"abc\" for --ntasks." }, { "-n 0", 1, "--ntasks" }, { "-c -1", 1, "--cpus-per-task" },
    { "-n 99999999999", 1, "--ntasks" }, { "-N abc", 255, "\"abc\" is not a valid node count" }, { "-N 0", 255, "not a valid node count" },
    { "-N 2-1", 255, "Maximum node count 1 is less than minimum node count 2" }, { "-N 2-", 255, "not a valid" }, { "-N 2x", 255, "not a valid" },
    { "--mem=abc", 255, "Invalid --mem specification: \"abc\"" }, { "--mem=1G --mem-per-cpu=1G", 1, "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive." },
    { "--mem-per-gpu=1G --mem-per-cpu=1G", 1, "mutually exclusive" }, { "--gres=gpu:x:y:z:0", 1, "--gres" }, { "--gres=:2", 1, "--gres" }, { "--gres=gpu::2", 1, "--gres" },
    { "--gpus=x", 1, "--gpus" }, { "--gpus-per-node=", 1, "--gpus-per-node" }, { "--nice=abc", 255, "--nice" }, { "--priority=abc", 255, "--priority" },
    { "--signal=FOO", 255, "Invalid --signal specification: \"FOO\"" }, { "--signal=USR1@abc", 255, "--signal" }, { "--signal=X:USR1", 255, "--signal" },
    { "--signal=USR1@70000", 255, "--signal" }, { "--begin=yesterday", 255, "Invalid --begin specification: \"yesterday\"" }, { "--deadline=x", 255, "--deadline" },
    { "--exclusive=foo", 255, "--exclusive" }, { "--exclusive=user", 1, "not supported yet: --exclusive=user" }, { "--open-mode=x", 255, "--open-mode" },
    { "--switches=x", 1, "--switches" }, { "--switches=1@x", 255, "Invalid --switches" }, { "--gres-flags=near", 255, "Invalid --gres-flags" }, { "--propagate=FOO", 1, "Bad rlimit name: FOO" }, { "-B x", 1, "first arg of -B" }, { "-B 1:2:3:4", 1, "third arg of -B" },
    { "--hint=foo", 1, "--hint" }, { "-m foo", 255, "--distribution" }, { "-m plane=0", 255, "--distribution" }, { "-m plane", 1, "plane=N" }, { "-w n[1", 255, "--nodelist" },
    { "-w n[1-3] -N2", 1, "3 > 2" }, { "-F /nonexistent", 255, "/nonexistent" }, { "--kill-on-invalid-dep=x", 255, "--kill-on-invalid-dep" },
    { "--get-user-env=x", 255, "--get-user-env" }, { "--mail-type=END", 1, "not supported yet: --mail-type=END" }, { "--container=x", 1, "not supported yet: --container" },
    { "--cpu-bind=none", 255, "unrecognized option '--cpu-bind'" }, { "--no-kill=foo", 255, "--no-kill" }, { "--time-min=3", 1, "not supported yet: --time-min" },
    { "--uid=1", 1, "not supported yet: --uid" }, { "-S 2", 1, "not supported yet: -S" },
};

START_TEST(wrong_values_are_refused)
{
    struct str out;
    int rc;

    str_init(&out);
    rc = record(REQUEST_SBATCH, bad[_i].line, &out);
    ck_assert_msg(rc == bad[_i].rc, "%s: exit %d, expected %d; %s", bad[_i].line, rc, bad[_i].rc, out.text);
    ck_assert_msg(strstr(out.text, bad[_i].says), "%s: \"%s\", expected \"%s\"", bad[_i].line, out.text, bad[_i].says);
    str_fini(&out);
}
END_TEST

START_TEST(the_stronger_source_wins)
{
    struct str out;

    str_init(&out);
    setenv("SBATCH_TIMELIMIT", "2", 1);
    setenv("SBATCH_MEM_PER_NODE", "1G", 1);
    ck_assert_int_eq(record(REQUEST_SBATCH, "-t 3 --mem-per-cpu=5", &out), 0);
    ck_assert_str_eq(out.text, "mem_per_cpu_mib=5 time_limit_min=3");
    ck_assert_int_eq(record(REQUEST_SBATCH, "", &out), 0);
    ck_assert_str_eq(out.text, "mem_per_node_mib=1024 time_limit_min=2");
    setenv("SBATCH_TIMELIMIT", "x", 1);
    ck_assert_int_eq(record(REQUEST_SBATCH, "", &out), 255);
    ck_assert_str_eq(out.text, "sbatch: error: SBATCH_TIMELIMIT: Invalid --time specification: \"x\"\n");
    str_fini(&out);
}
END_TEST

START_TEST(srun_reads_the_job_it_is_in)
{
    struct str out;

    str_init(&out);
    setenv("SLURM_NTASKS", "8", 1);
    setenv("SLURM_NNODES", "2", 1);
    ck_assert_int_eq(record(REQUEST_SRUN, "", &out), 0);
    ck_assert_str_eq(out.text, "min_nodes=2 max_nodes=2 ntasks=8");
    ck_assert_int_eq(record(REQUEST_SRUN, "-n4 --label --cpu-bind=q", &out), 0);
    ck_assert_str_eq(out.text, "min_nodes=2 max_nodes=2 ntasks=4");
    ck_assert_int_eq(record(REQUEST_SRUN, "--x11", &out), 1);
    ck_assert_str_eq(out.text, "srun: error: not supported yet: --x11\n");
    ck_assert_int_eq(record(REQUEST_SRUN, "--cpu-bind=verbose,cores --mem-bind=local", &out), 0);
    ck_assert_int_eq(record(REQUEST_SRUN, "--cpu-bind=near", &out), 1);
    str_fini(&out);
}
END_TEST

START_TEST(nodes_come_from_a_file)
{
    static const char text[] = "n1, n2\n# n9\nn[4-5] # and so on\r\n\nn6";
    char path[] = "/tmp/spur-test-nodes-XXXXXX", line[64];
    int fd = mkstemp(path);
    struct str out;

    str_init(&out);
    ck_assert_int_eq(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    snprintf(line, sizeof line, "-F %s", path);
    ck_assert_int_eq(record(REQUEST_SBATCH, line, &out), 0);
    ck_assert_str_eq(out.text, "req_nodes=n1,n2,n[4-5],n6 min_nodes=5");
    snprintf(line, sizeof line, "-x %s", path);
    ck_assert_int_eq(record(REQUEST_SBATCH, line, &out), 0);
    ck_assert_str_eq(out.text, "exc_nodes=n[1-2,4-6]");
    unlink(path);
    str_fini(&out);
}
END_TEST

START_TEST(the_place_is_recorded)
{
    char *argv[] = { (char *)(uintptr_t)"/usr/bin/sbatch", (char *)(uintptr_t)"-J", (char *)(uintptr_t)"two words", (char *)(uintptr_t)"it's.sh", NULL }, here[4096];
    struct spur_error err = { 0 };
    struct request r;

    unsetenv("SLURM_UMASK");
    request_init(&r, REQUEST_SBATCH);
    r.propagate = "NOFILE,CORE";
    ck_assert_int_eq(request_place(&r, 4, argv, &err), 0);
    ck_assert_str_eq(r.spec.submit_line, "sbatch -J 'two words' 'it'\\''s.sh'");
    ck_assert_str_eq(r.spec.work_dir, getcwd(here, sizeof here));
    ck_assert_uint_eq(r.spec.n_rlimits, 2);
    request_fini(&r);
    request_init(&r, REQUEST_SBATCH);
    r.spec.work_dir = (char *)(uintptr_t)"sub/";
    r.propagate = "NONE";
    setenv("SLURM_UMASK", "0027", 1);
    ck_assert_int_eq(request_place(&r, 4, argv, &err), 0);
    ck_assert_str_eq(r.spec.work_dir + strlen(r.spec.work_dir) - 4, "/sub");
    ck_assert_uint_eq(r.spec.umask, 027);
    ck_assert_uint_eq(r.spec.n_rlimits, 0);
    setenv("SLURM_UMASK", "9", 1);
    ck_assert_int_lt(request_place(&r, 4, argv, &err), 0);
    request_fini(&r);
}
END_TEST

START_TEST(only_this_cluster_is_known)
{
    struct spur_error err = { 0 };
    struct request r = { .clusters = NULL };

    ck_assert_int_eq(request_cluster(&r, "here", &err), 0);
    r.clusters = "there,HERE";
    ck_assert_int_eq(request_cluster(&r, "here", &err), 0);
    r.clusters = "all";
    ck_assert_int_eq(request_cluster(&r, "here", &err), 0);
    r.clusters = "there";
    ck_assert_int_lt(request_cluster(&r, "here", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "'there' can't be reached now"));
}
END_TEST

/* With CK_FORK=no the variables of one test would be there in the next. */
static void forget(void)
{
    static const char *const names[] = { "SBATCH_TIMELIMIT", "SBATCH_MEM_PER_NODE", "SLURM_NTASKS", "SLURM_NNODES", "SLURM_UMASK" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

TCase *request_cases(void)
{
    TCase *t = tcase_create("request");

    tcase_add_checked_fixture(t, forget, forget);
    tcase_add_loop_test(t, options_fill_the_record, 0, sizeof good / sizeof *good);
    tcase_add_loop_test(t, wrong_values_are_refused, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, the_stronger_source_wins);
    tcase_add_test(t, srun_reads_the_job_it_is_in);
    tcase_add_test(t, nodes_come_from_a_file);
    tcase_add_test(t, the_place_is_recorded);
    tcase_add_test(t, only_this_cluster_is_known);
    return t;
}

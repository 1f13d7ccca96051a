/* SPDX-License-Identifier: Apache-2.0 */
/* test_bind.c - words of --gpu-bind, and which devices tasks get by them, as tables. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "state/bind.h"
#include "test_state.h"

START_TEST(words)
{
    static const struct { const char *text; enum bind_kind kind; uint32_t count, masks; bool verbose; } good[] = {
        { "none", BIND_NONE, 0, 0, false }, { "closest", BIND_CLOSEST, 0, 0, false }, { "verbose,closest", BIND_CLOSEST, 0, 0, true }, { "v,single:2", BIND_SINGLE, 2, 0, true },
        { "single:1", BIND_SINGLE, 1, 0, false }, { "per_task:3", BIND_PER_TASK, 3, 0, false }, { "map_gpu:0,1", BIND_MAP, 0, 2, false }, { "map:0*4,1*4", BIND_MAP, 0, 8, false },
        { "mask_gpu:0x3,c", BIND_MASK, 0, 2, false }, { "mask:f*2", BIND_MASK, 0, 2, false }, { "verbose,map_gpu:63", BIND_MAP, 0, 1, true } };
    static const char *const bad[] = { "", "fastest", "single", "single:0", "single:x", "per_task:", "map_gpu:", "map_gpu:64", "map_gpu:0*0", "map_gpu:0*2000", "map_gpu:a", "mask_gpu:0", "mask_gpu:-1",
                                       "mask_gpu:xyz", "verbose", "map_gpu:1,,*" };
    static const char *const bad_tres[] = { "closest", "gres/nic:closest", "gres/gpu:closest+gres/nic:closest", "gres/gpu", "gres/gpu:", "" };

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct spur_error err = { 0 };
        struct bind b;
        char tres[100];

        ck_assert_msg(bind_parse(good[i].text, &b, &err) == 0, "%s: %s", good[i].text, err.text);
        ck_assert_msg(b.kind == good[i].kind && b.count == good[i].count && b.mask_count == good[i].masks && b.verbose == good[i].verbose, "%s", good[i].text);
        bind_fini(&b);
        snprintf(tres, sizeof tres, "gres/gpu:%s", good[i].text);
        ck_assert_int_eq(bind_parse_tres(tres, &b, &err), 0);
        bind_fini(&b);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct spur_error err = { 0 };
        struct bind b;

        ck_assert_msg(bind_parse(bad[i], &b, &err) < 0 && err.text[0], "%s is taken", bad[i]);
    }
    for (size_t i = 0; i < sizeof bad_tres / sizeof *bad_tres; i++) {
        struct spur_error err = { 0 };
        struct bind b;

        ck_assert_msg(bind_parse_tres(bad_tres[i], &b, &err) < 0 && err.text[0], "%s is taken", bad_tres[i]);
    }
}
END_TEST

/* Devices as "INDEX" or "INDEX:CORES", cores of the step as a list; expected: a mask a task, `!` behind it when a note says that it is second best. */
START_TEST(what_tasks_get)
{
    static const struct { const char *bind, *devices, *cores; uint32_t tasks; const char *expected; } table[] = {
        { "none", "0 1", "0-3", 2, "3 3" },
        { "none", "", "0-3", 2, "0 0" },
        { "map_gpu:0", "", "0-3", 2, "0 0" },                                       /* no GPU is got by naming it */
        { "closest", "0:0-3 1:0-3 2:4-7 3:4-7", "0-7", 2, "3 c" },
        { "closest", "0:0-3 1:0-3 2:4-7 3:4-7", "0-7", 4, "3 3 c c" },
        { "closest", "0:0-3 1:0-3 2:4-7 3:4-7", "0-7", 1, "f" },
        { "closest", "2:4-7", "0-3", 2, "4! 4!" },                                  /* the near socket has none */
        { "closest", "0 1", "0-3", 2, "3 3" },                                      /* no affinity is known */
        { "single:1", "0:0 1:0 2:1 3:1", "0-1", 2, "1 4" },
        { "single:1", "0:0 1:0", "0-1", 2, "1 2!" },                                /* both on the first socket: one of its own all the same */
        { "single:2", "0:0 1:0 2:1 3:1", "0-3", 4, "1 4 1! 2!" },
        { "single:2", "0 1", "0-3", 4, "1 1 2 2" },
        { "single:1", "4 5", "0-3", 4, "10 20 10! 20!" },                           /* more tasks than devices */
        { "per_task:1", "0 1 2 3", "0-7", 4, "1 2 4 8" },
        { "per_task:2", "0:4-7 1:4-7 2:0-3 3:0-3", "0-7", 2, "c 3" },
        { "per_task:2", "0 1 2", "0-7", 2, "3 5!" },
        { "per_task:9", "0 1", "0-7", 1, "3" },
        { "map_gpu:1,0", "0 1", "0-3", 3, "2 1 2" },
        { "map:0*2,1", "0 1", "0-3", 3, "1 1 2" },
        { "map_gpu:7", "2 3", "0-3", 2, "4! 4!" },                                  /* outside of the step: never */
        { "mask_gpu:3,c", "0 1 2 3", "0-3", 3, "3 c 3" },
        { "mask_gpu:0xff", "2 3", "0-3", 1, "c" },
        { "per_task:1", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23", "0-23", 24,
          "1 2 4 8 10 20 40 80 100 200 400 800 1000 2000 4000 8000 10000 20000 40000 80000 100000 200000 400000 800000" },
        { "closest", "0:0-3 1:4-7", "0", 3, "1 1 1" },                              /* more tasks than cores */
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct bitmap cores, near[64];
        struct bind_device devices[64];
        struct bind_node node = { .devices = devices, .cores = &cores, .tasks = table[i].tasks };
        char *copy = mem_copy(table[i].devices), *at = copy, *word;
        struct spur_error err = { 0 };
        uint64_t masks[64];
        uint8_t notes[64];
        struct bind b;
        struct str got;

        bitmap_init(&cores, 64);
        ck_assert_int_eq(bitmap_parse(&cores, table[i].cores, &err), 0);
        while ((word = word_next(&at, " "))) {
            char *colon = strchr(word, ':');
            struct bind_device *d = &devices[node.device_count];

            *d = (struct bind_device){ 0 };
            bitmap_init(&near[node.device_count], 64);
            if (colon) {
                *colon++ = '\0';
                ck_assert_int_eq(bitmap_parse(&near[node.device_count], colon, &err), 0);
                d->cores = &near[node.device_count];
            }
            number_u32(word, &d->index);
            node.device_count++;
        }
        ck_assert_int_eq(bind_parse(table[i].bind, &b, &err), 0);
        bind_tasks(&b, &node, masks, notes);
        str_init(&got);
        for (uint32_t t = 0; t < node.tasks; t++)
            str_addf(&got, "%s%llx%s", t ? " " : "", (unsigned long long)masks[t], notes[t] ? "!" : "");
        ck_assert_msg(!strcmp(got.text, table[i].expected), "%s over %s: %s, not %s", table[i].bind, table[i].devices, got.text, table[i].expected);
        str_fini(&got);
        bind_fini(&b);
        for (uint32_t k = 0; k < node.device_count; k++)
            bitmap_fini(&near[k]);
        bitmap_fini(&cores);
        free(copy);
    }
}
END_TEST

/* Pairs 0-3 and 1-2 are joined: two devices a task are such a pair, whatever their numbers. */
START_TEST(pairs_that_are_joined)
{
    static const uint32_t mbps[4][64] = { { 0, 1, 1, 50 }, { 1, 0, 50, 1 }, { 1, 50, 0, 1 }, { 50, 1, 1, 0 } };
    struct bind_device devices[4];
    struct bind_node node = { .devices = devices, .device_count = 4, .tasks = 2 };
    struct bind b = { .kind = BIND_PER_TASK, .count = 2 };
    uint64_t masks[2];
    uint8_t notes[2];

    for (uint32_t i = 0; i < 4; i++)
        devices[i] = (struct bind_device){ .index = i, .mbps = mbps[i] };
    bind_tasks(&b, &node, masks, notes);
    ck_assert_uint_eq(masks[0], 0x9);
    ck_assert_uint_eq(masks[1], 0x6);
    ck_assert_uint_eq(notes[0] | notes[1], 0);
}
END_TEST

/* Tasks that are bound to the sockets in turn get the device of their own socket. */
START_TEST(near_to_what_it_is_bound_to)
{
    struct bitmap cores, near[2], of_task[4];
    struct bind_device devices[2] = { { .index = 0, .cores = &near[0] }, { .index = 1, .cores = &near[1] } };
    struct bind_node node = { .devices = devices, .device_count = 2, .cores = &cores, .tasks = 4 };
    struct bind b = { .kind = BIND_CLOSEST };
    uint64_t masks[4];
    uint8_t notes[4];

    bitmap_init(&cores, 8);
    bitmap_fill(&cores);
    for (uint32_t i = 0; i < 2; i++) {
        bitmap_init(&near[i], 8);
        bitmap_set_range(&near[i], 4 * i, 4 * i + 3);
    }
    for (uint32_t t = 0; t < 4; t++) {
        bitmap_init(&of_task[t], 8);
        bitmap_set(&of_task[t], t % 2 * 4 + t / 2);
    }
    bind_tasks(&b, &node, masks, notes);
    for (uint32_t t = 0; t < 4; t++)
        ck_assert_uint_eq(masks[t], t < 2 ? 1 : 2);
    node.task_cores = of_task;
    bind_tasks(&b, &node, masks, notes);
    for (uint32_t t = 0; t < 4; t++) {
        ck_assert_uint_eq(masks[t], t % 2 ? 2 : 1);
        ck_assert_uint_eq(notes[t], 0);
        bitmap_fini(&of_task[t]);
    }
    bitmap_fini(&cores);
    bitmap_fini(&near[0]);
    bitmap_fini(&near[1]);
}
END_TEST

Suite *bind_suite(void)
{
    Suite *s = suite_create("bind");
    TCase *t = tcase_create("bind");

    tcase_add_test(t, words);
    tcase_add_test(t, what_tasks_get);
    tcase_add_test(t, pairs_that_are_joined);
    tcase_add_test(t, near_to_what_it_is_bound_to);
    suite_add_tcase(s, t);
    return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "test_base.h"

START_TEST(memory_is_clear_aligned_and_apart)
{
    static const size_t sizes[] = { 0, 1, 15, 16, 17, 600, 1024, 5000, 70000, 3, 200000, 1 };
    struct arena a;

    arena_init(&a, 0);
    for (int round = 0; round < 3; round++) {
        unsigned char *p[sizeof sizes / sizeof *sizes];

        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            p[i] = arena_alloc(&a, sizes[i]);
            ck_assert_uint_eq((uintptr_t)p[i] % 16, 0);
            for (size_t k = 0; k < sizes[i]; k++)
                ck_assert_uint_eq(p[i][k], 0);
            memset(p[i], (int)i + 1, sizes[i]);
        }
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t k = 0; k < sizes[i]; k++)
                ck_assert_uint_eq(p[i][k], i + 1);
        arena_reset(&a);
        ck_assert_uint_eq(a.used, 0);
    }
    arena_fini(&a);
    arena_fini(&a);
}
END_TEST

START_TEST(cap_ends_in_null_and_reset_gives_room_again)
{
    struct arena a;

    arena_init(&a, 4096);
    ck_assert_ptr_null(arena_alloc(&a, 4097));
    ck_assert_ptr_null(arena_alloc(&a, SIZE_MAX));
    ck_assert_ptr_nonnull(arena_alloc(&a, 4000));
    ck_assert_ptr_null(arena_alloc(&a, 97));
    ck_assert_ptr_null(arena_printf(&a, "%0200d", 1));
    ck_assert_ptr_nonnull(arena_alloc(&a, 90));
    arena_reset(&a);
    ck_assert_ptr_nonnull(arena_alloc(&a, 4096));
    arena_fini(&a);
}
END_TEST

START_TEST(texts_are_copied)
{
    struct arena a;

    arena_init(&a, 0);
    ck_assert_ptr_null(arena_copy(&a, NULL));
    ck_assert_str_eq(arena_copy(&a, "node"), "node");
    ck_assert_str_eq(arena_printf(&a, "%s%03d", "node", 7), "node007");
    ck_assert_mem_eq(arena_copy_bytes(&a, "a\0b", 3), "a\0b", 3);
    arena_fini(&a);
}
END_TEST

TCase *arena_cases(void)
{
    TCase *t = tcase_create("arena");

    tcase_add_test(t, memory_is_clear_aligned_and_apart);
    tcase_add_test(t, cap_ends_in_null_and_reset_gives_room_again);
    tcase_add_test(t, texts_are_copied);
    return t;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* wal_format.h - the bytes of a log segment and of the superblock. Little endian, no padding left to a compiler.
 *
 * Segment file log-SEQUENCE (16 hex digits), of a fixed size, zero where nothing is written yet:
 *
 *     0     4096 bytes: header, CRC over the whole block
 *     4096  records, each a multiple of 8 bytes: 32 bytes head, data, zeros up to the next multiple of 8
 *
 * A record's CRC-32C covers its head (without the CRC) and data and is seeded by the CRC of the record before it, over the
 * borders of segments too: a record that is left over from an earlier life can't follow by chance.
 *
 * A flush record stands before the records of each flush. It is written as soon as the flush before it is durable, and names
 * that place: everything below is attested. It has a second CRC of its own and names its own place, so that it can be found
 * and believed behind a damaged record; the store's identity in it is a secret of the folder, so no entry can pass for one.
 */
#ifndef STORE_WAL_FORMAT_H
#define STORE_WAL_FORMAT_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WAL_VERSION        1
#define WAL_HEADER_BYTES   4096u
#define WAL_HEAD_BYTES     32u              /* a record's head */
#define WAL_FLUSH_DATA     64u
#define WAL_FLUSH_BYTES    (WAL_HEAD_BYTES + WAL_FLUSH_DATA)
#define WAL_ID_BYTES       16u
#define WAL_SEGMENT_MAGIC  "SPURLOG1"
#define SUPERBLOCK_MAGIC   "SPURSUP1"
#define SUPERBLOCK_SLOT    4096u            /* two of them, one after the other */
#define SNAPFILE_MAGIC     "SPURSNP1"

/* Offsets in a segment's header. */
enum { SEG_MAGIC = 0, SEG_VERSION = 8, SEG_ID = 16, SEG_SEQUENCE = 32, SEG_SIZE = 40, SEG_NEXT_INDEX = 48, SEG_PREV_END = 56,
       SEG_CHAIN = 64, SEG_CRC = 4092 };
/* Offsets in a record's head. */
enum { REC_CRC = 0, REC_LENGTH = 4, REC_TYPE = 8, REC_TERM = 16, REC_INDEX = 24 };
/* Offsets in a flush record's data. */
enum { FLUSH_ID = 0, FLUSH_SEGMENT = 16, FLUSH_OFFSET = 24, FLUSH_DURABLE_SEGMENT = 32, FLUSH_DURABLE_OFFSET = 40, FLUSH_DURABLE_INDEX = 48,
       FLUSH_CRC = 60 };
/* Offsets in a superblock slot. */
enum { SUP_MAGIC = 0, SUP_VERSION = 8, SUP_GENERATION = 16, SUP_ID = 24, SUP_FENCE = 40, SUP_SEGMENT = 48, SUP_OFFSET = 56, SUP_INDEX = 64,
       SUP_CRC = 4092 };

static inline void put32(uint8_t *p, uint32_t v) { v = htole32(v); memcpy(p, &v, 4); }
static inline void put64(uint8_t *p, uint64_t v) { v = htole64(v); memcpy(p, &v, 8); }
static inline uint32_t get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return le32toh(v); }
static inline uint64_t get64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return le64toh(v); }

static inline uint64_t wal_padded(uint64_t n) { return (n + 7) & ~UINT64_C(7); }

/* Is the block nothing but zeros? memcmp against itself, one byte on: the fastest loop there is. */
static inline bool wal_is_zero(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

#endif

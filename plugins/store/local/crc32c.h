/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.h - CRC-32C (Castagnoli), by the processor's own instruction where it has one. Chained: crc32c(crc32c(0, a), b)
 * is the checksum of a followed by b. Pure, any thread. */
#ifndef STORE_CRC32C_H
#define STORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t seed, const void *data, size_t n);
uint32_t crc32c_software(uint32_t seed, const void *data, size_t n);    /* the same by table: for machines without, and the test */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.h - the truth about small clusters, by trying everything: can this wish be met, and is this placement right? */
#ifndef TEST_SELECT_ORACLE_H
#define TEST_SELECT_ORACLE_H

#include "cluster.h"

/* Is there any set of nodes that meets the wish, with what is free or with all of it? Rows of gres must have different names. */
bool oracle_can(const struct cluster *c, const struct wish *w, bool empty);
/* The fewest nodes that do. */
uint32_t oracle_fewest(const struct cluster *c, const struct wish *w);
/* What is wrong with a placement; NULL when nothing is. */
const char *oracle_fault(const struct cluster *c, const struct wish *w, const struct placed *p);

#endif

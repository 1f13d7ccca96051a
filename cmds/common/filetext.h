/* SPDX-License-Identifier: Apache-2.0 */
/* filetext.h - a file as one text. */
#ifndef CMDS_COMMON_FILETEXT_H
#define CMDS_COMMON_FILETEXT_H

char *file_text(const char *path);      /* all of it, free() it; NULL: it cannot be opened */

#endif

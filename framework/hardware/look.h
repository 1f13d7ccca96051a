/* SPDX-License-Identifier: Apache-2.0 */
/* look.h - one look at the GPUs of this host, with all that was opened for it kept open for their health. */
#ifndef HARDWARE_LOOK_H
#define HARDWARE_LOOK_H

#include "hardware/scan.h"

#define LOOK_PLUGINS_MAX 8

struct look_source { struct loaded *plugin; char name[80]; uint32_t first, count; };    /* its rows among `found` */
struct look {
    /* What is asked; borrowed. */
    const struct config *cfg;               /* options and folders of plugins; NULL: defaults */
    const char *autodetect;                 /* "nvml", "full", ...; "": lines only */
    const struct spur_gres_line *lines; uint32_t line_count;
    const struct config_gres *wants; size_t want_count;     /* Gres= of the node's line */
    bool emulate;                           /* the files need not exist, and this host is not where the devices hang */
    void (*doing)(void *arg, const char *what); void *doing_arg;    /* NULL: nobody wants to know */
    /* What there is. */
    struct look_source sources[LOOK_PLUGINS_MAX]; uint32_t source_count;    /* the first is gpu/generic */
    struct rows found, rows;                /* of all plugins; the answer */
    struct rig rig;                         /* the devices of the answer by number, network devices, processors */
    struct { int source; uint32_t number; } health[SPUR_GPU_MAX];  /* whom to ask for a device's health; -1: nobody */
    struct spur_error err;
};

/* 0, or a code with the sentence in l->err. May block as long as a driver does. */
int  look(struct look *l);
bool look_can_watch(const struct look *l);
/* Numbers of the devices with a fault, and the words of the first; "" and 0 when all are well. */
uint64_t look_health(struct look *l, char *text, size_t size);
void look_fini(struct look *l);

#endif

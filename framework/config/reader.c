/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c - notes, errors with file and line, and the pairs of a record line. Used by all the readers of config/. */
#include "config/reader.h"

#include <stdlib.h>
#include <string.h>

void *reader_grow(void **array, size_t *count, size_t *room, size_t size)
{
    if (*count == *room) {
        *room = *room ? *room * 2 : 16;
        *array = mem_grow(*array, *room, size);
    }
    memset((char *)*array + *count * size, 0, size);
    return (char *)*array + (*count)++ * size;
}

/* "DIR/FILE line N: " in front of the sentence. Of a long path only the end: the file's name is what helps. */
static int place_prefix(const struct reader *r, const char *file, unsigned line, struct spur_error *err)
{
    bool bare = !r->dir || strcmp(r->dir, ".") == 0 || !file || *file == '/';
    char path[1400], number[24] = "";
    size_t len;

    snprintf(path, sizeof path, "%s%s%s", bare ? "" : r->dir, bare ? "" : "/", file ? file : "text");
    len = strlen(path);
    if (line)
        snprintf(number, sizeof number, " line %u", line);
    return spur_context(err, "%s%s", len > 80 ? path + len - 80 : path, number);
}

struct config_note *reader_note(struct reader *r, const char *file, unsigned line, const char *key, const char *value, enum config_effect effect, const char *text)
{
    struct config_note *n = reader_grow((void **)&r->config->notes, &r->config->note_count, &r->note_room, sizeof *n);

    n->file = mem_copy(file);
    n->line = line;
    n->key = mem_copy(key);
    n->value = mem_copy(value);
    n->effect = effect;
    n->text = mem_copy(text ? text : "");
    return n;
}

int reader_error(struct reader *r, const char *file, unsigned line, const char *key, const char *value, struct spur_error *err)
{
    struct config_note *n;

    if (!r->keep_going)
        return place_prefix(r, file, line, err);
    n = reader_note(r, file, line, key, value, CONFIG_ACTS, err->text);
    n->is_error = true;
    place_prefix(r, file, line, err);
    if (!r->failed)
        r->first = *err;
    r->failed = true;
    return 0;
}

static const char *nearest_key(const char *text, const struct record_key *keys)
{
    const char *names[RECORD_KEYS + 1];
    size_t n = 0;

    for (; keys[n].name && n < RECORD_KEYS; n++)
        names[n] = keys[n].name;
    names[n] = NULL;
    return word_nearest(text, names);
}

int record_read(struct reader *r, char **cursor, const struct record_key *keys, const char *head, struct record *rec, struct spur_error *err)
{
    const char *file = r->lex->file;
    unsigned line = r->lex->line;
    struct lex_pair pair;
    bool is_off;
    int rc;

    memset(rec, 0, sizeof *rec);
    rec->file = mem_copy(file);
    rec->line = line;
    while ((rc = lex_pair(cursor, &pair)) > 0) {
        const struct record_key *k = keys;

        while (k->name && !word_eq(k->name, pair.key))
            k++;
        if (!k->name) {
            const char *near = nearest_key(pair.key, keys);

            spur_fail(err, SPUR_EINVAL, "unknown keyword \"%.60s\" on a %s line%s%s%s", pair.key, head, near ? " (nearest known: " : "", near ? near : "", near ? ")" : "");
            if ((rc = reader_error(r, file, line, pair.key, pair.value, err)) < 0)
                goto fail;
            continue;
        }
        is_off = word_eq(pair.value, "no") || word_eq(pair.value, "none") || word_eq(pair.value, "off");
        if (k->effect == CONFIG_MAPPED || (k->effect != CONFIG_ACTS && !is_off))
            reader_note(r, file, line, k->name, pair.value, k->effect, k->note);
        if (rec->values[k->id] && !word_eq(rec->values[k->id], pair.value))
            reader_note(r, file, line, k->name, pair.value, CONFIG_ACTS, "given twice on this line: the last one counts");
        free(rec->values[k->id]);
        rec->values[k->id] = mem_copy(pair.value);
    }
    if (rc < 0) {
        spur_fail(err, SPUR_ESYNTAX, "cannot read \"%.100s\": expected KEY=VALUE", *cursor);
        if ((rc = reader_error(r, file, line, head, *cursor, err)) < 0)
            goto fail;
    }
    return 0;
fail:
    record_fini(rec);
    return rc;
}

int records_read(struct reader *r, const char *text, const char *file, const struct record_key *keys, const char *head,
                 int (*take)(struct reader *r, struct record *rec, void *arg, struct spur_error *err), void *arg, struct spur_error *err)
{
    struct lex lex;
    int rc;

    lex_init(&lex, text, file, 1);
    r->lex = &lex;
    while ((rc = lex_line(&lex, err)) > 0) {
        char *cursor = lex.buf.text;
        struct record rec;

        if ((rc = record_read(r, &cursor, keys, head, &rec, err)) < 0)
            break;
        rc = take(r, &rec, arg, err);
        record_fini(&rec);
        if (rc < 0)
            break;
    }
    lex_fini(&lex);
    r->lex = NULL;
    return rc;
}

void record_inherit(struct record *rec, const struct record *from, int except)
{
    for (int i = 0; i < RECORD_KEYS; i++)
        if (i != except && !rec->values[i] && from->values[i])
            rec->values[i] = mem_copy(from->values[i]);
}

void record_fini(struct record *rec)
{
    for (int i = 0; i < RECORD_KEYS; i++)
        free(rec->values[i]);
    free(rec->file);
    memset(rec, 0, sizeof *rec);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sacctmgr_show.c - tables of accounts, users and associations. Columns of limits and shares are there, and empty: no association has any. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmds/common/json.h"
#include "cmds/sacctmgr.h"

/* One line: an account, a user, or an association, which has both or the account alone. */
struct line { const Wire__AccountRow *account; const Wire__AccountUser *user; const Wire__AssocRow *assoc; unsigned depth; };

enum field_of { OF_ACCOUNT, OF_ADMIN, OF_CLUSTER, OF_COORD, OF_DEFAULT, OF_DESCRIPTION, OF_ID, OF_ORGANIZATION, OF_PARENT, OF_PARTITION, OF_SHARE, OF_USER, OF_HOST, OF_NOTHING };

static const struct field { const char *name, *heading; int width; enum field_of of; } fields[] = {
    { "Account", "Account", 10, OF_ACCOUNT }, { "Acct", "Account", 10, OF_ACCOUNT }, { "AdminLevel", "Admin", 9, OF_ADMIN }, { "Cluster", "Cluster", 10, OF_CLUSTER },
    { "ControlHost", "ControlHost", 15, OF_HOST }, { "Coordinators", "Coord", 20, OF_COORD }, { "DefaultAccount", "Def Acct", 10, OF_DEFAULT },
    { "Description", "Descr", 20, OF_DESCRIPTION }, { "FairShare", "Share", 9, OF_SHARE }, { "ID", "ID", 6, OF_ID }, { "Organization", "Org", 20, OF_ORGANIZATION },
    { "ParentName", "Par Name", 10, OF_PARENT }, { "Partition", "Partition", 10, OF_PARTITION }, { "Share", "Share", 9, OF_SHARE }, { "User", "User", 10, OF_USER }, { "Name", "", 10, OF_NOTHING },
    { "DefaultQOS", "Def QOS", 9, OF_NOTHING }, { "DefaultWCKey", "Def WCKey", 10, OF_NOTHING }, { "GrpJobs", "GrpJobs", 7, OF_NOTHING }, { "GrpJobsAccrue", "GrpJobsAccrue", 13, OF_NOTHING },
    { "GrpSubmitJobs", "GrpSubmit", 9, OF_NOTHING }, { "GrpTRES", "GrpTRES", 13, OF_NOTHING }, { "GrpTRESMins", "GrpTRESMins", 13, OF_NOTHING }, { "GrpTRESRunMins", "GrpTRESRunMin", 13, OF_NOTHING },
    { "GrpWall", "GrpWall", 11, OF_NOTHING }, { "MaxJobs", "MaxJobs", 7, OF_NOTHING }, { "MaxJobsAccrue", "MaxJobsAccrue", 13, OF_NOTHING }, { "MaxSubmitJobs", "MaxSubmit", 9, OF_NOTHING },
    { "MaxTRES", "MaxTRES", 13, OF_NOTHING }, { "MaxTRESPerNode", "MaxTRESPerNode", 14, OF_NOTHING }, { "MaxTRESMins", "MaxTRESMins", 13, OF_NOTHING }, { "MaxWall", "MaxWall", 11, OF_NOTHING },
    { "Priority", "Priority", 10, OF_NOTHING }, { "QOS", "QOS", 20, OF_NOTHING },
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)

struct column { const struct field *field; int width; };

const char *admin_level_word(const Wire__AccountUser *u)
{
    return !u->has_admin_level || u->admin_level == WIRE__ADMIN_LEVEL__ADMIN_NONE ? "None" : u->admin_level == WIRE__ADMIN_LEVEL__ADMIN_OPERATOR ? "Operator" : "Administrator";
}

/* Names may be shortened; the first that fits counts ("Descr", "Org", "Def"). */
static int columns_read(struct sacctmgr *m, const char *format, enum entity what, struct column *out, size_t *count)
{
    char *cursor = arena_copy(&m->arena, format), *word;

    for (*count = 0; (word = word_next(&cursor, ",")); ) {
        char *width = strchr(word, '%');
        const struct field *f = NULL;

        if (width)
            *width++ = '\0';
        for (size_t i = 0; i < FIELD_COUNT && !f; i++)
            if (strlen(word) >= 2 && strncasecmp(fields[i].name, word, strlen(word)) == 0)
                f = &fields[i];
        if (f && !strcmp(f->name, "Name"))
            f = what == ENTITY_USER ? &fields[14] : what == ENTITY_CLUSTER ? &fields[3] : &fields[0];
        if (!f || *count == 64) {
            fprintf(stderr, "sacctmgr: error: Unknown field '%s'\n", word);
            return -1;
        }
        if (width && (abs(atoi(width)) > 1000 || strlen(width) > 5)) {
            fprintf(stderr, "sacctmgr: error: column %s: a width is at most 1000\n", f->name);
            return -1;
        }
        out[(*count)++] = (struct column){ f, width ? atoi(width) : f->width };
    }
    return *count ? 0 : -1;
}

static void coordinators(const Wire__AccountRow *r, struct str *out)
{
    for (size_t i = 0; r && i < r->n_coordinators; i++)
        str_addf(out, "%s%s", i ? "," : "", r->coordinators[i]);
}

static void value(const struct sacctmgr *m, const struct line *l, enum field_of of, struct str *out)
{
    const Wire__AccountRow *a = l->account;
    const Wire__AccountUser *u = l->user;

    switch (of) {
    case OF_ACCOUNT: str_addf(out, "%*s%s", (int)l->depth, "", l->assoc ? l->assoc->account : a ? a->name : ""); break;
    case OF_ADMIN: str_add(out, u ? admin_level_word(u) : ""); break;
    case OF_CLUSTER: str_add(out, m->cluster); break;
    case OF_COORD: coordinators(a, out); break;
    case OF_DEFAULT: str_add(out, u && u->default_account ? u->default_account : ""); break;
    case OF_DESCRIPTION: str_add(out, a && a->description ? a->description : ""); break;
    case OF_ID: str_addf(out, "%u", l->assoc ? l->assoc->id : a ? a->id : 0); break;
    case OF_ORGANIZATION: str_add(out, a && a->organization ? a->organization : ""); break;
    case OF_PARENT: str_add(out, !u && a && a->parent ? a->parent : ""); break;
    case OF_PARTITION: str_add(out, l->assoc && l->assoc->partition ? l->assoc->partition : ""); break;
    case OF_SHARE: str_add(out, "1"); break;
    case OF_USER: str_add(out, u ? u->name : ""); break;
    case OF_HOST: str_add(out, m->host ? m->host : ""); break;
    case OF_NOTHING: break;
    }
}

static void line_print(const struct sacctmgr *m, const struct line *l, const struct column *c, size_t n)
{
    struct str text;

    str_init(&text);
    for (size_t i = 0; i < n; i++) {
        int width = abs(c[i].width);

        str_clear(&text);
        if (l)
            value(m, l, c[i].field->of, &text);
        else
            str_add(&text, c[i].field->heading);
        if (m->parsable || m->parsable2)
            printf("%s%s", text.text ? text.text : "", m->parsable || i + 1 < n ? "|" : "");
        else if (c[i].width < 0 || (l && l->depth && c[i].field->of == OF_ACCOUNT))
            printf("%-*.*s ", width, width, text.text ? text.text : "");
        else
            printf("%*.*s ", width, width, text.text ? text.text : "");
    }
    putchar('\n');
    if (!l && !m->parsable && !m->parsable2) {
        for (size_t i = 0; i < n; i++) {
            for (int k = 0; k < abs(c[i].width); k++)
                putchar('-');
            putchar(' ');
        }
        putchar('\n');
    }
    str_fini(&text);
}

static bool wanted(const struct list *l, const char *word)
{
    for (size_t i = 0; i < l->count; i++)
        if (word && !strcasecmp(l->words[i], word))
            return true;
    return l->count == 0;
}

struct lines { struct line *list; size_t count; };

static void add_line(struct lines *ls, struct line l)
{
    ls->list = mem_grow(ls->list, ls->count + 1, sizeof *ls->list);
    ls->list[ls->count++] = l;
}

static const Wire__AccountRow *account_of(const Wire__Accounts *all, const char *name)
{
    for (size_t i = 0; i < all->n_accounts; i++)
        if (!strcmp(all->accounts[i]->name, name))
            return all->accounts[i];
    return NULL;
}

/* The association of the account itself, then those of its users; `users`: only whose names are asked for. */
static void assocs_of(const Wire__Accounts *all, const Wire__AccountRow *a, const struct words *w, bool own, unsigned depth, struct lines *out)
{
    if (own && !w->users.count && !w->partitions.count)
        add_line(out, (struct line){ .account = a, .depth = depth });
    for (size_t i = 0; i < all->n_users; i++)
        for (size_t k = 0; k < all->users[i]->n_assocs && wanted(&w->users, all->users[i]->name); k++)
            if (!strcmp(all->users[i]->assocs[k]->account, a->name) && wanted(&w->partitions, all->users[i]->assocs[k]->partition))
                add_line(out, (struct line){ .account = a, .user = all->users[i], .assoc = all->users[i]->assocs[k], .depth = depth ? depth + 1 : 0 });
}

/* A tree from `parent` down, without recursion: the next account is the first child, else the next sister of it or of the nearest one above. */
static const Wire__AccountRow *next_child(const Wire__Accounts *all, const char *parent, const Wire__AccountRow *after)
{
    bool past = !after;

    for (size_t i = 0; i < all->n_accounts; i++) {
        if (past && all->accounts[i]->parent && !strcmp(all->accounts[i]->parent, parent))
            return all->accounts[i];
        past |= all->accounts[i] == after;
    }
    return NULL;
}

static void tree_of(const Wire__Accounts *all, const struct words *w, struct lines *out)
{
    const Wire__AccountRow *at = account_of(all, "root"), *next;
    unsigned depth = 1;

    for (size_t guard = 0; at && guard <= all->n_accounts; guard++) {
        if (wanted(&w->accounts, at->name))
            assocs_of(all, at, w, true, w->tree ? depth : 0, out);
        next = next_child(all, at->name, NULL);
        depth += next != NULL;
        while (!next && at && at->parent) {
            next = next_child(all, at->parent, at);
            at = account_of(all, at->parent);
            depth -= next == NULL;
        }
        at = next;
    }
    for (size_t i = 0; !account_of(all, "root") && i < all->n_accounts; i++)       /* only a part may be seen (PrivateData) */
        if (wanted(&w->accounts, all->accounts[i]->name))
            assocs_of(all, all->accounts[i], w, true, 0, out);
}

static void gather(const Wire__Accounts *all, enum entity what, const struct words *w, bool with_assoc, struct lines *out)
{
    switch (what) {
    case ENTITY_ACCOUNT:
        for (size_t i = 0; i < all->n_accounts; i++) {
            const Wire__AccountRow *a = all->accounts[i];

            if (!wanted(&w->names, a->name) || !wanted(&w->accounts, a->name) || !wanted(&w->parents, a->parent) || (w->description && strcasecmp(w->description, a->description ? a->description : "")) ||
                (w->organization && strcasecmp(w->organization, a->organization ? a->organization : "")))
                continue;
            if (with_assoc)
                assocs_of(all, a, w, true, 0, out);
            else
                add_line(out, (struct line){ .account = a });
        }
        break;
    case ENTITY_USER:
        for (size_t i = 0; i < all->n_users; i++) {
            const Wire__AccountUser *u = all->users[i];
            bool has = !w->accounts.count;

            for (size_t k = 0; k < u->n_assocs && !has; k++)
                has = wanted(&w->accounts, u->assocs[k]->account);
            if (!has || !wanted(&w->names, u->name) || !wanted(&w->users, u->name) || (w->default_account && strcasecmp(w->default_account, u->default_account ? u->default_account : "")) ||
                (w->admin_level >= 0 && (int)(u->has_admin_level ? u->admin_level : 0) != w->admin_level))
                continue;
            if (!with_assoc)
                add_line(out, (struct line){ .user = u });
            for (size_t k = 0; with_assoc && k < u->n_assocs; k++)
                if (wanted(&w->accounts, u->assocs[k]->account) && wanted(&w->partitions, u->assocs[k]->partition))
                    add_line(out, (struct line){ .user = u, .assoc = u->assocs[k], .account = account_of(all, u->assocs[k]->account) });
        }
        break;
    case ENTITY_ASSOC:
        tree_of(all, w, out);
        break;
    default:
        add_line(out, (struct line){ .depth = 0 });
    }
}

static void json_print(const struct sacctmgr *m, enum entity what, const struct lines *ls)
{
    struct json_writer *w = json_begin("sacctmgr", what == ENTITY_ACCOUNT ? "accounts" : what == ENTITY_USER ? "users" : what == ENTITY_ASSOC ? "associations" : "clusters");

    for (size_t i = 0; i < ls->count; i++) {
        const struct line *l = &ls->list[i];

        json_open(w, NULL, '{');
        if (what == ENTITY_CLUSTER)
            json_text(w, "name", m->cluster);
        if (what == ENTITY_ACCOUNT) {
            json_text(w, "name", l->account->name);
            json_text(w, "description", l->account->description);
            json_text(w, "organization", l->account->organization);
            json_open(w, "coordinators", '[');
            for (size_t k = 0; k < l->account->n_coordinators; k++) {
                json_open(w, NULL, '{');
                json_text(w, "name", l->account->coordinators[k]);
                json_close(w);
            }
            json_close(w);
        }
        if (what == ENTITY_USER) {
            json_text(w, "name", l->user->name);
            json_open(w, "administrator_level", '[');
            json_text(w, NULL, admin_level_word(l->user));
            json_close(w);
            json_open(w, "default", '{');
            json_text(w, "account", l->user->default_account);
            json_close(w);
            json_open(w, "associations", '[');
            for (size_t k = 0; k < l->user->n_assocs; k++) {
                json_open(w, NULL, '{');
                json_text(w, "account", l->user->assocs[k]->account);
                json_text(w, "cluster", m->cluster);
                json_text(w, "partition", l->user->assocs[k]->partition);
                json_text(w, "user", l->user->name);
                json_close(w);
            }
            json_close(w);
        }
        if (what == ENTITY_ASSOC) {
            json_text(w, "account", l->account->name);
            json_text(w, "cluster", m->cluster);
            json_text(w, "partition", l->assoc ? l->assoc->partition : NULL);
            json_text(w, "user", l->user ? l->user->name : NULL);
            json_text(w, "parent_account", l->user ? NULL : l->account->parent);
            json_number(w, "id", l->assoc ? l->assoc->id : l->account->id);
        }
        json_close(w);
    }
    json_end(w);
}

int sacctmgr_show(struct sacctmgr *m, enum entity what, const struct words *w)
{
    bool with_assoc = (m->with_assoc || w->with_assoc) && !m->json;
    const char *format = w->format ? w->format : what == ENTITY_CLUSTER ? "Cluster,ControlHost" : what == ENTITY_ASSOC ? "Cluster,Account,User,Partition,Share,QOS,DefaultQOS" :
        what == ENTITY_ACCOUNT ? (with_assoc ? "Account,Description,Organization,Cluster,ParentName,User,Partition,Share" : w->with_coord ? "Account,Description,Organization,Coordinators" :
                                  "Account,Description,Organization") :
        with_assoc ? "User,DefaultAccount,AdminLevel,Cluster,Account,Partition,Share,QOS,DefaultQOS" : "User,DefaultAccount,AdminLevel";
    Wire__Empty q = WIRE__EMPTY__INIT;
    struct spur_error err = { 0 };
    struct lines ls = { 0 };
    struct column columns[64];
    size_t count = 0;
    void *reply;
    int number = 0;

    if (columns_read(m, format, what, columns, &count) < 0)
        return 1;
    if (client_call(m->client, WIRE__MESSAGE_TYPE__ACCOUNTS, &q.base, WIRE__MESSAGE_TYPE__ACCOUNTS_LIST, &wire__accounts__descriptor, &m->arena, &reply, &number, &err) < 0) {
        fprintf(stderr, "sacctmgr: error: %s\n", err.text);
        return 1;
    }
    gather(reply, what, w, with_assoc, &ls);
    if (m->json) {
        json_print(m, what, &ls);
    } else {
        if (!m->no_header)
            line_print(m, NULL, columns, count);
        for (size_t i = 0; i < ls.count; i++)
            line_print(m, &ls.list[i], columns, count);
    }
    free(ls.list);
    return 0;
}

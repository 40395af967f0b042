#include "cluster/import_start.h"

#include "base/buf.h"
#include "base/endian.h"

#include <assert.h>
#include <string.h>

enum { CARD_VERSION = 1, CARD_SIZE = 2 + 11 * 8 };

/* The card as bytes */

void import_card_encode(const struct import_card *card, struct buf *out)
{
    const uint64_t numbers[] = {
        (uint64_t)card->rank.epoch,
        (uint64_t)card->rank.zxid,
        card->rank.digest,
        card->print,
        card->choice,
        (uint64_t)card->chosen.epoch,
        (uint64_t)card->chosen.zxid,
        card->chosen.digest,
        card->conflict,
        card->conflict_with,
        (uint64_t)card->conflict_zxid,
    };
    buf_append_u8(out, CARD_VERSION);
    buf_append_u8(out, (uint8_t)card->kind);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        buf_append_i64(out, (int64_t)numbers[i]);
    }
}

int import_card_decode(struct slice bytes, struct import_card *ret)
{
    uint64_t numbers[11];
    if (bytes.len != CARD_SIZE || bytes.data[0] != CARD_VERSION || bytes.data[1] > IMPORT_BEGUN) {
        return CONCLAVE_EPROTO;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        numbers[i] = get_be64(bytes.data + 2 + 8 * i);
    }
    *ret = (struct import_card){
        .kind = (enum import_kind)bytes.data[1],
        .rank = {(int64_t)numbers[0], (int64_t)numbers[1], numbers[2]},
        .print = numbers[3],
        .choice = numbers[4],
        .chosen = {(int64_t)numbers[5], (int64_t)numbers[6], numbers[7]},
        .conflict = numbers[8],
        .conflict_with = numbers[9],
        .conflict_zxid = (int64_t)numbers[10],
    };
    return 0;
}

/* The decision */

bool import_rank_equal(const struct import_rank *a, const struct import_rank *b)
{
    return a->epoch == b->epoch && a->zxid == b->zxid && a->digest == b->digest;
}

bool import_rank_newer(const struct import_rank *a, const struct import_rank *b)
{
    return a->epoch != b->epoch ? a->epoch > b->epoch : a->zxid > b->zxid;
}

void import_start_init(struct import_start *x, uint64_t id,
                       const struct configuration_member *founders, size_t n,
                       const struct import_card *own)
{
    assert(n <= MEMBERS_MAX && own->kind != IMPORT_NONE);
    *x = (struct import_start){
        .id = id, .founders = founders, .n_founders = n, .own = *own, .majority_ms = -1};
}

static size_t import_place(const struct import_start *x, uint64_t id)
{
    size_t i = 0;
    while (i < x->n_founders && x->founders[i].id != id) {
        i++;
    }
    return i;
}

/* The card of the member at a place; NULL: it told nothing yet. */
static const struct import_card *card_at(const struct import_start *x, size_t i)
{
    if (x->founders[i].id == x->id) {
        return &x->own;
    }
    return x->heard[i] ? &x->cards[i] : NULL;
}

static bool is_voter(const struct import_start *x, size_t i)
{
    return x->founders[i].role == MEMBER_VOTER;
}

void import_start_hello(struct import_start *x, const struct peer_identity *who)
{
    size_t i = import_place(x, who->id);
    if (i < x->n_founders && who->age != PEER_IMPORTING) {
        x->heard[i] = true;
        x->cards[i] = (struct import_card){.kind = IMPORT_NONE};
    }
}

void import_start_conflict(struct import_start *x, uint64_t a, uint64_t b, int64_t zxid)
{
    if (x->own.conflict == 0) {
        x->own.conflict = a;
        x->own.conflict_with = b;
        x->own.conflict_zxid = zxid;
    }
}

void import_start_card(struct import_start *x, uint64_t from, const struct import_card *card)
{
    size_t i = import_place(x, from);
    if (i == x->n_founders) {
        return;
    }
    x->heard[i] = true;
    x->cards[i] = *card;
    if (card->conflict != 0) {
        import_start_conflict(x, card->conflict, card->conflict_with, card->conflict_zxid);
    }
    bool same = card->kind == IMPORT_GOOD && x->own.kind == IMPORT_GOOD &&
                card->rank.zxid == x->own.rank.zxid;
    bool known = card->print != 0 && x->own.print != 0;
    if (same && (known ? card->print != x->own.print : card->rank.digest != x->own.rank.digest)) {
        import_start_conflict(x, x->id, from, card->rank.zxid);
    }
}

size_t import_start_good(const struct import_start *x)
{
    size_t good = 0;
    for (size_t i = 0; i < x->n_founders; i++) {
        const struct import_card *card = card_at(x, i);
        good += is_voter(x, i) && card != NULL && card->kind == IMPORT_GOOD;
    }
    return good;
}

size_t import_start_needed(const struct import_start *x)
{
    return configuration_voters(x->founders, x->n_founders) / 2 + 1;
}

static bool all_heard(const struct import_start *x)
{
    for (size_t i = 0; i < x->n_founders; i++) {
        if (is_voter(x, i) && card_at(x, i) == NULL) {
            return false;
        }
    }
    return true;
}

/* How many voters chose the member at this place, as it is now. */
static size_t choices_of(const struct import_start *x, size_t place)
{
    const struct import_card *candidate = card_at(x, place);
    size_t count = 0;
    for (size_t i = 0; i < x->n_founders; i++) {
        const struct import_card *card = card_at(x, i);
        count += is_voter(x, i) && card != NULL && card->choice == x->founders[place].id &&
                 import_rank_equal(&card->chosen, &candidate->rank);
    }
    return count;
}

/* The member that others chose already, so that few choices compete: it was the newest of a majority, too. Otherwise the
 * newest. Equals: the lowest id. */
static size_t best_place(const struct import_start *x)
{
    size_t best = x->n_founders;
    size_t most = 0;
    for (size_t i = 0; i < x->n_founders; i++) {
        const struct import_card *card = card_at(x, i);
        if (!is_voter(x, i) || card == NULL || card->kind != IMPORT_GOOD) {
            continue;
        }
        size_t count = choices_of(x, i);
        bool better = best == x->n_founders || count > most;
        if (!better && count == most) {
            const struct import_card *other = card_at(x, best);
            better = import_rank_newer(&card->rank, &other->rank) ||
                     (!import_rank_newer(&other->rank, &card->rank) &&
                      x->founders[i].id < x->founders[best].id);
        }
        if (better) {
            best = i;
            most = count;
        }
    }
    return best;
}

/* Whether the chosen member shows another folder than the one that was chosen. */
static bool choice_is_void(const struct import_start *x)
{
    size_t i = import_place(x, x->own.choice);
    const struct import_card *card = i < x->n_founders ? card_at(x, i) : NULL;
    return i == x->n_founders ||
           (card != NULL &&
            (card->kind != IMPORT_GOOD || !import_rank_equal(&card->rank, &x->own.chosen)));
}

enum import_verdict import_start_decide(struct import_start *x, int64_t now_ms)
{
    size_t self = import_place(x, x->id);
    if (x->own.conflict != 0) {
        return IMPORT_CONFLICT;
    }
    if (self == x->n_founders || !is_voter(x, self)) {
        return IMPORT_WAIT; /* it can only join */
    }
    if (x->own.choice != 0 && choice_is_void(x)) {
        x->own.choice = 0;
        return IMPORT_CHOOSE;
    }
    if (x->own.kind != IMPORT_GOOD || import_start_good(x) < import_start_needed(x)) {
        x->majority_ms = -1;
        return IMPORT_WAIT;
    }
    x->majority_ms = x->majority_ms < 0 ? now_ms : x->majority_ms;
    bool elected = choices_of(x, self) >= import_start_needed(x);
    if (elected && x->own.choice != 0) {
        return IMPORT_FOUND; /* also if this server itself chose another */
    }
    if (!elected &&
        (x->own.choice != 0 || (!all_heard(x) && now_ms - x->majority_ms < IMPORT_GRACE_MS))) {
        return IMPORT_WAIT;
    }
    size_t best = elected ? self : best_place(x);
    assert(best < x->n_founders);
    x->own.choice = x->founders[best].id;
    x->own.chosen = card_at(x, best)->rank;
    return IMPORT_CHOOSE;
}

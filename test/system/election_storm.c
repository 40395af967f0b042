/*
 * Elections on a real server under many faults: each frame of a hand-over lost in turn, two
 * hundred random hand-overs, ten kills of the server; and what a departure costs among a thousand.
 */
#include "system/election_actor.h"

#include <stdlib.h>

/* --- sweep ------------------------------------------------------------------------------------ */

enum { FRAMES = 16, BESIDE = 16, PARTIES = 2, DIRECTIONS = 2 };

struct sweep_case {
    pthread_t thread;
    int index;
    const char *fault; /* command of the proxy */
    bool down;
    bool second; /* whose frames */
    int frame;
    bool met;
};

/* How often a client has connected. */
static int connections(struct actor *a)
{
    char stats[256];
    int count = 0;
    fault_proxy_command(a->proxy, "stats", stats, sizeof stats);
    CHECK(sscanf(stats, "connections=%d", &count) == 1);
    return count;
}

/* A hand-over between two. Whatever the fault: no node is left, no two lead at once, there is a
 * leader in the end. */
static void *sweep_one(void *arg)
{
    struct sweep_case *s = arg;
    struct actor *both = calloc(PARTIES, sizeof *both);
    struct actor *a = &both[0];
    struct actor *b = &both[1];
    char path[64];
    snprintf(path, sizeof path, ROOT "/sweep-%d", s->index);
    actor_open(a, "a", path, SESSION_MS);
    actor_open(b, "b", path, SESSION_MS);
    struct actor *hit = s->second ? b : a;
    fault_proxy_do(hit->proxy, "%s %s %d", s->fault, s->down ? "down" : "up", s->frame);
    actor_join(a);
    EVENTUALLY(actor_leads(a));
    actor_join(b);
    char node[256];
    EVENTUALLY(actor_node(b, node, sizeof node));
    sleep_ms(20);
    conclave_election_close(a->election);
    EVENTUALLY(actor_leads(b));
    actor_leave(a);
    actor_leave(b);
    s->met = connections(hit) > 1;
    CHECK(child_count(path) == 0);
    strcat(path, ".leader/current");
    CHECK(!node_exists(path));
    actor_close(a);
    actor_close(b);
    actors_check((struct actor *[]){a, b}, PARTIES);
    free(both);
    return NULL;
}

static void sweep(const char *fault, const char *what)
{
    struct sweep_case cases[FRAMES * PARTIES * DIRECTIONS] = {0};
    int count = 0;
    int met = 0;
    static int index;
    for (int frame = 1; frame <= FRAMES; frame++) {
        for (int kind = 0; kind < PARTIES * DIRECTIONS; kind++) {
            cases[count++] = (struct sweep_case){.index = index++,
                                                 .fault = fault,
                                                 .down = kind % DIRECTIONS == 1,
                                                 .second = kind / DIRECTIONS == 1,
                                                 .frame = frame};
        }
    }
    for (int from = 0; from < count; from += BESIDE) {
        for (int i = from; i < from + BESIDE; i++) {
            CHECK(pthread_create(&cases[i].thread, NULL, sweep_one, &cases[i]) == 0);
        }
        for (int i = from; i < from + BESIDE; i++) {
            pthread_join(cases[i].thread, NULL);
        }
    }
    for (int i = 0; i < count; i++) {
        met += cases[i].met ? 1 : 0;
    }
    printf("    %d frames %s, of %d tried\n", met, what, count);
    CHECK(met >= FRAMES * DIRECTIONS);
}

void sweep_link_cut_after_every_frame(void)
{
    sweep("cut-frame", "followed by a cut");
}

void sweep_every_frame_lost(void)
{
    sweep("swallow", "lost with their link");
}

/* --- hand-overs ------------------------------------------------------------------------------- */

enum { CROWD = 4, HAND_OVERS = 200 };

/* Waits for an actor that leads and knows it; NULL: none came. */
static struct actor *leader_of(struct actor *all)
{
    for (int64_t end = boot_ms() + WAIT_MS; boot_ms() < end;) {
        for (int i = 0; i < CROWD; i++) {
            if (ELECTED(&all[i]) > REVOKED(&all[i]) && actor_leads(&all[i])) {
                return &all[i];
            }
        }
        sleep_ms(1);
    }
    CHECK(!"a leader came");
    return NULL;
}

static int terms_begun(struct actor *all)
{
    int count = 0;
    for (int i = 0; i < CROWD; i++) {
        count += ELECTED(&all[i]);
    }
    return count;
}

enum end { END_RESIGN, END_DELETE, END_LEAVE, END_CUT_AND_RESIGN, END_BLACK_HOLE, ENDS };

/* Ends the term of whoever leads, in one of the ways in which they end. */
static void end_term(struct actor *leader, enum end end)
{
    char node[256];
    int revoked = REVOKED(leader);
    switch (end) {
    case END_DELETE:
        pthread_mutex_lock(&leader->lock);
        leader->force = true;
        pthread_mutex_unlock(&leader->lock);
        if (actor_node(leader, node, sizeof node)) {
            node_delete(node);
        }
        EVENTUALLY(REVOKED(leader) > revoked); /* it may hear of it later than the next one does */
        break;
    case END_LEAVE:
        actor_leave(leader);
        actor_join(leader);
        break;
    case END_CUT_AND_RESIGN:
        fault_proxy_do(leader->proxy, "cut");
        CHECK(conclave_election_resign(leader->election, true) == 0);
        break;
    case END_BLACK_HOLE:
        fault_proxy_do(leader->proxy, "hold both");
        break;
    default:
        CHECK(conclave_election_resign(leader->election, true) == 0);
        break;
    }
}

static void open_crowd(struct actor *all, const char *path)
{
    static const char *const names[CROWD] = {"a", "b", "c", "d"};
    make_election(path);
    for (int i = 0; i < CROWD; i++) {
        actor_open(&all[i], names[i], path, SESSION_MS);
        actor_join(&all[i]);
    }
}

static int close_crowd(struct actor *all)
{
    struct actor *list[CROWD];
    for (int i = 0; i < CROWD; i++) {
        fault_proxy_do(all[i].proxy, "pass");
        actor_close(&all[i]);
        list[i] = &all[i];
    }
    return actors_check(list, CROWD);
}

void two_hundred_hand_overs(void)
{
    struct actor *all = calloc(CROWD, sizeof *all);
    int ways[ENDS] = {0};
    unsigned seed = 1;
    open_crowd(all, ROOT "/e48");
    for (int i = 0; i < HAND_OVERS; i++) {
        struct actor *leader = leader_of(all);
        if (leader == NULL) {
            break;
        }
        enum end end = i % 40 == 39 ? END_BLACK_HOLE : (enum end)(rand_r(&seed) % END_BLACK_HOLE);
        int before = terms_begun(all);
        ways[end]++;
        end_term(leader, end);
        EVENTUALLY(terms_begun(all) > before);
        fault_proxy_do(leader->proxy, "pass");
    }
    int terms = terms_begun(all);
    int pairs = close_crowd(all);
    CHECK(terms > HAND_OVERS);
    CHECK(child_count(ROOT "/e48") == 0);
    printf("    %d terms: %d resigned, %d deleted, %d left, %d cut and resigned, %d silenced; "
           "%d pairs compared\n",
           terms, ways[END_RESIGN], ways[END_DELETE], ways[END_LEAVE], ways[END_CUT_AND_RESIGN],
           ways[END_BLACK_HOLE], pairs);
    free(all);
}

/* --- kills of the server ---------------------------------------------------------------------- */

void server_killed_during_elections(void)
{
    enum { KILLS = 10 };
    struct actor *all = calloc(CROWD, sizeof *all);
    open_crowd(all, ROOT "/restarts");
    for (int i = 0; i < KILLS; i++) {
        struct actor *leader = leader_of(all);
        if (leader == NULL) {
            break;
        }
        int before = terms_begun(all);
        if (i % 2 == 0) {
            CHECK(conclave_election_resign(leader->election, true) == 0);
            sleep_ms(i); /* the hand-over is under way */
        }
        restart_server();
        EVENTUALLY(leader_of(all) != NULL && (i % 2 == 1 || terms_begun(all) > before));
    }
    int terms = terms_begun(all);
    int pairs = close_crowd(all);
    printf("    %d kills, %d terms, %d pairs compared\n", KILLS, terms, pairs);
    CHECK(terms > KILLS / 2);
    EVENTUALLY(child_count(ROOT "/restarts") == 0); /* ghosts of sessions that the kills ended */
    free(all);
}

/* --- a thousand candidates -------------------------------------------------------------------- */

enum { CLIENTS = 4, EACH = 250, MIDDLE = 500, LONG_MS = 40000 };

struct traffic {
    long up;   /* requests */
    long down; /* answers and watch events */
};

static struct traffic traffic_of(struct actor *a)
{
    struct traffic t = {0, 0};
    char stats[256];
    fault_proxy_command(a->proxy, "stats", stats, sizeof stats);
    const char *up = strstr(stats, "frames-up=");
    const char *down = strstr(stats, "frames-down=");
    CHECK(up != NULL && down != NULL);
    if (up != NULL && down != NULL) {
        t.up = strtol(up + strlen("frames-up="), NULL, 10);
        t.down = strtol(down + strlen("frames-down="), NULL, 10);
    }
    return t;
}

/* All of the crowd's sessions together, once nothing moves any more. Pings are far apart. */
static struct traffic settled_traffic(struct actor *crowd)
{
    struct traffic last = {-1, -1};
    for (int quiet = 0; quiet < 30; quiet++) {
        struct traffic now = {0, 0};
        for (int i = 0; i < CLIENTS; i++) {
            struct traffic t = traffic_of(&crowd[i * EACH]);
            now.up += t.up;
            now.down += t.down;
        }
        quiet = now.up == last.up && now.down == last.down ? quiet : 0;
        last = now;
        sleep_ms(10);
    }
    return last;
}

static struct traffic cost(struct actor *crowd, struct actor *leaver)
{
    struct traffic before = settled_traffic(crowd);
    actor_close(leaver); /* not of the crowd's sessions */
    struct traffic after = settled_traffic(crowd);
    return (struct traffic){after.up - before.up, after.down - before.down};
}

void a_thousand_candidates(void)
{
    struct actor *crowd = calloc(CLIENTS * EACH, sizeof *crowd);
    struct actor leader;
    struct actor middle;
    char node[256];
    make_election(ROOT "/e21");
    actor_open(&leader, "leader", ROOT "/e21", LONG_MS);
    actor_join(&leader);
    EVENTUALLY(acknowledged(&leader));
    int64_t began = boot_ms();
    for (int i = 0; i < CLIENTS; i++) {
        actor_open(&crowd[i * EACH], "c", ROOT "/e21", LONG_MS);
    }
    for (int i = 0; i < CLIENTS * EACH;
         i++) { /* neighbours in the queue are of different sessions */
        struct actor *a = &crowd[i % CLIENTS * EACH + i / CLIENTS];
        if (i >= CLIENTS) {
            actor_share(a, &crowd[i % CLIENTS * EACH], "c", ROOT "/e21");
        }
        if (i == MIDDLE) {
            actor_open(&middle, "middle", ROOT "/e21", LONG_MS);
            actor_join(&middle);
            EVENTUALLY(actor_node(&middle, node, sizeof node));
        }
        actor_join(a);
        EVENTUALLY(i % 20 != 0 || actor_node(a, node, sizeof node));
    }
    EVENTUALLY(child_count(ROOT "/e21") == CLIENTS * EACH + 2);
    (void)settled_traffic(crowd);
    int64_t joined = boot_ms();
    struct traffic t = cost(crowd, &middle);
    printf("    joined in %lld ms; the middle one goes: %ld requests, %ld watch events\n",
           (long long)(joined - began), t.up, t.down - t.up);
    CHECK(t.up <= 2 && t.down - t.up == 1);
    t = cost(crowd, &leader);
    printf("    the leader goes: %ld requests (two of them the next one's heartbeat and "
           "acknowledgement), %ld watch events\n",
           t.up, t.down - t.up);
    CHECK(t.up <= 2 + 2 && t.down - t.up == 1);
    int leading = 0;
    for (int i = 0; i < CLIENTS * EACH; i++) {
        leading += actor_leads(&crowd[i]) ? 1 : 0;
    }
    CHECK(leading == 1);
    for (int i = CLIENTS * EACH - 1; i >= 0; i--) { /* from the end: nobody is waked */
        if (i % EACH != 0) {
            actor_close(&crowd[i]);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        actor_close(&crowd[i * EACH]);
    }
    CHECK(child_count(ROOT "/e21") == 0);
    free(crowd);
}

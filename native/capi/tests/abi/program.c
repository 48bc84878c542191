/*
 * A program of the time of c5f49e6/rejoin.h, with which it is compiled; it runs with the library of today. It makes every call that
 * header declares, with every struct, and checks what comes back. Survives `rejoin run -n 2 --restart` with any kill rule.
 */
#include <rejoin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(what) ((what) ? (void)0 : (fprintf(stderr, "line %d: expected " #what "\n", __LINE__), exit(3)))

static rejoin_communicator *ranks;

static void check(rejoin_status status, int line) {
    if (status == REJOIN_OK) return;
    fprintf(stderr, "line %d: %s: %s\n", line, rejoin_status_name(status), rejoin_message(ranks));
    rejoin_close(ranks);
    exit(1);
}

#define CHECK(call) check((call), __LINE__)

static double values[3];

static int32_t ones(void *user, void *buffer, size_t bytes) {
    ++*(int *)user;
    EXPECT(buffer == values && bytes == sizeof values); /* the caller's own */
    for (size_t i = 0; i < bytes / sizeof(double); i++) ((double *)buffer)[i] = 1;
    return 0;
}

static int32_t greater(void *user, void *accumulator, const void *other, size_t count) {
    (void)user;
    for (size_t i = 0; i < count; i++) {
        int32_t left, right;
        memcpy(&left, (char *)accumulator + 4 * i, 4);
        memcpy(&right, (const char *)other + 4 * i, 4);
        if (right > left) memcpy((char *)accumulator + 4 * i, &right, 4);
    }
    return 0;
}

static int32_t append(void *user, void *accumulator, size_t *bytes, size_t limit, const void *other, size_t other_bytes) {
    (void)user;
    if (*bytes + other_bytes > limit) return 1;
    memcpy((char *)accumulator + *bytes, other, other_bytes);
    *bytes += other_bytes;
    return 0;
}

static const char LAZY[] = "lazy";

static int32_t supply(void *user, rejoin_bytes *into) {
    rejoin_supply(into, user, sizeof LAZY);
    return 0;
}

static void released(void *user) { (void)user; }

static void without_a_job(void) {
    char digest[33];
    rejoin_process *process;
    rejoin_communicator *none;
    rejoin_config config = REJOIN_CONFIG_INIT;
    EXPECT(strlen(rejoin_library_version()) >= 5);
    EXPECT(rejoin_log_level("off") == REJOIN_OK);
    EXPECT(strcmp(rejoin_status_name(REJOIN_UNRECOVERABLE), "UNRECOVERABLE") == 0);
    EXPECT(rejoin_status_will_repeat(REJOIN_MISMATCH) == 1);
    EXPECT(rejoin_element_bytes(REJOIN_BF16) == 2);
    rejoin_digest("abc", 3, digest);
    EXPECT(strlen(digest) == 32);
    config.job = "12";
    config.own_copies = 1;
    EXPECT(rejoin_process_start(&config, &process) == REJOIN_BAD_ARGUMENT);
    EXPECT(strstr(rejoin_process_message(process), "32 hexadecimal digits") != NULL);
    EXPECT(rejoin_join(process, 0, 0, 0, "terms", NULL, &none) == REJOIN_BAD_STATE);
    EXPECT(rejoin_abandon(none, REJOIN_IO, "never joined") == REJOIN_BAD_STATE);
    rejoin_close(none);
    rejoin_process_close(process);
}

static void every_collective(void) {
    int32_t rank = (int32_t)rejoin_rank(ranks), pair[2] = {rank, -rank}, all[4], part[1], number = rank;
    size_t first, length, bytes;
    const void *gathered;
    const size_t *counts;
    char object[8] = "";
    int prepared = 0;
    rejoin_options options = REJOIN_OPTIONS_INIT;
    options.order = REJOIN_RING_ORDER;
    options.prepare = ones;
    options.prepare_user = &prepared;
    CHECK(rejoin_allreduce(ranks, values, 3, REJOIN_F64, REJOIN_SUM, REJOIN_HERE, &options));
    EXPECT(values[0] == 2 && values[2] == 2 && prepared <= 1);
    CHECK(rejoin_reduce_scatter(ranks, pair, 2, part, 1, REJOIN_I32, REJOIN_MAX, REJOIN_HERE, NULL));
    EXPECT(part[0] == (rank == 0 ? 1 : 0));
    EXPECT(rejoin_part(1, 2, 3, REJOIN_RANK_ORDER, &first, &length) == REJOIN_OK && first + length == 3);
    CHECK(rejoin_broadcast(ranks, &number, 1, REJOIN_I32, 1, REJOIN_HERE, NULL));
    EXPECT(number == 1);
    CHECK(rejoin_allgather(ranks, pair, 2, all, REJOIN_I32, REJOIN_HERE, NULL));
    EXPECT(all[0] == 0 && all[2] == 1 && all[3] == -1);
    CHECK(rejoin_allgather_v(ranks, pair, (size_t)rank, REJOIN_I32, &gathered, &counts, REJOIN_HERE, NULL));
    EXPECT(counts[0] == 0 && counts[1] == 1 && memcmp(gathered, &number, 4) == 0);
    CHECK(rejoin_allreduce_custom(ranks, pair, 2, 4, "greater", greater, NULL, REJOIN_HERE, NULL));
    EXPECT(pair[0] == 1 && pair[1] == 0);
    CHECK(rejoin_reduce_scatter_custom(ranks, pair, 2, part, 1, 4, "greater", greater, NULL, REJOIN_HERE, NULL));
    EXPECT(part[0] == 1 - rank);
    object[0] = (char)('a' + rank);
    bytes = 1;
    CHECK(rejoin_allreduce_object(ranks, object, &bytes, sizeof object, "append", append, NULL, REJOIN_HERE, NULL));
    EXPECT(bytes == 2 && memcmp(object, "ab", 2) == 0);
    CHECK(rejoin_barrier(ranks, REJOIN_HERE, NULL));
}

int main(void) {
    uint32_t version;
    const void *model, *own;
    size_t bytes, own_bytes;
    double cuts = 1;
    char mine;
    rejoin_limits limits = REJOIN_LIMITS_INIT;
    rejoin_options boot = REJOIN_OPTIONS_INIT;
    rejoin_status status;
    without_a_job();
    limits.call_millis = 40000;
    status = rejoin_join_launched("a program of c5f49e6", &limits, &ranks);
    if (status == REJOIN_OVER) return rejoin_close(ranks), 0;
    CHECK(status);
    EXPECT(rejoin_world(ranks) == 2 && rejoin_incarnation(ranks) < 5);
    boot.boot = REJOIN_BOOT_NAMED;
    boot.boot_name = "cuts";
    CHECK(rejoin_allreduce(ranks, &cuts, 1, REJOIN_F64, REJOIN_SUM, REJOIN_HERE, &boot));
    EXPECT(cuts == 2);
    CHECK(rejoin_load(ranks, &version, &model, &bytes));
    EXPECT(version == rejoin_version(ranks));
    CHECK(rejoin_load_own(ranks, &own, &own_bytes));
    mine = (char)('0' + rejoin_rank(ranks));
    EXPECT(version == 2 ? own_bytes == 1 && *(const char *)own == mine : own_bytes == 0);
    EXPECT(version == 3 ? bytes == sizeof LAZY && strcmp(model, LAZY) == 0 : 1);
    for (; version < 4; version++) {
        every_collective();
        if (version == 1)
            CHECK(rejoin_checkpoint_with_own(ranks, "model", 5, &mine, 1, REJOIN_HERE));
        else if (version == 2)
            CHECK(rejoin_checkpoint_lazy(ranks, supply, released, (void *)LAZY, REJOIN_HERE));
        else
            CHECK(rejoin_checkpoint(ranks, "model", 5, REJOIN_HERE));
        EXPECT(rejoin_version(ranks) == version + 1);
    }
    CHECK(rejoin_finish(ranks, "the end", 7));
    rejoin_close(ranks);
    printf("digest the end\n");
    return 0;
}

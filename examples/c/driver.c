/*
 * A driver with a job's tracker in its own process: it starts two ranks, starts one that dies again, and has the model.
 *
 *     cc -O2 examples/c/driver.c $(pkg-config --cflags --libs rejoin) -o driver
 *     ./driver              undisturbed
 *     ./driver --kill       rank 1 is killed in the middle: the digest is the same
 *
 * The processes are children here, which are this same program. What a process on another host needs is the same: the
 * job, the tracker's address, the secret by a way that nobody else reads, its rank, and how often it was started.
 */
#define _POSIX_C_SOURCE 200809L
#include <rejoin.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORLD = 2, VERSIONS = 20, KILLED = 1, KILLED_IN = 10, MOST_STARTS = 5 };

/* ------------------------------------------------------------------ a rank */

static int failed(rejoin_communicator *ranks) {
    fprintf(stderr, "%s\n", rejoin_message(ranks));
    rejoin_close(ranks);
    return 1; /* not 0: the driver starts this rank again */
}

/* The mean of all ranks' rows, by gradient descent. */
static int train(rejoin_communicator *ranks, int waits_to_be_killed) {
    const void *model;
    size_t bytes;
    uint32_t version;
    double mean = 0;
    if (rejoin_load(ranks, &version, &model, &bytes) != REJOIN_OK) return failed(ranks);
    if (version > 0) memcpy(&mean, model, sizeof mean);
    for (; version < VERSIONS; version++) {
        double sums[2] = {0, 1000};
        if (waits_to_be_killed && version == KILLED_IN && rejoin_incarnation(ranks) == 0) pause();
        for (int i = 0; i < 1000; i++) sums[0] += mean - i * ((int)rejoin_rank(ranks) + 1) % 97;
        if (rejoin_allreduce(ranks, sums, 2, REJOIN_F64, REJOIN_SUM, REJOIN_HERE, NULL) != REJOIN_OK)
            return failed(ranks);
        mean -= 0.5 * sums[0] / sums[1];
        if (rejoin_checkpoint(ranks, &mean, sizeof mean, REJOIN_HERE) != REJOIN_OK) return failed(ranks);
    }
    if (rejoin_finish(ranks, &mean, sizeof mean) != REJOIN_OK) return failed(ranks);
    rejoin_close(ranks);
    return 0;
}

/* driver JOB TRACKER RANK START KILLED, with the secret on standard input. */
static int be_a_rank(char **given) {
    uint8_t secret[32];
    char name[64];
    uint32_t rank = (uint32_t)atoi(given[3]), start = (uint32_t)atoi(given[4]);
    rejoin_config config = REJOIN_CONFIG_INIT;
    rejoin_process *process;
    rejoin_communicator *ranks;
    rejoin_status status;
    if (fread(secret, sizeof secret, 1, stdin) != 1) return 1;
    snprintf(name, sizeof name, "rank %u, start %u", rank, start);
    config.job = given[1];
    config.tracker = given[2];
    config.secret = secret;
    config.executor = name;
    if (rejoin_process_start(&config, &process) != REJOIN_OK) {
        fprintf(stderr, "%s\n", rejoin_process_message(process));
        return 1;
    }
    status = rejoin_join(process, rank, 0, start, "driver.c 1", NULL, &ranks);
    rejoin_process_close(process);
    if (status == REJOIN_OVER) return rejoin_close(ranks), 0;
    return status == REJOIN_OK ? train(ranks, atoi(given[5])) : failed(ranks);
}

/* ------------------------------------------------------------------ the driver */

static rejoin_tracker *tracker;
static pid_t processes[WORLD]; /* 0: it has ended well */
static int starts[WORLD];

static void start(int rank, const char *self, int is_killed) {
    int ends[2];
    char numbers[2][16];
    snprintf(numbers[0], sizeof numbers[0], "%d", rank);
    snprintf(numbers[1], sizeof numbers[1], "%d", starts[rank]);
    if (pipe(ends) != 0) exit(2);
    processes[rank] = fork();
    if (processes[rank] == 0) {
        dup2(ends[0], 0);
        close(ends[0]);
        close(ends[1]);
        execl(self, self, rejoin_tracker_job(tracker), rejoin_tracker_address(tracker), numbers[0], numbers[1],
              is_killed && rank == KILLED ? "1" : "0", (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    if (write(ends[1], rejoin_tracker_secret(tracker), 32) != 32) exit(2);
    close(ends[1]);
}

/* The tracker hears of a death at once, and the rank is started again, alone. */
static void look_after(int rank, const char *self, int is_killed) {
    int how;
    char name[64];
    if (processes[rank] == 0 || waitpid(processes[rank], &how, WNOHANG) == 0) return;
    processes[rank] = 0;
    if (how == 0) return;
    snprintf(name, sizeof name, "rank %d, start %d", rank, starts[rank]);
    rejoin_tracker_notify(tracker, name, "its process has ended");
    fprintf(stderr, "%s has died\n", name);
    if (++starts[rank] < MOST_STARTS)
        start(rank, self, is_killed);
    else
        rejoin_tracker_cancel(tracker, REJOIN_UNRECOVERABLE, "a rank has died too often");
}

int main(int count, char **given) {
    int is_killed = count == 2 && strcmp(given[1], "--kill") == 0;
    rejoin_tracker_config config = REJOIN_TRACKER_CONFIG_INIT;
    rejoin_status status;
    const char *event;
    const void *model;
    size_t bytes;
    char wanted[64], digest[33];
    if (count == 6) return be_a_rank(given);
    signal(SIGPIPE, SIG_IGN);
    config.world = WORLD;
    if (rejoin_tracker_open(&config, &tracker) != REJOIN_OK) {
        fprintf(stderr, "%s\n", rejoin_tracker_message(tracker));
        return 2;
    }
    for (int rank = 0; rank < WORLD; rank++) start(rank, given[0], is_killed);
    snprintf(wanted, sizeof wanted, "{\"VersionEntered\":{\"rank\":%d,\"incarnation\":0,", KILLED);
    while ((status = rejoin_tracker_poll(tracker, 20, &event)) == REJOIN_OK) {
        char version[32];
        snprintf(version, sizeof version, "\"version\":%d,", KILLED_IN);
        if (event != NULL && is_killed && strncmp(event, wanted, strlen(wanted)) == 0 && strstr(event, version) != NULL)
            kill(processes[KILLED], SIGKILL);
        /* It was silent for too long: frozen, or on a host that is gone. */
        for (int rank = 0; event != NULL && rank < WORLD; rank++) {
            snprintf(version, sizeof version, "{\"KillWanted\":{\"index\":%d,", rank);
            if (strncmp(event, version, strlen(version)) == 0 && processes[rank] > 0) kill(processes[rank], SIGKILL);
        }
        for (int rank = 0; rank < WORLD; rank++) look_after(rank, given[0], is_killed);
    }
    if (status == REJOIN_OVER && rejoin_tracker_result(tracker, &model, &bytes) == REJOIN_OK) {
        rejoin_digest(model, bytes, digest);
        printf("digest %s\n", digest);
        status = REJOIN_OK;
    } else {
        fprintf(stderr, "%s: %s\n", rejoin_status_name(status), rejoin_tracker_message(tracker));
    }
    for (int rank = 0; rank < WORLD; rank++)
        if (processes[rank] > 0) waitpid(processes[rank], NULL, 0);
    rejoin_tracker_close(tracker);
    return status == REJOIN_OK ? 0 : 1;
}

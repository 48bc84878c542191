/*
 * k-means over the RAND data: every rank assigns its own rows, one allreduce an iteration adds up what all have found.
 *
 *     cc -std=c99 -O2 -ffp-contract=off examples/c/kmeans.c $(pkg-config --cflags --libs rejoin) -lm -o kmeans
 *     rejoin run -n 4 --restart -- ./kmeans integration-tests/data/randhie.csv
 *
 * Kill any rank at any moment: it comes back, gets the last centers and the sums that it missed,
 * and the digest is the same.
 */
#include <math.h>
#include <rejoin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 10, CLUSTERS = 8, ITERATIONS = 25 };

/* For each cluster the sum of its rows, then the numbers of rows, then the sum of all distances. */
enum { COUNTS = CLUSTERS * COLUMNS, DISTANCES = COUNTS + CLUSTERS, SUMS };

static rejoin_communicator *ranks;

/* A rank that fails ends with a status other than 0, and is started again where that can help. */
static void check(rejoin_status status) {
    if (status != REJOIN_OK) {
        fprintf(stderr, "%s: %s\n", rejoin_status_name(status), rejoin_message(ranks));
        rejoin_close(ranks);
        exit(1);
    }
}

static void give_up(const char *reason) {
    fprintf(stderr, "%s\n", reason);
    rejoin_abandon(ranks, REJOIN_TRAINING_FAILED, reason);
    rejoin_close(ranks);
    exit(1);
}

/*
 * Reads this rank's part of the RAND Health Insurance Experiment (20,190 person-years, 10 columns, a
 * line of names before).
 */
static double *part(const char *path, size_t *rows) {
    FILE *file = fopen(path, "r");
    char line[1024];
    size_t all = 0, first, row = 0;
    double *table;
    if (file == NULL) give_up("the data can't be opened; its path is the argument");
    while (fgets(line, sizeof line, file) != NULL) all++;
    all--; /* the names */
    first = all * rejoin_rank(ranks) / rejoin_world(ranks);
    *rows = all * (rejoin_rank(ranks) + 1) / rejoin_world(ranks) - first;
    table = malloc((*rows + 1) * COLUMNS * sizeof *table);
    if (table == NULL) give_up("the data don't fit into memory");
    rewind(file);
    for (size_t at = 0; fgets(line, sizeof line, file) != NULL && row < *rows; at++) {
        char *next = line;
        if (at < first + 1) continue;
        for (int column = 0; column < COLUMNS; column++) {
            char *end;
            table[row * COLUMNS + column] = strtod(next, &end);
            if (end == next) give_up("a line of the data isn't 10 numbers");
            next = *end == ',' ? end + 1 : end;
        }
        row++;
    }
    fclose(file);
    return table;
}

/* Gives every column mean 0 and deviation 1, over the rows of all ranks. */
static void standardize(double *table, size_t rows) {
    /* For each column sum and sum of squares, and at the end the number of rows. */
    double sums[2 * COLUMNS + 1] = {0};
    rejoin_options options = REJOIN_OPTIONS_INIT;
    for (size_t at = 0; at < rows * COLUMNS; at++) {
        sums[at % COLUMNS] += table[at];
        sums[COLUMNS + at % COLUMNS] += table[at] * table[at];
    }
    sums[2 * COLUMNS] = (double)rows;
    /* A sum that is made once in the life of the job: who restarts is handed the recorded one. */
    options.boot = REJOIN_BOOT_BY_SITE;
    check(rejoin_allreduce(ranks, sums, 2 * COLUMNS + 1, REJOIN_F64, REJOIN_SUM, REJOIN_HERE, &options));
    for (size_t at = 0; at < rows * COLUMNS; at++) {
        double mean = sums[at % COLUMNS] / sums[2 * COLUMNS];
        double deviation = sqrt(sums[COLUMNS + at % COLUMNS] / sums[2 * COLUMNS] - mean * mean);
        table[at] = (table[at] - mean) / deviation;
    }
}

/* Adds a row to the sums of its nearest center. */
static void assign(const double *row, double centers[CLUSTERS][COLUMNS], double *sums) {
    int nearest = 0;
    double least = INFINITY;
    for (int cluster = 0; cluster < CLUSTERS; cluster++) {
        double distance = 0;
        for (int column = 0; column < COLUMNS; column++) {
            double apart = row[column] - centers[cluster][column];
            distance += apart * apart;
        }
        if (distance < least) {
            least = distance;
            nearest = cluster;
        }
    }
    for (int column = 0; column < COLUMNS; column++) sums[nearest * COLUMNS + column] += row[column];
    sums[COUNTS + nearest] += 1;
    sums[DISTANCES] += least;
}

int main(int count, char **arguments) {
    double centers[CLUSTERS][COLUMNS];
    const char *path = count > 1 ? arguments[1] : "integration-tests/data/randhie.csv";
    const void *model;
    size_t rows, bytes;
    uint32_t version;
    char digest[33];
    double *table;
    rejoin_status status = rejoin_join_launched("k-means", NULL, &ranks);
    if (status == REJOIN_OVER) { /* the job was over when this process came */
        rejoin_close(ranks);
        return 0;
    }
    check(status);
    table = part(path, &rows);
    standardize(table, rows);
    check(rejoin_load(ranks, &version, &model, &bytes));
    if (version > 0) {
        memcpy(centers, model, sizeof centers);
    } else { /* rows of rank 0, far from each other in the file */
        for (size_t cluster = 0; cluster < CLUSTERS; cluster++)
            memcpy(centers[cluster], table + cluster * (rows / CLUSTERS) * COLUMNS, sizeof centers[cluster]);
        check(rejoin_broadcast(ranks, centers, CLUSTERS * COLUMNS, REJOIN_F64, 0, REJOIN_HERE, NULL));
    }
    for (; version < ITERATIONS; version++) {
        double sums[SUMS] = {0};
        for (size_t row = 0; row < rows; row++) assign(table + row * COLUMNS, centers, sums);
        check(rejoin_allreduce(ranks, sums, SUMS, REJOIN_F64, REJOIN_SUM, REJOIN_HERE, NULL));
        for (int at = 0; at < COUNTS; at++) {
            double count = sums[COUNTS + at / COLUMNS];
            if (count > 0) centers[at / COLUMNS][at % COLUMNS] = sums[at] / count;
        }
        check(rejoin_checkpoint(ranks, centers, sizeof centers, REJOIN_HERE));
        if (rejoin_rank(ranks) == 0) printf("iteration %u: inertia %.3f\n", (unsigned)version + 1, sums[DISTANCES]);
    }
    check(rejoin_finish(ranks, centers, sizeof centers));
    rejoin_digest(centers, sizeof centers, digest);
    printf("digest %s\n", digest);
    rejoin_close(ranks);
    free(table);
    return 0;
}

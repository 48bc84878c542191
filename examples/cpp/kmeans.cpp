// k-means over the RAND data: every rank assigns its own rows, one allreduce an iteration adds up what all have found.
//
//     c++ -std=c++17 -O2 -ffp-contract=off examples/cpp/kmeans.cpp $(pkg-config --cflags --libs rejoin) -o kmeans
//     rejoin run -n 4 --restart -- ./kmeans integration-tests/data/randhie.csv
//
// Kill any rank at any moment: it comes back, gets the last centers and the sums that it missed,
// and the digest is the same.
#include "common.hpp"
#include <cmath>
#include <cstdio>

constexpr size_t columns = Table::columns, clusters = 8;
constexpr uint32_t iterations = 25;

// Gives every column mean 0 and deviation 1, over the rows of all ranks.
static void standardize(Ranks &ranks, Table &table) {
    // For each column sum and sum of squares, and at the end the number of rows.
    std::vector<double> sums(2 * columns + 1);
    for (size_t at = 0; at < table.values.size(); at++) {
        sums[at % columns] += table.values[at];
        sums[columns + at % columns] += table.values[at] * table.values[at];
    }
    sums.back() = static_cast<double>(table.rows());
    // A sum that is made once in the life of the job: who restarts is handed the recorded one.
    rejoin_options options = REJOIN_OPTIONS_INIT;
    options.boot = REJOIN_BOOT_BY_SITE;
    ranks.sum(sums, REJOIN_HERE, &options);
    for (size_t at = 0; at < table.values.size(); at++) {
        double mean = sums[at % columns] / sums.back();
        double deviation = std::sqrt(sums[columns + at % columns] / sums.back() - mean * mean);
        table.values[at] = (table.values[at] - mean) / deviation;
    }
}

// The nearest center, and how far it is (squared).
static std::pair<size_t, double> nearest(const double *row, const std::vector<double> &centers) {
    std::pair<size_t, double> best(0, INFINITY);
    for (size_t cluster = 0; cluster < clusters; cluster++) {
        double distance = 0;
        for (size_t column = 0; column < columns; column++) {
            double apart = row[column] - centers[cluster * columns + column];
            distance += apart * apart;
        }
        if (distance < best.second) best = {cluster, distance};
    }
    return best;
}

static std::vector<double> train(Ranks &ranks, Table &table) {
    standardize(ranks, table);
    auto [version, centers] = ranks.load();
    if (version == 0) { // rows of rank 0, far from each other in the file
        for (size_t cluster = 0; cluster < clusters; cluster++) {
            const double *row = table.row(cluster * (table.rows() / clusters));
            centers.insert(centers.end(), row, row + columns);
        }
        ranks.broadcast(centers, 0, REJOIN_HERE);
    }
    for (; version < iterations; version++) {
        // For each cluster the sum of its rows, then the numbers of rows, then the sum of all distances.
        std::vector<double> sums(clusters * columns + clusters + 1);
        for (size_t at = 0; at < table.rows(); at++) {
            auto [cluster, distance] = nearest(table.row(at), centers);
            for (size_t column = 0; column < columns; column++) {
                sums[cluster * columns + column] += table.row(at)[column];
            }
            sums[clusters * columns + cluster] += 1;
            sums.back() += distance;
        }
        ranks.sum(sums, REJOIN_HERE);
        for (size_t at = 0; at < centers.size(); at++) {
            double count = sums[clusters * columns + at / columns];
            if (count > 0) centers[at] = sums[at] / count;
        }
        ranks.checkpoint(centers, REJOIN_HERE);
        if (ranks.rank() == 0) {
            std::printf("iteration %u: inertia %.3f\n", static_cast<unsigned>(version) + 1, sums.back());
        }
    }
    return centers;
}

int main(int count, char **arguments) {
    return run(count, arguments, "k-means", train);
}

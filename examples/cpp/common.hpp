// What the examples share: the handle as an object, the data set, of which each rank reads its own
// part, and the digest.
#pragma once

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <rejoin.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// A failure with its stable code.
struct Failure : std::runtime_error {
    rejoin_status status;
    Failure(rejoin_status status, const std::string &text)
        : std::runtime_error(std::string(rejoin_status_name(status)) + ": " + text), status(status) {}
};

/// This process's rank. It gives its slot back if an exception ends it.
class Ranks {
    rejoin_communicator *handle = nullptr;

  public:
    bool over = false; // the job was over when this process came
    explicit Ranks(const char *terms) {
        rejoin_status status = rejoin_join_launched(terms, nullptr, &handle);
        over = status == REJOIN_OVER;
        if (!over) check(status);
    }
    Ranks(const Ranks &) = delete;
    Ranks &operator=(const Ranks &) = delete;
    ~Ranks() { rejoin_close(handle); }

    void check(rejoin_status status) const {
        if (status == REJOIN_OK) return;
        throw Failure(status, rejoin_message(handle));
    }
    uint32_t rank() const { return rejoin_rank(handle); }
    uint32_t world() const { return rejoin_world(handle); }
    void sum(std::vector<double> &values, const char *site, const rejoin_options *options = nullptr) {
        check(rejoin_allreduce(handle, values.data(), values.size(), REJOIN_F64, REJOIN_SUM, site, options));
    }
    void broadcast(std::vector<double> &values, uint32_t root, const char *site) {
        check(rejoin_broadcast(handle, values.data(), values.size(), REJOIN_F64, root, site, nullptr));
    }
    std::pair<uint32_t, std::vector<double>> load() {
        uint32_t version;
        const void *model;
        size_t bytes;
        check(rejoin_load(handle, &version, &model, &bytes));
        std::vector<double> numbers(bytes / sizeof(double));
        if (bytes > 0) std::memcpy(numbers.data(), model, bytes);
        return {version, numbers};
    }
    void checkpoint(const std::vector<double> &model, const char *site) {
        check(rejoin_checkpoint(handle, model.data(), model.size() * sizeof(double), site));
    }
    void finish(const std::vector<double> &model) {
        check(rejoin_finish(handle, model.data(), model.size() * sizeof(double)));
    }
};

/// A table of numbers, row by row.
struct Table {
    static constexpr size_t columns = 10;
    std::vector<double> values;

    size_t rows() const { return values.size() / columns; }
    double *row(size_t at) { return values.data() + at * columns; }
    const double *row(size_t at) const { return values.data() + at * columns; }

    /// This rank's part of the RAND Health Insurance Experiment (20,190 person-years, 10 columns;
    /// the first one is the number of visits to a doctor).
    static Table part(const char *path, const Ranks &ranks) {
        std::ifstream file(path);
        std::vector<std::string> lines;
        std::string line;
        std::getline(file, line); // the names
        while (std::getline(file, line)) lines.push_back(line);
        if (lines.empty()) throw std::runtime_error(std::string(path) + " can't be read; its path is the argument");
        Table table;
        size_t end = lines.size() * (ranks.rank() + 1) / ranks.world();
        for (size_t at = lines.size() * ranks.rank() / ranks.world(); at < end; at++) {
            std::stringstream cells(lines[at]);
            std::string cell;
            while (std::getline(cells, cell, ',')) table.values.push_back(std::stod(cell));
            if (table.values.size() % columns != 0) throw std::runtime_error("a line isn't 10 numbers: " + lines[at]);
        }
        return table;
    }
};

/// What two runs are compared by.
inline std::string digest(const std::vector<double> &values) {
    char text[33];
    rejoin_digest(values.data(), values.size() * sizeof(double), text);
    return text;
}

/// The end of every example: train, report, print. A rank that fails ends with another status than 0.
template <typename Train> int run(int count, char **arguments, const char *name, Train train) {
    const char *path = count > 1 ? arguments[1] : "integration-tests/data/randhie.csv";
    try {
        Ranks ranks(name);
        if (ranks.over) return 0;
        Table table = Table::part(path, ranks);
        std::vector<double> model = train(ranks, table);
        ranks.finish(model);
        std::cout << "digest " << digest(model) << std::endl;
        return 0;
    } catch (const std::exception &failure) {
        std::cerr << failure.what() << std::endl;
        return 1;
    }
}

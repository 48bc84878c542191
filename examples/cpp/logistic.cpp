// Logistic regression by L-BFGS over the RAND data: who sees a doctor at all? One allreduce for each look at the loss.
//
//     c++ -std=c++17 -O2 -ffp-contract=off examples/cpp/logistic.cpp $(pkg-config --cflags --libs rejoin) -o logistic
//     rejoin run -n 4 --restart -- ./logistic integration-tests/data/randhie.csv
//
// Kill any rank at any moment: it comes back at the last iteration's state, and the digest is the
// same, which is the other languages', too.
#include "common.hpp"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

using Numbers = std::vector<double>;

constexpr size_t weights = 10; // of nine columns and a constant
constexpr size_t memory = 6;   // pairs of steps and changes of the gradient that stand for the curvature
constexpr uint32_t iterations = 30;
constexpr double penalty = 1e-3; // on the weights' squares

// Between two iterations. As numbers it is the model that is handed to the checkpoint.
struct State {
    double loss;
    Numbers at, gradient;
    std::vector<std::pair<Numbers, Numbers>> pairs; // newest last: (step, change of the gradient)

    Numbers to_numbers() const {
        Numbers all{loss};
        auto add = [&](const Numbers &some) { all.insert(all.end(), some.begin(), some.end()); };
        add(at);
        add(gradient);
        for (const auto &pair : pairs) {
            add(pair.first);
            add(pair.second);
        }
        return all;
    }
    static State from_numbers(const Numbers &all) {
        auto part = [&](size_t index) { return Numbers(&all[1] + index * weights, &all[1] + (index + 1) * weights); };
        State state{all[0], part(0), part(1), {}};
        for (size_t index = 2; 1 + (index + 2) * weights <= all.size(); index += 2)
            state.pairs.emplace_back(part(index), part(index + 1));
        return state;
    }
};

static double dot(const double *one, const double *other, size_t count) {
    double sum = -0.0; // what nothing is added to
    for (size_t at = 0; at < count; at++) sum += one[at] * other[at];
    return sum;
}

static double dot(const Numbers &one, const Numbers &other) {
    return dot(one.data(), other.data(), one.size());
}

static Numbers plus(Numbers one, double factor, const Numbers &other) {
    for (size_t at = 0; at < one.size(); at++) one[at] += factor * other[at];
    return one;
}

// e^-x and log(1 + e^-x) for an x from 0 on, by sums, products and quotients alone: these have the
// same bits in all languages, and what their libraries make of exp and log hasn't.
static std::pair<double, double> decay(double x) {
    double small = std::min(x, 40.0) / 64; // beyond 40 nothing of it is left
    double power = 1, series = 0;
    for (int n = 16; n > 0; n--) power = 1 + power * small / n;
    for (int turn = 0; turn < 6; turn++) power *= power;
    double decay = 1 / power, z = decay / (2 + decay);
    for (int k = 17; k >= 0; k--) series = series * z * z + 1.0 / (2 * k + 1);
    return {decay, 2 * z * series};
}

// Mean loss over the rows of all ranks, and its gradient.
static std::pair<double, Numbers> evaluate(Ranks &ranks, const Table &table, const Numbers &at) {
    Numbers sums(weights + 2); // the gradient's sum, the loss's sum, and the number of rows
    for (size_t index = 0; index < table.rows(); index++) {
        const double *row = table.row(index);
        double label = row[0] > 0 ? 1 : 0;
        double score = at[0] + dot(&at[1], row + 1, weights - 1);
        const auto [down, rest] = decay(std::fabs(score));
        double error = (score > 0 ? 1 / (1 + down) : down / (1 + down)) - label;
        sums[0] += error;
        for (size_t column = 1; column < weights; column++) sums[column] += error * row[column];
        // log(1 + e^score) - label * score, without overflow.
        sums[weights] += std::max(score, 0.0) + rest - label * score;
        sums[weights + 1] += 1;
    }
    ranks.sum(sums, REJOIN_HERE);
    double count = sums[weights + 1];
    Numbers gradient(weights);
    for (size_t index = 0; index < weights; index++) gradient[index] = sums[index] / count + penalty * at[index];
    return {sums[weights] / count + 0.5 * penalty * dot(at, at), gradient};
}

// The two-loop recursion (Nocedal and Wright, Numerical Optimization, algorithm 7.4): downhill, bent by the curvature.
static Numbers direction(const State &state) {
    Numbers way = state.gradient, factors;
    for (auto pair = state.pairs.rbegin(); pair != state.pairs.rend(); ++pair) {
        double factor = dot(pair->first, way) / dot(pair->first, pair->second);
        way = plus(way, -factor, pair->second);
        factors.push_back(factor);
    }
    if (!state.pairs.empty()) {
        const auto &[step, change] = state.pairs.back();
        double scale = dot(step, change) / dot(change, change);
        for (double &value : way) value *= scale;
    }
    for (const auto &[step, change] : state.pairs) {
        way = plus(way, factors.back() - dot(change, way) / dot(step, change), step);
        factors.pop_back();
    }
    for (double &value : way) value = -value;
    return way;
}

// One iteration: a direction, and a step along it that is halved until the loss falls enough (Armijo).
static void improve(Ranks &ranks, const Table &table, State &state) {
    Numbers way = direction(state);
    double slope = dot(state.gradient, way), length = 1;
    for (int turn = 0; turn < 30; turn++, length *= 0.5) {
        Numbers at = plus(state.at, length, way);
        auto [loss, gradient] = evaluate(ranks, table, at);
        if (loss > state.loss + 1e-4 * length * slope) continue;
        Numbers step = plus(at, -1, state.at), change = plus(gradient, -1, state.gradient);
        if (dot(step, change) > 1e-12) {
            state.pairs.emplace_back(step, change);
            if (state.pairs.size() > memory) state.pairs.erase(state.pairs.begin());
        }
        state.at = at;
        state.gradient = gradient;
        state.loss = loss;
        return;
    }
}

static Numbers train(Ranks &ranks, Table &table) {
    // Columns of about the same size, by numbers that are the same everywhere.
    const double scales[] = {1, 4.6, 1, 7, 1, 1, 15, 1, 1, 1};
    for (size_t at = 0; at < table.values.size(); at++) table.values[at] /= scales[at % Table::columns];
    auto [version, model] = ranks.load();
    State state;
    if (version > 0) {
        state = State::from_numbers(model);
    } else {
        state.at = Numbers(weights);
        std::tie(state.loss, state.gradient) = evaluate(ranks, table, state.at);
    }
    for (; version < iterations; version++) {
        improve(ranks, table, state);
        ranks.checkpoint(state.to_numbers(), REJOIN_HERE);
        if (ranks.rank() == 0) std::printf("iteration %u: loss %.6f\n", static_cast<unsigned>(version) + 1, state.loss);
    }
    return state.at;
}

int main(int count, char **arguments) {
    return run(count, arguments, "logistic regression", train);
}

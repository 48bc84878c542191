package io.rejoin.it.bench;

import java.util.List;

/**
 * What to measure and how often.
 *
 * @param benches names of benchmarks
 * @param pairs repetitions of each configuration
 * @param only a configuration is measured if its name has this in it; an underscore is a space
 * @param rounds of a training; 0 for each configuration's own
 */
record Options(List<String> benches, int pairs, String only, int rounds) {
  static final List<String> ALL =
      List.of("training", "fit", "rendezvous", "own", "frozen", "recovery");

  /**
   * From system properties {@code bench} (a list; all by default), {@code pairs} (9), {@code only}
   * and {@code rounds}.
   */
  static Options ofProperties() {
    String names = System.getProperty("bench", "");
    List<String> benches = names.isEmpty() ? ALL : List.of(names.split(","));
    for (String bench : benches) {
      if (!ALL.contains(bench)) {
        throw new IllegalArgumentException(
            "there is no benchmark `" + bench + "`; there are " + ALL);
      }
    }
    int pairs = Integer.getInteger("pairs", 9);
    if (pairs < 1) {
      throw new IllegalArgumentException("expected PAIRS of at least 1, saw " + pairs);
    }
    return new Options(
        benches, pairs, System.getProperty("only", ""), Integer.getInteger("rounds", 0));
  }

  boolean wants(String config) {
    return config.contains(only.replace('_', ' '));
  }

  int rounds(int otherwise) {
    return rounds > 0 ? rounds : otherwise;
  }
}

package io.rejoin.it.bench;

import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;

/**
 * Prints figures, each as a line of JSON, which {@code rejoin-bench report} makes a table of.
 *
 * @param bench what they are figures of
 * @param peer what is beside ours
 */
public record Figures(String bench, String peer) {
  /**
   * The values of all pairs. The median of their ratios is held against the bar: the most that it
   * may be; null for none.
   *
   * @param unit ms, us, ns or MB
   */
  public <T> void print(
      String config,
      String unit,
      List<Pairs.Pair<T>> pairs,
      ToDoubleFunction<T> value,
      Double bar) {
    print(
        config,
        unit,
        pairs.stream().map(pair -> value.applyAsDouble(pair.ours())).collect(Collectors.toList()),
        pairs.stream().map(pair -> value.applyAsDouble(pair.theirs())).collect(Collectors.toList()),
        bar);
  }

  /** Values without a peer, whose own median is held against the bar. */
  public void print(String config, String unit, List<Double> values, Double bar) {
    print(
        config, unit, values, values.stream().map(value -> 0.0).collect(Collectors.toList()), bar);
  }

  private void print(
      String config, String unit, List<Double> ours, List<Double> theirs, Double bar) {
    System.out.printf(
        Locale.ROOT,
        "{\"bench\":\"%s\",\"config\":\"%s\",\"unit\":\"%s\",\"ours\":%s,\"peer\":\"%s\","
            + "\"theirs\":%s,\"bar\":%s}%n",
        bench,
        config,
        unit,
        ours,
        peer,
        theirs,
        bar);
  }
}

package io.rejoin.it.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * What was measured for one configuration.
 *
 * @param bench which benchmark
 * @param config what was measured, in words
 * @param unit of {@code ours} and {@code peer}
 * @param ours one value for each repetition
 * @param peerName whom ours is compared with; empty for none
 * @param peer as many values, made in turn with ours; empty without a peer
 * @param bar the most that the median may be: of the ratios if there is a peer, else of ours; NaN
 *     for a figure that is only told
 */
record Figure(
    String bench,
    String config,
    String unit,
    double[] ours,
    String peerName,
    double[] peer,
    double bar) {

  static final String HEADER =
      "bench,config,unit,ours,ours_p10,ours_p90,peer_name,peer,ratio,ratio_low,ratio_high,bar,met";

  static final String PAIRS_HEADER = "bench,config,unit,pair,first,ours,peer_name,peer,ratio";

  Figure {
    if (ours.length == 0 || (peer.length != 0 && peer.length != ours.length)) {
      throw new IllegalArgumentException(
          bench + ", " + config + ": " + ours.length + " values and " + peer.length + " of a peer");
    }
  }

  /** Without a peer. */
  static Figure alone(String bench, String config, String unit, List<Double> ours, double bar) {
    return new Figure(bench, config, unit, array(ours), "", new double[0], bar);
  }

  /** With a peer, in pairs. */
  static Figure paired(
      String bench,
      String config,
      String unit,
      List<Double> ours,
      String peerName,
      List<Double> peer,
      double bar) {
    return new Figure(bench, config, unit, array(ours), peerName, array(peer), bar);
  }

  boolean hasBar() {
    return !Double.isNaN(bar);
  }

  boolean met() {
    return (peer.length > 0 ? ratio() : quantile(ours, 0.5)) <= bar;
  }

  /** The median of the ratios. */
  double ratio() {
    return quantile(ratios(), 0.5);
  }

  /**
   * One ratio for each two pairs in a row, their geometric mean: whoever runs second in a pair
   * finds the machine as the first one left it, and that is worth more (5 to 10 % were seen) than
   * what is to be measured. Of two neighbouring pairs each side begins one.
   */
  private double[] ratios() {
    if (ours.length == 1) {
      return new double[] {ours[0] / peer[0]};
    }
    double[] ratios = new double[ours.length - 1];
    for (int i = 0; i < ratios.length; i++) {
      ratios[i] = Math.sqrt(ours[i] / peer[i] * (ours[i + 1] / peer[i + 1]));
    }
    return ratios;
  }

  /** As a line of the table file; {@link #HEADER} names the columns. */
  String csv() {
    String compared = ",,,,";
    if (peer.length > 0) {
      double[] ratios = ratios();
      compared =
          String.format(
              Locale.ROOT,
              "%s,%.4f,%.4f,%.4f,%.4f",
              peerName,
              quantile(peer, 0.5),
              quantile(ratios, 0.5),
              quantile(ratios, 0.1),
              quantile(ratios, 0.9));
    }
    return String.format(
        Locale.ROOT,
        "%s,\"%s\",%s,%.4f,%.4f,%.4f,%s,%s,%s",
        bench,
        config,
        unit,
        quantile(ours, 0.5),
        quantile(ours, 0.1),
        quantile(ours, 0.9),
        compared,
        hasBar() ? String.valueOf(bar) : "",
        hasBar() ? String.valueOf(met()) : "");
  }

  /** Each pair as a line, in the order in which they were made; {@link #PAIRS_HEADER}. */
  List<String> pairsCsv() {
    List<String> lines = new ArrayList<>();
    for (int pair = 0; pair < peer.length; pair++) {
      lines.add(
          String.format(
              Locale.ROOT,
              "%s,\"%s\",%s,%d,%s,%.4f,%s,%.4f,%.4f",
              bench,
              config,
              unit,
              pair,
              oursFirst(pair) ? "ours" : "peer",
              ours[pair],
              peerName,
              peer[pair],
              ours[pair] / peer[pair]));
    }
    return lines;
  }

  /** Who of a pair is measured first; they take turns. */
  static boolean oursFirst(int pair) {
    return pair % 2 == 0;
  }

  /** For people. */
  String line() {
    StringBuilder text = new StringBuilder();
    double middle = quantile(ours, 0.5);
    String form = middle < 10 ? "  %-44s %10.3f %s" : "  %-44s %10.1f %s";
    text.append(String.format(Locale.ROOT, form, config, middle, unit));
    if (peer.length > 0) {
      double[] ratios = ratios();
      text.append(
          String.format(
              Locale.ROOT,
              ", %s %.1f: ratio %.3f (%.2f to %.2f)",
              peerName,
              quantile(peer, 0.5),
              quantile(ratios, 0.5),
              quantile(ratios, 0.1),
              quantile(ratios, 0.9)));
    } else if (ours.length > 1) {
      text.append(
          String.format(Locale.ROOT, " (%.1f to %.1f)", quantile(ours, 0.1), quantile(ours, 0.9)));
    }
    if (hasBar()) {
      text.append(String.format(Locale.ROOT, "; bar %.2f: %s", bar, met() ? "met" : "NOT MET"));
    }
    return text.toString();
  }

  /** By linear interpolation between the two nearest values. */
  static double quantile(double[] values, double share) {
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    double place = share * (sorted.length - 1);
    int below = (int) Math.floor(place);
    int above = Math.min(below + 1, sorted.length - 1);
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
  }

  private static double[] array(List<Double> values) {
    return values.stream().mapToDouble(Double::doubleValue).toArray();
  }
}

package io.rejoin.it;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One SIGKILL that is wanted: of the executor that trains {@code rank}, in the middle of {@code
 * round}.
 *
 * @param rank whose executor
 * @param round counted from 0
 * @param bytes how many bytes of that round the rank's worker has sent when it happens
 * @param incarnation which start of the rank: 0 the first, 1 the first restart
 */
public record KillOrder(int rank, int round, long bytes, int incarnation) {
  /** Well inside a round of the demo's data. */
  static final long MIDDLE_BYTES = 20_000;

  /** What a rank sends in a round of the demo's data, rather less than more. */
  private static final long ROUND_BYTES = 220_000;

  private static final Pattern ONE =
      Pattern.compile("([0-9]{1,4})@([0-9]{1,6})(?::([0-9]{1,12}))?");

  /**
   * Reads {@code rank@round[:bytes][,...]}; a second one for the same rank is for its next
   * incarnation.
   */
  public static List<KillOrder> parse(String text, int workers, int rounds) {
    List<KillOrder> all = new ArrayList<>();
    Map<Integer, Integer> seen = new HashMap<>();
    for (String part : text.trim().split(",")) {
      Matcher match = ONE.matcher(part.trim());
      if (!match.matches()) {
        throw new IllegalArgumentException(
            "expected KILL=rank@round[,rank@round...], for instance 1@12; seen `" + text + "`");
      }
      int rank = Integer.parseInt(match.group(1));
      int round = Integer.parseInt(match.group(2));
      if (rank >= workers || round >= rounds) {
        throw new IllegalArgumentException(
            "KILL="
                + part.trim()
                + ": there are ranks 0 to "
                + (workers - 1)
                + " and rounds 0 to "
                + (rounds - 1));
      }
      long bytes = match.group(3) == null ? MIDDLE_BYTES : Long.parseLong(match.group(3));
      all.add(new KillOrder(rank, round, bytes, seen.merge(rank, 1, Integer::sum) - 1));
    }
    return all;
  }

  /** The fault rule that does it, where every round is a checkpoint: there a version is a round. */
  public String rule() {
    return rule(round, bytes);
  }

  /**
   * The fault rule that does it on the demo's data, where checkpoints are further apart. Rules
   * count the bytes of a version, so a round within one is met about.
   *
   * @param versions of the same training undisturbed: by each version's first round, its number
   */
  String rule(NavigableMap<Integer, Integer> versions) {
    Map.Entry<Integer, Integer> version = versions.floorEntry(round);
    return rule(version.getValue(), (round - version.getKey()) * ROUND_BYTES + bytes);
  }

  private String rule(int version, long sent) {
    String moment = "version=" + version + ",at=bytes:" + sent;
    return "rank=" + rank + ",incarnation=" + incarnation + "," + moment;
  }

  @Override
  public String toString() {
    return "rank " + rank + " in round " + round;
  }
}

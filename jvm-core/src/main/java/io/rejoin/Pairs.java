package io.rejoin;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Stream;

/** Settings and facts as the native library takes them: an array of key, value, key, value. */
public final class Pairs {
  private Pairs() {}

  /** The settings of a job's tracker or agent. */
  static String[] of(JobId job, Map<String, String> settings) {
    return Stream.concat(
            Stream.of("job", job.toString()),
            settings.entrySet().stream().flatMap(each -> Stream.of(each.getKey(), each.getValue())))
        .toArray(String[]::new);
  }

  /** What such an array from the native library says, in its order. */
  public static Map<String, String> map(String[] words) {
    if (words.length % 2 != 0) {
      throw new RejoinException(
          RejoinException.Code.INTERNAL,
          "pairs of key and value expected, " + words.length + " words seen");
    }
    Map<String, String> map = new LinkedHashMap<>();
    for (int i = 0; i < words.length; i += 2) {
      map.put(words[i], words[i + 1]);
    }
    return map;
  }
}

package io.rejoin;

import java.util.LinkedHashMap;
import java.util.Map;

/** Settings and facts as the native library takes them: an array of key, value, key, value. */
public final class Pairs {
  private Pairs() {}

  static String[] of(Map<String, String> map) {
    String[] words = new String[2 * map.size()];
    int i = 0;
    for (Map.Entry<String, String> entry : map.entrySet()) {
      words[i++] = entry.getKey();
      words[i++] = entry.getValue();
    }
    return words;
  }

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

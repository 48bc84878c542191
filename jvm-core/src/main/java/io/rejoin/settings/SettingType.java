package io.rejoin.settings;

import io.rejoin.RejoinException;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a setting's values are: how a text is read, and into what. Times are read into milliseconds
 * and sizes into bytes (binary multiples), as Spark and Flink both write them; a number without
 * unit is milliseconds or bytes.
 */
public final class SettingType {
  private static final Pattern QUANTITY = Pattern.compile("(\\d{1,18})\\s*([a-z]*)");
  private static final Map<String, Long> MILLIS =
      Map.of(
          "",
          1L,
          "ms",
          1L,
          "s",
          1000L,
          "m",
          60_000L,
          "min",
          60_000L,
          "h",
          3_600_000L,
          "d",
          86_400_000L);
  private static final String SIZES = "kmgtp";

  /** A time of more than 0, such as 200ms, 30s or 10min. */
  public static final SettingType TIME =
      new SettingType("more than 0, as a time such as 200ms, 30s or 10min", SettingType::millis);

  /** A time such as 100ms, or 0 for none. */
  public static final SettingType TIME_OR_NONE =
      new SettingType(
          "0, or a time such as 100ms, 30s or 10min", text -> quantity(text, MILLIS::get));

  /** A size of more than 0, such as 256m or 16g. */
  public static final SettingType SIZE =
      new SettingType("more than 0, as a size such as 256m or 16g", SettingType::bytes);

  /** Any text; empty where nothing is set. */
  public static final SettingType TEXT = new SettingType("a text", text -> text);

  /** True or false. */
  public static final SettingType FLAG =
      new SettingType(
          "true or false",
          text -> text.equals("true") || text.equals("false") ? Boolean.valueOf(text) : null);

  /** A range of ports such as 40000-40100, or 0 for any port. */
  public static final SettingType PORTS =
      new SettingType(
          "0 for any port, or a range such as 40000-40100",
          text -> text.matches("0|\\d{1,5}-\\d{1,5}") ? text : null);

  private final String expected;
  private final Function<String, Object> reader;

  private SettingType(String expected, Function<String, Object> reader) {
    this.expected = expected;
    this.reader = reader;
  }

  /** A whole number from {@code least} to {@code most}. */
  public static SettingType integer(int least, int most) {
    String range =
        most == Integer.MAX_VALUE ? "of at least " + least : "from " + least + " to " + most;
    return new SettingType(
        "a whole number " + range,
        text -> {
          Long number = text.matches("-?\\d{1,10}") ? Long.valueOf(text) : null;
          return number != null && number >= least && number <= most ? number : null;
        });
  }

  /** One of these words, in lower case; a user may write them in any. */
  public static SettingType choice(String... words) {
    List<String> all = Arrays.asList(words);
    String last = all.get(all.size() - 1);
    String expected = String.join(", ", all.subList(0, all.size() - 1)) + " or " + last;
    return new SettingType(
        expected,
        text -> all.contains(text.toLowerCase(Locale.ROOT)) ? text.toLowerCase(Locale.ROOT) : null);
  }

  /**
   * A value from its text: Long, Boolean or String.
   *
   * @param name the setting's, as its user knows it
   * @throws RejoinException BAD_ARGUMENT with what was expected
   */
  Object read(String name, String text) {
    Object value = reader.apply(text.trim());
    if (value == null) {
      throw refused(name, text, expected);
    }
    return value;
  }

  static RejoinException refused(String name, String seen, String expected) {
    return new RejoinException(
        RejoinException.Code.BAD_ARGUMENT, name + " is \"" + seen + "\"; expected " + expected);
  }

  private static Long millis(String text) {
    return positive(text, MILLIS::get);
  }

  private static Long positive(String text, Function<String, Long> unit) {
    Long value = quantity(text, unit);
    return value != null && value > 0 ? value : null;
  }

  private static Long bytes(String text) {
    return positive(
        text,
        unit -> {
          // Flink writes "bytes".
          String bare = unit.equals("bytes") ? "" : unit.replaceFirst("b$", "");
          int power = bare.isEmpty() ? 0 : SIZES.indexOf(bare) + 1;
          return bare.length() > 1 || (power == 0 && !bare.isEmpty()) ? null : 1L << (10 * power);
        });
  }

  /** Null for what is no quantity of a known unit, and for more than a long holds. */
  private static Long quantity(String text, Function<String, Long> unit) {
    Matcher matcher = QUANTITY.matcher(text.toLowerCase(Locale.ROOT));
    Long factor = matcher.matches() ? unit.apply(matcher.group(2)) : null;
    if (factor == null) {
      return null;
    }
    try {
      return Math.multiplyExact(Long.parseLong(matcher.group(1)), factor);
    } catch (ArithmeticException e) {
      return null;
    }
  }
}

package io.rejoin.spark.ui;

import java.util.Locale;

/**
 * Builds a piece of HTML. What comes from outside goes through {@link #text} and the attributes of
 * {@link #open}, which escape it; only this package's own markup is added as it is.
 */
final class Html {
  private final StringBuilder built = new StringBuilder();

  /** Escaped, for text and for attributes in double quotes. */
  static String escaped(String text) {
    StringBuilder safe = new StringBuilder(text.length() + 16);
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      switch (c) {
        case '&':
          safe.append("&amp;");
          break;
        case '<':
          safe.append("&lt;");
          break;
        case '>':
          safe.append("&gt;");
          break;
        case '"':
          safe.append("&quot;");
          break;
        case '\'':
          safe.append("&#39;");
          break;
        default:
          // Control characters are in no document; a terminal's colours may be in an error.
          safe.append(c < ' ' && c != '\n' && c != '\t' ? ' ' : c);
          break;
      }
    }
    return safe.toString();
  }

  /** Markup of our own. */
  Html raw(String markup) {
    built.append(markup);
    return this;
  }

  /** Any text. */
  Html text(Object text) {
    built.append(escaped(String.valueOf(text)));
    return this;
  }

  /** A tag with attributes, as names and values in turn. */
  Html open(String tag, Object... attributes) {
    built.append('<').append(tag);
    for (int i = 0; i < attributes.length; i += 2) {
      built
          .append(' ')
          .append(attributes[i])
          .append("=\"")
          .append(escaped(String.valueOf(attributes[i + 1])))
          .append('"');
    }
    built.append('>');
    return this;
  }

  Html close(String tag) {
    built.append("</").append(tag).append('>');
    return this;
  }

  /** An element with any text in it. */
  Html element(String tag, Object text, Object... attributes) {
    return open(tag, attributes).text(text).close(tag);
  }

  /** A table's beginning, as Spark's own look, up to its body. */
  Html table(String id, String... columns) {
    open("table", "class", "table table-bordered table-striped table-sm sortable", "id", id);
    raw("<thead><tr>");
    for (String each : columns) {
      element("th", each);
    }
    return raw("</tr></thead><tbody>");
  }

  Html endTable() {
    return raw("</tbody></table>");
  }

  /** A cell that is sorted by this number. */
  Html cell(Object text, long key) {
    return element("td", text, "sorttable_customkey", key);
  }

  Html cell(Object text) {
    return element("td", text);
  }

  /**
   * A link, or only its text where the address is none of a page: it comes from a cluster manager.
   */
  Html link(String text, String address) {
    return address.matches("(?i)(https?://|/|\\?).*")
        ? element("a", text, "href", address)
        : text(text);
  }

  /** A duration for people. */
  static String duration(long millis) {
    if (millis < 1_000) {
      return millis + " ms";
    }
    if (millis < 60_000) {
      return String.format(Locale.ROOT, "%.1f s", millis / 1e3);
    }
    long minutes = millis / 60_000;
    return minutes < 60
        ? String.format(Locale.ROOT, "%d min %d s", minutes, millis / 1_000 % 60)
        : String.format(Locale.ROOT, "%d h %d min", minutes / 60, minutes % 60);
  }

  /** A number of bytes for people, in powers of 1024 as Spark has them. */
  static String bytes(long bytes) {
    String[] units = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1_024) {
      return bytes + " B";
    }
    double value = bytes;
    int unit = -1;
    while (value >= 1_024 && unit < units.length - 1) {
      value /= 1_024;
      unit++;
    }
    return String.format(Locale.ROOT, "%.1f %s", value, units[unit]);
  }

  @Override
  public String toString() {
    return built.toString();
  }
}

package io.rejoin.it;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A page as a browser shows it. */
final class WebPage {
  private static final Pattern ROW = Pattern.compile("<tr[^>]*>(.*?)</tr>", Pattern.DOTALL);
  private static final Pattern CELL = Pattern.compile("<td[^>]*>(.*?)</td>", Pattern.DOTALL);
  private static final Pattern LINK = Pattern.compile("<a [^>]*href=\"([^\"]*)\"[^>]*>(.*?)</a>");

  private final String address;
  private final String html;

  WebPage(String address, String html) {
    this.address = address;
    this.html = html;
  }

  String html() {
    return html;
  }

  /** The text of an element that holds none of its own kind. */
  String text(String tag, String id) {
    return plain(element(tag, id));
  }

  /** The rows of a table's body, as the texts of their cells. */
  List<List<String>> rows(String table) {
    List<List<String>> rows = new ArrayList<>();
    for (List<String> cells : cells(table)) {
      rows.add(cells.stream().map(WebPage::plain).toList());
    }
    return rows;
  }

  /** Where the links in a table with this text go, row by row. */
  List<String> links(String table, String text) {
    List<String> links = new ArrayList<>();
    Matcher link = LINK.matcher(element("table", table));
    while (link.find()) {
      if (plain(link.group(2)).equals(text)) {
        links.add(link.group(1).replace("&amp;", "&"));
      }
    }
    return links;
  }

  private List<List<String>> cells(String table) {
    List<List<String>> rows = new ArrayList<>();
    Matcher row = ROW.matcher(element("table", table));
    while (row.find()) {
      List<String> cells = new ArrayList<>();
      Matcher cell = CELL.matcher(row.group(1));
      while (cell.find()) {
        cells.add(cell.group(1));
      }
      if (!cells.isEmpty()) {
        rows.add(cells);
      }
    }
    return rows;
  }

  /** An element's inside. */
  private String element(String tag, String id) {
    Matcher begin = Pattern.compile("<" + tag + " [^>]*\\bid=\"" + id + "\"[^>]*>").matcher(html);
    if (!begin.find()) {
      throw new AssertionError("no " + tag + " " + id + " on " + address + ":\n" + html);
    }
    return html.substring(begin.end(), html.indexOf("</" + tag + ">", begin.end()));
  }

  private static String plain(String markup) {
    return markup
        .replaceAll("<[^>]*>", "")
        .replace("&nbsp;", " ")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
        .strip();
  }
}

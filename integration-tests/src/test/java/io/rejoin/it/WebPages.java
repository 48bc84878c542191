package io.rejoin.it;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * All pages of a web interface that links lead to, as a browser without scripts would find them.
 */
final class WebPages {
  private static final Pattern LINK = Pattern.compile("href=[\"']([^\"'#]+)");
  private static final Duration LIMIT = Duration.ofSeconds(30);

  /**
   * More than Spark and YARN have for a small job; tables that can be sorted and turned make more
   * of them.
   */
  private static final int MOST = 400;

  private WebPages() {}

  /**
   * Those that can be reached from these, each by its address; nothing is followed to elsewhere.
   */
  static Map<String, byte[]> from(Collection<String> addresses)
      throws IOException, InterruptedException {
    HttpClient client = HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL).build();
    Queue<URI> waiting = new ArrayDeque<>();
    Set<String> known = new LinkedHashSet<>(addresses);
    known.forEach(address -> waiting.add(URI.create(address)));
    Map<String, byte[]> pages = new LinkedHashMap<>();
    while (!waiting.isEmpty() && pages.size() < MOST) {
      URI page = waiting.remove();
      HttpResponse<byte[]> answer =
          client.send(
              HttpRequest.newBuilder(page).timeout(LIMIT).build(),
              HttpResponse.BodyHandlers.ofByteArray());
      if (answer.statusCode() != 200) {
        throw new IOException(page + " answers with status " + answer.statusCode());
      }
      pages.put(page.toString(), answer.body());
      Matcher links = LINK.matcher(new String(answer.body(), StandardCharsets.UTF_8));
      while (links.find()) {
        URI link = link(page, links.group(1).replace("&amp;", "&"));
        if (link != null && known.add(link.toString())) {
          waiting.add(link);
        }
      }
    }
    return pages;
  }

  /** Where a link leads; null, if it leads elsewhere or does more than to show. */
  private static URI link(URI page, String text) {
    try {
      URI link = page.resolve(text);
      boolean isHere = page.getAuthority().equals(link.getAuthority());
      // What is there once only: an order of rows, or a page of a table, has the same text in it.
      boolean shows =
          !link.getPath().contains("/kill")
              && !link.getPath().contains("/static/")
              && !link.getPath().endsWith(".css")
              && !text.contains("sort=")
              && !text.contains("pageSize=");
      return isHere && shows ? link : null;
    } catch (IllegalArgumentException noAddress) {
      return null;
    }
  }
}

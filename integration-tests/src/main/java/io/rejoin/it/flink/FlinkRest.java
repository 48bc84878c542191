package io.rejoin.it.flink;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** Flink's REST interface at one address. */
public final class FlinkRest {
  /** Within this time it answers. */
  static final Duration ANSWER = Duration.ofSeconds(30);

  // Flink says so before its JobManager leads, which in a cluster that starts is soon.
  private static final int ELECTING = 503;
  private static final long BETWEEN_TRIES_MILLIS = 20;

  private final ObjectMapper json = new ObjectMapper();
  private final HttpClient http = HttpClient.newHttpClient();
  private final int port;

  FlinkRest(int port) {
    this.port = port;
  }

  public int port() {
    return port;
  }

  /**
   * What it answers to GET.
   *
   * @throws IOException when nobody answers, or the answer is an error, which is the message then
   */
  public JsonNode get(String path) throws IOException {
    return send("GET", path, BodyPublishers.noBody());
  }

  /** What it answers to POST with this body. */
  public JsonNode post(String path, String body) throws IOException {
    return send("POST", path, BodyPublishers.ofString(body));
  }

  /** What it answers to PATCH. */
  public JsonNode patch(String path) throws IOException {
    return send("PATCH", path, BodyPublishers.noBody());
  }

  /** The page of this path, as a browser gets it. */
  public String page(String path) throws IOException {
    return text("GET", path, BodyPublishers.noBody());
  }

  private JsonNode send(String method, String path, BodyPublisher body) throws IOException {
    return json.readTree(text(method, path, body));
  }

  private String text(String method, String path, BodyPublisher body) throws IOException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
            .timeout(ANSWER)
            .header("Content-Type", "application/json")
            .method(method, body)
            .build();
    try {
      long deadline = System.nanoTime() + ANSWER.toNanos();
      HttpResponse<String> answer = http.send(request, BodyHandlers.ofString());
      while (answer.statusCode() == ELECTING && System.nanoTime() < deadline) {
        TimeUnit.MILLISECONDS.sleep(BETWEEN_TRIES_MILLIS);
        answer = http.send(request, BodyHandlers.ofString());
      }
      if (answer.statusCode() >= 300) {
        throw new IOException(
            method + " " + path + ": status " + answer.statusCode() + ", " + answer.body());
      }
      return answer.body();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted in " + method + " " + path, interrupted);
    }
  }
}

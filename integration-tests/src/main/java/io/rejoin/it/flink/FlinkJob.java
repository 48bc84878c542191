package io.rejoin.it.flink;

import java.io.IOException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * A job on a {@link FlinkCluster}, as its REST interface shows it; also after its end. An operator
 * is named by a part of the name of the task that it is in.
 */
public final class FlinkJob {
  private static final Set<String> ENDED = Set.of("FINISHED", "FAILED", "CANCELED");

  private final FlinkRest rest;
  private final String id;

  FlinkJob(FlinkRest rest, String id) {
    this.rest = rest;
    this.id = id;
  }

  /**
   * A failure that Flink has recorded.
   *
   * @param task its name, with the subtask's number and how many there are
   * @param text the exception with its causes, without the frames of their stacks
   */
  public record Failure(String task, String text) {}

  /**
   * What has become of checkpoints until now.
   *
   * @param completed how many
   * @param failed how many
   * @param newest folder of the last one that was completed; null before the first
   * @param longestMillis how long the longest of the completed ones that Flink remembers took
   */
  public record Checkpoints(int completed, int failed, String newest, long longestMillis) {}

  /** Flink's job id, 32 hexadecimal digits. */
  public String id() {
    return id;
  }

  /** Flink's word for its state: RUNNING, FINISHED, FAILED and so on. */
  public String state() throws IOException {
    // Whoever asks for the whole job makes Flink ask TaskManagers for metrics.
    return get("/status").get("status").asText();
  }

  /** Waits until all subtasks run, or have ended well. */
  public void awaitRunning(Duration limit) throws Exception {
    Waiting.untilTrue(
        "all subtasks of job " + id + " run",
        limit,
        () -> {
          failIfEnded();
          for (JsonNode vertex : get("").get("vertices")) {
            int there = vertex.at("/tasks/RUNNING").asInt() + vertex.at("/tasks/FINISHED").asInt();
            if (there != vertex.get("parallelism").asInt()) {
              return false;
            }
          }
          return true;
        });
  }

  /** Whether it has finished, failed, or was cancelled. */
  public boolean hasEnded() throws IOException {
    return ENDED.contains(state());
  }

  private void failIfEnded() throws IOException {
    String state = state();
    if (ENDED.contains(state)) {
      throw new AssertionError("job " + id + " is " + state + ": " + failures());
    }
  }

  /** How many subtasks run. */
  public int running() throws IOException {
    int running = 0;
    for (JsonNode vertex : get("").get("vertices")) {
      running += vertex.at("/tasks/RUNNING").asInt();
    }
    return running;
  }

  /** Waits for its end, and gives its last state. */
  public String awaitEnd(Duration limit) throws Exception {
    return Waiting.until(
        "job " + id + " ends",
        limit,
        () -> {
          String state = state();
          return ENDED.contains(state) ? state : null;
        });
  }

  /** Waits until so many checkpoints are completed. */
  public void awaitCheckpoints(int count, Duration limit) throws Exception {
    Waiting.untilTrue(
        count + " checkpoints of job " + id + " are completed",
        limit,
        () -> {
          if (checkpoints().completed >= count) {
            return true;
          }
          failIfEnded();
          return false;
        });
  }

  /** The number of the newest attempt of each subtask, from 0. */
  public List<Integer> attempts(String operator) throws IOException {
    List<Integer> attempts = new ArrayList<>();
    for (JsonNode subtask : vertex(operator).get("subtasks")) {
      attempts.add(subtask.get("attempt").asInt());
    }
    return attempts;
  }

  /** The name of the TaskManager that a subtask's newest attempt runs in. */
  public String taskManagerOf(String operator, int subtask) throws IOException {
    return vertex(operator).get("subtasks").get(subtask).get("taskmanager-id").asText();
  }

  /** What has failed, the newest first. Failures together with another one are in the list, too. */
  public List<Failure> failures() throws IOException {
    List<Failure> found = new ArrayList<>();
    JsonNode history = get("/exceptions?maxExceptions=100").get("exceptionHistory").get("entries");
    for (JsonNode entry : history) {
      found.add(failure(entry));
      entry.path("concurrentExceptions").forEach(other -> found.add(failure(other)));
    }
    return found;
  }

  private static Failure failure(JsonNode entry) {
    String text =
        entry
            .path("stacktrace")
            .asText()
            .lines()
            .filter(line -> !line.startsWith("\t"))
            .collect(Collectors.joining("\n"));
    return new Failure(entry.path("taskName").asText(), text);
  }

  /** How often Flink has restarted any of its tasks; each time for one failure or more. */
  public int restarts() throws IOException {
    return get("/exceptions?maxExceptions=100").get("exceptionHistory").get("entries").size();
  }

  public Checkpoints checkpoints() throws IOException {
    JsonNode all = get("/checkpoints");
    return new Checkpoints(
        all.at("/counts/completed").asInt(),
        all.at("/counts/failed").asInt(),
        all.at("/latest/completed/external_path").asText(null),
        checkpointMillis().stream().mapToLong(Long::longValue).max().orElse(0));
  }

  /**
   * How long each of the completed checkpoints that Flink remembers took, the newest first ({@code
   * web.checkpoints.history} says how many it does).
   */
  public List<Long> checkpointMillis() throws IOException {
    List<Long> millis = new ArrayList<>();
    for (JsonNode one : get("/checkpoints").get("history")) {
      if (one.get("status").asText().equals("COMPLETED")) {
        millis.add(one.get("end_to_end_duration").asLong());
      }
    }
    return millis;
  }

  /** Asks Flink to cancel it; {@link #awaitEnd} tells when it has. */
  public void cancel() throws IOException {
    rest.patch("/jobs/" + id + "?mode=cancel");
  }

  /** Has Flink make a checkpoint now; all subtasks have to run. */
  public void checkpoint(Duration limit) throws Exception {
    String request = rest.post("/jobs/" + id + "/checkpoints", "{}").get("request-id").asText();
    completed("checkpoint", "/checkpoints/" + request, "checkpointId", limit);
  }

  /** Ends it with a savepoint in a new folder below this one, whose address is the result. */
  public String stopWithSavepoint(Path folder, Duration limit) throws Exception {
    return completed("savepoint", stop(folder, false), "location", limit);
  }

  /** Asks the same of it at the end of its inputs, and gives why it can't: that is expected. */
  public String drainInVain(Path folder, Duration limit) throws Exception {
    return completed("failed savepoint", stop(folder, true), "failure-cause/stack-trace", limit);
  }

  private String stop(Path folder, boolean drains) throws IOException {
    String body = "{\"targetDirectory\": \"" + folder.toUri() + "\", \"drain\": " + drains + "}";
    return "/savepoints/" + rest.post("/jobs/" + id + "/stop", body).get("request-id").asText();
  }

  private String completed(String what, String path, String result, Duration limit)
      throws Exception {
    return Waiting.until(
        "the " + what + " of job " + id + " is completed",
        limit,
        () -> {
          JsonNode answer = get(path);
          if (!answer.at("/status/id").asText().equals("COMPLETED")) {
            return null;
          }
          JsonNode found = answer.at("/operation/" + result);
          if (found.isMissingNode() || found.isNull()) {
            throw new AssertionError("job " + id + " made no " + what + ": " + answer);
          }
          return found.asText();
        });
  }

  /**
   * A metric of Rejoin's at the JobManager, as Flink's web page has it.
   *
   * @return -1 where Flink has none of this name yet
   */
  public long coordinatorMetric(String operator, String name) throws IOException {
    String metrics = path(operator) + "/jm-operator-metrics";
    for (JsonNode metric : get(metrics)) {
      String id = metric.get("id").asText();
      if (id.endsWith(".rejoin." + name)) {
        String encoded = URLEncoder.encode(id, StandardCharsets.UTF_8);
        for (JsonNode value : get(metrics + "?get=" + encoded)) {
          return value.get("value").asLong();
        }
      }
    }
    return -1;
  }

  private JsonNode vertex(String operator) throws IOException {
    return get(path(operator));
  }

  private String path(String operator) throws IOException {
    for (JsonNode vertex : get("").get("vertices")) {
      if (vertex.get("name").asText().contains(operator)) {
        return "/vertices/" + vertex.get("id").asText();
      }
    }
    throw new IllegalArgumentException("job " + id + " has no operator " + operator);
  }

  private JsonNode get(String path) throws IOException {
    return rest.get("/jobs/" + id + path);
  }
}

package io.rejoin.it;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Trains with the stock estimator on a cluster, once undisturbed and once under SIGKILL, and says
 * what became of it: how long, which model, how many rounds were computed twice; a training that
 * does not come back within the limit is reported as hung.
 */
public final class StockRun {
  private static final Pattern ROUND = Pattern.compile("^\\[[0-9:]+\\] \\[([0-9]+)\\]\\t");
  private static final Duration SESSION = Duration.ofSeconds(120);

  private final StandaloneCluster cluster;
  private final Recipe recipe;
  private final int workers;
  private final int rounds;
  private final Duration limit;
  private final Consumer<String> narration;
  private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();
  private final Map<Integer, ProcessHandle> processOfRank = new HashMap<>();
  private String application = "";

  /** {@code limit}: for one training; {@code story}: gets what happens as sentences. */
  public StockRun(
      StandaloneCluster cluster,
      Recipe recipe,
      int workers,
      int rounds,
      Duration limit,
      Consumer<String> narration) {
    this.cluster = cluster;
    this.recipe = recipe;
    this.workers = workers;
    this.rounds = rounds;
    this.limit = limit;
    this.narration = narration;
  }

  /** Trains undisturbed, then under these kills. The list has one outcome for each. */
  public List<Outcome> undisturbedAndStruck(
      List<KillOrder> killOrders, Map<String, String> settings) throws IOException {
    JavaProcess driver =
        new JavaProcess(
                "stock driver",
                StockDriver.class,
                recipe.name(),
                Integer.toString(workers),
                Integer.toString(rounds),
                "undisturbed",
                "struck")
            .memory("1g")
            .property("rejoin.it.data", Randhie.file().getParent().toString())
            .property("log4j2.configurationFile", "rejoin-it-log4j2.properties")
            .property("rejoin.it.log", cluster.work().file("stock.log").toString());
    StockDriver.configure(driver, cluster.configuration());
    StockDriver.configure(driver, settings);
    try (driver) {
      driver.startPiped();
      collect(driver.process().getInputStream(), null);
      collect(driver.process().getErrorStream(), cluster.work().file("stock.err.log"));
      List<Outcome> outcomes = new ArrayList<>();
      outcomes.add(follow(List.of()));
      if (outcomes.get(0).trouble() == null) {
        outcomes.add(follow(killOrders));
      }
      return outcomes;
    }
  }

  private Outcome follow(List<KillOrder> killOrders) {
    List<KillOrder> left = new ArrayList<>(killOrders);
    int roundsAgain = 0;
    int highest = -1;
    long start = 0;
    long lastSign = System.nanoTime();
    for (; ; ) {
      Duration most = start == 0 ? SESSION : limit;
      long since = start == 0 ? lastSign : start;
      String line = next(most.toNanos() - (System.nanoTime() - since));
      if (line == null) {
        long millis = (System.nanoTime() - since) / 1_000_000;
        String quiet = String.format("%.0f", (System.nanoTime() - lastSign) / 1e9);
        String hang =
            "hangs: no model after " + most.toSeconds() + " s, no sign of life for " + quiet + " s";
        return Outcome.none(millis, roundsAgain, hang);
      }
      lastSign = System.nanoTime();
      Matcher match = ROUND.matcher(line);
      if (match.find() && start != 0) {
        int round = Integer.parseInt(match.group(1));
        if (round <= highest && round == 0) {
          narration.accept(
              "training begins again at round 0: "
                  + (highest + 1)
                  + " rounds are lost, on all "
                  + workers
                  + " ranks");
        }
        if (round <= highest) {
          roundsAgain += workers;
        }
        highest = Math.max(highest, round);
        killOrder(left, round + 1);
        continue;
      }
      if (!line.startsWith(StockDriver.PREFIX)) {
        continue;
      }
      Map<String, String> fact = fact(line);
      switch (fact.get("kind")) {
        case "session":
          narration.accept("its application has started; a short training warms it up before each");
          application = fact.get("application");
          break;
        case "fit.start":
          start = System.nanoTime();
          processOfRank.clear();
          narration.accept("the " + fact.get("run") + " training begins");
          break;
        case "task":
          Processes.executor(cluster.mark(), application, fact.get("executor"))
              .flatMap(found -> ProcessHandle.of(found.pid()))
              .ifPresent(
                  process -> processOfRank.put(Integer.parseInt(fact.get("partition")), process));
          boolean again = !fact.get("try").equals("0") || !fact.get("attempt").equals("0");
          if (again) {
            narration.accept(
                String.format(
                    "stage %s, attempt %s: task of partition %s starts again on executor %s",
                    fact.get("stage"),
                    fact.get("try"),
                    fact.get("partition"),
                    fact.get("executor")));
          }
          if (start != 0 && processOfRank.size() == workers) {
            killOrder(left, 0);
          }
          break;
        case "executor.removed":
          narration.accept("executor " + fact.get("executor") + " is gone");
          break;
        case "executor.added":
          if (start != 0) {
            narration.accept("executor " + fact.get("executor") + " is there");
          }
          break;
        case "fit.end":
          return new Outcome(
              fact.get("digest"),
              Long.parseLong(fact.get("millis")),
              Integer.parseInt(fact.get("executors")),
              Integer.parseInt(fact.get("tasks")),
              Long.parseLong(fact.get("again")),
              roundsAgain,
              left.isEmpty() ? null : "the kill of " + left.get(0) + " never happened");
        case "fit.failed":
          long millis = (System.nanoTime() - start) / 1_000_000;
          return Outcome.none(millis, roundsAgain, "fails: " + fact.get("reason"));
        case "ended":
          long lived = start == 0 ? 0 : (System.nanoTime() - start) / 1_000_000;
          return Outcome.none(
              lived, roundsAgain, "the driver ended by itself: see " + cluster.work().root());
        default:
          break;
      }
    }
  }

  /**
   * The process was found when its task started, and no program is started to kill it: each takes
   * rounds of time.
   */
  private void killOrder(List<KillOrder> left, int round) {
    if (left.isEmpty() || left.get(0).round() != round) {
      return;
    }
    KillOrder killOrder = left.get(0);
    ProcessHandle process = processOfRank.get(killOrder.rank());
    if (process != null && process.destroyForcibly()) {
      left.remove(0);
      narration.accept(
          "SIGKILL to process " + process.pid() + ": " + killOrder + ", as soon as it is told");
    }
  }

  private String next(long nanos) {
    try {
      return lines.poll(Math.max(0, nanos), TimeUnit.NANOSECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return null;
    }
  }

  private void collect(InputStream from, Path log) {
    Thread reader =
        new Thread(
            () -> {
              try (BufferedReader in =
                      new BufferedReader(new InputStreamReader(from, StandardCharsets.UTF_8));
                  Writer out = log == null ? Writer.nullWriter() : Files.newBufferedWriter(log)) {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                  lines.add(line);
                  out.write(line);
                  out.write('\n');
                  out.flush();
                }
              } catch (IOException ended) {
                // The driver's end closes the pipe; what it had to say is there.
              }
              lines.add(StockDriver.PREFIX + "ended");
            },
            "stock-output");
    reader.setDaemon(true);
    reader.start();
  }

  private static Map<String, String> fact(String line) {
    Map<String, String> fact = new HashMap<>();
    String[] words = line.substring(StockDriver.PREFIX.length()).split(" ");
    fact.put("kind", words[0]);
    for (int i = 1; i < words.length; i++) {
      int equals = words[i].indexOf('=');
      if (equals > 0) {
        fact.put(words[i].substring(0, equals), words[i].substring(equals + 1));
      }
    }
    return fact;
  }
}

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
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Predicate;
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
  private final Map<String, ProcessHandle> processOfExecutor = new HashMap<>();
  private String application = "";
  private Predicate<ProcessHandle> inject = ProcessHandle::destroyForcibly;
  private String disturbed = "disturbed";
  private boolean plain;

  /** {@code limit}: for one training; {@code narration}: gets what happens as sentences. */
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

  /** What is done to an executor's process instead of SIGKILL; false when it is gone. */
  public StockRun inject(Predicate<ProcessHandle> how) {
    inject = how;
    return this;
  }

  /** Instead of the stock estimator plain Spark trains ({@link PlainTraining}). */
  public StockRun plain() {
    plain = true;
    return this;
  }

  /** The tasks of the disturbed training throw by themselves ({@link StockDriver#THROWS}). */
  public StockRun throwing(int rank, int round) {
    disturbed = StockDriver.THROWS + rank + "@" + round;
    return this;
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
                disturbed)
            .memory("1g")
            .property(StockDriver.PLAIN, Boolean.toString(plain))
            .property("rejoin.it.data", Randhie.file().getParent().toString())
            .property(Randhie.REPEAT, Integer.toString(Randhie.repeat()))
            .property("log4j2.configurationFile", "rejoin-it-log4j2.properties")
            .property("rejoin.it.log", cluster.work().file("stock.log").toString());
    StockDriver.configure(driver, cluster.configuration());
    StockDriver.configure(driver, settings);
    try (driver) {
      driver.startPiped();
      collect(driver.process().getInputStream(), null);
      collect(driver.process().getErrorStream(), cluster.work().file("stock.err.log"));
      List<Outcome> outcomes = new ArrayList<>();
      outcomes.add(new Training(List.of()).follow());
      if (outcomes.get(0).trouble() == null) {
        outcomes.add(new Training(killOrders).follow());
      }
      return outcomes;
    }
  }

  /** One training: what the driver has reported of it, until its end. */
  private final class Training {
    private final List<KillOrder> left;
    private long lastSign = System.nanoTime();
    private long start;
    private int highest = -1;
    private int roundsAgain;
    private long killedAt;
    private int killedIn;
    private long backMillis = -1;

    Training(List<KillOrder> killOrders) {
      left = new ArrayList<>(killOrders);
    }

    Outcome follow() {
      for (; ; ) {
        Duration most = start == 0 ? SESSION : limit;
        long since = start == 0 ? lastSign : start;
        String line = next(most.toNanos() - (System.nanoTime() - since));
        if (line == null) {
          return without(
              String.format(
                  Locale.ROOT,
                  "hangs: no model after %d s, no sign of life for %.0f s",
                  most.toSeconds(),
                  (System.nanoTime() - lastSign) / 1e9));
        }
        lastSign = System.nanoTime();
        Matcher match = ROUND.matcher(line);
        if (match.find() && start != 0) {
          round(Integer.parseInt(match.group(1)));
        } else if (line.startsWith(StockDriver.PREFIX)) {
          Optional<Outcome> end = take(fact(line));
          if (end.isPresent()) {
            return end.get();
          }
        }
      }
    }

    private void round(int round) {
      if (round <= highest) {
        roundsAgain += workers;
        if (round == 0) {
          narration.accept(
              String.format(
                  Locale.ROOT,
                  "training begins again at round 0: %d rounds are lost, on all %d ranks",
                  highest + 1,
                  workers));
        }
      }
      if (killedAt != 0 && round > killedIn && backMillis < 0) {
        backMillis = (System.nanoTime() - killedAt) / 1_000_000;
      }
      highest = Math.max(highest, round);
      kill(round + 1);
    }

    /** What became of the training, if this fact is its end. */
    private Optional<Outcome> take(Map<String, String> fact) {
      switch (fact.get("kind")) {
        case "session" -> {
          narration.accept("its application has started; a short training warms it up before each");
          application = fact.get("application");
        }
        case "fit.start" -> {
          start = System.nanoTime();
          processOfRank.clear();
          narration.accept("the " + fact.get("run") + " training begins");
        }
        case "task" -> task(fact);
        case "round" -> round(Integer.parseInt(fact.get("number")));
        case "executor.removed" ->
            narration.accept("executor " + fact.get("executor") + " is gone");
        case "executor.added" -> {
          if (start != 0) {
            narration.accept("executor " + fact.get("executor") + " is there");
          }
        }
        case "fit.end" -> {
          return Optional.of(
              new Outcome(
                  fact.get("digest"),
                  Long.parseLong(fact.get("millis")),
                  Integer.parseInt(fact.get("executors")),
                  Long.parseLong(fact.get("executor.millis")),
                  Integer.parseInt(fact.get("tasks")),
                  Long.parseLong(fact.get("again")),
                  roundsAgain,
                  backMillis,
                  left.isEmpty() ? null : "the kill of " + left.get(0) + " never happened"));
        }
        case "fit.failed" -> {
          return Optional.of(without("fails: " + fact.get("reason")));
        }
        case "ended" -> {
          return Optional.of(without("the driver ended by itself: see " + cluster.work().root()));
        }
        default -> {}
      }
      return Optional.empty();
    }

    private Outcome without(String trouble) {
      long millis = (System.nanoTime() - (start == 0 ? lastSign : start)) / 1_000_000;
      return Outcome.none(millis, roundsAgain, trouble);
    }

    private void task(Map<String, String> fact) {
      ProcessHandle process =
          processOfExecutor.computeIfAbsent(fact.get("executor"), this::process);
      if (process != null) {
        processOfRank.put(Integer.parseInt(fact.get("partition")), process);
      }
      if (!fact.get("try").equals("0") || !fact.get("attempt").equals("0")) {
        narration.accept(
            String.format(
                Locale.ROOT,
                "stage %s, attempt %s: task of partition %s starts again on executor %s",
                fact.get("stage"),
                fact.get("try"),
                fact.get("partition"),
                fact.get("executor")));
      }
      if (start != 0 && processOfRank.size() == workers) {
        kill(0);
      }
    }

    private ProcessHandle process(String executor) {
      return Processes.executor(cluster.mark(), application, executor)
          .flatMap(found -> ProcessHandle.of(found.pid()))
          .orElse(null);
    }

    /**
     * The process was found when its task started, and no program is started to kill it: each takes
     * rounds of time.
     */
    private void kill(int round) {
      if (left.isEmpty() || left.get(0).round() != round) {
        return;
      }
      ProcessHandle process = processOfRank.get(left.get(0).rank());
      if (process != null && inject.test(process)) {
        String order = left.remove(0) + ", as soon as it is reported";
        killedAt = killedAt == 0 ? System.nanoTime() : killedAt;
        killedIn = highest;
        backMillis = -1;
        narration.accept("it hits process " + process.pid() + ": " + order);
      }
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
    for (String word : words) {
      // What else a process has written into the line in between is none of it.
      String[] pair = word.split("=", 2);
      if (pair.length == 2) {
        fact.put(pair[0], pair[1]);
      }
    }
    return fact;
  }
}

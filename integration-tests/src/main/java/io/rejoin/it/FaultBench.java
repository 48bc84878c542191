package io.rejoin.it;

import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiConsumer;
import java.util.function.LongConsumer;
import java.util.function.Predicate;
import java.util.function.ToDoubleFunction;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import org.apache.spark.sql.SparkSession;

/**
 * {@code make bench-spark}: what four faults cost a training on a real Spark cluster: Rejoin with
 * all slots taken, Rejoin with a spare, the stock estimator, and plain Spark; what a host that is
 * cut off from the network costs, where another one has a slot (needs root); what a host that is
 * gone for good costs one that goes on with fewer workers, and one that comes a training that
 * grows. Each trial has an undisturbed training beside it. Prints a table in Markdown, and {@code
 * bars met: N of M} last.
 *
 * <p>Settings are system properties: {@code trials}, {@code rounds}, {@code repeat} (how often each
 * row of the data is there), {@code only} (words of faults, an underscore for a space), {@code
 * stock.limit} (seconds), {@code notice.seconds} (from a spot notice to the end).
 */
public final class FaultBench {
  private static final int WORKERS = 3;
  private static final int TRIALS = Integer.getInteger("trials", 10);
  private static final int ROUNDS = Integer.getInteger("rounds", 300);

  /** Of a training that still goes on when an executor has come, which takes seconds. */
  private static final int LONG_ROUNDS = 4 * ROUNDS;

  private static final int REPEAT = Integer.getInteger("repeat", 30);
  private static final int NOTICE_SECONDS = Integer.getInteger("notice.seconds", 5);
  private static final String ONLY = System.getProperty("only", "").replace('_', ' ');
  private static final Duration STOCK_LIMIT =
      Duration.ofSeconds(Integer.getInteger("stock.limit", 120));
  private static final Recipe RECIPE = Recipe.BINARY;
  private static final int VICTIM = 1;

  /** How long a replacement is waited for that doesn't come; a part of what the fault costs. */
  private static final int ELASTIC_SECONDS = 2;

  /** Two thirds through, so that a notice ends before the training does. */
  private static final KillOrder ORDER = at(ROUNDS * 2 / 3);

  /** What happens to the executor of a rank, or to its task. */
  enum Fault {
    KILLED("executor killed (SIGKILL)", "kill"),
    FROZEN("executor frozen (SIGSTOP)", "stop"),
    THROWS("task throws", "throw"),
    NOTICE("spot notice (SIGPWR, SIGKILL " + NOTICE_SECONDS + " s later)", "notify"),
    /** Of hosts with a network each. */
    CUT("host cut off from the network", "notify"),
    /** Of a training that goes on with fewer workers; the others would wait for ever. */
    HOST("host gone, and no other comes", "notify"),
    /** Nothing is lost: a training that has begun with fewer workers than it may have grows. */
    COMES("host comes", "notify");

    private final String words;
    private final String action;

    Fault(String words, String action) {
      this.words = words;
      this.action = action;
    }
  }

  /** One disturbed training: what became of it, and of the undisturbed one beside it. */
  private record Trial(Outcome calm, Outcome struck, Moments moments) {
    private boolean ended() {
      return struck.digest() != null;
    }

    private double lost() {
      return (struck.millis() - calm.millis()) / 1e3;
    }
  }

  /** Seconds from the fault to what followed; negative for what didn't. */
  private record Moments(double known, double goingOn, double seen, boolean moved) {
    private static final Moments NONE = new Moments(-1, -1, -1, false);
  }

  /** The most until silence is a loss, and until a spare goes on after a loss. */
  private static final int SILENCE_SECONDS = 2;

  private static final int SPARE_SECONDS = 2;

  /** The most until a frozen executor is replaced: Spark's Worker waits 10 s for its end. */
  private static final int WORKER_SECONDS = 18;

  private final ScheduledExecutorService later = Executors.newScheduledThreadPool(1);
  private final Map<String, Map<Fault, List<Trial>>> trials = new java.util.LinkedHashMap<>();
  private final NavigableMap<Integer, Integer> versionOfRound = new ConcurrentSkipListMap<>();
  private int met;
  private int bars;

  private FaultBench() {}

  /** No arguments; see the class. */
  public static void main(String[] arguments) throws IOException {
    System.setProperty("log4j2.configurationFile", "rejoin-it-log4j2.properties");
    WorkDirectory work = WorkDirectory.fresh("bench-spark-driver");
    System.setProperty("rejoin.it.log", work.file("driver.log").toString());
    System.setProperty(Randhie.REPEAT, Integer.toString(REPEAT));
    new FaultBench().run();
    System.exit(0);
  }

  private void run() throws IOException {
    try (StandaloneCluster cluster = StandaloneCluster.start("bench-spark", WORKERS + 1)) {
      ours(cluster, "Rejoin", 0);
      ours(cluster, "Rejoin, a spare", 1);
      others(cluster, "stock", run -> run);
      others(cluster, "plain Spark", StockRun::plain);
    }
    cutOff(0);
    cutOff(1);
    fewer();
    more();
    later.shutdownNow();
    table();
    bars();
    System.out.println("bars met: " + met + " of " + bars);
  }

  /** Those of one host, where a replacement comes. */
  private static List<Fault> faults() {
    return chosen().stream()
        .filter(fault -> fault.compareTo(Fault.CUT) < 0)
        .collect(Collectors.toList());
  }

  private static List<Fault> chosen() {
    return Arrays.stream(Fault.values())
        .filter(fault -> fault.words.contains(ONLY))
        .collect(Collectors.toList());
  }

  private static Map<String, String> settings(StandaloneCluster cluster, int executors) {
    Map<String, String> settings = cluster.configuration();
    settings.put("spark.cores.max", Integer.toString(executors));
    settings.put("spark.decommission.enabled", "true");
    settings.put("spark.task.maxFailures", "8");
    return settings;
  }

  private void ours(StandaloneCluster cluster, String who, int spares) {
    int executors = WORKERS + spares;
    SparkSession.Builder builder = SparkSession.builder().appName("rejoin bench-spark");
    settings(cluster, executors).forEach(builder::config);
    SparkSession spark = builder.getOrCreate();
    try {
      for (int trial = 0; trial < TRIALS; trial++) {
        for (Fault fault : faults()) {
          Outcome calm = train(spark, executors, spares, null).struck();
          Trial struck = train(spark, executors, spares, fault);
          add(who, fault, new Trial(calm, struck.struck(), struck.moments()));
        }
      }
    } finally {
      spark.stop();
    }
  }

  /** One host more than the training has workers; a victim's packets are dropped. */
  private void cutOff(int spares) throws IOException {
    if (!chosen().contains(Fault.CUT)) {
      return;
    }
    try (HostNetwork network = HostNetwork.of(WORKERS + 1);
        StandaloneCluster hosts = StandaloneCluster.onHosts("bench-spark-network", network)) {
      SparkSession.Builder builder = SparkSession.builder().appName("rejoin bench-spark, network");
      settings(hosts, WORKERS + 1).forEach(builder::config);
      SparkSession spark = builder.getOrCreate();
      for (int trial = 0; trial < TRIALS; trial++) {
        Outcome calm = train(spark, WORKERS + 1, spares, null).struck();
        RejoinRun run = warmed(spark, WORKERS + 1, spares).fault(rule(Fault.CUT));
        AtomicLong host = new AtomicLong();
        run.listen(
            new AtTheFault(
                process -> {
                  host.set(hosts.hostOf(process));
                  network.cut((int) host.get());
                }));
        Trial struck = struck(run, Fault.CUT);
        network.mend((int) host.get());
        String who = spares == 0 ? "Rejoin" : "Rejoin, a spare";
        add(who, Fault.CUT, new Trial(calm, struck.struck(), struck.moments()));
      }
      spark.stop();
    }
  }

  /** A cluster whose workers stand for hosts, with one slot each. */
  private void fewer() throws IOException {
    if (!chosen().contains(Fault.HOST)) {
      return;
    }
    try (StandaloneCluster hosts = StandaloneCluster.start("bench-spark-hosts", 1)) {
      for (int host = 1; host < WORKERS; host++) {
        hosts.addWorker(1);
      }
      SparkSession.Builder builder = SparkSession.builder().appName("rejoin bench-spark, hosts");
      settings(hosts, WORKERS).forEach(builder::config);
      SparkSession spark = builder.getOrCreate();
      spark.conf().set("spark.rejoin.workers.min", WORKERS - 1);
      spark.conf().set("spark.rejoin.elastic.timeout", ELASTIC_SECONDS + "s");
      for (int trial = 0; trial < TRIALS; trial++) {
        Outcome calm = train(spark, WORKERS, 0, null).struck();
        RejoinRun run = warmed(spark, WORKERS, 0).fault(rule(Fault.HOST));
        run.listen(new AtTheFault(hosts::killHostOf));
        Trial struck = struck(run, Fault.HOST);
        add(
            "Rejoin, fewer workers",
            Fault.HOST,
            new Trial(calm, struck.struck(), struck.moments()));
        hosts.addWorker(1);
      }
      spark.stop();
    }
  }

  /** A host less than the training may have workers; the last one comes while it trains. */
  private void more() throws IOException {
    if (!chosen().contains(Fault.COMES)) {
      return;
    }
    int workers = WORKERS - 1;
    try (StandaloneCluster hosts = StandaloneCluster.start("bench-spark-more", 1)) {
      for (int host = 1; host < workers; host++) {
        hosts.addWorker(1);
      }
      SparkSession.Builder builder = SparkSession.builder().appName("rejoin bench-spark, more");
      settings(hosts, WORKERS).forEach(builder::config);
      SparkSession spark = builder.getOrCreate();
      for (int trial = 0; trial < TRIALS; trial++) {
        spark.conf().unset("spark.rejoin.workers.max");
        versionOfRound.clear();
        warmUp(spark, workers, workers, 0);
        RejoinRun undisturbed = configured(new RejoinRun(spark, RECIPE, workers, LONG_ROUNDS), 0);
        undisturbed.listen(this::findsVersions);
        Outcome calm = struck(undisturbed, null).struck();
        spark.conf().set("spark.rejoin.workers.max", WORKERS);
        // Early, as an executor takes seconds to come.
        String rule = at(ROUNDS / 10).rule(versionOfRound) + ",do=" + Fault.COMES.action;
        warmUp(spark, workers, workers, 0);
        RejoinRun run = configured(new RejoinRun(spark, RECIPE, workers, LONG_ROUNDS), 0);
        run.fault(rule).listen(new AtTheFault(any -> later.execute(() -> comes(hosts))));
        AtomicLong newcomer = new AtomicLong();
        AtomicBoolean isDue = new AtomicBoolean();
        run.listen(
            event -> {
              isDue.compareAndSet(false, event.kind() == Kind.FAULT_FIRED);
              if (isDue.get() && event.kind() == Kind.AGENT_JOINED) {
                newcomer.set(event.number("pid"));
              }
            });
        Trial struck = struck(run, Fault.COMES);
        add(
            "Rejoin, more workers",
            Fault.COMES,
            new Trial(calm, struck.struck(), struck.moments()));
        if (newcomer.get() == 0) {
          throw new IllegalStateException("no executor came before the training was over");
        }
        hosts.killHostOf(newcomer.get());
      }
      spark.stop();
    }
  }

  private static void comes(StandaloneCluster hosts) {
    try {
      hosts.addWorker(1);
    } catch (IOException failed) {
      throw new IllegalStateException("no worker can be started", failed);
    }
  }

  private static KillOrder at(int round) {
    return KillOrder.parse(VICTIM + "@" + round, WORKERS, ROUNDS).get(0);
  }

  /** A training on warm executors, to be disturbed or not. */
  private static RejoinRun warmed(SparkSession spark, int executors, int spares) {
    warmUp(spark, executors, WORKERS, spares);
    return configured(new RejoinRun(spark, RECIPE, WORKERS, ROUNDS), spares);
  }

  private static void warmUp(SparkSession spark, int executors, int workers, int spares) {
    io.rejoin.it.Executors.await(spark, executors);
    RejoinRun warmUp = new RejoinRun(spark, RECIPE, workers, StockDriver.WARM_UP_ROUNDS);
    configured(warmUp.data(RECIPE.warmUp(spark, workers)), spares).train();
  }

  private String rule(Fault fault) {
    return ORDER.rule(versionOfRound) + ",do=" + fault.action;
  }

  private void findsVersions(TrainingEvent event) {
    if (event.kind() == Kind.VERSION_ENTERED) {
      versionOfRound.putIfAbsent((int) event.number("round"), (int) event.number("version"));
    }
  }

  private Trial train(SparkSession spark, int executors, int spares, Fault fault) {
    RejoinRun run = warmed(spark, executors, spares);
    if (fault == null) {
      versionOfRound.clear();
      run.listen(this::findsVersions);
    } else {
      run.fault(rule(fault));
      if (fault == Fault.NOTICE) {
        run.listen(new AtTheFault(this::notice));
      }
    }
    return struck(run, fault);
  }

  private static Trial struck(RejoinRun run, Fault fault) {
    Outcome outcome = run.train();
    if (outcome.trouble() != null) {
      throw new IllegalStateException(fault + ": " + outcome.trouble());
    }
    return new Trial(null, outcome, moments(run.events()));
  }

  private static RejoinRun configured(RejoinRun run, int spares) {
    return run.setting("spark.rejoin.spares", Integer.toString(spares))
        .setting("spark.rejoin.log.level", "error");
  }

  /** Does something to the victim's process when the rule fires. */
  private static final class AtTheFault implements java.util.function.Consumer<TrainingEvent> {
    private final LongConsumer inject;
    private final Map<String, Long> processOf = new ConcurrentHashMap<>();
    private String executor = "";

    AtTheFault(LongConsumer inject) {
      this.inject = inject;
    }

    @Override
    public void accept(TrainingEvent event) {
      switch (event.kind()) {
        case AGENT_JOINED -> processOf.put(event.text("executor"), event.number("pid"));
        case RANK_JOINED -> {
          if (event.number("rank") == VICTIM && event.number("incarnation") == 0) {
            executor = event.text("executor");
          }
        }
        case FAULT_FIRED -> inject.accept(processOf.get(executor));
        default -> {}
      }
    }
  }

  private boolean notice(long process) {
    later.schedule(() -> Processes.signal(process, "KILL"), NOTICE_SECONDS, TimeUnit.SECONDS);
    return Processes.signal(process, "PWR");
  }

  private static Moments moments(List<TrainingEvent> events) {
    Optional<TrainingEvent> fired = first(events, event -> event.kind() == Kind.FAULT_FIRED);
    if (fired.isEmpty()) {
      return Moments.NONE;
    }
    ToDoubleFunction<Predicate<TrainingEvent>> after =
        which ->
            first(events, which)
                .map(event -> (event.atNanos() - fired.get().atNanos()) / 1e9)
                .orElse(-1.0);
    Optional<TrainingEvent> lost = first(events, event -> event.kind() == Kind.RANK_LOST);
    Kind known = lost.isPresent() ? Kind.RANK_LOST : Kind.RESIZED;
    return new Moments(
        after.applyAsDouble(event -> event.kind() == known),
        after.applyAsDouble(goesOn(events)),
        after.applyAsDouble(event -> event.kind() == Kind.EXECUTOR_LEAVES),
        first(events, event -> event.kind() == Kind.RANK_MOVED).isPresent());
  }

  /** The rank is with the others again, or these are in another world and train. */
  private static Predicate<TrainingEvent> goesOn(List<TrainingEvent> events) {
    Optional<TrainingEvent> resized = first(events, event -> event.kind() == Kind.RESIZED);
    return event ->
        resized.isEmpty()
            ? event.kind() == Kind.CAUGHT_UP
            : event.kind() == Kind.VERSION_ENTERED && event.atNanos() > resized.get().atNanos();
  }

  private static Optional<TrainingEvent> first(
      List<TrainingEvent> events, Predicate<TrainingEvent> which) {
    return events.stream().filter(which).findFirst();
  }

  private void others(StandaloneCluster cluster, String who, UnaryOperator<StockRun> as)
      throws IOException {
    for (int trial = 0; trial < TRIALS; trial++) {
      for (Fault fault : faults()) {
        StockRun run =
            as.apply(new StockRun(cluster, RECIPE, WORKERS, ROUNDS, STOCK_LIMIT, sentence -> {}));
        List<KillOrder> orders = List.of(ORDER);
        switch (fault) {
          case FROZEN -> run.inject(process -> Processes.signal(process.pid(), "STOP"));
          case NOTICE -> run.inject(process -> notice(process.pid()));
          case THROWS -> {
            run.throwing(VICTIM, ORDER.round());
            orders = List.of();
          }
          default -> {}
        }
        List<Outcome> outcomes = run.undisturbedAndStruck(orders, settings(cluster, WORKERS));
        if (outcomes.size() < 2) {
          throw new IllegalStateException(who + ", undisturbed: " + outcomes.get(0).trouble());
        }
        add(who, fault, new Trial(outcomes.get(0), outcomes.get(1), Moments.NONE));
      }
    }
  }

  private void add(String who, Fault fault, Trial trial) {
    trials
        .computeIfAbsent(who, any -> new EnumMap<>(Fault.class))
        .computeIfAbsent(fault, any -> new ArrayList<>())
        .add(trial);
    System.out.printf(
        Locale.ROOT,
        "%s, %s: undisturbed %.1f s, %s%s, %d rounds again, %d executors asked for, %s%n",
        who,
        fault.words,
        trial.calm().millis() / 1e3,
        trial.ended()
            ? String.format(Locale.ROOT, "%.1f s", trial.struck().millis() / 1e3)
            : "no model",
        trial.ended() ? "" : " (" + trial.struck().trouble() + ")",
        trial.struck().roundsAgain(),
        trial.struck().executors(),
        trial.moments());
  }

  private void table() {
    System.out.println();
    System.out.println(
        "| fault | | seconds lost | seconds until it is where it was | rounds computed twice, by"
            + " ranks | executors asked for | executor-seconds more | MB shuffled or copied again"
            + " |");
    System.out.println("|---|---|---|---|---|---|---|---|");
    for (Fault fault : chosen()) {
      trials.forEach(
          (who, all) ->
              Optional.ofNullable(all.get(fault)).ifPresent(some -> row(fault, who, some)));
    }
    System.out.println();
  }

  private static void row(Fault fault, String who, List<Trial> all) {
    List<Trial> ended = all.stream().filter(Trial::ended).collect(Collectors.toList());
    List<Trial> back =
        ended.stream()
            // The others are told of nothing: they go on until their executor is gone.
            .filter(trial -> fault != Fault.NOTICE || who.startsWith("Rejoin"))
            .filter(trial -> trial.struck().backMillis() >= 0)
            .collect(Collectors.toList());
    String none =
        ended.size() == all.size()
            ? ""
            : (all.size() - ended.size()) + " of " + all.size() + " without a model";
    String separator = none.isEmpty() || ended.isEmpty() ? "" : "; ";
    String lost = ended.isEmpty() ? none : spread(ended, Trial::lost, 1) + separator + none;
    System.out.printf(
        "| %s | %s | %s | %s | %s | %s | %s | %s |%n",
        fault.words,
        who,
        lost,
        spread(back, trial -> trial.struck().backMillis() / 1e3, 1),
        spread(all, trial -> trial.struck().roundsAgain(), 0),
        spread(ended, trial -> trial.struck().executors(), 0),
        spread(
            ended,
            trial -> (trial.struck().executorMillis() - trial.calm().executorMillis()) / 1e3,
            0),
        spread(ended, trial -> trial.struck().bytesAgain() / 1e6, 1));
  }

  /** The median, and the least and the most. */
  private static String spread(List<Trial> all, ToDoubleFunction<Trial> of, int digits) {
    if (all.isEmpty()) {
      return "–";
    }
    double[] values = all.stream().mapToDouble(of).sorted().toArray();
    String format = "%." + digits + "f (%." + digits + "f to %." + digits + "f)";
    return String.format(Locale.ROOT, format, median(values), values[0], values[values.length - 1]);
  }

  private static double median(double[] sorted) {
    int half = sorted.length / 2;
    return sorted.length % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }

  private void bars() {
    trials.forEach(
        (who, all) -> {
          if (who.startsWith("Rejoin")) {
            all.forEach((fault, list) -> bars(who, fault, list));
          }
        });
  }

  private void bars(String who, Fault fault, List<Trial> all) {
    boolean hasSpare = who.contains("spare");
    BiConsumer<String, Bar> judge =
        (what, bar) -> judge(who + ", " + fault.words + ": " + what, bar, all);
    switch (fault) {
      case KILLED -> {
        judge.accept("known, s", new Bar(trial -> trial.moments().known(), 0.1));
        if (hasSpare) {
          judge.accept("going on, s", new Bar(trial -> trial.moments().goingOn(), SPARE_SECONDS));
        }
      }
      // As fast as a dead one with a spare, from when it is known.
      case FROZEN, CUT -> {
        judge.accept("lost, s", new Bar(trial -> trial.moments().known(), SILENCE_SECONDS));
        double most = hasSpare ? SILENCE_SECONDS + SPARE_SECONDS : WORKER_SECONDS;
        judge.accept("going on, s", new Bar(trial -> trial.moments().goingOn(), most));
      }
      case NOTICE -> {
        judge.accept("seen, s", new Bar(trial -> trial.moments().seen(), 0.3));
        if (hasSpare) {
          judge.accept("not moved", new Bar(trial -> trial.moments().moved() ? 0 : 1, 0));
          judge.accept("rounds again", new Bar(trial -> trial.struck().roundsAgain(), 1));
        }
      }
      case HOST -> {
        judge.accept("known, s", new Bar(trial -> trial.moments().known(), 0.1));
        judge.accept(
            "going on after the wait, s",
            new Bar(trial -> trial.moments().goingOn() - ELASTIC_SECONDS, 1));
      }
      case COMES ->
          judge.accept(
              "going on after the resize, s",
              new Bar(
                  trial ->
                      trial.moments().known() < 0
                          ? -1
                          : trial.moments().goingOn() - trial.moments().known(),
                  1));
      default -> {}
    }
  }

  /** At most so much in the median. */
  private record Bar(ToDoubleFunction<Trial> of, double most) {}

  private void judge(String what, Bar bar, List<Trial> all) {
    double[] values = all.stream().mapToDouble(bar.of()).sorted().toArray();
    double median = median(values);
    double p90 = values[(int) Math.ceil(0.9 * values.length) - 1];
    boolean isMet = values[0] >= 0 && median <= bar.most();
    bars++;
    met += isMet ? 1 : 0;
    System.out.printf(
        Locale.ROOT,
        "%s: median %.2f, p90 %.2f, at most %.2f: %s%n",
        what,
        median,
        p90,
        bar.most(),
        isMet ? "met" : "NOT met");
  }
}

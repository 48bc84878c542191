package io.rejoin.it;

import io.rejoin.TrainingEvent;
import io.rejoin.it.Terminal.Tone;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.NavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.Consumer;
import org.apache.spark.sql.SparkSession;

/**
 * {@code make demo}: trains on a real Spark cluster of separate processes, at default settings;
 * shows what happens when an executor is killed in the middle of a round of the same, and when a
 * spare stands by; then trains with the stock estimator, undisturbed and under the same kill, and
 * compares. It ends with status 0 only if all models are the same, byte for byte.
 *
 * <p>Settings are system properties: {@code kill} (as {@link KillOrder#parse} reads it), {@code
 * rounds}, {@code workers}, {@code repeat} (how often each row of the data is there), {@code
 * stock.limit} (seconds that the stock training may take), {@code checkpoint.rounds} (rounds per
 * checkpoint; 0 is the default rhythm).
 */
public final class Demo {
  private static final int WORKERS = Integer.getInteger("workers", 3);
  private static final int ROUNDS = Integer.getInteger("rounds", 300);
  private static final int REPEAT = Integer.getInteger("repeat", 30);
  private static final Duration STOCK_LIMIT =
      Duration.ofSeconds(Integer.getInteger("stock.limit", 120));
  private static final String CHECKPOINT_ROUNDS = System.getProperty("checkpoint.rounds", "0");
  private static final Recipe RECIPE = Recipe.BINARY;

  private final Terminal terminal = Terminal.standard();
  private final ResultTable table = new ResultTable(terminal);
  private final List<KillOrder> killOrders;

  /** Of the last training: the version that begins with a round. */
  private final NavigableMap<Integer, Integer> versionOfRound = new ConcurrentSkipListMap<>();

  private Outcome undisturbed;

  /** The kill orders as fault rules: their rounds are the undisturbed training's versions. */
  private List<String> rules;

  private Demo(List<KillOrder> killOrders) {
    this.killOrders = killOrders;
  }

  /** No arguments; see the class. */
  public static void main(String[] arguments) {
    // The driver's Spark logs to a file: the terminal belongs to the narration.
    System.setProperty("log4j2.configurationFile", "rejoin-it-log4j2.properties");
    WorkDirectory work = WorkDirectory.fresh("demo-driver");
    System.setProperty("rejoin.it.log", work.file("driver.log").toString());
    System.setProperty(Randhie.REPEAT, Integer.toString(REPEAT));
    List<KillOrder> killOrders;
    try {
      String kill = System.getProperty("kill", "");
      killOrders = KillOrder.parse(kill.isEmpty() ? "1@240" : kill, WORKERS, ROUNDS);
    } catch (IllegalArgumentException bad) {
      System.out.println(bad.getMessage());
      System.exit(2);
      return;
    }
    int status;
    try {
      status = new Demo(killOrders).run();
    } catch (IOException | RuntimeException failed) {
      System.out.println();
      System.out.println("The demo failed: " + failed.getMessage());
      failed.printStackTrace(System.out);
      System.out.println("Driver's log: " + work.file("driver.log"));
      status = 1;
    }
    System.exit(status);
  }

  private int run() throws IOException {
    terminal.print(
        "Rejoin: distributed XGBoost training in Spark that survives a killed executor.");
    terminal.print(
        String.format(
            "RAND Health Insurance Experiment, 20,190 person-years, each %d times; %d workers, %d"
                + " rounds, sampling of rows and columns.",
            REPEAT, WORKERS, ROUNDS));
    terminal.title(
        "1. A real cluster: a master, a worker, and executors, each in a process of its own");
    try (StandaloneCluster cluster = StandaloneCluster.start("demo", WORKERS + 1)) {
      terminal.line("master and worker are there: " + cluster.address());
      inSession(cluster, WORKERS, this::undisturbedAndStruck);
      inSession(cluster, WORKERS + 1, this::struckWithOneSpare);
      stock(cluster);
    }
    table.print();
    terminal.print(
        "  One training each, after the same warm-up: seconds depend on what else this machine"
            + " does.");
    terminal.print(
        "  Copied again: Rejoin stores its input twice, and Spark copies what the dead executor"
            + " held; the");
    terminal.print(
        "  stock estimator shuffles its input again, compressed by spark.io.compression.codec; ours"
            + " isn't.");
    terminal.print(
        "  The stock estimator is killed from outside when its tracker prints the round; on a busy"
            + " machine");
    terminal.print("  that can be some rounds later than ours, and those count as computed twice.");
    terminal.print("");
    return verdict();
  }

  /** Calls {@code body} in a session with so many executors, whose JVMs are warm. */
  private void inSession(StandaloneCluster cluster, int executors, Consumer<SparkSession> body) {
    SparkSession.Builder builder = SparkSession.builder().appName("rejoin demo");
    cluster.configuration().forEach(builder::config);
    builder.config("spark.cores.max", executors);
    builder.config("spark.ui.enabled", true).config("spark.ui.port", 0);
    SparkSession spark = builder.getOrCreate();
    try {
      Executors.await(spark, executors);
      terminal.line(
          executors
              + " executors are there; Spark "
              + spark.version()
              + ", XGBoost "
              + RejoinRun.xgboostVersion());
      terminal.line(
          "to watch the next trainings in Spark's web UI: "
              + spark.sparkContext().uiWebUrl().get()
              + "/rejoin/");
      body.accept(spark);
    } finally {
      spark.stop();
    }
  }

  private void undisturbedAndStruck(SparkSession spark) {
    terminal.line(
        "before each training that is compared, a short one of "
            + StockDriver.WARM_UP_ROUNDS
            + " rounds warms the JVMs up");
    warmUp(spark, 0);
    terminal.title("2. RejoinEstimator, undisturbed");
    undisturbed = train(compared(spark), 0, List.of(), terminal);
    modelLine(undisturbed);
    terminal.line(checkpoints());
    rules = killOrders.stream().map(killOrder -> killOrder.rule(versionOfRound)).toList();
    warmUp(spark, 0);
    terminal.title("3. RejoinEstimator again; SIGKILL to the executor of " + words(killOrders));
    Outcome struck = train(compared(spark), 0, rules, terminal);
    modelLine(struck);
    table.add("Rejoin", "undisturbed", undisturbed, null);
    table.add("Rejoin", killed(), struck, undisturbed);
  }

  private void struckWithOneSpare(SparkSession spark) {
    warmUp(spark, 1);
    terminal.title(
        "4. The same with spark.rejoin.spares=1: one more executor, whose task stands by");
    Outcome struck = train(compared(spark), 1, rules, terminal);
    modelLine(struck);
    table.add("Rejoin, 1 spare", killed(), struck, undisturbed);
  }

  private static RejoinRun compared(SparkSession spark) {
    return new RejoinRun(spark, RECIPE, WORKERS, ROUNDS);
  }

  private void warmUp(SparkSession spark, int spares) {
    RejoinRun run = new RejoinRun(spark, RECIPE, WORKERS, StockDriver.WARM_UP_ROUNDS);
    train(run.data(RECIPE.warmUp(spark, WORKERS)), spares, List.of(), Terminal.silent());
  }

  private Outcome train(RejoinRun run, int spares, List<String> rules, Terminal terminal) {
    DemoNarration narration = new DemoNarration(terminal, WORKERS);
    versionOfRound.clear();
    run.setting("spark.rejoin.checkpoint.rounds", CHECKPOINT_ROUNDS)
        .setting("spark.rejoin.spares", Integer.toString(spares))
        // The narration says it; the native log would say it between its lines.
        .setting("spark.rejoin.log.level", "error")
        .listen(narration::event)
        .listen(this::note);
    rules.forEach(run::fault);
    return run.train(new SparkFacts(narration));
  }

  /** Where versions begin follows from the model's size: in the next training they do so again. */
  private void note(TrainingEvent event) {
    if (event.kind() == TrainingEvent.Kind.VERSION_ENTERED) {
      versionOfRound.putIfAbsent((int) event.number("round"), (int) event.number("version"));
    }
  }

  private String checkpoints() {
    int most = 0;
    for (Integer round : versionOfRound.keySet()) {
      Integer next = versionOfRound.higherKey(round);
      most = Math.max(most, (next == null ? ROUNDS : next) - round);
    }
    String apart = most == 1 ? "a round apart" : "1 to " + most + " rounds apart";
    return (versionOfRound.size() - 1)
        + " checkpoints, "
        + apart
        + ": after a death that many rounds may be computed twice";
  }

  private void stock(StandaloneCluster cluster) throws IOException {
    Map<String, String> settings = Map.of("spark.cores.max", Integer.toString(WORKERS));
    terminal.title(
        "5. The stock estimator: undisturbed, then under the same kill (at most "
            + STOCK_LIMIT.toSeconds()
            + " s each)");
    List<Outcome> outcomes =
        new StockRun(cluster, RECIPE, WORKERS, ROUNDS, STOCK_LIMIT, terminal::line)
            .undisturbedAndStruck(killOrders, settings);
    Outcome calm = outcomes.get(0);
    if (calm.trouble() != null) {
      terminal.line(Tone.BAD, "undisturbed: " + calm.trouble());
    }
    table.add("stock", "undisturbed", calm, null);
    if (outcomes.size() > 1) {
      Outcome disturbed = outcomes.get(1);
      if (disturbed.trouble() == null) {
        modelLine(disturbed);
      } else {
        terminal.line(Tone.BAD, disturbed.trouble());
      }
      table.add("stock", killed(), disturbed, calm);
    }
  }

  private int verdict() {
    if (table.agree()) {
      terminal.print(terminal.paint(Tone.GOOD, "All models are the same, byte for byte."));
      return 0;
    }
    terminal.print(
        terminal.paint(Tone.BAD, "THE MODELS DIFFER, or there is none: this must not be."));
    return 1;
  }

  private void modelLine(Outcome outcome) {
    terminal.line(
        Tone.GOOD,
        String.format(
            Locale.ROOT,
            "model %s after %.1f s",
            outcome.digest().substring(0, 16),
            outcome.millis() / 1e3));
  }

  private String killed() {
    return killOrders.size() == 1 ? "one kill" : killOrders.size() + " kills";
  }

  private static String words(List<KillOrder> killOrders) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < killOrders.size(); i++) {
      text.append(i == 0 ? "" : i == killOrders.size() - 1 ? " and " : ", ")
          .append(killOrders.get(i));
    }
    return text.toString();
  }
}

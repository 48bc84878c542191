package io.rejoin.it;

import io.rejoin.Faults;
import io.rejoin.TrainingEvent;
import io.rejoin.spark.RejoinEstimator;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.stream.LongStream;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.Predictor;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** One training of a recipe with {@link RejoinEstimator}, with fault rules, and all its events. */
public final class RejoinRun {
  private final SparkSession spark;
  private final Recipe recipe;
  private final int workers;
  private final int rounds;
  private final Map<String, String> settings = new LinkedHashMap<>();
  private final List<String> rules = new ArrayList<>();
  private final List<Consumer<TrainingEvent>> listeners = new ArrayList<>();
  private final List<TrainingEvent> events = new ArrayList<>();
  private volatile int signals;
  private Predictor<?, ?, ?> estimator;
  private Dataset<Row> data;

  /** A training of this recipe; nothing happens before {@link #train}. */
  public RejoinRun(SparkSession spark, Recipe recipe, int workers, int rounds) {
    this.spark = spark;
    this.recipe = recipe;
    this.workers = workers;
    this.rounds = rounds;
  }

  public Recipe recipe() {
    return recipe;
  }

  /** How many ranks. */
  public int workers() {
    return workers;
  }

  /** How many rounds were asked for. */
  public int rounds() {
    return rounds;
  }

  /** Another stock estimator than the recipe's. */
  public RejoinRun estimator(Predictor<?, ?, ?> other) {
    estimator = other;
    return this;
  }

  /** Other rows than the recipe's. */
  public RejoinRun data(Dataset<Row> other) {
    data = other;
    return this;
  }

  /** A setting of the session during this training, {@code spark.rejoin...}. */
  public RejoinRun setting(String key, String value) {
    settings.put(key, value);
    return this;
  }

  /** A fault rule, as {@link Faults#parse} reads it. */
  public RejoinRun fault(String rule) {
    rules.add(rule);
    return this;
  }

  /** Gets each event, on the thread that delivers them. */
  public RejoinRun listen(Consumer<TrainingEvent> listener) {
    listeners.add(listener);
    return this;
  }

  /** All events until now. */
  public List<TrainingEvent> events() {
    synchronized (events) {
      return new ArrayList<>(events);
    }
  }

  /** The test will send a signal of its own when an event comes. */
  public void expectSignal() {
    signals++;
  }

  /** The signal of an {@link #expectSignal} was sent. */
  public void signalled() {
    signals--;
  }

  /** Whether all signals that were to be sent were sent. */
  public boolean signals() {
    return signals == 0;
  }

  /** How many fault rules have fired. */
  public int fired() {
    return (int) events().stream().filter(e -> e.kind() == TrainingEvent.Kind.FAULT_FIRED).count();
  }

  /** The version of XGBoost on the class path. */
  public static String xgboostVersion() {
    return ml.dmlc.xgboost4j.scala.spark.package$.MODULE$.VERSION();
  }

  /** Trains; throws what the estimator throws. */
  public Outcome train() {
    RunFacts facts = new RunFacts();
    return train(facts);
  }

  /** Trains with these facts kept; throws what the estimator throws. */
  public Outcome train(RunFacts facts) {
    settings.forEach((key, value) -> spark.conf().set(key, value));
    spark.sparkContext().addSparkListener(facts);
    try {
      Predictor<?, ?, ?> stock =
          estimator != null ? estimator : recipe.estimator(spark, workers, rounds);
      Dataset<Row> rows = data != null ? data : recipe.data(spark, workers);
      RejoinEstimator<?> ours = new RejoinEstimator<>(stock);
      ours.setEventListener(this::take);
      ours.setFaultsForTests(Faults.parse(String.join("|", rules)));
      int present = spark.sparkContext().isLocal() ? 0 : Executors.present(spark);
      long begin = System.currentTimeMillis();
      long start = System.nanoTime();
      Model<?> model = ours.fit(rows);
      long millis = (System.nanoTime() - start) / 1_000_000;
      drain();
      RunFacts.Counts counts = facts.counts();
      String trouble =
          fired() == rules.size()
              ? null
              : "only " + fired() + " of " + rules.size() + " fault rules fired";
      return new Outcome(
          Digest.of(model),
          millis,
          counts.executorsAdded(),
          counts.executorMillis(present, begin, begin + millis),
          counts.tasksStarted(),
          counts.bytesAgain(),
          roundsAgain(),
          backMillis(),
          trouble);
    } finally {
      drainQuietly();
      spark.sparkContext().removeSparkListener(facts);
      settings.keySet().forEach(key -> spark.conf().unset(key));
    }
  }

  /**
   * After a failure the counts matter too, but less than the failure; a thread that was interrupted
   * can't wait.
   */
  private void drainQuietly() {
    if (!spark.sparkContext().isStopped() && !Thread.currentThread().isInterrupted()) {
      try {
        drain();
      } catch (IllegalStateException busy) {
        System.err.println(busy.getMessage());
      }
    }
  }

  private void take(TrainingEvent event) {
    synchronized (events) {
      events.add(event);
    }
    listeners.forEach(listener -> listener.accept(event));
  }

  private int roundsAgain() {
    return events().stream()
        .filter(e -> e.kind() == TrainingEvent.Kind.CAUGHT_UP)
        .mapToInt(e -> (int) e.number("rounds_again"))
        .sum();
  }

  private long backMillis() {
    LongStream killed = moments(TrainingEvent.Kind.FAULT_FIRED);
    LongStream back = moments(TrainingEvent.Kind.CAUGHT_UP);
    return Math.max(-1, (back.max().orElse(0) - killed.min().orElse(Long.MAX_VALUE)) / 1_000_000);
  }

  private LongStream moments(TrainingEvent.Kind kind) {
    return events().stream()
        .filter(event -> event.kind() == kind)
        .mapToLong(TrainingEvent::atNanos);
  }

  /**
   * Spark calls its listeners on another thread; the counts are complete when its queue is empty.
   */
  private void drain() {
    try {
      spark.sparkContext().listenerBus().waitUntilEmpty(10_000);
    } catch (TimeoutException busy) {
      throw new IllegalStateException("Spark's listener bus is not empty after 10 s", busy);
    }
  }
}

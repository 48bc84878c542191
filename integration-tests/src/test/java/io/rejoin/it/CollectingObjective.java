package io.rejoin.it;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import ml.dmlc.xgboost4j.scala.DMatrix;
import ml.dmlc.xgboost4j.scala.ObjectiveTrait;
import org.apache.spark.TaskContext;

/**
 * Logistic loss; in one round the JVM of rank 1 does nothing but collect garbage, for so many
 * seconds and in pauses of several.
 */
final class CollectingObjective implements ObjectiveTrait {
  private static final long serialVersionUID = 1L;

  /** A pause that is longer than after what an executor counts as lost. */
  static final long PAUSE_MILLIS = 2_000;

  private static final int CALL = 4;
  private static final int STEP = 3_000_000;
  private static final int SOME = 1_000_000;
  private static final AtomicInteger CALLS = new AtomicInteger();

  private final LogisticObjective loss = new LogisticObjective(0, 0, 0);
  private final long seconds;

  CollectingObjective(long seconds) {
    this.seconds = seconds;
  }

  /** Something to follow that lies anywhere: each is reached by the one before. */
  private static final class Link {
    private final Link next;
    private final Link other;

    private Link(Link next, Link other) {
      this.next = next;
      this.other = other;
    }

    private boolean isLast() {
      return next == null && other == null;
    }
  }

  @Override
  public List<float[]> getGradient(float[][] predictions, ml.dmlc.xgboost4j.java.DMatrix rows) {
    if (seconds > 0 && TaskContext.getPartitionId() == 1 && CALLS.incrementAndGet() == CALL) {
      collect();
    }
    return loss.getGradient(predictions, rows);
  }

  @Override
  public scala.collection.immutable.List<float[]> getGradient(float[][] predictions, DMatrix rows) {
    throw new UnsupportedOperationException("the training loop asks in Java");
  }

  /** As many objects as make a collection take so long; then one collection after the other. */
  private void collect() {
    Link[] some = new Link[SOME];
    SplittableRandom random = new SplittableRandom(1);
    Link last = null;
    while (pause() < PAUSE_MILLIS) {
      for (int each = 0; each < STEP; each++) {
        last = new Link(last, some[random.nextInt(SOME)]);
        some[random.nextInt(SOME)] = last;
      }
    }
    long end = collected() + TimeUnit.SECONDS.toMillis(seconds);
    while (collected() < end) {
      pause();
    }
    if (last == null || last.isLast()) {
      throw new IllegalStateException("nothing was kept");
    }
  }

  /** One collection, and how long it took. */
  private static long pause() {
    long before = collected();
    System.gc();
    return collected() - before;
  }

  private static long collected() {
    return ManagementFactory.getGarbageCollectorMXBeans().stream()
        .mapToLong(GarbageCollectorMXBean::getCollectionTime)
        .sum();
  }
}

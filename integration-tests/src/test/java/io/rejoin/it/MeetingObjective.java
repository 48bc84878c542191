package io.rejoin.it;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import ml.dmlc.xgboost4j.scala.DMatrix;
import ml.dmlc.xgboost4j.scala.ObjectiveTrait;
import org.apache.spark.TaskContext;

/**
 * The logistic objective, in trainings on threads of one JVM that are to be at the same time: all
 * their ranks meet, in their first tries, in chosen rounds, and one rank waits at a gate in a later
 * one.
 */
final class MeetingObjective implements ObjectiveTrait {
  private static final long serialVersionUID = 1L;
  private static final long LIMIT_SECONDS = 100;
  private static final Map<String, CyclicBarrier> MEETINGS = new ConcurrentHashMap<>();
  private static final Map<String, CountDownLatch> GATES = new ConcurrentHashMap<>();
  private static final Map<String, Long> TASKS = new ConcurrentHashMap<>();

  private final LogisticObjective logistic = new LogisticObjective(0, 0, 0);
  private final String meeting;
  private final List<Integer> rounds;
  private final String gate;
  private final int rank;
  private final int round;
  private transient int calls;

  private MeetingObjective(String meeting, List<Integer> rounds, String gate, int rank, int round) {
    this.meeting = meeting;
    this.rounds = rounds;
    this.gate = gate;
    this.rank = rank;
    this.round = round;
  }

  /** Its ranks meet, in the meeting of this name, in these rounds. */
  static MeetingObjective meeting(String name, Integer... rounds) {
    return new MeetingObjective(name, List.of(rounds), "", 0, 0);
  }

  /** And this rank waits in this round for a gate of this name. */
  MeetingObjective waiting(String name, int rank, int round) {
    return new MeetingObjective(meeting, rounds, name, rank, round);
  }

  /** From now on there is a meeting of this name for so many. */
  static CyclicBarrier open(String name, int ranks) {
    CyclicBarrier barrier = new CyclicBarrier(ranks);
    MEETINGS.put(name, barrier);
    return barrier;
  }

  /** From now on there is a gate of this name, which is closed. */
  static CountDownLatch gate(String name) {
    CountDownLatch gate = new CountDownLatch(1);
    GATES.put(name, gate);
    return gate;
  }

  /** The first task of this rank in the training that has this gate. It has begun to train. */
  static long task(String gate, int rank) {
    return TASKS.get(gate + " " + rank);
  }

  @Override
  public List<float[]> getGradient(float[][] predictions, ml.dmlc.xgboost4j.java.DMatrix rows) {
    TaskContext task = TaskContext.get();
    int now = calls++;
    if (task.attemptNumber() == 0) {
      TASKS.put(gate + " " + task.partitionId(), task.taskAttemptId());
      try {
        if (rounds.contains(now)) {
          MEETINGS.get(meeting).await(LIMIT_SECONDS, TimeUnit.SECONDS);
        }
        if (!gate.isEmpty() && task.partitionId() == rank && now == round) {
          if (!GATES.get(gate).await(LIMIT_SECONDS, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the gate " + gate + " stays closed");
          }
        }
      } catch (Exception missed) {
        throw new IllegalStateException("not all trainings came to round " + now, missed);
      }
    }
    return logistic.getGradient(predictions, rows);
  }

  @Override
  public scala.collection.immutable.List<float[]> getGradient(float[][] predictions, DMatrix rows) {
    throw new UnsupportedOperationException("the training loop asks in Java");
  }
}

package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * One line of the table of faults that a training in Flink must survive.
 *
 * @param name a sentence
 * @param attempts the newest attempt of each subtask at the end: who restarted, and how often
 * @param gangs how many gangs there are: more than one where nobody is left who holds the model
 * @param isExact whether the model is that of the undisturbed training; where the clock decides
 *     which rows are in which batch, there is none
 * @param prepare adds the fault to a run, and what the test itself does meanwhile
 */
record FlinkFault(
    String name, List<Integer> attempts, int gangs, boolean isExact, Preparation prepare) {
  private static final int STRUCK = FlinkRun.HALF_WAY + 5;
  private static final String KILL_1 = "1:" + STRUCK + ":BEFORE:KILL";

  private FlinkFault(String name, List<Integer> attempts, Preparation prepare) {
    this(name, attempts, 1, true, prepare);
  }

  /** How a run is prepared. */
  interface Preparation {
    /** Prepares it. */
    void accept(FlinkRun run) throws Exception;
  }

  @Override
  public String toString() {
    return name;
  }

  /** The one that every version of Flink must pass. */
  static FlinkFault killed() {
    // Rank 0 is held at a later version: metrics end with their job.
    return new FlinkFault(
        "a TaskManager is killed before an allreduce, which metrics and event log tell",
        List.of(0, 1, 0),
        run ->
            run.withEventLog()
                .faults(KILL_1, "0:" + (STRUCK + 5) + ":BEFORE:HOLD")
                .later(() -> seeRecovery(run)));
  }

  /** The main ones. {@code random} is printed with its seed by the caller. */
  static List<FlinkFault> main(Random random) {
    int bytes = 1 + random.nextInt(3000);
    return List.of(
        new FlinkFault(
            // With checkpoints on, Flink 2.3 makes one at once, however long their interval is.
            "a TaskManager is killed when Flink has made no checkpoint",
            List.of(0, 1, 0),
            run -> run.withoutCheckpoints().faults("1:7:BEFORE:KILL").halfWay(run::awaitFired)),
        killed(),
        new FlinkFault(
            "a TaskManager is killed at a random byte of a version: " + bytes,
            List.of(0, 1, 0),
            run -> run.setting("rejoin.faults", "rank=1,version=" + STRUCK + ",at=bytes:" + bytes)),
        new FlinkFault(
            "a TaskManager is killed between the trainer's snapshot and its acknowledgement",
            List.of(0, 1, 0),
            run -> run.faults("1:3:SNAPSHOT:KILL").halfWay(run::awaitFired)),
        new FlinkFault(
            "a TaskManager is killed whose splits its source gives to another one, and"
                + " Rejoin.source doesn't",
            List.of(0, 1, 0),
            run ->
                // From a checkpoint its reader would have them.
                run.bySplit()
                    .withSplitsThatMove()
                    .withoutCheckpoints()
                    .faults("1:7:BEFORE:KILL")
                    .halfWay(run::awaitFired)),
        injected(
            "the TaskManager of rank 0 is killed",
            List.of(1, 0, 0),
            "0:" + STRUCK + ":BEFORE:KILL"),
        injected(
            "a TaskManager is killed, and the one that its rank comes back in, too",
            List.of(0, 2, 0),
            KILL_1,
            "1:" + (STRUCK + 1) + ":BEFORE:KILL"),
        injected(
            "two TaskManagers are killed at once",
            List.of(0, 1, 1),
            KILL_1,
            "2:" + STRUCK + ":BEFORE:KILL"),
        new FlinkFault(
            "a TaskManager that freezes and wakes when its rank was declared lost loses that alone",
            List.of(0, 1, 0),
            run ->
                run.faults("1:" + STRUCK + ":BEFORE:STOP")
                    .later(() -> wake(run, "rank 1 on TaskManager .* is lost"))));
  }

  /** All of them. */
  static List<FlinkFault> all(Random random) {
    List<FlinkFault> all = new ArrayList<>(main(random));
    all.addAll(ofTaskManagers());
    all.addAll(ofCheckpoints());
    return all;
  }

  private static List<FlinkFault> ofTaskManagers() {
    return List.of(
        injected(
            "a TaskManager is killed after an allreduce",
            List.of(0, 0, 1),
            "2:" + STRUCK + ":AFTER:KILL"),
        injected(
            "two TaskManagers are killed one after the other",
            List.of(0, 1, 1),
            KILL_1,
            "2:" + (STRUCK + 5) + ":AFTER:KILL"),
        new FlinkFault(
            "all TaskManagers are killed at once",
            List.of(1, 1, 1),
            2,
            true,
            run -> run.faults("0:25:BEFORE:KILL", KILL_1, "2:25:BEFORE:KILL")),
        injected(
            "a TaskManager is killed whose input has ended", List.of(0, 0, 1), "2:36:BEFORE:KILL"),
        injected(
            "the trainer throws; its TaskManager stays",
            List.of(0, 1, 0),
            "1:" + STRUCK + ":AFTER:THROW"),
        injected(
            "an operator behind the trainer throws",
            List.of(1, 0, 0),
            "0:" + STRUCK + ":DOWNSTREAM:THROW"),
        new FlinkFault(
            "a TaskManager that freezes and wakes before it is declared lost goes on as if nothing"
                + " had been",
            List.of(0, 0, 0),
            run ->
                run.setting("rejoin.lost.after", "60s")
                    .faults("1:" + STRUCK + ":BEFORE:STOP")
                    .later(() -> wake(run, ""))),
        new FlinkFault(
            "a TaskManager is killed while batches end by the clock",
            List.of(0, 1, 0),
            1,
            false,
            run ->
                run.setting("rejoin.batch.wait", "5ms")
                    .faults("1:15:AFTER:KILL")
                    .halfWay(run::awaitFired)));
  }

  private static List<FlinkFault> ofCheckpoints() {
    return List.of(
        new FlinkFault(
            "a TaskManager is killed that has a version more than its peers in Flink's checkpoint",
            List.of(0, 1, 0),
            run ->
                // Rows that wait for a held peer must not hold up a checkpoint.
                run.setting("rejoin.buffer.batches", "100")
                    .faults(
                        "0:" + STRUCK + ":AFTER:HOLD",
                        "2:" + STRUCK + ":AFTER:HOLD",
                        "1:" + (STRUCK + 1) + ":WRITTEN:TELL")
                    .later(() -> killAhead(run))),
        new FlinkFault(
            "a TaskManager is killed with unaligned checkpoints",
            List.of(0, 1, 0),
            run -> run.setting("execution.checkpointing.unaligned.enabled", "true").faults(KILL_1)),
        new FlinkFault(
            "a checkpoint of Flink's times out, and later ones are made",
            List.of(0, 0, 0),
            run ->
                run.setting("execution.checkpointing.timeout", "1 s")
                    .setting("execution.checkpointing.tolerable-failed-checkpoints", "100")
                    .faults("1:3:SNAPSHOT:HOLD")
                    .halfWay(() -> letExpire(run))));
  }

  private static FlinkFault injected(String name, List<Integer> attempts, String... faults) {
    return new FlinkFault(name, attempts, run -> run.faults(faults));
  }

  private static void wake(FlinkRun run, String logged) throws Exception {
    run.awaitFired();
    FlinkProcess frozen = run.processOf(1);
    Waiting.untilTrue(frozen + " is stopped", FlinkRun.LIMIT, frozen::isStopped);
    run.awaitCoordinator(logged);
    frozen.signal("CONT");
  }

  private static void seeRecovery(FlinkRun run) throws Exception {
    run.awaitFired();
    Waiting.untilTrue(
        "the JobManager's metrics have one recovery", FlinkRun.LIMIT, () -> isRecovered(run));
    long lost = run.job().coordinatorMetric(TrainingJob.TRAINER, "lostMillis");
    assertTrue(lost > 0, () -> "training was held up for " + lost + " ms");
    List<String> events = run.events();
    for (String event : List.of("\"RankLost\":{\"rank\":1,", "\"Restored\":{\"rank\":1,")) {
      assertEquals(1, events.stream().filter(one -> one.contains(event)).count(), event);
    }
    run.release();
  }

  private static boolean isRecovered(FlinkRun run) throws IOException {
    return run.job().coordinatorMetric(TrainingJob.TRAINER, "recoveries") == 1;
  }

  private static void killAhead(FlinkRun run) throws Exception {
    run.awaitFired();
    // One may have begun before; the other one begins after rank 1 has completed its version.
    run.awaitMoreCheckpoints(2);
    run.processOf(1).signal("KILL");
    run.awaitCoordinator("rank 1 is back on TaskManager");
    run.release();
  }

  private static void letExpire(FlinkRun run) throws Exception {
    run.awaitFired();
    run.awaitCoordinator("expired before completing");
    run.release();
    run.awaitMoreCheckpoints(2);
  }
}

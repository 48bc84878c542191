package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/**
 * {@link FixedSplitsSource} by {@code Rejoin.source}: more splits than readers, with ids that stay,
 * and owners by the source's own rule, as Kafka's source with static partitions has them. It gives
 * a dead reader's splits to another one, which Rejoin.source doesn't let happen.
 */
@DisplayName(
    "a source with owners by its own rule, by Rejoin.source: each row is in the model once")
class FlinkSourceIT {
  private static final long[] LENGTHS = {1500, 1400, 1300, 1200, 1100};

  private static FlinkRun run(String name) throws Exception {
    FlinkRun run = new FlinkRun(Clusters.shared(), name, LENGTHS).bySplit().withSplitsThatMove();
    // At the gate some ranks have twice as many rows as others. Those that wait for the others must
    // not hold up a checkpoint.
    return run.setting("rejoin.buffer.batches", "100");
  }

  @Test
  @DisplayName("TaskManagers are killed with one split and with two, also when the input has ended")
  void kills() throws Exception {
    // Which rows of two splits are in a batch together may be another thing after a death.
    FlinkRun killed =
        run("splits of the killed")
            .faults("1:25:BEFORE:KILL", "2:30:BEFORE:KILL", "0:40:AFTER:KILL");
    killed.train();
    assertEquals(List.of(1, 1, 1), killed.job().attempts(TrainingJob.TRAINER));
    assertEquals(1, killed.gangs(), "survivors go on in the gang that they were in");
  }

  @Test
  @DisplayName(
      "without end, in batches by the clock: a TaskManager is killed, the job is stopped with a"
          + " savepoint, and another one reads from it to the end")
  void without_end() throws Exception {
    String[] savepoint = {null};
    FlinkRun first = byTheClock("splits without end").withoutEnd().faults("1:10:BEFORE:KILL");
    first.whileItRuns(
        () -> {
          first.awaitCoordinator("rank 1 works with the others again");
          first.awaitMoreCheckpoints(1);
          assertEquals(List.of(0, 1, 0), first.job().attempts(TrainingJob.TRAINER));
          savepoint[0] = first.stopWithSavepoint();
        });
    FlinkRun second = byTheClock("splits to the end").from(savepoint[0]);
    second.train();
    second.awaitCoordinator("gang 1 begins with version [1-9]");
  }

  private static FlinkRun byTheClock(String name) throws Exception {
    return run(name).setting("rejoin.batch.wait", "5ms");
  }
}

package io.rejoin.it;

/**
 * Reports to a {@link DemoNarration} what Spark does: executors that come and go, tasks of the
 * training that start again.
 */
final class SparkFacts extends RunFacts {
  private final DemoNarration narration;

  SparkFacts(DemoNarration narration) {
    this.narration = narration;
  }

  @Override
  protected void taskStarted(
      int stage, int stageAttempt, int partition, int attempt, String executor) {
    if (stageAttempt > 0 || attempt > 0) {
      narration.rescheduled(partition, stageAttempt, attempt, executor);
    }
  }

  @Override
  protected void executorAdded(String executor, String host) {
    narration.executor(executor, true);
  }

  @Override
  protected void executorRemoved(String executor, String reason) {
    narration.executor(executor, false);
  }
}

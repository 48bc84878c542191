package io.rejoin.it;

/**
 * Tells a {@link Story} what Spark does: executors that come and go, tasks of the training that
 * start again.
 */
final class SparkStory extends RunFacts {
  private final Story story;

  SparkStory(Story story) {
    this.story = story;
  }

  @Override
  protected void taskStarted(
      int stage, int stageAttempt, int partition, int attempt, String executor) {
    if (stageAttempt > 0 || attempt > 0) {
      story.rescheduled(partition, stageAttempt, attempt, executor);
    }
  }

  @Override
  protected void executorAdded(String executor, String host) {
    story.executor(executor, true);
  }

  @Override
  protected void executorRemoved(String executor, String reason) {
    story.executor(executor, false);
  }
}

package io.rejoin.flink;

import org.apache.flink.configuration.Configuration;

/** Jobs whose cluster is the test's own process. */
final class LocalJob {
  private LocalJob() {}

  /**
   * Settings of a stream on which is trained.
   *
   * @param batchRows of a rank in a version
   * @param restarts how many failures Flink answers by a restart
   */
  static Configuration settings(int batchRows, int restarts) {
    Configuration settings = new Configuration();
    settings.setString("rejoin.batch.rows", Integer.toString(batchRows));
    settings.setString("rejoin.tracker.host", "127.0.0.1");
    settings.setString("restart-strategy.type", "fixed-delay");
    settings.setString("restart-strategy.fixed-delay.attempts", Integer.toString(restarts));
    settings.setString("restart-strategy.fixed-delay.delay", "10ms");
    settings.setString("execution.runtime-mode", "STREAMING");
    return settings;
  }
}

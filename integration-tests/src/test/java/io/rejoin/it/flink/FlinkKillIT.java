package io.rejoin.it.flink;

import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** For the versions of Flink beside the default one. */
@DisplayName("a kill is survived")
class FlinkKillIT {
  @Test
  @DisplayName("a TaskManager is killed before an allreduce")
  void a_killed_task_manager_costs_nothing() throws Exception {
    FlinkFaultsIT.check(FlinkFault.killed());
  }
}

package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.rejoin.Faults;
import java.util.List;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/** For the versions of Flink beside the default one. */
@DisplayName("a kill is survived")
class FlinkKillIT {
  @Test
  @DisplayName("a TaskManager is killed before an allreduce")
  void a_killed_task_manager_costs_nothing() throws Exception {
    FlinkFaultsIT.check(FlinkFault.killed());
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  @DisplayName("a TaskManager is killed while XGBoost trains")
  void xgboost() throws Exception {
    Faults faults = Faults.parse("rank=1,version=9,at=bytes:0");
    XgboostRun run = new XgboostRun("xgboost-killed").faults(faults);
    assertArrayEquals(XgboostRun.undisturbed(false), run.model());
    assertEquals(List.of(0, 1, 0), run.attempts());
  }
}

package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointType;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.junit.jupiter.api.Test;

class GangProviderTest {
  private static final SavepointFormatType FORMAT = SavepointFormatType.CANONICAL;

  @Test
  void only_a_savepoint_that_drains_the_job_cuts_its_inputs_short() {
    assertTrue(GangProvider.drains(SavepointType.terminate(FORMAT)));
    assertFalse(GangProvider.drains(SavepointType.suspend(FORMAT)));
    assertFalse(GangProvider.drains(SavepointType.savepoint(FORMAT)));
    assertFalse(GangProvider.drains(CheckpointType.CHECKPOINT));
  }
}

package io.rejoin.flink;

import io.rejoin.settings.SettingValues;
import java.lang.reflect.Method;
import org.apache.flink.runtime.checkpoint.CheckpointCoordinator;
import org.apache.flink.runtime.checkpoint.CheckpointProperties;
import org.apache.flink.runtime.checkpoint.PendingCheckpoint;
import org.apache.flink.runtime.checkpoint.SavepointType;
import org.apache.flink.runtime.checkpoint.SnapshotType;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Makes the {@link GangCoordinator} of a trainer, in the JobManager. */
final class GangProvider implements OperatorCoordinator.Provider {
  private static final long serialVersionUID = 1L;
  private static final Logger LOG = LoggerFactory.getLogger(GangProvider.class);

  private final String name;
  private final OperatorID id;
  private final SettingValues settings;
  private final boolean keepsResult;

  GangProvider(String name, OperatorID id, SettingValues settings, boolean keepsResult) {
    this.name = name;
    this.id = id;
    this.settings = settings;
    this.keepsResult = keepsResult;
  }

  @Override
  public OperatorID getOperatorId() {
    return id;
  }

  @Override
  public OperatorCoordinator create(OperatorCoordinator.Context context) {
    return new GangCoordinator(
        name, context, settings, keepsResult, checkpoint -> isDrain(context, checkpoint));
  }

  /** The properties of a checkpoint are for Flink's own package; all supported releases have it. */
  private static boolean isDrain(OperatorCoordinator.Context context, long checkpoint) {
    CheckpointCoordinator flinks = context.getCheckpointCoordinator();
    PendingCheckpoint pending =
        flinks == null ? null : flinks.getPendingCheckpoints().get(checkpoint);
    if (pending == null) {
      return false;
    }
    try {
      Method properties = PendingCheckpoint.class.getDeclaredMethod("getProps");
      properties.setAccessible(true);
      return drains(((CheckpointProperties) properties.invoke(pending)).getCheckpointType());
    } catch (ReflectiveOperationException | RuntimeException e) {
      LOG.warn("whether checkpoint {} drains the job isn't known in this Flink", checkpoint, e);
      return false;
    }
  }

  /** Not what only stops the job: then inputs aren't cut short. */
  static boolean drains(SnapshotType type) {
    return type instanceof SavepointType && ((SavepointType) type).shouldDrain();
  }
}

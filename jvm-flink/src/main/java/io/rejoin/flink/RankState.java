package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/** What one rank has in Flink's checkpoints: its newest state, and the rows that it keeps. */
final class RankState<T> {
  private static final int FORMAT = 1;

  private final int world;
  private final VersionState newest;
  private final List<SplitRows<T>> kept;

  private RankState(int world, VersionState newest, List<SplitRows<T>> kept) {
    this.world = world;
    this.newest = newest;
    this.kept = kept;
  }

  /** That of this moment. */
  static <T> RankState<T> of(int world, RowBuffer<T> rows) {
    synchronized (rows) {
      return new RankState<>(world, rows.newest(), rows.kept());
    }
  }

  /** The state; null where the rank had none yet. */
  VersionState newest() {
    return newest;
  }

  List<SplitRows<T>> kept() {
    return kept;
  }

  /**
   * Rows are numbered by subtask, and another number of subtasks would get others.
   *
   * @throws RejoinException BAD_ARGUMENT with both numbers
   */
  void refuseOtherWorld(int now, String operator) {
    if (world != now) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "the state of "
              + operator
              + " was written by "
              + world
              + " subtasks, and is to be restored by "
              + now
              + ". Its source has no splits with stable ids, so Rejoin can't tell which rows each"
              + " subtask will get; restore it with parallelism "
              + world);
    }
  }

  byte[] bytes(TypeSerializer<T> serializer) throws IOException {
    DataOutputSerializer out = new DataOutputSerializer(1024);
    out.writeInt(FORMAT);
    out.writeInt(world);
    byte[] state = newest == null ? new byte[0] : newest.bytes();
    out.writeInt(state.length);
    out.write(state);
    TypeSerializerSnapshot.writeVersionedSnapshot(out, serializer.snapshotConfiguration());
    out.writeInt(kept.size());
    for (SplitRows<T> split : kept) {
      split.write(serializer, out);
    }
    return out.getCopyOfBuffer();
  }

  /** Rows of an older serializer are read by that one. */
  static <T> RankState<T> read(byte[] bytes, TypeSerializer<T> serializer, ClassLoader loader)
      throws IOException {
    DataInputDeserializer in = new DataInputDeserializer(bytes);
    int format = in.readInt();
    if (format != FORMAT) {
      throw new RejoinException(
          RejoinException.Code.INCOMPATIBLE,
          "a rank's state is of format " + format + "; this release of Rejoin reads " + FORMAT);
    }
    int world = in.readInt();
    byte[] state = new byte[in.readInt()];
    in.readFully(state);
    TypeSerializerSnapshot<T> written = TypeSerializerSnapshot.readVersionedSnapshot(in, loader);
    TypeSerializer<T> reader = written.restoreSerializer();
    List<SplitRows<T>> kept = new ArrayList<>();
    for (int left = in.readInt(); left > 0; left--) {
      kept.add(SplitRows.read(reader, in));
    }
    VersionState newest = state.length == 0 ? null : VersionState.of(state);
    return new RankState<>(world, newest, kept);
  }
}

package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** What one rank has in Flink's checkpoints: its newest state, and the rows that it keeps. */
final class RankState<T> {
  private static final int FORMAT = 2;

  private final int world;
  private final boolean bySplit;
  private final VersionState newest;
  private final List<SplitRows<T>> kept;

  private RankState(int world, boolean bySplit, VersionState newest, List<SplitRows<T>> kept) {
    this.world = world;
    this.bySplit = bySplit;
    this.newest = newest;
    this.kept = kept;
  }

  /**
   * That of this moment.
   *
   * @param bySplit whether rows have the numbers of their splits
   */
  static <T> RankState<T> of(int world, boolean bySplit, RowBuffer<T> rows) {
    synchronized (rows) {
      return new RankState<>(world, bySplit, rows.newest(), rows.kept());
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
   * Refuses numbers of rows that now stand for others: numbers of a subtask where there are numbers
   * of splits or another number of subtasks.
   *
   * @throws RejoinException BAD_ARGUMENT with what was, what is, and what to do
   */
  void refuseOther(int worldNow, boolean bySplitNow, String operator) {
    String state = "the state of \"" + operator + "\" was written ";
    if (bySplit != bySplitNow) {
      throw refused(
          state
              + (bySplit ? "with" : "without")
              + " numbers of splits, and is to be restored "
              + (bySplit ? "without" : "with")
              + " them, so Rejoin can't tell which rows are in the model. Restore it with the"
              + " source that it had ("
              + (bySplit ? "Rejoin.source" : "a DataStream")
              + "), or begin without this operator's state");
    }
    if (!bySplit && world != worldNow) {
      throw refused(
          state
              + "by "
              + world
              + " subtasks, and is to be restored by "
              + worldNow
              + ". Its rows have no numbers of their splits, so Rejoin can't tell which rows each"
              + " subtask will get; restore it with parallelism "
              + world
              + ". A source by Rejoin.source can be restored at any (docs/flink.md, Sources)");
    }
  }

  private static RejoinException refused(String why) {
    return new RejoinException(RejoinException.Code.BAD_ARGUMENT, why);
  }

  /**
   * Writes it.
   *
   * @param hash by which rows were marked as they came
   * @throws RejoinException MISMATCH when one was changed since
   */
  void write(TypeSerializer<T> serializer, ContentHash<T> hash, DataOutputView out)
      throws IOException {
    out.writeInt(FORMAT);
    out.writeInt(world);
    out.writeBoolean(bySplit);
    byte[] state = newest == null ? new byte[0] : newest.bytes();
    out.writeInt(state.length);
    out.write(state);
    TypeSerializerSnapshot.writeVersionedSnapshot(out, serializer.snapshotConfiguration());
    out.writeInt(kept.size());
    for (SplitRows<T> split : kept) {
      split.write(serializer, hash, out);
    }
  }

  /** Rows of an older serializer are read by that one. */
  static <T> RankState<T> read(DataInputView in, TypeSerializer<T> serializer, ClassLoader loader)
      throws IOException {
    Formats.check("a rank", in.readInt(), FORMAT);
    int world = in.readInt();
    boolean bySplit = in.readBoolean();
    byte[] state = new byte[in.readInt()];
    in.readFully(state);
    TypeSerializerSnapshot<T> written = TypeSerializerSnapshot.readVersionedSnapshot(in, loader);
    TypeSerializer<T> reader = written.restoreSerializer();
    List<SplitRows<T>> kept = new ArrayList<>();
    for (int left = in.readInt(); left > 0; left--) {
      kept.add(SplitRows.read(reader, in));
    }
    VersionState newest = state.length == 0 ? null : VersionState.of(state);
    return new RankState<>(world, bySplit, newest, kept);
  }
}

package io.rejoin.flink;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Rows of one {@link MatrixRows} as they are in Flink's checkpoints. Never changed. */
final class RowBlock {
  private static final int FORMAT = 1;

  /** How many ranks there were. */
  final int world;

  /** Whether they are for evaluation, not for training. */
  final boolean evaluation;

  /** How many keys each row has. */
  final int keys;

  /** How many features each row has. */
  final int features;

  /** Row after row. */
  final byte[] bytes;

  RowBlock(int world, boolean evaluation, int keys, int features, byte[] bytes) {
    this.world = world;
    this.evaluation = evaluation;
    this.keys = keys;
    this.features = features;
    this.bytes = bytes;
  }

  void write(DataOutputView out) throws IOException {
    out.writeInt(FORMAT);
    out.writeInt(world);
    out.writeBoolean(evaluation);
    out.writeInt(keys);
    out.writeInt(features);
    out.writeInt(bytes.length);
    out.write(bytes);
  }

  /**
   * Reads what {@link #write} has written.
   *
   * @throws io.rejoin.RejoinException INCOMPATIBLE when another release has
   */
  static RowBlock read(DataInputView in) throws IOException {
    Formats.check("a rank", in.readInt(), FORMAT);
    int world = in.readInt();
    boolean evaluation = in.readBoolean();
    int keys = in.readInt();
    int features = in.readInt();
    byte[] bytes = new byte[in.readInt()];
    in.readFully(bytes);
    return new RowBlock(world, evaluation, keys, features, bytes);
  }
}

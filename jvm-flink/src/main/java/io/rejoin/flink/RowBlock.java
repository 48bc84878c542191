package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.IOException;
import org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Rows of one {@link MatrixRows} as they are in Flink's checkpoints. Never changed. */
final class RowBlock {
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

  /** Writes and reads them; a copy is the block itself, so that a snapshot needs no memory. */
  static final class Serializer extends TypeSerializerSingleton<RowBlock> {
    static final Serializer INSTANCE = new Serializer();
    private static final long serialVersionUID = 1L;
    private static final int FORMAT = 1;

    @Override
    public boolean isImmutableType() {
      return true;
    }

    @Override
    public RowBlock createInstance() {
      return new RowBlock(0, false, 0, 0, new byte[0]);
    }

    @Override
    public RowBlock copy(RowBlock from) {
      return from;
    }

    @Override
    public RowBlock copy(RowBlock from, RowBlock reuse) {
      return from;
    }

    @Override
    public int getLength() {
      return -1;
    }

    @Override
    public void serialize(RowBlock block, DataOutputView out) throws IOException {
      out.writeInt(FORMAT);
      out.writeInt(block.world);
      out.writeBoolean(block.evaluation);
      out.writeInt(block.keys);
      out.writeInt(block.features);
      out.writeInt(block.bytes.length);
      out.write(block.bytes);
    }

    @Override
    public RowBlock deserialize(DataInputView in) throws IOException {
      int format = in.readInt();
      if (format != FORMAT) {
        throw new RejoinException(
            RejoinException.Code.INCOMPATIBLE,
            "a rank's rows are of format " + format + "; this release of Rejoin reads " + FORMAT);
      }
      int world = in.readInt();
      boolean evaluation = in.readBoolean();
      int keys = in.readInt();
      int features = in.readInt();
      byte[] bytes = new byte[in.readInt()];
      in.readFully(bytes);
      return new RowBlock(world, evaluation, keys, features, bytes);
    }

    @Override
    public RowBlock deserialize(RowBlock reuse, DataInputView in) throws IOException {
      return deserialize(in);
    }

    @Override
    public void copy(DataInputView in, DataOutputView out) throws IOException {
      serialize(deserialize(in), out);
    }

    @Override
    public TypeSerializerSnapshot<RowBlock> snapshotConfiguration() {
      return new Snapshot();
    }
  }

  /** What Flink's checkpoints say about the serializer; public for them. */
  public static final class Snapshot extends SimpleTypeSerializerSnapshot<RowBlock> {
    /** For Flink, which makes it by its name. */
    public Snapshot() {
      super(() -> Serializer.INSTANCE);
    }
  }
}

package io.rejoin.flink;

import java.io.IOException;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/** A split of a source, and how many of its rows have been read. Immutable. */
final class NumberedSplit<S extends SourceSplit> implements SourceSplit {
  final S split;

  /** How many rows it has given: the number of the next one. */
  final long rows;

  /** Whether readers ask for such splits, and so get one at a time; else they get all at once. */
  final boolean isAskedFor;

  NumberedSplit(S split, long rows, boolean isAskedFor) {
    this.split = split;
    this.rows = rows;
    this.isAskedFor = isAskedFor;
  }

  @Override
  public String splitId() {
    return split.splitId();
  }

  @Override
  public String toString() {
    return split + " from row " + rows + " on";
  }

  /** Writes the source's own bytes, with the version of their format, beside the count. */
  static final class Serializer<S extends SourceSplit>
      implements SimpleVersionedSerializer<NumberedSplit<S>> {
    private static final int VERSION = 1;

    private final SimpleVersionedSerializer<S> splits;

    Serializer(SimpleVersionedSerializer<S> splits) {
      this.splits = splits;
    }

    @Override
    public int getVersion() {
      return VERSION;
    }

    @Override
    public byte[] serialize(NumberedSplit<S> split) throws IOException {
      byte[] bytes = splits.serialize(split.split);
      DataOutputSerializer out = new DataOutputSerializer(bytes.length + 32);
      out.writeLong(split.rows);
      out.writeBoolean(split.isAskedFor);
      out.writeInt(splits.getVersion());
      out.writeInt(bytes.length);
      out.write(bytes);
      return out.getCopyOfBuffer();
    }

    @Override
    public NumberedSplit<S> deserialize(int version, byte[] serialized) throws IOException {
      Formats.check("a split", version, VERSION);
      DataInputDeserializer in = new DataInputDeserializer(serialized);
      long rows = in.readLong();
      boolean isAskedFor = in.readBoolean();
      int format = in.readInt();
      byte[] bytes = new byte[in.readInt()];
      in.readFully(bytes);
      return new NumberedSplit<>(splits.deserialize(format, bytes), rows, isAskedFor);
    }
  }
}

package io.rejoin.it.flink;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * A split with a fixed owner, as those of a {@link FixedSplitsSource}, and how far it has been
 * read.
 *
 * @param index its number, from 0
 * @param next the number of the row that comes next
 * @param end how many rows it has
 */
public record FixedSplit(int index, long next, long end) implements SourceSplit {
  @Override
  public String splitId() {
    return "split-" + index;
  }

  /** The same after one more row. */
  FixedSplit advanced() {
    return new FixedSplit(index, next + 1, end);
  }

  /** Of one split. */
  public static final class One implements SimpleVersionedSerializer<FixedSplit> {
    private final Several several = new Several();

    @Override
    public int getVersion() {
      return several.getVersion();
    }

    @Override
    public byte[] serialize(FixedSplit split) throws IOException {
      return several.serialize(List.of(split));
    }

    @Override
    public FixedSplit deserialize(int version, byte[] bytes) throws IOException {
      return several.deserialize(version, bytes).get(0);
    }
  }

  /** Of a list of them. */
  public static final class Several implements SimpleVersionedSerializer<List<FixedSplit>> {
    @Override
    public int getVersion() {
      return 1;
    }

    @Override
    public byte[] serialize(List<FixedSplit> splits) throws IOException {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      DataOutputStream out = new DataOutputStream(bytes);
      out.writeInt(splits.size());
      for (FixedSplit split : splits) {
        out.writeInt(split.index);
        out.writeLong(split.next);
        out.writeLong(split.end);
      }
      return bytes.toByteArray();
    }

    @Override
    public List<FixedSplit> deserialize(int version, byte[] bytes) throws IOException {
      DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
      List<FixedSplit> splits = new ArrayList<>();
      for (int count = in.readInt(); count > 0; count--) {
        splits.add(new FixedSplit(in.readInt(), in.readLong(), in.readLong()));
      }
      return splits;
    }
  }
}

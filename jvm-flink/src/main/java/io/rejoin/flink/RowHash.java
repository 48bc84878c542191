package io.rejoin.flink;

import java.io.IOException;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/** The hash of a row's content: the row's own, or that of the bytes that it is serialized to. */
final class RowHash<T> implements ContentHash<T> {
  private final TypeSerializer<T> serializer;
  private final DataOutputSerializer scratch = new DataOutputSerializer(256);
  private final CRC32C one = new CRC32C();
  private final CRC32 other = new CRC32();

  RowHash(TypeSerializer<T> serializer) {
    this.serializer = serializer;
  }

  @Override
  public long of(T row) throws IOException {
    if (row instanceof HashedRow) {
      return ((HashedRow) row).contentHash();
    }
    scratch.clear();
    serializer.serialize(row, scratch);
    one.reset();
    one.update(scratch.getSharedBuffer(), 0, scratch.length());
    other.reset();
    other.update(scratch.getSharedBuffer(), 0, scratch.length());
    return one.getValue() << 32 | other.getValue();
  }
}

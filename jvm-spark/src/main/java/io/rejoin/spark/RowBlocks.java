package io.rejoin.spark;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/**
 * Rows as blocks of bytes of about a megabyte: what is stored, replicated and fingerprinted. A
 * block is a sequence of rows, each its length (8 bytes, so that rows stay aligned) and the bytes
 * of Spark's own row format.
 */
final class RowBlocks {
  private static final int BLOCK_BYTES = 1 << 20;
  private static final int LENGTH_BYTES = Long.BYTES;

  private RowBlocks() {}

  /** Number of rows in a block. */
  static int count(byte[] block) {
    int rows = 0;
    for (int at = 0; at < block.length; rows++) {
      at += LENGTH_BYTES + (int) Platform.getLong(block, Platform.BYTE_ARRAY_OFFSET + at);
    }
    return rows;
  }

  /** How many fields a row has, and which of them is a vector. */
  static final class Shape implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final int VECTOR_FIELDS = 4;
    private static final int SPARSE = 0;

    private final int fields;
    private final int vector;

    /** {@code vector} is negative if there is none. */
    Shape(int fields, int vector) {
      this.fields = fields;
      this.vector = vector;
    }

    /**
     * Whether any row of the block has a sparse vector: its first field is a type, 0 for sparse and
     * 1 for dense.
     */
    boolean anySparse(byte[] block) {
      if (vector < 0) {
        return false;
      }
      Iterator<InternalRow> rows =
          new Unpacked(Collections.singletonList(block).iterator(), fields);
      while (rows.hasNext()) {
        InternalRow row = rows.next();
        if (!row.isNullAt(vector) && row.getStruct(vector, VECTOR_FIELDS).getByte(0) == SPARSE) {
          return true;
        }
      }
      return false;
    }
  }

  /** The rows of a partition as blocks; the block that is given last may be a short one. */
  static Iterator<byte[]> pack(Iterator<InternalRow> rows, StructType schema) {
    // Spark runs this just before it stores and copies what comes out.
    ReplicationPeers.refresh();
    return new Packed(rows, schema);
  }

  /**
   * Unpacks what {@link #pack} packed. The rows are views on the blocks, and one object that moves.
   */
  static Iterator<InternalRow> unpack(Iterator<byte[]> blocks, int fields) {
    return new Unpacked(blocks, fields);
  }

  private static final class Packed implements Iterator<byte[]> {
    private final Iterator<InternalRow> rows;
    private final StructType schema;
    private UnsafeProjection projection;
    private ByteBuffer buffer = newBuffer(BLOCK_BYTES);

    Packed(Iterator<InternalRow> rows, StructType schema) {
      this.rows = rows;
      this.schema = schema;
    }

    @Override
    public boolean hasNext() {
      return rows.hasNext();
    }

    @Override
    public byte[] next() {
      buffer.clear();
      do {
        put(unsafe(rows.next()));
      } while (buffer.position() < BLOCK_BYTES && rows.hasNext());
      return Arrays.copyOf(buffer.array(), buffer.position());
    }

    private void put(UnsafeRow row) {
      int length = row.getSizeInBytes();
      if (buffer.remaining() < LENGTH_BYTES + length) {
        ByteBuffer larger =
            newBuffer(Math.max(2 * buffer.capacity(), buffer.position() + LENGTH_BYTES + length));
        buffer.flip();
        larger.put(buffer);
        buffer = larger;
      }
      buffer.putLong(length);
      row.writeToMemory(buffer.array(), Platform.BYTE_ARRAY_OFFSET + buffer.position());
      buffer.position(buffer.position() + length);
    }

    /** Almost always the row is in this format already. */
    private UnsafeRow unsafe(InternalRow row) {
      if (row instanceof UnsafeRow) {
        return (UnsafeRow) row;
      }
      if (projection == null) {
        projection = UnsafeProjection.create(schema);
      }
      return projection.apply(row);
    }

    private static ByteBuffer newBuffer(int bytes) {
      return ByteBuffer.allocate(bytes).order(ByteOrder.nativeOrder());
    }
  }

  private static final class Unpacked implements Iterator<InternalRow> {
    private final Iterator<byte[]> blocks;
    private final UnsafeRow row;
    private byte[] block = new byte[0];
    private int at;

    Unpacked(Iterator<byte[]> blocks, int fields) {
      this.blocks = blocks;
      this.row = new UnsafeRow(fields);
    }

    @Override
    public boolean hasNext() {
      return at < block.length || blocks.hasNext();
    }

    @Override
    public InternalRow next() {
      if (at >= block.length) {
        if (!blocks.hasNext()) {
          throw new NoSuchElementException("the partition has no further row");
        }
        block = blocks.next();
        at = 0;
      }
      int length = (int) Platform.getLong(block, Platform.BYTE_ARRAY_OFFSET + at);
      row.pointTo(block, Platform.BYTE_ARRAY_OFFSET + at + LENGTH_BYTES, length);
      at += LENGTH_BYTES + length;
      return row;
    }
  }
}

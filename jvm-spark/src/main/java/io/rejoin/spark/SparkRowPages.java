package io.rejoin.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/**
 * Rows as pages of Spark's own row format, compressed, each made of about a megabyte: for trainings
 * that take any rows. Before compression the content is a sequence of rows, each its length (8
 * bytes, so that rows stay aligned) and its bytes.
 */
final class SparkRowPages implements PageFormat {
  private static final long serialVersionUID = 1L;
  private static final int BLOCK_BYTES = 1 << 20;
  private static final int LENGTH_BYTES = Long.BYTES;

  private final StructType schema;

  SparkRowPages(StructType schema) {
    this.schema = schema;
  }

  @Override
  public Iterator<byte[]> pages(Iterator<InternalRow> rows) {
    return new Packed(rows, schema);
  }

  /** The rows of pages: one object that moves, on bytes that are there until the next row. */
  static Iterator<InternalRow> rows(Iterator<byte[]> pages, int fields) {
    return new Unpacked(pages, fields);
  }

  private static final class Packed implements Iterator<byte[]> {
    private final Iterator<InternalRow> rows;
    private final StructType schema;
    private final BlockCompression compression = BlockCompression.ofApplication();
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
      int count = 0;
      do {
        put(unsafe(rows.next()));
        count++;
      } while (buffer.position() < BLOCK_BYTES && rows.hasNext());
      int length = buffer.position();
      ByteBuffer content = compression.compress(buffer.array(), 0, length);
      return Page.begin(Page.Kind.SPARK_ROWS, 0, count, schema.size(), length, content.remaining())
          .put(content)
          .array();
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
    private final Iterator<byte[]> pages;
    private final BlockCompression compression = BlockCompression.ofApplication();
    private final UnsafeRow row;
    private ByteBuffer block = ByteBuffer.allocate(0);
    private int at;

    Unpacked(Iterator<byte[]> pages, int fields) {
      this.pages = pages;
      this.row = new UnsafeRow(fields);
    }

    @Override
    public boolean hasNext() {
      return at < block.limit() || pages.hasNext();
    }

    @Override
    public InternalRow next() {
      if (at >= block.limit()) {
        if (!pages.hasNext()) {
          throw new NoSuchElementException("the partition has no further row");
        }
        block = compression.decompress(Page.of(pages.next()).content());
        at = 0;
      }
      byte[] bytes = block.array();
      int length = (int) Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET + at);
      row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + at + LENGTH_BYTES, length);
      at += LENGTH_BYTES + length;
      return row;
    }
  }
}

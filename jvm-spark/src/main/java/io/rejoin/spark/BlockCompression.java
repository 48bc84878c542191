package io.rejoin.spark;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import org.apache.spark.SparkEnv;
import org.apache.spark.io.CompressionCodec;
import org.apache.spark.io.CompressionCodec$;

/**
 * Compresses blocks of Spark's rows as Spark compresses its shuffle files ({@code
 * spark.io.compression.codec}); what it stores and replicates itself it leaves uncompressed unless
 * {@code spark.rdd.compress} is set when the executors start. A compressed block is the length of
 * its content (4 bytes) and what the codec makes of it.
 *
 * <p>Its buffers are used again for each block: a new one each time is garbage of a megabyte that
 * the collector doesn't keep with the short-lived. For one thread.
 */
final class BlockCompression {
  private final CompressionCodec codec;
  private final Buffer compressed = new Buffer();
  private byte[] block = new byte[0];

  BlockCompression(CompressionCodec codec) {
    this.codec = codec;
  }

  /** As the application compresses. */
  static BlockCompression ofApplication() {
    return new BlockCompression(CompressionCodec$.MODULE$.createCodec(SparkEnv.get().conf()));
  }

  /** Compresses so many bytes. What it returns is there until the next call. */
  ByteBuffer compress(byte[] plain, int from, int length) {
    compressed.reset();
    try (DataOutputStream out = new DataOutputStream(compressed)) {
      out.writeInt(length);
      try (DataOutputStream packed =
          new DataOutputStream(codec.compressedOutputStream(compressed))) {
        packed.write(plain, from, length);
      }
    } catch (IOException e) {
      throw new UncheckedIOException("writing to memory can't fail", e);
    }
    return compressed.view();
  }

  /**
   * What was compressed, in an array from its beginning on. It is there until the next call.
   *
   * @throws UncheckedIOException for bytes that were damaged
   */
  ByteBuffer decompress(ByteBuffer stored) {
    try (DataInputStream plain =
        new DataInputStream(
            new ByteArrayInputStream(stored.array(), stored.position(), stored.remaining()))) {
      int length = plain.readInt();
      if (length > block.length) {
        block = new byte[length];
      }
      try (DataInputStream in = new DataInputStream(codec.compressedInputStream(plain))) {
        in.readFully(block, 0, length);
      }
      return ByteBuffer.wrap(block, 0, length);
    } catch (IOException e) {
      throw new UncheckedIOException("a stored block of rows can't be decompressed", e);
    }
  }

  /** Whose bytes can be read where they are. */
  private static final class Buffer extends ByteArrayOutputStream {
    ByteBuffer view() {
      return ByteBuffer.wrap(buf, 0, count);
    }
  }
}

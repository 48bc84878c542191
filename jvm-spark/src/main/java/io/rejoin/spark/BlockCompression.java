package io.rejoin.spark;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Iterator;
import java.util.function.UnaryOperator;
import org.apache.spark.SparkEnv;
import org.apache.spark.io.CompressionCodec;
import org.apache.spark.io.CompressionCodec$;

/**
 * Compresses stored blocks of rows as Spark compresses its shuffle files ({@code
 * spark.io.compression.codec}); what it stores and replicates itself it leaves uncompressed unless
 * {@code spark.rdd.compress} is set when the executors start. A compressed block is the length of
 * its content (4 bytes) and what the codec makes of it.
 */
final class BlockCompression {
  private BlockCompression() {}

  private static CompressionCodec codec() {
    return CompressionCodec$.MODULE$.createCodec(SparkEnv.get().conf());
  }

  /** Compresses the blocks of a partition, one after the other. */
  static Iterator<byte[]> compress(Iterator<byte[]> blocks) {
    CompressionCodec codec = codec();
    return each(blocks, block -> compress(codec, block));
  }

  /** The reverse of {@link #compress(Iterator)}. */
  static Iterator<byte[]> decompress(Iterator<byte[]> blocks) {
    CompressionCodec codec = codec();
    return each(blocks, block -> decompress(codec, block));
  }

  private static Iterator<byte[]> each(Iterator<byte[]> blocks, UnaryOperator<byte[]> change) {
    return new Iterator<byte[]>() {
      @Override
      public boolean hasNext() {
        return blocks.hasNext();
      }

      @Override
      public byte[] next() {
        return change.apply(blocks.next());
      }
    };
  }

  static byte[] compress(CompressionCodec codec, byte[] block) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(block.length / 2 + 64);
    try (DataOutputStream plain = new DataOutputStream(bytes)) {
      plain.writeInt(block.length);
      try (DataOutputStream out = new DataOutputStream(codec.compressedOutputStream(bytes))) {
        out.write(block);
      }
    } catch (IOException e) {
      throw new UncheckedIOException("writing to memory can't fail", e);
    }
    return bytes.toByteArray();
  }

  /** An error, and no rows, for bytes that were damaged. */
  static byte[] decompress(CompressionCodec codec, byte[] compressed) {
    try (DataInputStream plain = new DataInputStream(new ByteArrayInputStream(compressed))) {
      byte[] block = new byte[plain.readInt()];
      try (DataInputStream in = new DataInputStream(codec.compressedInputStream(plain))) {
        in.readFully(block);
      }
      return block;
    } catch (IOException e) {
      throw new UncheckedIOException("a stored block of rows can't be decompressed", e);
    }
  }
}

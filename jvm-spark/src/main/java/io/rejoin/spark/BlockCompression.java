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
 */
final class BlockCompression {
  private BlockCompression() {}

  /** The application's. */
  static CompressionCodec codec() {
    return CompressionCodec$.MODULE$.createCodec(SparkEnv.get().conf());
  }

  /** Compresses the first so many bytes. */
  static byte[] compress(CompressionCodec codec, byte[] block, int length) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(length / 2 + 64);
    try (DataOutputStream plain = new DataOutputStream(bytes)) {
      plain.writeInt(length);
      try (DataOutputStream out = new DataOutputStream(codec.compressedOutputStream(bytes))) {
        out.write(block, 0, length);
      }
    } catch (IOException e) {
      throw new UncheckedIOException("writing to memory can't fail", e);
    }
    return bytes.toByteArray();
  }

  /** An error, and no rows, for bytes that were damaged. */
  static byte[] decompress(CompressionCodec codec, ByteBuffer compressed) {
    try (DataInputStream plain =
        new DataInputStream(
            new ByteArrayInputStream(
                compressed.array(), compressed.position(), compressed.remaining()))) {
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

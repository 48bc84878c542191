package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;
import org.apache.spark.SparkConf;
import org.apache.spark.io.CompressionCodec$;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class BlockCompressionTest {
  private static BlockCompression by(String name) {
    return new BlockCompression(
        CompressionCodec$.MODULE$.createCodec(
            new SparkConf(false).set("spark.io.compression.codec", name)));
  }

  private static byte[] bytes(ByteBuffer view) {
    byte[] bytes = new byte[view.remaining()];
    view.get(bytes);
    return bytes;
  }

  @ParameterizedTest
  @ValueSource(strings = {"lz4", "zstd", "snappy"})
  void what_comes_back_is_what_was_stored(String name) {
    byte[] random = new byte[100_000];
    new Random(1).nextBytes(random);
    BlockCompression compression = by(name);
    // Shorter ones after longer ones, too: buffers are used again.
    for (byte[] block : new byte[][] {new byte[0], {7}, random, new byte[1 << 20], {8, 9}}) {
      byte[] stored = bytes(compression.compress(block, 0, block.length));
      assertArrayEquals(block, bytes(compression.decompress(ByteBuffer.wrap(stored))));
    }
    byte[] middle = bytes(compression.compress(random, 10, 20));
    byte[] expected = Arrays.copyOfRange(random, 10, 30);
    assertArrayEquals(expected, bytes(compression.decompress(ByteBuffer.wrap(middle))));
  }

  @ParameterizedTest
  @ValueSource(strings = {"lz4", "zstd", "snappy"})
  void rows_that_repeat_themselves_become_smaller(String name) {
    assertTrue(by(name).compress(new byte[1 << 20], 0, 1 << 20).remaining() < 100_000);
  }

  @ParameterizedTest
  @ValueSource(strings = {"lz4", "zstd", "snappy"})
  void a_block_that_was_cut_off_is_an_error_and_no_rows(String name) {
    byte[] block = new byte[100_000];
    new Random(1).nextBytes(block);
    BlockCompression compression = by(name);
    byte[] stored = bytes(compression.compress(block, 0, block.length));
    ByteBuffer half = ByteBuffer.wrap(Arrays.copyOf(stored, stored.length / 2));
    assertThrows(UncheckedIOException.class, () -> compression.decompress(half));
  }
}

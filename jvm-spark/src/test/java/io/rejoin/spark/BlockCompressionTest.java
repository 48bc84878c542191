package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;
import org.apache.spark.SparkConf;
import org.apache.spark.io.CompressionCodec;
import org.apache.spark.io.CompressionCodec$;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class BlockCompressionTest {
  private static CompressionCodec codec(String name) {
    return CompressionCodec$.MODULE$.createCodec(
        new SparkConf(false).set("spark.io.compression.codec", name));
  }

  @ParameterizedTest
  @ValueSource(strings = {"lz4", "zstd", "snappy"})
  void what_comes_back_is_what_was_stored(String name) {
    byte[] random = new byte[100_000];
    new Random(1).nextBytes(random);
    for (byte[] block : new byte[][] {new byte[0], {7}, random, new byte[1 << 20]}) {
      byte[] stored = BlockCompression.compress(codec(name), block, block.length);
      assertArrayEquals(block, BlockCompression.decompress(codec(name), ByteBuffer.wrap(stored)));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"lz4", "zstd", "snappy"})
  void rows_that_repeat_themselves_become_smaller(String name) {
    assertTrue(BlockCompression.compress(codec(name), new byte[1 << 20], 1 << 20).length < 100_000);
  }

  @ParameterizedTest
  @ValueSource(strings = {"lz4", "zstd", "snappy"})
  void a_block_that_was_cut_off_is_an_error_and_no_rows(String name) {
    byte[] block = new byte[100_000];
    new Random(1).nextBytes(block);
    byte[] stored = BlockCompression.compress(codec(name), block, block.length);
    assertThrows(
        UncheckedIOException.class,
        () ->
            BlockCompression.decompress(
                codec(name), ByteBuffer.wrap(Arrays.copyOf(stored, stored.length / 2))));
  }
}

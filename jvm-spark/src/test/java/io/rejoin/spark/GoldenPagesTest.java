package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.ml.linalg.VectorUDT;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.junit.jupiter.api.Test;

/**
 * The files of native/pages/tests/golden are what is written here, byte by byte; the tests in Rust,
 * C and Python read them. With REJOIN_GOLDEN=write in the environment they are written anew.
 */
class GoldenPagesTest {
  private static final Path FOLDER = Path.of("..", "native", "pages", "tests", "golden");
  private static final VectorUDT UDT = new VectorUDT();
  private static final FeatureDescription FEATURES =
      new FeatureDescription(
          new String[] {"age", "gr\u00f6\u00dfe", "color", "d", "e", "f"},
          new String[] {"int", "q", "c", "q", "q", "q"},
          0);

  private static InternalRow row(
      float label, float weight, float margin, int group, Vector features) {
    return new GenericInternalRow(
        new Object[] {label, weight, margin, group, UDT.serialize(features)});
  }

  private static InternalRow row(float label, Vector features) {
    return row(label, 0, 0, 0, features);
  }

  private static Vector sparse(int[] columns, double... values) {
    return Vectors.sparse(6, columns, values);
  }

  private static byte[] page(boolean isTraining, InternalRow... rows) {
    MatrixColumns columns = new MatrixColumns(0, 4, true);
    if (isTraining) {
      columns =
          columns.weight(OptionalInt.of(1)).margin(OptionalInt.of(2)).group(OptionalInt.of(3));
    }
    Iterator<byte[]> pages =
        new MatrixPages(columns, isTraining).pages(Arrays.asList(rows).iterator());
    byte[] page = pages.next();
    assertEquals(false, pages.hasNext());
    return page;
  }

  /** Three partitions, of which one is empty, and pages of both kinds. */
  private static List<List<byte[]>> training() {
    byte[] dense =
        page(
            true,
            row(1, 0.5f, 0.25f, 7, Vectors.dense(1, 2, 3, 4, 5, 6)),
            row(0, 1.5f, -0.25f, 7, Vectors.dense(-1.5, Double.NaN, 0, 1e-3, 1e9, 0.1)),
            row(2, 2.5f, 0, -8, sparse(new int[] {0, 5}, 9, 10)));
    byte[] second = page(true, row(3, 1, 1, 9, Vectors.dense(6, 5, 4, 3, 2, 1)));
    byte[] csr =
        page(
            true,
            row(1, 1, 0.5f, 10, sparse(new int[] {0, 5}, 0.5, -2)),
            row(0, 2, 0, 10, sparse(new int[] {})),
            row(1, 3, -0.5f, 11, Vectors.dense(0, 0, 0, Double.NaN, 0, 0)),
            row(0, 4, 1.5f, 11, sparse(new int[] {1, 2, 4}, 1, 2, 3)));
    return List.of(List.of(dense, second), List.of(), List.of(csr));
  }

  private static List<List<byte[]>> evaluation() {
    return List.of(
        List.of(
            page(
                false,
                row(0.5f, Vectors.dense(1, 0, Double.NaN)),
                row(-1, Vectors.dense(-0.0, 4, Double.POSITIVE_INFINITY)))));
  }

  /** By their names, the list last. */
  private static Map<String, byte[]> files(
      String what, int attempts, FeatureDescription features, List<List<byte[]>> partitions)
      throws IOException {
    Map<String, byte[]> files = new LinkedHashMap<>();
    List<DurablePages.Written> all = written(attempts, partitions);
    for (int partition = 0; partition < partitions.size(); partition++) {
      for (int page = 0; page < partitions.get(partition).size(); page++) {
        files.put(all.get(partition).name(what, page), partitions.get(partition).get(page));
      }
    }
    files.put(what + ".pages", DurablePages.list(features, all));
    return files;
  }

  private static List<DurablePages.Written> written(int attempts, List<List<byte[]>> partitions) {
    DurablePages.Written[] all = new DurablePages.Written[partitions.size()];
    for (int partition = 0; partition < all.length; partition++) {
      PartitionPages pages = PartitionPages.of(partition, partitions.get(partition).iterator());
      all[partition] = new DurablePages.Written(pages, attempts + partition);
    }
    return List.of(all);
  }

  private static void check(Map<String, byte[]> expected) throws IOException {
    for (Map.Entry<String, byte[]> each : expected.entrySet()) {
      Path file = FOLDER.resolve(each.getKey());
      if ("write".equals(System.getenv("REJOIN_GOLDEN"))) {
        Files.createDirectories(FOLDER);
        Files.write(file, each.getValue());
      }
      assertArrayEquals(Files.readAllBytes(file), each.getValue(), each.getKey());
    }
  }

  @Test
  void the_writer_makes_the_bytes_that_readers_in_other_languages_are_tested_with()
      throws IOException {
    check(files("training", 5, FEATURES, training()));
    check(files("evaluation", 8, FeatureDescription.NONE, evaluation()));
  }

  @Test
  void the_digest_of_an_input_is_the_one_that_readers_in_other_languages_give() throws IOException {
    String digests = digest(training()) + " training\n" + digest(evaluation()) + " evaluation\n";
    check(Map.of("digests", digests.getBytes(StandardCharsets.US_ASCII)));
  }

  private static String digest(List<List<byte[]>> partitions) {
    PartitionPages[] all = new PartitionPages[partitions.size()];
    for (int partition = 0; partition < all.length; partition++) {
      all[partition] = PartitionPages.of(partition, partitions.get(partition).iterator());
    }
    return DurableFolder.digest(List.of(List.of(all)));
  }

  private static DurablePages reader() {
    DurableFolder folder = new DurableFolder("file:///nowhere", new Configuration(), 1);
    return new DurablePages(folder, "training", FeatureDescription.NONE);
  }

  @Test
  void a_list_is_read_as_it_was_written() throws IOException {
    List<DurablePages.Written> written = written(5, training());
    byte[] list = DurablePages.list(FEATURES, written);
    assertArrayEquals(list, DurablePages.list(FEATURES, reader().read(list)));
  }

  @Test
  void a_list_with_any_byte_changed_or_without_its_end_is_refused() throws IOException {
    byte[] list = DurablePages.list(FEATURES, written(5, training()));
    for (int at = 0; at < list.length; at++) {
      byte[] changed = list.clone();
      changed[at] ^= 1;
      assertThrows(RejoinException.class, () -> reader().read(changed), "byte " + at);
      byte[] cut = Arrays.copyOf(list, at);
      RejoinException lost =
          assertThrows(RejoinException.class, () -> reader().read(cut), at + " bytes");
      assertEquals(RejoinException.Code.INPUT_LOST, lost.code());
    }
  }

  @Test
  void a_list_of_the_version_before_is_refused_with_what_to_do() {
    byte[] old = ByteBuffer.allocate(8).putInt(2).putInt(0).array();
    RejoinException failure = assertThrows(RejoinException.class, () -> reader().read(old));
    assertEquals(RejoinException.Code.INCOMPATIBLE, failure.code());
    for (String said : new String[] {"version 3", "version 2", "remove the folder"}) {
      assertTrue(failure.text().contains(said), failure.text());
    }
  }
}

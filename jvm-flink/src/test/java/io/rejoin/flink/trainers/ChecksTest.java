package io.rejoin.flink.trainers;

import static io.rejoin.flink.trainers.References.assertFails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.rejoin.RejoinException.Code;
import io.rejoin.flink.Ranks;
import java.util.List;
import org.apache.flink.api.common.serialization.SerializerConfigImpl;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.typeutils.PojoTypeInfo;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.junit.jupiter.api.Test;

class ChecksTest {
  private static final LabeledRow GOOD = new LabeledRow(new double[] {1, 2});

  /** The second rank has the row as its second one, in the second version. */
  private static void refused(LabeledRow row, String... said) {
    List<List<List<LabeledRow>>> batches =
        List.of(List.of(List.of(GOOD), List.of(GOOD)), List.of(List.of(), List.of(GOOD, row)));
    String[] words = new String[said.length + 1];
    words[0] = "row 1 (from 0) of rank 1's batch of version 1";
    System.arraycopy(said, 0, words, 1, said.length);
    assertFails(
        Code.TRAINING_FAILED, () -> Ranks.train(new OnlineStandardScaler(2), batches), words);
  }

  @Test
  void every_rank_is_told_which_row_of_which_rank_has_another_number_of_features() {
    refused(new LabeledRow(new double[] {1}), "2 features expected, 1 seen", "Make the trainer");
    refused(new LabeledRow(null), "2 features expected, 0 seen");
  }

  @Test
  void every_rank_is_told_which_row_of_which_rank_has_no_finite_number() {
    refused(new LabeledRow(new double[] {1, Double.NaN}), "feature 1 (from 0) is NaN", "Fill in");
    refused(new LabeledRow(new double[] {Double.NEGATIVE_INFINITY, 1}), "feature 0", "-Infinity");
  }

  @Test
  void every_rank_is_told_which_row_of_which_rank_has_a_weight_that_cannot_be() {
    for (double weight : new double[] {-1, Double.NaN, Double.POSITIVE_INFINITY}) {
      refused(new LabeledRow(new double[2], 0, weight), "weight", "at least 0", weight + " seen");
    }
  }

  @Test
  void flink_serializes_a_row_as_a_pojo_and_not_by_kryo() {
    assertInstanceOf(PojoTypeInfo.class, TypeInformation.of(LabeledRow.class));
  }

  @Test
  void a_row_has_one_hash_whichever_nan_is_in_it_and_whether_or_not_it_was_serialized()
      throws Exception {
    LabeledRow row =
        new LabeledRow(new double[] {1, Double.longBitsToDouble(0xFFF8000000000000L)}, Double.NaN);
    DataOutputSerializer out = new DataOutputSerializer(64);
    TypeSerializer<LabeledRow> serializer =
        TypeInformation.of(LabeledRow.class).createSerializer(new SerializerConfigImpl());
    serializer.serialize(row, out);
    LabeledRow read = serializer.deserialize(new DataInputDeserializer(out.getCopyOfBuffer()));
    assertEquals(row.contentHash(), read.contentHash());
    assertEquals(new LabeledRow(new double[0]).contentHash(), new LabeledRow(null).contentHash());
  }

  @Test
  void rows_are_equal_by_what_they_hold() {
    assertEquals(GOOD, new LabeledRow(new double[] {1, 2}, Double.NaN, 1));
    assertEquals(GOOD.hashCode(), new LabeledRow(new double[] {1, 2}).hashCode());
    assertNotEquals(GOOD, new LabeledRow(new double[] {1, 3}));
    assertNotEquals(GOOD, new LabeledRow(new double[] {1, 2}, 1));
    assertNotEquals(GOOD, new LabeledRow(new double[] {1, 2}, Double.NaN, 2));
    assertEquals(
        "features [1.0], label 1.0, weight 2.0", new LabeledRow(new double[] {1}, 1, 2).toString());
  }
}

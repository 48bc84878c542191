package io.rejoin.flink.trainers;

import static io.rejoin.flink.trainers.References.assertFails;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import io.rejoin.RejoinException.Code;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class ModelKindTest {
  private static final OnlineStandardScaler TRAINER = new OnlineStandardScaler(2);
  private static final byte[] BYTES =
      TRAINER.write(
          new StandardScalerModel(3, new double[] {-0.0, 1 / 3.0}, new double[] {4e-320, 5}));

  @Test
  void a_model_is_four_integers_and_its_numbers_and_comes_back_to_the_last_bit() {
    ByteBuffer expected = ByteBuffer.allocate(16 + 5 * 8);
    expected.putInt(1).putInt(1).putInt(2).putInt(0);
    expected.putDouble(3).putDouble(-0.0).putDouble(1 / 3.0).putDouble(4e-320).putDouble(5);
    assertArrayEquals(expected.array(), BYTES);
    assertArrayEquals(BYTES, TRAINER.write(TRAINER.read(BYTES)));
  }

  @Test
  void another_format_is_refused_with_both_numbers() {
    byte[] newer = BYTES.clone();
    newer[3] = 2;
    assertFails(
        Code.INCOMPATIBLE,
        () -> TRAINER.read(newer),
        "format 1 expected, format 2 seen",
        "release");
  }

  @Test
  void another_trainers_model_is_refused_with_both_descriptions() {
    assertFails(
        Code.INCOMPATIBLE,
        () -> new OnlineStandardScaler(3).read(BYTES),
        "(OnlineStandardScaler, 3 features)",
        "(OnlineStandardScaler, 2 features)");
    byte[] other = BYTES.clone();
    other[7] = 99;
    assertFails(Code.INCOMPATIBLE, () -> TRAINER.read(other), "kind 99");
  }

  @Test
  void what_is_cut_short_is_refused_with_its_length() {
    for (int length : new int[] {0, 15, 16, 48, BYTES.length - 1}) {
      byte[] part = Arrays.copyOf(BYTES, length);
      assertFails(Code.INCOMPATIBLE, () -> TRAINER.read(part), length + " bytes seen");
    }
  }
}

package io.rejoin.flink;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.types.Row;

/** A row for the tests of XGBoost, with more columns than any of them needs. */
final class Example implements Serializable {
  static final int FEATURES = 4;
  private static final long serialVersionUID = 1L;

  final long id;
  final Float[] features = new Float[FEATURES];
  final float label;
  final int grade;
  final double weight;
  final int query;
  final boolean held;

  private Example(long id, Random random) {
    this.id = id;
    float sum = 0;
    for (int i = 0; i < FEATURES; i++) {
      // Zeros are common, and one in ten is missing.
      float value = random.nextInt(3) == 0 ? 0 : (float) random.nextGaussian();
      sum += value * (i + 1);
      features[i] = random.nextInt(10) == 0 ? null : Float.valueOf(value);
    }
    label = sum + random.nextGaussian() > 0 ? 1 : 0;
    grade = Math.max(0, Math.min(3, Math.round(sum / 2)));
    weight = 1 + random.nextInt(4);
    query = random.nextInt(12);
    held = random.nextInt(4) == 0;
  }

  /** Those of a rank, the same each time. */
  static List<Example> of(int rank, int count) {
    Random random = new Random(17 + rank);
    List<Example> all = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      all.add(new Example(2L * i + rank, random));
    }
    return all;
  }

  static final RowTypeInfo TYPE =
      new RowTypeInfo(
          new TypeInformation<?>[] {
            Types.LONG,
            Types.FLOAT,
            Types.OBJECT_ARRAY(Types.FLOAT),
            Types.FLOAT,
            Types.FLOAT,
            Types.INT,
            Types.DOUBLE,
            Types.INT,
            Types.BOOLEAN
          },
          new String[] {"id", "a", "bc", "d", "label", "grade", "weight", "query", "held"});

  Row row() {
    return Row.of(
        id,
        features[0],
        new Float[] {features[1], features[2]},
        features[3],
        label,
        grade,
        weight,
        query,
        held);
  }
}

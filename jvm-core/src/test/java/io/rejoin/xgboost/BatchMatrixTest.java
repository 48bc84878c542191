package io.rejoin.xgboost;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Iterator;
import java.util.List;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoostError;
import org.junit.jupiter.api.Test;

class BatchMatrixTest {
  private static MatrixBatch batch(float label) {
    return new MatrixBatch(
        new long[] {0, 2, 3},
        new float[] {1, 2},
        new float[] {label, label + 1},
        new int[] {0, 2, 1},
        new float[] {5, Float.NaN, 6},
        4);
  }

  @Test
  void a_matrix_has_the_rows_of_all_batches() throws Exception {
    DMatrix matrix = BatchMatrix.of(List.of(batch(1), batch(3)).iterator(), Float.NaN);
    assertEquals(4, matrix.rowNum());
    assertEquals(4, matrix.nonMissingNum(), "two of six values are missing");
    assertArrayEquals(new float[] {1, 2, 3, 4}, matrix.getLabel());
    assertArrayEquals(new float[] {1, 2, 1, 2}, matrix.getWeight());
    matrix.dispose();
  }

  @Test
  void batches_that_xgboost_refuses_are_its_error() {
    MatrixBatch wrong =
        new MatrixBatch(new long[] {0, 1}, new float[1], new float[3], new int[1], new float[1], 1);
    assertThrows(XGBoostError.class, () -> BatchMatrix.of(List.of(wrong).iterator(), Float.NaN));
  }

  /** Gives a batch, and then throws. */
  private static final class Failing implements Iterator<MatrixBatch> {
    private final Throwable failure;
    private final boolean early;
    private boolean given;

    Failing(Throwable failure, boolean early) {
      this.failure = failure;
      this.early = early;
    }

    @Override
    public boolean hasNext() {
      if (given && early) {
        fail(failure);
      }
      return true;
    }

    @Override
    public MatrixBatch next() {
      if (given) {
        fail(failure);
      }
      given = true;
      return batch(1);
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> void fail(Throwable failure) throws E {
      throw (E) failure;
    }
  }

  @Test
  void what_reading_the_batches_throws_comes_out_as_it_was() {
    List<Throwable> failures =
        List.of(new IllegalStateException(), new Exception("checked"), new OutOfMemoryError());
    for (Throwable failure : failures) {
      for (boolean early : new boolean[] {true, false}) {
        Throwable seen =
            assertThrows(
                Throwable.class, () -> BatchMatrix.of(new Failing(failure, early), Float.NaN));
        assertSame(failure, seen);
      }
    }
  }
}

package io.rejoin.it.flink;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import io.rejoin.flink.TrainerContext;
import io.rejoin.flink.TrainerFunction;
import io.rejoin.flink.trainers.Ftrl;
import io.rejoin.flink.trainers.LabeledRow;
import io.rejoin.flink.trainers.LogisticRegressionModel;
import io.rejoin.flink.trainers.OnlineLogisticRegression;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The ready logistic regression, and beside it a count of the rows that it was given: how many, and
 * a sum over their numbers that other rows wouldn't give.
 */
public final class DemoTrainer
    implements TrainerFunction<DemoTrainer.NumberedRow, DemoTrainer.Model> {
  private static final long serialVersionUID = 1L;

  private final OnlineLogisticRegression regression;

  /** For rows of so many features. */
  public DemoTrainer(int features) {
    regression = new OnlineLogisticRegression(features, new Ftrl().l1(0.01).l2(0.01));
  }

  /** A row and its number in the whole data; a POJO to Flink. */
  public static final class NumberedRow {
    /** From 0. */
    public long number;

    /** The row. */
    public LabeledRow row = new LabeledRow();
  }

  /** A model and what was counted. */
  public static final class Model {
    private final LogisticRegressionModel regression;
    private final long rows;
    private final long sum;

    private Model(LogisticRegressionModel regression, long rows, long sum) {
      this.regression = regression;
      this.rows = rows;
      this.sum = sum;
    }

    /** The regression. */
    public LogisticRegressionModel regression() {
      return regression;
    }

    /** Whether just the rows from 0 to before this number are in it, each once. */
    public boolean hasEachOnce(long all) {
      long expected = 0;
      for (long number = 0; number < all; number++) {
        expected += mark(number);
      }
      return rows == all && sum == expected;
    }

    /** How many rows it was given. */
    public long rows() {
      return rows;
    }
  }

  private static long mark(long number) {
    long mixed = (number + 1) * 0x9E3779B97F4A7C15L;
    return (mixed ^ (mixed >>> 32)) * 0xD6E8FEB86659FD93L;
  }

  @Override
  public Model open(TrainerContext context) throws Exception {
    return new Model(regression.open(context), 0, 0);
  }

  @Override
  public Model onBatch(List<NumberedRow> batch, Communicator ranks, Model model) throws Exception {
    long[] counted = new long[2];
    List<LabeledRow> rows = new ArrayList<>();
    for (NumberedRow row : batch) {
      counted[0]++;
      counted[1] += mark(row.number);
      rows.add(row.row);
    }
    LogisticRegressionModel next = regression.onBatch(rows, ranks, model.regression);
    ranks.allreduce(counted, Reduction.SUM);
    return new Model(next, model.rows + counted[0], model.sum + counted[1]);
  }

  @Override
  public byte[] write(Model model) {
    byte[] bytes = regression.write(model.regression);
    return ByteBuffer.allocate(2 * Long.BYTES + bytes.length)
        .putLong(model.rows)
        .putLong(model.sum)
        .put(bytes)
        .array();
  }

  @Override
  public Model read(byte[] bytes) {
    ByteBuffer in = ByteBuffer.wrap(bytes);
    return new Model(
        regression.read(Arrays.copyOfRange(bytes, 2 * Long.BYTES, bytes.length)),
        in.getLong(),
        in.getLong());
  }
}

package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.RowFingerprint;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import ml.dmlc.xgboost4j.LabeledPoint;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoostError;

/**
 * The rows of one of a rank's matrices, in blocks of bytes. A row is its keys (8 bytes each),
 * label, weight and features (4 bytes each), so written that rows are ordered by their keys when
 * their bytes are.
 */
final class MatrixRows {
  private static final int BLOCK_BYTES = 1 << 20;
  private static final int LABEL_AND_WEIGHT = 2;

  private final int keys;
  // All but the last one are full; the last one has room for as many rows.
  private final List<ByteBuffer> blocks = new ArrayList<>();
  private int features = -1;
  private int rowBytes;
  private int rowsPerBlock;
  private int rows;
  // Row numbers in the order of training; null for the order in which they have come.
  private int[] order;

  /** For rows with so many keys. */
  MatrixRows(int keys) {
    this.keys = keys;
  }

  int rows() {
    return rows;
  }

  /**
   * The next row.
   *
   * @throws RejoinException BAD_ARGUMENT for other than as many features as the rows before
   */
  void add(long[] rowKeys, float label, float weight, double[] rowFeatures) {
    shape(rowFeatures.length);
    ByteBuffer block = room();
    for (int key = 0; key < keys; key++) {
      // The order of unsigned bytes is that of numbers when the sign's bit is turned.
      block.putLong(rowKeys[key] ^ Long.MIN_VALUE);
    }
    block.putFloat(label).putFloat(weight);
    for (double feature : rowFeatures) {
      block.putFloat((float) feature);
    }
  }

  /** The rows of a block that {@link #blocks} has given. */
  void add(RowBlock block) {
    shape(block.features);
    for (int at = 0; at < block.bytes.length; at += rowBytes) {
      room().put(block.bytes, at, rowBytes);
    }
  }

  private void shape(int seen) {
    if (features < 0) {
      features = seen;
      rowBytes = keys * Long.BYTES + (LABEL_AND_WEIGHT + seen) * Float.BYTES;
      rowsPerBlock = Math.max(1, BLOCK_BYTES / rowBytes);
    }
    if (seen != features) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "a row has "
              + seen
              + " features and the rows before it have "
              + features
              + ". Make the arrays of a column of features equally long in all rows");
    }
  }

  private ByteBuffer room() {
    if (rows == Integer.MAX_VALUE) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "a rank can't have more than " + Integer.MAX_VALUE + " rows; use more of them");
    }
    if (rows++ % rowsPerBlock == 0) {
      blocks.add(ByteBuffer.allocate(rowsPerBlock * rowBytes));
    }
    return blocks.get(blocks.size() - 1);
  }

  /** All rows so far; full blocks are shared, and never changed any more. */
  List<RowBlock> blocks(int world, boolean evaluation) {
    List<RowBlock> all = new ArrayList<>();
    for (ByteBuffer block : blocks) {
      byte[] bytes =
          block.hasRemaining() ? Arrays.copyOf(block.array(), block.position()) : block.array();
      all.add(new RowBlock(world, evaluation, keys, features, bytes));
    }
    return all;
  }

  /**
   * Decides about the order of training; all rows are there.
   *
   * @param sorted how many of the first keys the rows are sorted by; equal ones stay as they have
   *     come
   * @param byContent sorts by all keys and then by content
   */
  void arrange(int sorted, boolean byContent) {
    int compared = byContent ? rowBytes : sorted * Long.BYTES;
    if (compared > 0) {
      order = Sorting.sorted(rows, (one, other) -> compare(one, other, compared));
    }
  }

  private int compare(int one, int other, int compared) {
    byte[] left = blocks.get(one / rowsPerBlock).array();
    byte[] right = blocks.get(other / rowsPerBlock).array();
    int from = one % rowsPerBlock * rowBytes;
    int otherFrom = other % rowsPerBlock * rowBytes;
    return Arrays.compareUnsigned(
        left, from, from + compared, right, otherFrom, otherFrom + compared);
  }

  /** Puts the rows into a fingerprint, in the order of training. */
  void addTo(RowFingerprint.Maker fingerprint) {
    fingerprint.add(0, ByteBuffer.allocate(Integer.BYTES).putInt(0, rows));
    for (int i = 0; i < rows; i++) {
      fingerprint.add(1, row(i));
    }
  }

  /** The bytes of a row, by its number in the order of training. */
  private ByteBuffer row(int number) {
    int row = order == null ? number : order[number];
    byte[] block = blocks.get(row / rowsPerBlock).array();
    return ByteBuffer.wrap(block, row % rowsPerBlock * rowBytes, rowBytes);
  }

  /**
   * The matrix, as XGBoost's own estimator for Spark makes it.
   *
   * @param grouped whether the first key is that of a query group, by which the rows are sorted
   */
  DMatrix matrix(float missing, boolean grouped) throws XGBoostError {
    Groups groups = grouped ? groups() : null;
    DMatrix matrix = new DMatrix(new Points(), null, missing);
    try {
      // What goes wrong while XGBoost reads the rows it takes for their end.
      if (matrix.rowNum() != rows) {
        throw new XGBoostError("read " + matrix.rowNum() + " rows of " + rows);
      }
      if (groups != null) {
        matrix.setGroup(groups.sizes);
        // One for each group, where it had one for each row.
        matrix.setWeight(groups.weights);
      }
      return matrix;
    } catch (XGBoostError | RuntimeException e) {
      matrix.dispose();
      throw e;
    }
  }

  private Groups groups() {
    Groups groups = new Groups();
    for (int i = 0; i < rows; i++) {
      ByteBuffer row = row(i);
      long group = row.getLong() ^ Long.MIN_VALUE;
      row.position(row.position() + (keys - 1) * Long.BYTES + Float.BYTES);
      groups.add(group, row.getFloat());
    }
    return groups.made();
  }

  /** Query groups in the order of their rows. */
  private static final class Groups {
    private int[] sizes = new int[16];
    private float[] weights = new float[16];
    private int count;
    private long group;

    void add(long of, float weight) {
      if (count > 0 && of == group) {
        if (weight != weights[count - 1]) {
          throw new RejoinException(
              RejoinException.Code.BAD_ARGUMENT,
              "rows of the query group "
                  + of
                  + " have the weights "
                  + weights[count - 1]
                  + " and "
                  + weight
                  + "; a group has one weight, so give all its rows the same");
        }
        sizes[count - 1]++;
        return;
      }
      if (count == sizes.length) {
        sizes = Arrays.copyOf(sizes, 2 * count);
        weights = Arrays.copyOf(weights, 2 * count);
      }
      group = of;
      sizes[count] = 1;
      weights[count++] = weight;
    }

    Groups made() {
      sizes = Arrays.copyOf(sizes, count);
      weights = Arrays.copyOf(weights, count);
      return this;
    }
  }

  /** The rows as XGBoost takes them. */
  private final class Points implements Iterator<LabeledPoint> {
    private int next;

    @Override
    public boolean hasNext() {
      return next < rows;
    }

    @Override
    public LabeledPoint next() {
      if (next == rows) {
        throw new NoSuchElementException("there are " + rows + " rows");
      }
      ByteBuffer row = row(next++);
      row.position(row.position() + keys * Long.BYTES);
      float label = row.getFloat();
      float weight = row.getFloat();
      float[] values = new float[features];
      row.asFloatBuffer().get(values);
      return new LabeledPoint(label, features, null, values, weight);
    }
  }
}

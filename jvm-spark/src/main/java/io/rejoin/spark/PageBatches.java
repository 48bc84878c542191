package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.xgboost.MatrixBatch;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Iterator;

/**
 * Pages of {@link MatrixPages} as what XGBoost copies into a matrix, one page at a time. What it
 * wants of the whole partition at its end, margins and groups, is collected on the way.
 */
final class PageBatches implements Iterator<MatrixBatch> {
  private final Iterator<byte[]> pages;
  private float[] ones = new float[0];
  private int[] columns = new int[0];
  private int width = -1;
  private long[] offsets = new long[0];
  private float[] values = new float[0];
  private final Floats margins = new Floats();
  private final Floats groupWeights = new Floats();
  private int[] groupSizes = new int[0];
  private int lastGroup;
  private boolean hasMargins;
  private boolean hasGroups;

  PageBatches(Iterator<byte[]> pages) {
    this.pages = pages;
  }

  @Override
  public boolean hasNext() {
    return pages.hasNext();
  }

  @Override
  public MatrixBatch next() {
    Page page = Page.of(pages.next());
    ByteBuffer content = page.content();
    int rows = page.rows();
    float[] labels = floats(content, new float[rows]);
    float[] weights = page.has(Page.WEIGHTS) ? floats(content, new float[rows]) : ones(rows);
    if (page.has(Page.MARGINS)) {
      hasMargins = true;
      margins.add(floats(content, new float[rows]));
    }
    if (page.has(Page.GROUPS)) {
      addGroups(ints(content, new int[rows]), weights);
    }
    int count = Math.toIntExact(page.values());
    if (values.length != count) {
      values = new float[count];
    }
    if (page.kind() == Page.Kind.DENSE_F32) {
      regular(rows, page.columns());
    } else if (page.kind() == Page.Kind.CSR_F32) {
      int[] ends = ints(content, new int[rows]);
      offsets = new long[rows + 1];
      for (int row = 0; row < rows; row++) {
        offsets[row + 1] = ends[row];
      }
      columns = ints(content, new int[count]);
      width = -1;
    } else {
      throw new IllegalArgumentException("a page of " + page.kind() + " is none of a matrix");
    }
    floats(content, values);
    return new MatrixBatch(offsets, weights, labels, columns, values, page.columns());
  }

  /** Offsets and columns of rows that have all their values; most pages have the same. */
  private void regular(int rows, int wide) {
    if (width == wide && offsets.length == rows + 1) {
      return;
    }
    width = wide;
    offsets = new long[rows + 1];
    columns = new int[rows * wide];
    for (int row = 0, at = 0; row < rows; row++) {
      for (int column = 0; column < wide; column++) {
        columns[at++] = column;
      }
      offsets[row + 1] = at;
    }
  }

  private float[] ones(int rows) {
    if (ones.length != rows) {
      ones = new float[rows];
      Arrays.fill(ones, 1);
    }
    return ones;
  }

  private void addGroups(int[] groups, float[] weights) {
    for (int row = 0; row < groups.length; row++) {
      int last = groupWeights.count() - 1;
      if (last < 0 || groups[row] != lastGroup) {
        lastGroup = groups[row];
        groupWeights.add(weights[row]);
        last++;
        if (last == groupSizes.length) {
          groupSizes = Arrays.copyOf(groupSizes, Math.max(64, 2 * last));
        }
        groupSizes[last] = 0;
      } else if (groupWeights.get(last) != weights[row]) {
        throw new RejoinException(
            RejoinException.Code.TRAINING_FAILED,
            "the instances in the same group have to be assigned with the same weight, but group "
                + lastGroup
                + " has the weights "
                + groupWeights.get(last)
                + " and "
                + weights[row]);
      }
      groupSizes[last]++;
    }
    hasGroups = true;
  }

  boolean hasMargins() {
    return hasMargins;
  }

  float[] margins() {
    return margins.all();
  }

  boolean hasGroups() {
    return hasGroups;
  }

  /** How many rows each group has. */
  int[] groupSizes() {
    return Arrays.copyOf(groupSizes, groupWeights.count());
  }

  float[] groupWeights() {
    return groupWeights.all();
  }

  private static float[] floats(ByteBuffer content, float[] numbers) {
    content.asFloatBuffer().get(numbers);
    content.position(content.position() + numbers.length * Float.BYTES);
    return numbers;
  }

  private static int[] ints(ByteBuffer content, int[] numbers) {
    content.asIntBuffer().get(numbers);
    content.position(content.position() + numbers.length * Integer.BYTES);
    return numbers;
  }

  /** Numbers that become more. */
  private static final class Floats {
    private float[] numbers = new float[0];
    private int count;

    void add(float... more) {
      if (count + more.length > numbers.length) {
        numbers = Arrays.copyOf(numbers, Math.max(count + more.length, 2 * numbers.length));
      }
      System.arraycopy(more, 0, numbers, count, more.length);
      count += more.length;
    }

    float get(int index) {
      return numbers[index];
    }

    int count() {
      return count;
    }

    float[] all() {
      return Arrays.copyOf(numbers, count);
    }
  }
}

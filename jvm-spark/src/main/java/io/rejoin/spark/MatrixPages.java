package io.rejoin.spark;

import io.rejoin.RejoinException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/**
 * Rows as pages of what XGBoost takes: labels, weights, margins and groups, and the features as
 * 32-bit numbers. Where zeros are missing values, a page holds either all values or those that are
 * not zero, whichever is smaller; XGBoost makes the same matrix of both.
 */
final class MatrixPages implements PageFormat {
  private static final long serialVersionUID = 1L;

  /** Values of a page: 4 MB of them. */
  static final int PAGE_VALUES = 1 << 20;

  /** So that a page of few columns doesn't become one of labels. */
  static final int PAGE_ROWS = 1 << 18;

  private static final int VECTOR_FIELDS = 4;
  private static final int SPARSE = 0;

  private final MatrixColumns columns;
  private final boolean zerosAreMissing;

  MatrixPages(MatrixColumns columns, boolean zerosAreMissing) {
    this.columns = columns;
    this.zerosAreMissing = zerosAreMissing;
  }

  @Override
  public Iterator<byte[]> pages(Iterator<InternalRow> rows) {
    return new Writer(rows, columns, zerosAreMissing);
  }

  /** Collects the rows of a page in arrays, which the next page uses again. */
  private static final class Writer implements Iterator<byte[]> {
    private final Iterator<InternalRow> source;
    private final MatrixColumns columns;
    private final boolean skipsZeros;

    private int width = -1;
    private int rows;
    private int values;
    private boolean anySparse;
    private float[] labels = new float[0];
    private float[] weights = labels;
    private float[] margins = labels;
    private int[] groups = new int[0];
    private int[] ends = groups;
    private int[] indices = groups;
    private float[] data = labels;

    Writer(Iterator<InternalRow> source, MatrixColumns columns, boolean zerosAreMissing) {
      this.source = source;
      this.columns = columns;
      this.skipsZeros = zerosAreMissing;
    }

    @Override
    public boolean hasNext() {
      return source.hasNext();
    }

    @Override
    public byte[] next() {
      if (!source.hasNext()) {
        throw new NoSuchElementException("the partition has no further row");
      }
      rows = 0;
      values = 0;
      anySparse = false;
      do {
        add(source.next());
      } while (rows < PAGE_ROWS
          && values + (skipsZeros ? 0 : width) <= PAGE_VALUES
          && source.hasNext());
      return page();
    }

    private void add(InternalRow row) {
      if (rows == labels.length) {
        moreRows();
      }
      labels[rows] = number(row, columns.label(), "label");
      if (columns.hasWeights()) {
        weights[rows] = number(row, columns.weight(), "weight");
      }
      if (columns.hasMargins()) {
        margins[rows] = number(row, columns.margin(), "base margin");
      }
      if (columns.hasGroups()) {
        refuseNull(row, columns.group(), "group");
        groups[rows] = row.getInt(columns.group());
      }
      refuseNull(row, columns.features(), "features");
      if (columns.areVectors()) {
        addVector(row.getStruct(columns.features(), VECTOR_FIELDS));
      } else {
        addArray(row.getArray(columns.features()));
      }
      ends[rows++] = values;
    }

    private static float number(InternalRow row, int column, String what) {
      refuseNull(row, column, what);
      return row.getFloat(column);
    }

    private static void refuseNull(InternalRow row, int column, String what) {
      if (row.isNullAt(column)) {
        throw bad("a row without a value (null) in the column of its " + what);
      }
    }

    private void addVector(InternalRow vector) {
      ArrayData all = vector.getArray(3);
      if (vector.getByte(0) == SPARSE) {
        anySparse = true;
        addSparse(vector.getInt(1), vector.getArray(2), all);
        return;
      }
      int length = all.numElements();
      reserve(length, length);
      if (skipsZeros) {
        for (int column = 0; column < length; column++) {
          keep(column, (float) all.getDouble(column));
        }
      } else {
        for (int column = 0; column < length; column++) {
          data[values + column] = (float) all.getDouble(column);
        }
        values += length;
      }
    }

    private void addSparse(int length, ArrayData places, ArrayData present) {
      int count = places.numElements();
      reserve(length, skipsZeros ? count : length);
      if (skipsZeros) {
        for (int i = 0; i < count; i++) {
          keep(places.getInt(i), (float) present.getDouble(i));
        }
      } else {
        Arrays.fill(data, values, values + length, 0);
        for (int i = 0; i < count; i++) {
          data[values + places.getInt(i)] = (float) present.getDouble(i);
        }
        values += length;
      }
    }

    private void addArray(ArrayData all) {
      int length = all.numElements();
      reserve(length, length);
      for (int column = 0; column < length; column++) {
        // The stock estimator takes a null in an array as zero.
        float value = all.isNullAt(column) ? 0 : all.getFloat(column);
        if (skipsZeros) {
          keep(column, value);
        } else {
          data[values++] = value;
        }
      }
    }

    private void keep(int column, float value) {
      if (value != 0) {
        indices[values] = column;
        data[values++] = value;
      }
    }

    /** Room for a row of so many features, of which so many are kept: hashed ones are millions. */
    private void reserve(int length, int kept) {
      if (width < 0) {
        width = length;
      } else if (width != length) {
        throw bad("a row of " + length + " features behind rows of " + width);
      }
      int needed = Math.addExact(values, kept);
      if (needed > data.length) {
        int size = Math.max(needed, Math.min(2 * data.length, PAGE_VALUES + kept));
        data = Arrays.copyOf(data, size);
        indices = skipsZeros ? Arrays.copyOf(indices, size) : indices;
      }
    }

    private void moreRows() {
      int size = Math.max(1024, 2 * labels.length);
      labels = Arrays.copyOf(labels, size);
      ends = Arrays.copyOf(ends, size);
      weights = columns.hasWeights() ? Arrays.copyOf(weights, size) : weights;
      margins = columns.hasMargins() ? Arrays.copyOf(margins, size) : margins;
      groups = columns.hasGroups() ? Arrays.copyOf(groups, size) : groups;
    }

    private byte[] page() {
      long cells = (long) rows * width;
      boolean sparse = skipsZeros && 2L * values + rows < cells;
      int flags = columns.flags() | (anySparse ? Page.FROM_SPARSE : 0);
      long numbers = rows * (1L + Integer.bitCount(columns.flags()));
      numbers += sparse ? rows + 2L * values : cells;
      ByteBuffer page =
          Page.begin(
              sparse ? Page.Kind.CSR_F32 : Page.Kind.DENSE_F32,
              flags,
              rows,
              width,
              sparse ? values : cells,
              numbers * Float.BYTES);
      put(page, labels, rows);
      put(page, weights, columns.hasWeights() ? rows : 0);
      put(page, margins, columns.hasMargins() ? rows : 0);
      put(page, groups, columns.hasGroups() ? rows : 0);
      if (sparse) {
        put(page, ends, rows);
        put(page, indices, values);
        put(page, data, values);
      } else if (skipsZeros) {
        putExpanded(page);
      } else {
        put(page, data, values);
      }
      return page.array();
    }

    private void putExpanded(ByteBuffer page) {
      float[] row = new float[width];
      for (int i = 0, at = 0; i < rows; i++) {
        Arrays.fill(row, 0);
        for (; at < ends[i]; at++) {
          row[indices[at]] = data[at];
        }
        put(page, row, width);
      }
    }

    private static void put(ByteBuffer page, float[] numbers, int count) {
      page.asFloatBuffer().put(numbers, 0, count);
      page.position(page.position() + count * Float.BYTES);
    }

    private static void put(ByteBuffer page, int[] numbers, int count) {
      page.asIntBuffer().put(numbers, 0, count);
      page.position(page.position() + count * Integer.BYTES);
    }

    private static RejoinException bad(String seen) {
      return new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "the input has "
              + seen
              + "; XGBoost can't train on that: fill in, drop or repair such rows before the fit");
    }
  }
}

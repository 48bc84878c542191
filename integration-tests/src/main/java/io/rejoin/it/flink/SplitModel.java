package io.rejoin.it.flink;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;

/**
 * Weights of a logistic regression, and of each split what tells whether each of its rows is in it
 * once.
 */
public final class SplitModel {
  /** Of a split: how many rows, the sum of their numbers, the sum of their hashes. */
  static final int SUMS = 3;

  final double[] weights;
  final double[] sums;
  int versions;

  SplitModel(int features, int splits) {
    weights = new double[features];
    sums = new double[SUMS * splits];
  }

  /** Adds a row to the sums of all splits, whose place in the array is given. All stay integers. */
  static void add(SplitRow row, double[] target, int offset) {
    int at = offset + SUMS * row.getSplit();
    target[at] += 1;
    target[at + 1] += row.getNumber();
    target[at + 2] += hash(row.getNumber());
  }

  private static double hash(long number) {
    return (number + 1) * 0x9E3779B97F4A7C15L >>> 44;
  }

  /**
   * What is wrong with the rows that are in it, when each row of splits of these lengths should be
   * in it once; empty: nothing.
   */
  public List<String> rowsAmiss(long[] lengths) {
    List<String> amiss = new ArrayList<>();
    for (int split = 0; split < lengths.length; split++) {
      double[] expected = new double[SUMS];
      for (long number = 0; number < lengths[split]; number++) {
        expected[0] += 1;
        expected[1] += number;
        expected[2] += hash(number);
      }
      double[] seen = Arrays.copyOfRange(sums, SUMS * split, SUMS * (split + 1));
      if (!Arrays.equals(expected, seen)) {
        amiss.add(
            "split "
                + split
                + ": rows, sum of numbers, sum of hashes: expected "
                + Arrays.toString(expected)
                + ", seen "
                + Arrays.toString(seen));
      }
    }
    return amiss;
  }

  /** Its bytes. */
  public byte[] bytes() {
    ByteBuffer bytes =
        ByteBuffer.allocate(3 * Integer.BYTES + (weights.length + sums.length) * Double.BYTES);
    bytes.putInt(weights.length).putInt(sums.length).putInt(versions);
    for (double one : weights) {
      bytes.putDouble(one);
    }
    for (double one : sums) {
      bytes.putDouble(one);
    }
    return bytes.array();
  }

  /** The model of these bytes. */
  public static SplitModel of(byte[] data) {
    ByteBuffer bytes = ByteBuffer.wrap(data);
    SplitModel model = new SplitModel(bytes.getInt(), bytes.getInt() / SUMS);
    model.versions = bytes.getInt();
    for (int i = 0; i < model.weights.length; i++) {
      model.weights[i] = bytes.getDouble();
    }
    for (int i = 0; i < model.sums.length; i++) {
      model.sums[i] = bytes.getDouble();
    }
    return model;
  }

  /** SHA-256 of its bytes, in hexadecimal: what two models are compared by. */
  public String digest() {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes()));
    } catch (NoSuchAlgorithmException never) {
      throw new IllegalStateException(never);
    }
  }
}

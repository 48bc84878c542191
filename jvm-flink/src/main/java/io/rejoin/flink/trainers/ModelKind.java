package io.rejoin.flink.trainers;

import io.rejoin.RejoinException;
import java.nio.ByteBuffer;

/**
 * The bytes of the models: four integers (the format's number, the kind of model, its features, and
 * an option of the kind), and doubles up to the end. Big endian.
 */
enum ModelKind {
  STANDARD_SCALER(1, "OnlineStandardScaler, %d features"),
  LOGISTIC_REGRESSION_FTRL(2, "OnlineLogisticRegression by Ftrl, %d features, %d intercepts"),
  LOGISTIC_REGRESSION_SGD(3, "OnlineLogisticRegression by Sgd, %d features, %d intercepts"),
  KMEANS(4, "OnlineKMeans, %d features, %d clusters");

  private static final int FORMAT = 1;
  private static final int HEADER_BYTES = 4 * Integer.BYTES;

  private final int number;
  private final String description;

  ModelKind(int number, String description) {
    this.number = number;
    this.description = description;
  }

  byte[] write(int features, int option, double[]... parts) {
    int doubles = 0;
    for (double[] part : parts) {
      doubles += part.length;
    }
    ByteBuffer bytes = ByteBuffer.allocate(HEADER_BYTES + Double.BYTES * doubles);
    bytes.putInt(FORMAT).putInt(number).putInt(features).putInt(option);
    for (double[] part : parts) {
      for (double each : part) {
        bytes.putDouble(each);
      }
    }
    return bytes.array();
  }

  /**
   * The doubles.
   *
   * @throws RejoinException INCOMPATIBLE when the bytes are in another format, or of a trainer of
   *     another kind, with other features or another option
   */
  double[] read(byte[] model, int features, int option) {
    ByteBuffer bytes = ByteBuffer.wrap(model);
    if (model.length < HEADER_BYTES) {
      throw cutShort(model.length);
    }
    int format = bytes.getInt();
    if (format != FORMAT) {
      throw new RejoinException(
          RejoinException.Code.INCOMPATIBLE,
          "a model in format "
              + FORMAT
              + " expected, format "
              + format
              + " seen: another release of Rejoin has written it, or it is no model of a trainer"
              + " in io.rejoin.flink.trainers. Read it with what has written it");
    }
    String expected = describe(number, features, option);
    String seen = describe(bytes.getInt(), bytes.getInt(), bytes.getInt());
    if (!seen.equals(expected)) {
      throw new RejoinException(
          RejoinException.Code.INCOMPATIBLE,
          "a model of this trainer expected ("
              + expected
              + "), one of another trainer seen ("
              + seen
              + "). Make the trainer as the one that has written it was made");
    }
    if (bytes.remaining() % Double.BYTES != 0) {
      throw cutShort(model.length);
    }
    double[] doubles = new double[bytes.remaining() / Double.BYTES];
    bytes.asDoubleBuffer().get(doubles);
    return doubles;
  }

  /** Refuses a model with more or fewer doubles than its header promises. */
  void requireWhole(boolean whole, double[] doubles) {
    if (!whole) {
      throw cutShort(HEADER_BYTES + Double.BYTES * doubles.length);
    }
  }

  private static RejoinException cutShort(int length) {
    return new RejoinException(
        RejoinException.Code.INCOMPATIBLE,
        "a whole model expected, "
            + length
            + " bytes seen, which can't be one. Hand over the bytes as the trainer has written"
            + " them");
  }

  private static String describe(int number, int features, int option) {
    for (ModelKind kind : values()) {
      if (kind.number == number) {
        return String.format(kind.description, features, option);
      }
    }
    return "kind " + number + ", which this release doesn't know";
  }
}

package io.rejoin.flink.trainers;

import io.rejoin.Communicator;
import io.rejoin.RejoinException;
import io.rejoin.RejoinException.Code;
import java.util.List;

/** What the trainers refuse, and in which words. */
final class Checks {
  private Checks() {}

  /**
   * The rows of a batch, before anything is computed of them. Labels are looked at by those who use
   * them.
   *
   * @throws RejoinException TRAINING_FAILED for the first row with other than so many features, one
   *     that isn't finite, or a weight that is negative or isn't finite
   */
  static void rows(List<LabeledRow> batch, Communicator ranks, int features) {
    for (int number = 0; number < batch.size(); number++) {
      LabeledRow row = batch.get(number);
      String fault = fault(row, features);
      if (fault != null) {
        throw badRow(ranks, number, fault);
      }
    }
  }

  private static String fault(LabeledRow row, int features) {
    int seen = row.features == null ? 0 : row.features.length;
    if (seen != features) {
      return count(features)
          + " expected, "
          + seen
          + " seen. Make the trainer for as many as the rows have";
    }
    for (int i = 0; i < features; i++) {
      if (!Double.isFinite(row.features[i])) {
        return "finite numbers expected, feature "
            + i
            + " (from 0) is "
            + row.features[i]
            + ". Fill in what is missing, or leave such rows out, before they are trained on";
      }
    }
    if (!(row.weight >= 0) || !Double.isFinite(row.weight)) {
      return "a finite weight of at least 0 expected, "
          + row.weight
          + " seen. Give the row another weight, or leave it out, before it is trained on";
    }
    return null;
  }

  /** The failure for a row, by its number in this rank's batch (from 0). */
  static RejoinException badRow(Communicator ranks, int number, String fault) {
    return new RejoinException(
        Code.TRAINING_FAILED,
        "row "
            + number
            + " (from 0) of rank "
            + ranks.rank()
            + "'s batch of version "
            + ranks.version()
            + " can't be trained on: "
            + fault);
  }

  /**
   * What has become of the model.
   *
   * @throws RejoinException TRAINING_FAILED when a number isn't finite
   */
  static void trained(Communicator ranks, String remedy, double[]... parts) {
    for (double[] part : parts) {
      for (double number : part) {
        if (!Double.isFinite(number)) {
          throw new RejoinException(
              Code.TRAINING_FAILED,
              "finite numbers expected in the model, "
                  + number
                  + " seen after the batch of version "
                  + ranks.version()
                  + ". "
                  + remedy);
        }
      }
    }
  }

  /** What a model is applied to: so many finite numbers. */
  static void applied(double[] row, int features) {
    if (row.length != features) {
      throw new RejoinException(
          Code.BAD_ARGUMENT,
          "the model is one of " + count(features) + ", the row has " + row.length);
    }
    for (int i = 0; i < features; i++) {
      if (!Double.isFinite(row[i])) {
        throw new RejoinException(
            Code.BAD_ARGUMENT,
            "finite numbers expected, feature " + i + " (from 0) of the row is " + row[i]);
      }
    }
  }

  /** A parameter above 0. */
  static int positive(String name, int value) {
    require(value > 0, name, "a number above 0", value);
    return value;
  }

  /** A parameter above 0. */
  static double positive(String name, double value) {
    require(value > 0 && Double.isFinite(value), name, "a finite number above 0", value);
    return value;
  }

  /** A parameter of at least 0. */
  static double notNegative(String name, double value) {
    require(value >= 0 && Double.isFinite(value), name, "a finite number of at least 0", value);
    return value;
  }

  /** A parameter's condition. */
  static void require(boolean holds, String name, String expected, Object seen) {
    if (!holds) {
      throw new RejoinException(
          Code.BAD_ARGUMENT, name + " has to be " + expected + "; " + seen + " was given");
    }
  }

  private static String count(int features) {
    return features + (features == 1 ? " feature" : " features");
  }
}

package io.rejoin.xgboost;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What training has measured so far: the metrics of each round and what early stopping remembers.
 * With XGBoost's own metrics it is the same at every rank; with a user's evaluation each rank has
 * its own.
 */
final class Progress {
  private static final int MAGIC = 0x524a5052; // "RJPR"
  private static final int FORMAT = 1;

  private final String[] names;
  private final float[][] metrics;
  private int round;
  private int best;
  private float bestScore;
  private boolean maximize;

  Progress(String[] names, int rounds) {
    this.names = names.clone();
    this.metrics = new float[names.length][rounds];
  }

  /** How many rounds this rank has trained, counted from the beginning of the training. */
  int round() {
    return round;
  }

  int best() {
    return best;
  }

  float bestScore() {
    return bestScore;
  }

  /** Whether any round counted as the best one: not if every score was no number. */
  boolean hasBest() {
    return round > 0 && Math.abs(bestScore) != Float.MAX_VALUE;
  }

  /** Whether a larger score is better; known after the first round. */
  void direction(boolean maximize) {
    this.maximize = maximize;
    this.bestScore = maximize ? -Float.MAX_VALUE : Float.MAX_VALUE;
  }

  /**
   * Notes the scores of the next round, one for each name. The last one decides about the best
   * round; only a strict improvement counts, as in XGBoost4J's own loop.
   *
   * @return whether this round is the best so far
   */
  boolean note(float[] scores) {
    for (int i = 0; i < scores.length; i++) {
      metrics[i][round] = scores[i];
    }
    float score = scores[scores.length - 1];
    boolean better = maximize ? score > bestScore : score < bestScore;
    if (better) {
      bestScore = score;
      best = round;
    }
    round++;
    return better;
  }

  /** Whether {@code patience} rounds have passed since the best one; 0 is never. */
  boolean shouldStop(int patience) {
    return patience > 0 && round > 0 && round - 1 - best >= patience;
  }

  /** The scores by name, as long as the number of rounds wanted, with zeros after a stop. */
  Map<String, float[]> metrics() {
    Map<String, float[]> map = new LinkedHashMap<>();
    for (int i = 0; i < names.length; i++) {
      map.put(names[i], metrics[i].clone());
    }
    return map;
  }

  byte[] toBytes() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeInt(MAGIC);
      out.writeByte(FORMAT);
      out.writeInt(round);
      out.writeInt(best);
      out.writeInt(Float.floatToIntBits(bestScore));
      out.writeBoolean(maximize);
      out.writeInt(names.length);
      for (int i = 0; i < names.length; i++) {
        out.writeUTF(names[i]);
        for (int r = 0; r < round; r++) {
          out.writeInt(Float.floatToIntBits(metrics[i][r]));
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException("writing to memory can't fail", e);
    }
    return bytes.toByteArray();
  }

  /**
   * Reads what {@link #toBytes} wrote, for a training of so many rounds on matrices with these
   * names.
   */
  static Progress of(byte[] bytes, String[] names, int rounds) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      if (in.readInt() != MAGIC || in.readByte() != FORMAT) {
        throw Checkpoint.unreadable("progress");
      }
      Progress progress = new Progress(names, rounds);
      progress.round = in.readInt();
      progress.best = in.readInt();
      progress.bestScore = Float.intBitsToFloat(in.readInt());
      progress.maximize = in.readBoolean();
      String[] seen = new String[in.readInt()];
      if (seen.length != names.length || progress.round > rounds) {
        throw Checkpoint.unreadable("progress");
      }
      for (int i = 0; i < seen.length; i++) {
        seen[i] = in.readUTF();
        for (int r = 0; r < progress.round; r++) {
          progress.metrics[i][r] = Float.intBitsToFloat(in.readInt());
        }
      }
      if (!Arrays.equals(seen, names)) {
        throw Checkpoint.unreadable("progress");
      }
      return progress;
    } catch (IOException e) {
      throw Checkpoint.unreadable("progress");
    }
  }

  /** The names in what {@link #toBytes} wrote, for a rank that has no matrices. */
  static String[] names(byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      if (in.readInt() != MAGIC || in.readByte() != FORMAT) {
        throw Checkpoint.unreadable("progress");
      }
      int round = in.readInt();
      in.readInt();
      in.readInt();
      in.readBoolean();
      String[] names = new String[in.readInt()];
      for (int i = 0; i < names.length; i++) {
        names[i] = in.readUTF();
        in.skipBytes(4 * round);
      }
      return names;
    } catch (IOException e) {
      throw Checkpoint.unreadable("progress");
    }
  }
}

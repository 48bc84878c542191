package io.rejoin.xgboost;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What rank 0 leaves to the driver: the model in XGBoost's {@code ubj} format and the metrics of
 * each round by name.
 */
public final class TrainingResult {
  private static final int MAGIC = 0x524a5253; // "RJRS"
  private static final int FORMAT = 2;

  private final byte[] model;
  private final int rounds;
  private final Map<String, float[]> metrics;

  TrainingResult(byte[] model, int rounds, Map<String, float[]> metrics) {
    this.model = model;
    this.rounds = rounds;
    this.metrics = Collections.unmodifiableMap(new LinkedHashMap<>(metrics));
  }

  /** The model in XGBoost's {@code ubj} format; the same bytes at all ranks. A copy. */
  public byte[] model() {
    return model.clone();
  }

  /** How many rounds were trained: fewer than wanted after an early stop. */
  public int rounds() {
    return rounds;
  }

  /**
   * The scores of each round by matrix name, train first; as long as the number of rounds wanted,
   * zeros after a stop.
   */
  public Map<String, float[]> metrics() {
    return metrics;
  }

  byte[] toBytes() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(model.length + 1024);
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeInt(MAGIC);
      out.writeByte(FORMAT);
      out.writeInt(rounds);
      out.writeInt(metrics.size());
      for (Map.Entry<String, float[]> entry : metrics.entrySet()) {
        out.writeUTF(entry.getKey());
        out.writeInt(entry.getValue().length);
        for (float value : entry.getValue()) {
          out.writeInt(Float.floatToIntBits(value));
        }
      }
      out.writeInt(model.length);
      out.write(model);
    } catch (IOException e) {
      throw new UncheckedIOException("writing to memory can't fail", e);
    }
    return bytes.toByteArray();
  }

  /**
   * Reads what rank 0 wrote.
   *
   * @throws io.rejoin.RejoinException INCOMPATIBLE when the bytes are something else
   */
  public static TrainingResult of(byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      if (in.readInt() != MAGIC || in.readByte() != FORMAT) {
        throw Checkpoint.unreadable("result");
      }
      int rounds = in.readInt();
      Map<String, float[]> metrics = new LinkedHashMap<>();
      for (int left = in.readInt(); left > 0; left--) {
        String name = in.readUTF();
        int length = in.readInt();
        if (length < 0 || length > in.available() / 4) {
          throw Checkpoint.unreadable("result");
        }
        float[] values = new float[length];
        for (int i = 0; i < length; i++) {
          values[i] = Float.intBitsToFloat(in.readInt());
        }
        metrics.put(name, values);
      }
      byte[] model = Checkpoint.exactly(in, in.readInt(), "result");
      return new TrainingResult(model, rounds, metrics);
    } catch (IOException e) {
      throw Checkpoint.unreadable("result");
    }
  }
}

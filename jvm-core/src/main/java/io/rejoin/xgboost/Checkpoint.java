package io.rejoin.xgboost;

import io.rejoin.RejoinException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * The two parts of a checkpoint: what was measured (may be missing) and the model in XGBoost's
 * {@code ubj} format.
 */
final class Checkpoint {
  private static final int MAGIC = 0x524a4350; // "RJCP"
  private static final int FORMAT = 1;

  private final byte[] progress;
  private final byte[] model;

  /** A checkpoint; {@code progress} may be null. */
  Checkpoint(byte[] progress, byte[] model) {
    this.progress = progress;
    this.model = model;
  }

  /** What was measured; null where each rank keeps its own. */
  byte[] progress() {
    return progress;
  }

  /** The model. */
  byte[] model() {
    return model;
  }

  byte[] toBytes() {
    int length = 13 + (progress == null ? 0 : progress.length) + model.length;
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(length);
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeInt(MAGIC);
      out.writeByte(FORMAT);
      out.writeInt(progress == null ? -1 : progress.length);
      if (progress != null) {
        out.write(progress);
      }
      out.writeInt(model.length);
      out.write(model);
    } catch (IOException e) {
      throw new UncheckedIOException("writing to memory can't fail", e);
    }
    return bytes.toByteArray();
  }

  static Checkpoint of(byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      if (in.readInt() != MAGIC || in.readByte() != FORMAT) {
        throw unreadable("checkpoint");
      }
      int length = in.readInt();
      byte[] progress = length < 0 ? null : exactly(in, length, "checkpoint");
      byte[] model = exactly(in, in.readInt(), "checkpoint");
      return new Checkpoint(progress, model);
    } catch (IOException e) {
      throw unreadable("checkpoint");
    }
  }

  static byte[] exactly(DataInputStream in, int length, String what) throws IOException {
    if (length < 0 || length > in.available()) {
      throw unreadable(what);
    }
    return in.readNBytes(length);
  }

  static RejoinException unreadable(String what) {
    return new RejoinException(
        RejoinException.Code.INCOMPATIBLE,
        "the bytes of the "
            + what
            + " were not written by this version of Rejoin; use the same jar on all machines");
  }
}

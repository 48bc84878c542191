package io.rejoin.xgboost;

import io.rejoin.RejoinException;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * The parts of a checkpoint: what was measured (may be missing), the model in XGBoost's {@code ubj}
 * format, and what a round logs as far as the ranks have agreed on it.
 */
final class Checkpoint {
  private static final int MAGIC = 0x524a4350; // "RJCP"
  private static final byte FORMAT = 2;

  private final byte[] progress;
  private final byte[] model;
  private final long loggedPerRound;

  /** A checkpoint; {@code progress} may be null. */
  Checkpoint(byte[] progress, byte[] model, long loggedPerRound) {
    this.progress = progress;
    this.model = model;
    this.loggedPerRound = loggedPerRound;
  }

  /** The most bytes that an agent logs in a round; 0 while the ranks have not agreed on it. */
  long loggedPerRound() {
    return loggedPerRound;
  }

  /** How long it is in bytes. */
  int length() {
    return 21 + (progress == null ? 0 : progress.length) + model.length;
  }

  /** What was measured; null where each rank keeps its own. */
  byte[] progress() {
    return progress;
  }

  /** The model's bytes, which are not to be changed. */
  byte[] model() {
    return model;
  }

  byte[] toBytes() {
    ByteBuffer out = ByteBuffer.allocate(length());
    out.putInt(MAGIC).put(FORMAT).putLong(loggedPerRound);
    out.putInt(progress == null ? -1 : progress.length);
    if (progress != null) {
      out.put(progress);
    }
    return out.putInt(model.length).put(model).array();
  }

  static Checkpoint of(byte[] bytes) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      if (in.readInt() != MAGIC || in.readByte() != FORMAT) {
        throw unreadable("checkpoint");
      }
      long loggedPerRound = in.readLong();
      int length = in.readInt();
      byte[] progress = length < 0 ? null : exactly(in, length, "checkpoint");
      byte[] model = exactly(in, in.readInt(), "checkpoint");
      return new Checkpoint(progress, model, loggedPerRound);
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

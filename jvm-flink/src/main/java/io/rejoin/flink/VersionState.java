package io.rejoin.flink;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * What all ranks have in common at a version, and what its checkpoint holds: the model, and how
 * much of each input is in it. Immutable.
 */
final class VersionState {
  private static final int FORMAT = 1;

  private final int version;
  private final Positions positions;
  private final byte[] model;
  private final byte[] bytes;

  private VersionState(int version, Positions positions, byte[] model, byte[] bytes) {
    this.version = version;
    this.positions = positions;
    this.model = model;
    this.bytes = bytes;
  }

  static VersionState of(int version, Positions positions, byte[] model) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(model.length + 128);
    try {
      DataOutputStream out = new DataOutputStream(bytes);
      out.writeInt(FORMAT);
      out.writeInt(version);
      positions.write(out);
      out.writeInt(model.length);
      out.write(model);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return new VersionState(version, positions, model, bytes.toByteArray());
  }

  /**
   * The one with these bytes.
   *
   * @throws io.rejoin.RejoinException INCOMPATIBLE when they are of another format
   */
  static VersionState of(byte[] bytes) {
    try {
      DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
      Formats.check("a model", in.readInt(), FORMAT);
      int version = in.readInt();
      Positions positions = Positions.read(in);
      byte[] model = new byte[in.readInt()];
      in.readFully(model);
      return new VersionState(version, positions, model, bytes);
    } catch (IOException e) {
      throw new UncheckedIOException("a model's state of " + bytes.length + " bytes is cut off", e);
    }
  }

  int version() {
    return version;
  }

  Positions positions() {
    return positions;
  }

  byte[] model() {
    return model;
  }

  byte[] bytes() {
    return bytes;
  }
}

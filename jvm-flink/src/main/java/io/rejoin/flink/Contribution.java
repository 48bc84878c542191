package io.rejoin.flink;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** What a rank says before a batch: which rows it has, whether its input has ended, its model. */
final class Contribution {
  final List<Share> shares;

  /** No row of its input is left: said with an empty batch only, so that timing decides nothing. */
  final boolean ended;

  /** The digest of the version's state that it has. */
  final String digest;

  Contribution(List<Share> shares, boolean ended, String digest) {
    this.shares = shares;
    this.ended = ended;
    this.digest = digest;
  }

  byte[] bytes() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(128);
    try {
      DataOutputStream out = new DataOutputStream(bytes);
      out.writeBoolean(ended);
      out.writeUTF(digest);
      out.writeInt(shares.size());
      for (Share share : shares) {
        out.writeUTF(share.split);
        out.writeLong(share.first);
        out.writeLong(share.numbers);
        out.writeLong(share.fingerprint);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  static Contribution of(byte[] bytes) {
    try {
      DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
      boolean ended = in.readBoolean();
      String digest = in.readUTF();
      Share[] shares = new Share[in.readInt()];
      for (int i = 0; i < shares.length; i++) {
        shares[i] = new Share(in.readUTF(), in.readLong(), in.readLong(), in.readLong());
      }
      return new Contribution(Arrays.asList(shares), ended, digest);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Those of all ranks, in rank order. */
  static List<Contribution> all(byte[][] bytes) {
    List<Contribution> all = new ArrayList<>();
    for (byte[] one : bytes) {
      all.add(of(one));
    }
    return all;
  }
}

package io.rejoin.flink;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.UnaryOperator;

/** What a rank says before a batch: which rows it has, whether its input has ended, its model. */
final class Contribution {
  // A few splits of each rank go in.
  private static final int PART_BYTES = 256;

  final List<Share> shares;

  /** No row of its input is left: said with an empty batch only, so that timing decides nothing. */
  final boolean ended;

  /** The digest of the version's state that it has. */
  final String digest;

  /** Whether it has more to say, so that a split may have its next row here and no share. */
  final boolean isCut;

  Contribution(List<Share> shares, boolean ended, String digest) {
    this(shares, ended, digest, false);
  }

  private Contribution(List<Share> shares, boolean ended, String digest, boolean isCut) {
    this.shares = shares;
    this.ended = ended;
    this.digest = digest;
    this.isCut = isCut;
  }

  byte[] bytes() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(128);
    try {
      DataOutputStream out = new DataOutputStream(bytes);
      out.writeBoolean(ended);
      out.writeUTF(digest);
      out.writeBoolean(isCut);
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
      boolean isCut = in.readBoolean();
      Share[] shares = new Share[in.readInt()];
      for (int i = 0; i < shares.length; i++) {
        shares[i] = new Share(in.readUTF(), in.readLong(), in.readLong(), in.readLong());
      }
      return new Contribution(Arrays.asList(shares), ended, digest, isCut);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * Those of all ranks, in rank order: by one collective, or by two where a rank has more to say
   * than goes into one. A rank that has come back may find either of them recorded; then what it
   * said before its death counts, and not what it says now.
   *
   * @param allgather gives the bytes of all ranks, of as many each
   */
  static List<Contribution> exchange(Contribution own, int world, UnaryOperator<byte[]> allgather) {
    byte[] bytes = own.bytes();
    byte[] all = allgather.apply(part(bytes, PART_BYTES));
    int longest = longest(all, world);
    if (Integer.BYTES + longest > PART_BYTES) {
      if (bytes.length > longest) {
        // How long the longest is was recorded when this rank had less to say.
        bytes = new Contribution(List.of(), own.ended, own.digest, true).bytes();
      }
      all = allgather.apply(part(bytes, Integer.BYTES + longest));
    }
    List<Contribution> contributions = new ArrayList<>();
    ByteBuffer parts = ByteBuffer.wrap(all);
    for (int rank = 0; rank < world; rank++) {
      parts.position(rank * (all.length / world));
      byte[] one = new byte[parts.getInt()];
      parts.get(one);
      contributions.add(of(one));
    }
    return contributions;
  }

  /** A length and the bytes, as far as they go in. */
  private static byte[] part(byte[] bytes, int size) {
    ByteBuffer part = ByteBuffer.allocate(size).putInt(bytes.length);
    return part.put(bytes, 0, Math.min(bytes.length, part.remaining())).array();
  }

  private static int longest(byte[] all, int world) {
    ByteBuffer parts = ByteBuffer.wrap(all);
    int longest = 0;
    for (int rank = 0; rank < world; rank++) {
      longest = Math.max(longest, parts.getInt(rank * (all.length / world)));
    }
    return longest;
  }
}

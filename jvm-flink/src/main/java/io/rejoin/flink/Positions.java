package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInput;
import java.io.DataInputStream;
import java.io.DataOutput;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * How many rows of each split are in the model, and their fingerprints. It is part of the model, so
 * that whoever has the model knows where each input goes on. Immutable.
 */
final class Positions {
  /** Nothing was trained on. */
  static final Positions NONE = new Positions(new TreeMap<>());

  private final TreeMap<String, Position> splits;

  private Positions(TreeMap<String, Position> splits) {
    this.splits = splits;
  }

  /** How far these rows go, each as far as those before it are known. */
  static Positions readTo(List<? extends SplitRows<?>> ends) {
    TreeMap<String, Position> splits = new TreeMap<>();
    for (SplitRows<?> end : ends) {
      Long fingerprint = end.fingerprintOfAll();
      if (fingerprint != null) {
        splits.put(end.name(), new Position(end.next(), fingerprint));
      }
    }
    return new Positions(splits);
  }

  /** How many rows of a split are in the model: the number of the first one that isn't. */
  long consumed(String split) {
    Position position = splits.get(split);
    return position == null ? 0 : position.consumed;
  }

  /** The sum of the marks of those rows. */
  long fingerprint(String split) {
    Position position = splits.get(split);
    return position == null ? 0 : position.fingerprint;
  }

  /** The rows of all splits together. */
  long rows() {
    return splits.values().stream().mapToLong(position -> position.consumed).sum();
  }

  /**
   * The positions after a version that has taken these rows, which all ranks compute alike.
   *
   * @param shares of each rank, in rank order
   * @param areAll whether these are all; else some other splits have rows, too
   * @throws RejoinException MISMATCH when two ranks have rows of one split, or rows are missing
   */
  Positions plus(List<List<Share>> shares, boolean areAll) {
    TreeMap<String, Position> next = new TreeMap<>(splits);
    TreeMap<String, Integer> holders = new TreeMap<>();
    for (int rank = 0; rank < shares.size(); rank++) {
      for (Share share : shares.get(rank)) {
        long consumed = consumed(share.split);
        if (share.first > consumed && share.numbers == 0) {
          continue;
        }
        if (share.first != consumed) {
          throw mismatch(
              "rank " + rank + " gives " + share + "; expected them from row " + consumed + " on");
        }
        Integer other = holders.put(share.split, rank);
        if (other != null) {
          throw mismatch(
              "ranks "
                  + other
                  + " and "
                  + rank
                  + " both have row "
                  + consumed
                  + " of "
                  + share.split);
        }
        long fingerprint = fingerprint(share.split) + share.fingerprint;
        next.put(share.split, new Position(consumed + share.numbers, fingerprint));
      }
    }
    if (areAll) {
      refuseGaps(shares, holders.keySet());
    }
    return new Positions(next);
  }

  private void refuseGaps(List<List<Share>> shares, Set<String> held) {
    for (int rank = 0; rank < shares.size(); rank++) {
      for (Share share : shares.get(rank)) {
        if (!held.contains(share.split)) {
          throw mismatch(
              "rank "
                  + rank
                  + " has "
                  + share.split
                  + " from row "
                  + share.first
                  + " on, and no rank has row "
                  + consumed(share.split)
                  + ", which is the next one");
        }
      }
    }
  }

  private static RejoinException mismatch(String what) {
    return new RejoinException(
        RejoinException.Code.MISMATCH,
        what
            + ". Each split must have one owner for the life of the job, and give its rows in the"
            + " same order whenever it is read again (docs/flink.md, Sources)");
  }

  void write(DataOutput out) throws IOException {
    out.writeInt(splits.size());
    for (Map.Entry<String, Position> split : splits.entrySet()) {
      out.writeUTF(split.getKey());
      out.writeLong(split.getValue().consumed);
      out.writeLong(split.getValue().fingerprint);
    }
  }

  /** As they go from one process to another. */
  byte[] bytes() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try {
      write(new DataOutputStream(bytes));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  /** Those with these bytes. */
  static Positions of(byte[] bytes) {
    try {
      return read(new DataInputStream(new ByteArrayInputStream(bytes)));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static Positions read(DataInput in) throws IOException {
    TreeMap<String, Position> splits = new TreeMap<>();
    for (int left = in.readInt(); left > 0; left--) {
      splits.put(in.readUTF(), new Position(in.readLong(), in.readLong()));
    }
    return new Positions(splits);
  }

  @Override
  public String toString() {
    return splits.toString();
  }

  private static final class Position {
    private final long consumed;
    private final long fingerprint;

    Position(long consumed, long fingerprint) {
      this.consumed = consumed;
      this.fingerprint = fingerprint;
    }

    @Override
    public String toString() {
      return consumed + " rows";
    }
  }
}

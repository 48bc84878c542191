package io.rejoin;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** A rank that makes every call, checks every value, and prints the digest of its model. */
final class CollectivesProgram {
  private static final CallOptions NONE = CallOptions.NONE;

  private CollectivesProgram() {}

  public static void main(String[] arguments) {
    try (Communicator ranks = Communicator.launched("all collectives").orElse(null)) {
      if (ranks == null) {
        return;
      }
      Communicator.Loaded start = ranks.load();
      check(start.model().isPresent() == (start.version() > 0), "a model from version 1 on");
      byte[] own = start.version() == 2 ? new byte[] {(byte) ranks.rank(), 7} : null;
      check(Arrays.equals(own, ranks.loadOwn().orElse(null)), "the own model");
      List<String> prepared = new ArrayList<>();
      double[] sum = new double[3];
      Runnable fill =
          () -> {
            prepared.add("once");
            Arrays.fill(sum, 2);
          };
      ranks.allreduce(sum, Reduction.SUM, NONE.boot().prepare(fill));
      ranks.allreduce(sum, Reduction.MAX, NONE.boot("cuts").prepare(fill));
      check(Arrays.equals(sum, new double[] {2, 2, 2}), "boot");
      check(prepared.size() == (ranks.incarnation() > 0 ? 0 : 2), "recorded results need no input");
      for (int iteration = start.version(); iteration < 3; iteration++) {
        start.model().ifPresent(model -> check(model[0] == start.version(), "the model"));
        arrays(ranks, iteration);
        buffers(ranks);
        take(ranks, iteration + 1);
        check(ranks.version() == iteration + 1, "version");
      }
      ranks.finish(new byte[] {9});
      System.out.println("digest " + Communicator.digest(new byte[] {9}));
    }
  }

  /** A lazy checkpoint, one with a model of each rank's own, and a plain one. */
  private static void take(Communicator ranks, int version) {
    byte[] model = {(byte) version};
    if (version == 1) {
      ranks.checkpointLazy(() -> model);
    } else if (version == 2) {
      ranks.checkpoint(model, new byte[] {(byte) ranks.rank(), 7});
    } else {
      ranks.checkpoint(model);
    }
  }

  private static void arrays(Communicator ranks, int salt) {
    int own = ranks.rank();
    double[] doubles = {own + salt, 1};
    ranks.allreduce(doubles, Reduction.SUM);
    check(Arrays.equals(doubles, new double[] {3 + 3 * salt, 3}), "double");
    float[] floats = {own, -own};
    ranks.allreduce(floats, Reduction.MAX);
    check(Arrays.equals(floats, new float[] {2, 0}), "float");
    long[] longs = {1L << own};
    ranks.allreduce(longs, Reduction.OR);
    check(longs[0] == 7, "long");
    int[] ints = {own + 1};
    ranks.allreduce(ints, Reduction.PRODUCT, NONE.inRingOrder());
    check(ints[0] == 6, "int");
    ranks.allreduce(new double[0], Reduction.SUM);

    double[] part = ranks.reduceScatter(new double[] {0, 1, 2, 3, 4, 5, 6}, Reduction.SUM, NONE);
    Communicator.Part mine = ranks.part(own, 7, NONE);
    check(part.length == mine.length() && part[0] == 3 * mine.first(), "reduce-scatter");

    byte[] spread = own == 1 ? new byte[] {4, 2} : new byte[2];
    ranks.broadcast(spread, 1);
    check(Arrays.equals(spread, new byte[] {4, 2}), "broadcast");
    check(Arrays.equals(ranks.allgather(new long[] {own}), new long[] {0, 1, 2}), "allgather");
    byte[][] parts = ranks.allgatherV(new byte[own]);
    check(parts.length == 3 && parts[0].length == 0 && parts[2].length == 2, "allgather_v");
    ranks.barrier();
  }

  private static void buffers(Communicator ranks) {
    int own = ranks.rank();
    // The elements between position and limit; the bytes around them stay.
    ByteBuffer buffer = ByteBuffer.allocateDirect(24).order(ByteOrder.nativeOrder());
    buffer.putInt(0, 77).putShort(4, (short) own).putShort(6, (short) 1).putInt(8, 88);
    buffer.position(4).limit(8);
    ranks.allreduce(buffer, Element.I16, Reduction.SUM, NONE);
    check(buffer.position() == 4 && buffer.limit() == 8, "position and limit stay");
    check(buffer.getShort(4) == 3 && buffer.getShort(6) == 3, "i16");
    buffer.clear();
    check(buffer.getInt(0) == 77 && buffer.getInt(8) == 88, "what is around stays");

    // (a, b) o (c, d) = (a c, b c + d): from left to right.
    buffer.putDouble(0, own + 1).putDouble(8, own).limit(16);
    ranks.allreduce(buffer, 16, "affine", CollectivesProgram::affine, NONE);
    check(buffer.getDouble(0) == 6 && buffer.getDouble(8) == 5, "affine");

    ByteBuffer input = ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder()).putFloat(0, own);
    ByteBuffer all = ByteBuffer.allocateDirect(12).order(ByteOrder.nativeOrder());
    ranks.allgather(input, all, Element.F32, NONE);
    check(all.getFloat(8) == 2, "allgather of buffers");
    ranks.reduceScatter(all, input, Element.F32, Reduction.SUM, NONE);
    check(input.getFloat(0) == 3 * own, "reduce-scatter of buffers");
    ByteBuffer spread = ByteBuffer.allocateDirect(1);
    ranks.broadcast(spread, Element.U8, 2, NONE.prepare(() -> spread.put(0, (byte) (own + 5))));
    check(spread.get(0) == 7, "prepared at the root");
  }

  private static void affine(ByteBuffer accumulator, ByteBuffer other) {
    check(other.isReadOnly() && accumulator.limit() == other.limit(), "both are as long");
    for (int at = 0; at < accumulator.limit(); at += 16) {
      double a = accumulator.getDouble(at);
      double b = accumulator.getDouble(at + 8);
      double c = other.getDouble(at);
      accumulator.putDouble(at, a * c).putDouble(at + 8, b * c + other.getDouble(at + 8));
    }
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}

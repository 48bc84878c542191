package io.rejoin;

import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Ranks that train until they have taken 12 checkpoints, and wait in the middle until a file is
 * there; rank 1 dies then, once.
 */
public final class SlowProgram {
  private static final int MIDDLE = 5;

  private SlowProgram() {}

  /** The file. */
  public static void main(String[] arguments) throws Exception {
    Path go = Path.of(arguments[0]);
    try (Communicator ranks = Communicator.launched("slow 1").orElseThrow()) {
      Communicator.Loaded start = ranks.load();
      double[] sum = {start.model().map(model -> (double) model[0]).orElse(0.0)};
      for (int version = start.version(); version < 12; version++) {
        double[] part = {ranks.rank() + 1};
        ranks.allreduce(part, Reduction.SUM);
        sum[0] += part[0];
        ranks.checkpoint(new byte[] {(byte) sum[0]});
        if (version + 1 == MIDDLE) {
          System.out.println("rank " + ranks.rank() + " is in the middle");
          while (!Files.exists(go)) {
            Thread.sleep(5);
          }
          if (ranks.rank() == 1 && ranks.incarnation() == 0) {
            Runtime.getRuntime().halt(9);
          }
        }
      }
      ranks.finish(new byte[] {(byte) sum[0]});
      System.out.println("digest " + sum[0]);
    }
  }
}

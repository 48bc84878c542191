package io.rejoin.it.flink.bench;

import io.rejoin.NativeLibrary;
import java.util.List;
import org.apache.flink.runtime.util.EnvironmentInformation;

/**
 * {@code make bench-flink}: what only a real Flink can show, ours and the other in pairs, as {@link
 * io.rejoin.it.bench.Figures}. The Flink of our class path decides what the other is: only 1.20 has
 * iterations. System properties choose: {@code pairs} (9), {@code only} (a configuration is
 * measured if its name has this in it; an underscore is a space), {@code steps} that count of a
 * training and of {@code warmup} before them.
 */
public final class FlinkBench {
  private static final int PAIRS = Integer.getInteger("pairs", 9);
  private static final int STEPS = Integer.getInteger("steps", 20_000);
  private static final int WARMUP = Integer.getInteger("warmup", 30_000);
  private static final String ONLY = System.getProperty("only", "").replace('_', ' ');
  private static final int[] WORLDS = {2, 4};
  private static final int CHECKPOINTED_WORLD = 3;

  private FlinkBench() {}

  /** No arguments. */
  public static void main(String[] arguments) throws Exception {
    System.setProperty("log4j2.configurationFile", "rejoin-it-log4j2.properties");
    System.setProperty("rejoin.it.log", "build/bench/flink.log");
    NativeLibrary.logLevel("error");
    boolean iterates = EnvironmentInformation.getVersion().startsWith("1.");
    List<SpeedBench> speeds =
        iterates
            ? List.of(new SpeedBench("iterate()", iterations(), 1.0))
            : List.of(
                new SpeedBench("our operator, ranks alone", OurTraining.alone(), 1 / 0.8),
                new SpeedBench("no recovery", new WithoutRecovery(), 1.05),
                new SpeedBench("a plain function, ranks alone", new PlainTraining(), null));
    for (SpeedBench speed : speeds) {
      for (int world : WORLDS) {
        speed.run(world);
      }
    }
    if (!iterates) {
      for (int world : WORLDS) {
        AllreduceBench.run(world);
      }
      CheckpointBench.run(CHECKPOINTED_WORLD);
      DeathBench.run();
    }
    System.exit(0);
  }

  /** What is compiled against Flink 1.20 alone. */
  private static Training iterations() throws ReflectiveOperationException {
    return (Training)
        Class.forName("io.rejoin.it.flink.bench.IterateTraining")
            .getDeclaredConstructor()
            .newInstance();
  }

  static int pairs() {
    return PAIRS;
  }

  static int steps() {
    return STEPS;
  }

  static int warmup() {
    return WARMUP;
  }

  static boolean wants(String config) {
    return config.contains(ONLY);
  }
}

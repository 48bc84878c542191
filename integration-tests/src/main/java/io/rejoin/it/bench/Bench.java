package io.rejoin.it.bench;

import io.rejoin.NativeLibrary;
import java.io.IOException;
import java.nio.file.Path;
import ml.dmlc.xgboost4j.java.XGBoostError;

/**
 * {@code make bench}: figures against their bars. System properties choose, see {@link
 * Options#ofProperties}; tables go to {@code build/bench}.
 */
public final class Bench {
  private Bench() {}

  /** No arguments. */
  public static void main(String[] arguments) throws IOException, XGBoostError {
    System.setProperty("log4j2.configurationFile", "rejoin-it-log4j2.properties");
    System.setProperty("rejoin.it.log", "build/bench/driver.log");
    Options options;
    try {
      options = Options.ofProperties();
    } catch (IllegalArgumentException bad) {
      System.out.println(bad.getMessage());
      System.exit(2);
      return;
    }
    NativeLibrary.logLevel("error");
    Report report = new Report(Path.of("build/bench"));
    report.say(
        "Medians of "
            + options.pairs()
            + " repetitions (10th to 90th percentile), "
            + Runtime.getRuntime().availableProcessors()
            + " processors");
    for (String bench : options.benches()) {
      switch (bench) {
        case "training":
          new TrainingBench(report, options).run();
          break;
        case "own":
          new OwnPartBench(report, options).run();
          break;
        case "frozen":
          new FrozenBench(report, options).run();
          break;
        case "fit":
          new FitBench(report, options).run();
          break;
        case "recovery":
          new RecoveryBench(report, options).run();
          break;
        case "rendezvous":
          new RendezvousBench(report, options).run();
          break;
        default:
          throw new IllegalStateException("nobody measures " + bench);
      }
    }
    report.close();
    System.exit(0);
  }
}

package io.rejoin.spark;

import io.rejoin.Communicator;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;

/**
 * A driver with two gangs at the same time, and stages of Spark's own before, beside and after
 * them. Whoever watches its terminal lets it go on, by files.
 */
public final class TerminalDriver {
  private TerminalDriver() {}

  /** The argument is the folder of those files. */
  public static void main(String[] arguments) throws Exception {
    String folder = arguments[0];
    SparkSession session = LocalSpark.start("local[6,4]");
    JavaFutureAction<?> before = stage(session, folder, "stage-before");
    before.get();
    JavaFutureAction<?> beside = stage(session, folder, "stage-beside");
    Thread other = new Thread(() -> train(session, folder, "second-gang"));
    other.start();
    train(session, folder, "first-gang");
    other.join();
    beside.get();
    session.stop();
  }

  private static JavaFutureAction<?> stage(SparkSession session, String folder, String name) {
    return JavaSparkContext.fromSparkContext(session.sparkContext())
        .parallelize(List.of(1, 2), 2)
        .foreachAsync(each -> await(folder, name));
  }

  private static void train(SparkSession session, String folder, String name) {
    Dataset<Integer> rows = session.createDataset(List.of(1, 2), Encoders.INT());
    RejoinSpark.train(
        rows,
        2,
        (ranks, own) -> {
          Communicator.Loaded start = ranks.load();
          for (int step = start.version(); step < 3; step++) {
            ranks.barrier();
            ranks.checkpoint(new byte[] {(byte) step});
          }
          await(folder, name);
          return 1;
        });
  }

  private static void await(String folder, String name) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (!Files.exists(Path.of(folder, name)) && System.nanoTime() < deadline) {
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
    }
  }
}

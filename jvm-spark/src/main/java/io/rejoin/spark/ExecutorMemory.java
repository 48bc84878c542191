package io.rejoin.spark;

import java.util.Locale;
import java.util.Optional;
import org.apache.spark.SparkConf;

/**
 * What a training takes of an executor's memory beside the JVM's heap, against what its container
 * has for it: YARN and Kubernetes end a container that takes more, without a word of whose memory
 * it was.
 *
 * <p>Of a page's bytes XGBoost makes 8 bytes for each value of the matrix (index and value), and
 * while it trains its bins, once by rows and once by columns: 2 bytes of a dense value, up to 10 of
 * a sparse one. A page has 4 bytes for a dense value and 8 for a sparse one, so that both come to
 * {@value #MATRIX_SHARE} of its bytes. XGBoost's gradients and predictions, some 20 bytes a row,
 * are in what that is too high for a matrix of more than a few columns.
 */
final class ExecutorMemory {
  static final double MATRIX_SHARE = 2.5;

  /** Code, classes, threads and the collector's own: what a JVM takes in any case. */
  private static final int JVM_MB = 200;

  private static final int BITS_OF_MB = 20;

  private final int matricesMb;
  private final int logsMb;
  private final int ranks;
  private final int overheadMb;
  private final boolean isSet;
  private final boolean isLimited;

  private ExecutorMemory(
      int matricesMb, int logsMb, int ranks, int overheadMb, boolean isSet, boolean isLimited) {
    this.matricesMb = matricesMb;
    this.logsMb = logsMb;
    this.ranks = ranks;
    this.overheadMb = overheadMb;
    this.isSet = isSet;
    this.isLimited = isLimited;
  }

  /**
   * Of an application.
   *
   * @param matrixBytes of a rank's largest matrices together ({@link #matrixBytes}); 0 for none
   * @param logBytes the most of an executor's logs that are in memory
   * @param ranks the most that share an executor
   */
  static ExecutorMemory of(
      SparkConf conf, String master, long matrixBytes, long logBytes, int ranks) {
    long heap = conf.getSizeAsMb("spark.executor.memory", "1g");
    long least = conf.getSizeAsMb("spark.executor.minMemoryOverhead", "384m");
    double factor = conf.getDouble("spark.executor.memoryOverheadFactor", 0.1);
    boolean isSet = conf.contains("spark.executor.memoryOverhead");
    long overhead =
        isSet
            ? conf.getSizeAsMb("spark.executor.memoryOverhead")
            : Math.max(least, (long) (factor * heap));
    return new ExecutorMemory(
        megabytes(matrixBytes * ranks),
        megabytes(logBytes),
        ranks,
        (int) Math.min(Integer.MAX_VALUE, overhead),
        isSet,
        master.startsWith("yarn") || master.startsWith("k8s"));
  }

  /** What XGBoost makes of pages of so many bytes. */
  static long matrixBytes(long pageBytes) {
    return (long) (MATRIX_SHARE * pageBytes);
  }

  private static int megabytes(long bytes) {
    return (int) Math.min(Integer.MAX_VALUE, (bytes >> BITS_OF_MB) + 1);
  }

  private long needed() {
    return (long) matricesMb + logsMb + JVM_MB;
  }

  /** What an executor may take beside its heap, as a sentence's part. */
  String account() {
    return String.format(
        Locale.ROOT,
        "an executor may take %d MB beside its heap: %d for the matrices of %d, up to %d of logs"
            + " (spark.rejoin.log.memory), some %d of the JVM itself",
        needed(),
        matricesMb,
        ranks,
        logsMb,
        JVM_MB);
  }

  /** What is to be done where its container has less for it; empty where it has enough. */
  Optional<String> tooLittle() {
    return !isLimited || needed() <= overheadMb
        ? Optional.empty()
        : Optional.of(
            String.format(
                Locale.ROOT,
                "its container has %d MB for that (spark.executor.memoryOverhead%s), and is killed"
                    + " when it takes more: set spark.executor.memoryOverhead to %dm",
                overheadMb,
                isSet ? "" : ", by default",
                needed()));
  }
}

package io.rejoin.spark;

import io.rejoin.Faults;
import io.rejoin.NativeLibrary;
import io.rejoin.RejoinException;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.lang.reflect.InvocationTargetException;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;

/**
 * What Python's {@code rejoin.spark} calls on the driver, and nobody else: a gang whose ranks are
 * the Python workers of its tasks.
 */
public final class PythonGang {
  private final Surroundings surroundings;
  private final SettingValues settings;
  private final WorldBounds bounds;
  private final String checkpointAdvice;
  private final int rounds;
  private final PythonFunction function;
  private final Listeners listeners;

  private PythonGang(
      Surroundings surroundings,
      SettingValues settings,
      WorldBounds bounds,
      String checkpointAdvice,
      int rounds,
      PythonFunction function,
      Listeners listeners) {
    this.listeners = listeners;
    this.surroundings = surroundings;
    this.settings = settings;
    this.bounds = bounds;
    this.checkpointAdvice = checkpointAdvice;
    this.rounds = rounds;
    this.function = function;
  }

  /** The version of this jar, which has to be that of the Python package. */
  public static String version() {
    return NativeLibrary.version();
  }

  /**
   * Runs a function in lock step; returns the bytes that all ranks have finished with.
   *
   * @param data what the ranks read, as Arrow batches in the format of its streams; null for none
   * @param workers how many ranks there are, all at once, a slot each
   * @param divide whether data of another number of partitions is divided anew, not refused
   * @param function what pyspark has made of a function over the partition: it gets the launch
   *     record ({@link PythonProgram}), then the batches
   * @param workersName what the user calls the number of workers
   * @param checkpointAdvice {@link GangProgram#checkpointAdvice}
   * @param rounds how many rounds are trained, at most; 0 where it is not known
   * @param output gets what ranks print
   * @throws RejoinException as {@link RejoinSpark#train(Dataset, int, RankFunction)}; BAD_ARGUMENT
   *     before any work where a durable folder is asked for
   */
  public static byte[] run(
      SparkSession session,
      Dataset<Row> data,
      int workers,
      boolean divide,
      PythonFunction function,
      String workersName,
      String checkpointAdvice,
      int rounds,
      PythonOutput output) {
    SettingValues settings = SparkSettings.of(session);
    refuseWhatPythonLacks(settings);
    WorldBounds.refuse(
        settings, "trainings whose ranks are in Python workers have a fixed one; unset both");
    Listeners listeners = Listeners.of(settings, output);
    NativeLibrary.logLevel(settings.text(CommonSettings.LOG_LEVEL));
    Surroundings surroundings = new Surroundings(session.sparkContext(), workers);
    surroundings.check(workersName);
    PythonGang gang =
        new PythonGang(
            surroundings,
            settings,
            WorldBounds.fixed(workers, workersName),
            checkpointAdvice,
            rounds,
            function,
            listeners);
    output.runsIn(Thread.currentThread());
    try {
      return new Beginnings(settings, surroundings, Faults.none())
          .train(
              none ->
                  data == null
                      ? gang.runWithoutRows()
                      : gang.runWith(RejoinSpark.replanned(data), divide));
    } finally {
      output.runsIn(null);
    }
  }

  private byte[] runWithoutRows() {
    SparkContext context = surroundings.context();
    int workers = surroundings.workers();
    try (GangAdmission.AdmittedGang admittedGang =
        GangAdmission.of(context).admit(context, bounds, settings)) {
      RDD<byte[]> none =
          JavaSparkContext.fromSparkContext(context)
              .<byte[]>parallelize(Collections.emptyList(), workers)
              .rdd();
      return run(admittedGang, none, Collections.emptyList());
    }
  }

  private byte[] runWith(Dataset<Row> data, boolean divide) {
    SparkContext context = surroundings.context();
    int workers = surroundings.workers();
    InputPreparation preparation =
        new InputPreparation(settings, data.sparkSession(), Optional.empty());
    Dataset<Row> divided = divide ? RejoinSpark.divided(data, workers) : data;
    StructType schema = divided.schema();
    try (GangAdmission.AdmittedGang admittedGang =
            GangAdmission.of(context).admit(context, bounds, settings);
        PreparedInput input =
            preparation.prepare("training", () -> PagedRows.ofAnyKind(divided), workers)) {
      return run(
          admittedGang,
          arrowBatches(preparation.frame(input, schema)),
          Collections.singletonList(input));
    }
  }

  private byte[] run(
      GangAdmission.AdmittedGang admittedGang, RDD<byte[]> rows, List<PreparedInput> inputs) {
    long most = inputs.stream().mapToLong(PreparedInput::largestPartitionBytes).max().orElse(0);
    PythonProgram program = new PythonProgram(checkpointAdvice, rounds, most);
    return new GangJob(surroundings, admittedGang, settings, listeners, Faults.none(), null)
        .run(rows, inputs, program, gang -> new PythonRDD(gang, function, true, false));
  }

  /** An agent in a Python worker knows no Hadoop file system. */
  private static void refuseWhatPythonLacks(SettingValues settings) {
    if (!settings.text(SparkSettings.DURABLE).isEmpty()) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "spark.rejoin.durable is "
              + settings.text(SparkSettings.DURABLE)
              + "; trainings whose ranks are in Python workers have no durable folder, so unset it"
              + " for this session");
    }
  }

  /** What Spark itself gives pandas. Its class is another one from Spark 4 on. */
  @SuppressWarnings("unchecked")
  private static RDD<byte[]> arrowBatches(Dataset<Row> rows) {
    try {
      return (RDD<byte[]>) rows.getClass().getMethod("toArrowBatchRdd").invoke(rows);
    } catch (NoSuchMethodException | IllegalAccessException | InvocationTargetException e) {
      throw new RejoinException(
          RejoinException.Code.INCOMPATIBLE,
          "Spark "
              + rows.sparkSession().version()
              + " has no usable Dataset.toArrowBatchRdd; supported are 3.5 and 4.1",
          e);
    }
  }
}

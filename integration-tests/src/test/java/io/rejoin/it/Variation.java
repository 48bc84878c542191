package io.rejoin.it;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** Settings of the product that must change nothing about the model, and what they need to run. */
enum Variation {
  /** As it comes. */
  DEFAULT(Map.of()),
  /** All links are encrypted. */
  ENCRYPTED(Map.of("spark.rejoin.encrypt", "true")),
  /** XGBoost's collectives go through the bridge. */
  BRIDGE(Map.of("spark.rejoin.hook", "off")),
  /** The input is stored in the checkpoint directory. */
  CHECKPOINTED(Map.of("spark.rejoin.input", "checkpoint")),
  /** The input is read again from its source. */
  REREAD(Map.of("spark.rejoin.input", "reread")),
  /** Logs find room on disk only. */
  SPILLING(Map.of("spark.rejoin.log.memory", "64k"));

  private static final Set<String> WRITTEN = new HashSet<>();

  private final Map<String, String> settings;

  Variation(Map<String, String> settings) {
    this.settings = settings;
  }

  /**
   * Whether a recipe can be trained so: what has to be sorted by groups, or evaluated beside, is
   * shuffled by the stock preparation, and such an input can't be read again.
   */
  boolean suits(Recipe recipe) {
    return this != REREAD || recipe != Recipe.RANKING && recipe != Recipe.EARLY_STOPPING;
  }

  /**
   * Whether it trains on other rows than the rest, so that it has an undisturbed training of its
   * own.
   */
  boolean hasRowsOfItsOwn() {
    return this == REREAD;
  }

  /** The rows that a recipe trains on. */
  Dataset<Row> rows(SparkSession spark, Recipe recipe, int workers) {
    if (this != REREAD) {
      return recipe.data(spark, workers);
    }
    String name = recipe + "-" + workers;
    String folder = Sessions.cluster().work().folder("source").resolve(name).toString();
    synchronized (WRITTEN) {
      if (WRITTEN.add(name)) {
        recipe
            .data(spark, workers)
            .select("label", "features")
            .repartition(workers)
            .write()
            .mode("overwrite")
            .parquet(folder);
      }
    }
    return spark.read().parquet(folder);
  }

  /** Sets them for a training. */
  void apply(SparkSession spark, RejoinRun run) {
    if (this == CHECKPOINTED) {
      String folder = Sessions.cluster().work().folder("checkpoints").toString();
      spark.sparkContext().setCheckpointDir(folder);
    }
    settings.forEach(run::setting);
  }

  /** What shows that they had an effect, or null; asked after the training. */
  String withoutEffect(RejoinRun run) {
    boolean spilled =
        run.events().stream()
            .filter(event -> event.kind() == io.rejoin.TrainingEvent.Kind.USAGE)
            .anyMatch(event -> event.number("spilled_bytes") > 0);
    if (this == SPILLING && !spilled) {
      return "no byte of the logs went to disk";
    }
    boolean hooked =
        run.events().stream()
            .filter(event -> event.kind() == io.rejoin.TrainingEvent.Kind.HOOK_AGREED)
            .anyMatch(event -> Boolean.parseBoolean(event.text("hooked")));
    return hooked == (this == BRIDGE) ? "XGBoost's collectives went the other way" : null;
  }
}

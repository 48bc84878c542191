package io.rejoin.it;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.ml.feature.VectorAssembler;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * The RAND Health Insurance Experiment, 20,190 person-years in {@code integration-tests/data}: nine
 * facts about a person, and how often he or she went to a doctor that year.
 *
 * <p>The file is small, so Spark reads it as one partition: what is shuffled from it arrives in one
 * block, whose order is fixed. That is why two stock runs on it agree byte for byte, and why ours
 * can be compared with them.
 */
public final class Randhie {
  /** The columns that a model may see. */
  static final String[] FEATURES = {
    "lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp"
  };

  /** The property that says how often each row is there: the demo trains on more of them. */
  static final String REPEAT = "rejoin.it.repeat";

  private Randhie() {}

  /** How often each row is there. */
  static int repeat() {
    return Integer.getInteger(REPEAT, 1);
  }

  /**
   * The file; the property {@code rejoin.it.data} names another folder than {@code
   * integration-tests/data}.
   */
  public static Path file() {
    Path file =
        Path.of(System.getProperty("rejoin.it.data", "integration-tests/data"), "randhie.csv")
            .toAbsolutePath();
    if (!Files.isReadable(file)) {
      throw new IllegalStateException(
          "no data at " + file + ": run from the project's root, or set -Drejoin.it.data");
    }
    return file;
  }

  /**
   * Some rows as one partition: 40,380, or the so-manieth part where there are no copies. A sample
   * of copies would make them all first.
   */
  static Dataset<Row> some(Dataset<Row> rows, int parts) {
    return repeat() > 2
        ? rows.where(functions.col("copy").leq(2))
        : rows.sample(1.0 / parts, parts);
  }

  /** The rows with {@code features}, and the counted visits as {@code visits}. */
  private static Dataset<Row> read(SparkSession spark) {
    StringBuilder schema = new StringBuilder("mdvis DOUBLE");
    for (String feature : FEATURES) {
      schema.append(", ").append(feature).append(" DOUBLE");
    }
    Dataset<Row> table =
        spark.read().option("header", "true").schema(schema.toString()).csv(file().toString());
    if (repeat() > 1) {
      // Still one partition, in one order.
      Column copies = functions.sequence(functions.lit(1), functions.lit(repeat()));
      table = table.withColumn("copy", functions.explode(copies));
    }
    return new VectorAssembler().setInputCols(FEATURES).setOutputCol("features").transform(table);
  }

  /** {@code label} 1: went to a doctor at all. */
  public static Dataset<Row> anyVisit(SparkSession spark) {
    return read(spark).withColumn("label", functions.col("mdvis").gt(0).cast(DataTypes.DoubleType));
  }

  /** {@code label}: how many visits. */
  public static Dataset<Row> visits(SparkSession spark) {
    return read(spark).withColumn("label", functions.col("mdvis"));
  }

  /** {@code label}: 0 none, 1 up to three, 2 more. */
  public static Dataset<Row> fewOrMany(SparkSession spark) {
    return read(spark)
        .withColumn(
            "label",
            functions
                .when(functions.col("mdvis").equalTo(0), 0.0)
                .when(functions.col("mdvis").leq(3), 1.0)
                .otherwise(2.0));
  }
}

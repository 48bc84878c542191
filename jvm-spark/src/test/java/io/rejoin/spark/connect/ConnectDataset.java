package io.rejoin.spark.connect;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** A data set whose class lies, like those of Spark 4's Connect clients, in a package connect. */
public final class ConnectDataset extends Dataset<Row> {
  private static final long serialVersionUID = 1L;

  /** Looks like another one. */
  public ConnectDataset(Dataset<Row> like) {
    super(like.queryExecution(), like.encoder());
  }
}

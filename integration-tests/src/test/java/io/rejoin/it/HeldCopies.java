package io.rejoin.it;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.RandomBlockReplicationPolicy;
import scala.collection.Seq;
import scala.collection.immutable.List;
import scala.collection.immutable.Nil$;
import scala.collection.mutable.HashSet;

/**
 * Spark's own policy of where copies of blocks go (spark.storage.replication.policy), which knows
 * of no place as long as a file is there. Public, because executors make it by its name.
 */
public final class HeldCopies extends RandomBlockReplicationPolicy {
  /** The executor's system property that names the file. */
  static final String FILE = "rejoin.it.held.copies";

  @Override
  @SuppressWarnings("unchecked")
  public List<BlockManagerId> prioritize(
      BlockManagerId here,
      Seq<BlockManagerId> others,
      HashSet<BlockManagerId> have,
      BlockId block,
      int copies) {
    return Files.exists(Path.of(System.getProperty(FILE)))
        ? (List<BlockManagerId>) (Object) Nil$.MODULE$
        : super.prioritize(here, others, have, block, copies);
  }
}

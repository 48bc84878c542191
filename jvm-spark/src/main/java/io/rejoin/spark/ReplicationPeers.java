package io.rejoin.spark;

import java.lang.reflect.InvocationTargetException;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.BlockManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The executors that a block may be copied to. Spark asks for them once a minute ({@code
 * spark.storage.cachedPeersTtl}): until then an executor that has just come is unknown, and one
 * that has died is tried in vain. A fit that follows a death would find too few copies.
 */
final class ReplicationPeers {
  private static final Logger LOG = LoggerFactory.getLogger(ReplicationPeers.class);

  private ReplicationPeers() {}

  /**
   * Has this process ask anew, before it stores blocks. By reflection, because the method's result
   * has another type in each Scala version. Without it copies are made a minute later, so a failure
   * is only logged: copies are counted afterwards anyway.
   */
  static void refresh() {
    try {
      BlockManager.class
          .getMethod("getPeers", boolean.class)
          .invoke(SparkEnv.get().blockManager(), true);
    } catch (NoSuchMethodException | IllegalAccessException | InvocationTargetException e) {
      LOG.warn("the executors for copies can't be asked for anew", e);
    }
  }
}

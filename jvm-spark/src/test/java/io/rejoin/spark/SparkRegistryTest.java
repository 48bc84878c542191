package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.JobId;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What a gang's book says of tasks of a real Spark. */
class SparkRegistryTest {
  private static SparkSession session;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[2,4]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  /** A job of two tasks, of which the first one fails twice and the second one once. */
  private static void failingJob() {
    JavaSparkContext.fromSparkContext(session.sparkContext())
        .parallelize(List.of(0, 1), 2)
        .foreachPartition(
            rows -> {
              TaskContext task = TaskContext.get();
              if (task.attemptNumber() < 2 - task.partitionId()) {
                throw new IllegalStateException("this try fails");
              }
            });
  }

  @Test
  void failures_are_counted_for_each_rank_of_the_own_job_alone() {
    JobId job = JobId.random();
    try (Tracker tracker =
        Tracker.open(job, Secret.random(), new Tracker.Settings(2, "127.0.0.1"))) {
      SparkRegistry registry = new SparkRegistry(session.sparkContext(), tracker);
      session.sparkContext().addSparkListener(registry);
      try {
        failingJob();
        registry.catchUp();
        assertEquals(0, registry.mostFailuresOfOneRank(), "another job's failures");

        session.sparkContext().setLocalProperty(SparkRegistry.PROPERTY, job.toString());
        failingJob();
        registry.catchUp();
        assertEquals(2, registry.mostFailuresOfOneRank());
        assertTrue(registry.lastFailure().contains("this try fails"), registry.lastFailure());
      } finally {
        session.sparkContext().setLocalProperty(SparkRegistry.PROPERTY, null);
        session.sparkContext().removeSparkListener(registry);
      }
    }
  }
}

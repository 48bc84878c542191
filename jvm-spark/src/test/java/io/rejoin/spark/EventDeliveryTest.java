package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.JobId;
import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassificationModel;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class EventDeliveryTest {
  @Test
  void a_listener_that_throws_or_never_returns_holds_up_nothing() throws Exception {
    SparkSession session = LocalSpark.start("local[2,4]");
    CountDownLatch stuck = new CountDownLatch(1);
    try {
      Dataset<Row> rows = LocalSpark.rows(session, 600, 1).repartition(2).cache();
      List<Kind> reported = Collections.synchronizedList(new ArrayList<>());
      XGBoostClassificationModel calm =
          estimator()
              .setEventListener(
                  event -> {
                    reported.add(event.kind());
                    throw new IllegalStateException("the user's listener has a bug");
                  })
              .fit(rows);
      assertTrue(
          reported.contains(Kind.AGENT_JOINED) && reported.contains(Kind.JOB_ENDED), "" + reported);

      session.conf().set("spark.rejoin.listeners", Beside.class.getName());
      List<Kind> first = Collections.synchronizedList(new ArrayList<>());
      XGBoostClassificationModel held =
          estimator()
              .setEventListener(
                  event -> {
                    first.add(event.kind());
                    await(stuck);
                  })
              .fit(rows);
      assertArrayEquals(
          calm.nativeBooster().toByteArray("ubj"), held.nativeBooster().toByteArray("ubj"));
      assertEquals(1, first.size(), "the listener is still busy with its first event");
      assertEquals(Kind.JOB_ENDED, Beside.last, "one beside it waits for nothing");
    } finally {
      stuck.countDown();
      session.stop();
    }
  }

  /** A listener by the setting, beside the one that never returns. */
  public static final class Beside implements RejoinListener {
    private static volatile Kind last;

    @Override
    public void onEvent(JobId job, TrainingEvent event) {
      last = event.kind();
    }
  }

  private static RejoinEstimator<XGBoostClassificationModel> estimator() {
    return new RejoinEstimator<XGBoostClassificationModel>(LocalSpark.classifier(2, 3));
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await(60, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}

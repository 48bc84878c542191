package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.spark.connect.ConnectDataset;
import org.apache.spark.SparkContext;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class SurroundingsTest {
  private static SparkSession session;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[2,3]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  private static Surroundings surroundings() {
    SparkContext context = session.sparkContext();
    StockEstimator stock = StockEstimator.of(LocalSpark.classifier(2, 2), ParamMap.empty());
    return new Surroundings(context, stock.runtime(true));
  }

  @Test
  void a_client_of_spark_connect_is_refused_before_anything_is_asked_of_it() {
    ConnectDataset remote = new ConnectDataset(LocalSpark.rows(session, 10, 1));
    RejoinException failure =
        assertThrows(
            RejoinException.class,
            () -> new RejoinEstimator<>(LocalSpark.classifier(2, 2)).fit(remote));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    assertTrue(failure.text().contains("Spark Connect"), failure.text());
  }

  @Test
  void in_local_mode_the_second_number_of_the_master_counts() {
    assertEquals(2, surroundings().deathsRetried());
    assertTrue(surroundings().deathsSetting().contains("local[threads,failures]"));
    assertEquals("use local[2,4]", surroundings().deathsAdvice());
  }

  @Test
  void gpus_are_refused_with_what_to_do() {
    surroundings().check(false);
    RejoinException failure = assertThrows(RejoinException.class, () -> surroundings().check(true));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    assertTrue(failure.text().contains("device cpu"), failure.text());
  }
}

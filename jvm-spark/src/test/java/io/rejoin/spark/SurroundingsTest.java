package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import io.rejoin.spark.connect.ConnectDataset;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.Map;
import ml.dmlc.xgboost4j.scala.spark.XGBoostClassifier;
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
    return new Surroundings(context, 2);
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
  void before_the_death_that_ends_the_job_one_line_says_so() {
    assertTrue(SparkRegistry.lastDeath(1, 1, 1, 1, surroundings()).isEmpty());
    String warning = SparkRegistry.lastDeath(1, 2, 1, 2, surroundings()).orElseThrow();
    assertTrue(warning.startsWith("rank 1 has died 2 times"), warning);
    assertTrue(warning.contains("local[threads,failures]"), warning);
  }

  @Test
  void failures_of_a_task_before_it_has_joined_count_for_that_line_too() {
    for (int rank : new int[] {-1, 1}) {
      String warning = SparkRegistry.lastDeath(rank, 1, 3, 2, surroundings()).orElseThrow();
      assertTrue(warning.startsWith("task 3 has failed 2 times"), warning);
      assertTrue(warning.contains("local[threads,failures]"), warning);
    }
    assertTrue(SparkRegistry.lastDeath(-1, 0, 3, 1, surroundings()).isEmpty());
  }

  @Test
  void without_a_number_of_cores_all_ranks_may_be_on_one_executor() {
    assertEquals(2, surroundings().mostRanksOfAnExecutor(2));
  }

  @Test
  void gpus_are_refused_with_what_to_do() {
    XGBoostClassifier classifier = LocalSpark.classifier(2, 2);
    classifier.setDevice("cuda");
    RejoinException failure =
        assertThrows(
            RejoinException.class,
            () -> new RejoinEstimator<>(classifier).fit(LocalSpark.rows(session, 10, 1)));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    assertTrue(failure.text().contains("device cpu"), failure.text());
  }

  @Test
  void the_stock_settings_of_a_tracker_win_over_ours() {
    SettingValues ours =
        SparkSettings.of(
            Map.of(
                "spark.rejoin.tracker.ports", "40000-40010",
                "spark.rejoin.members.timeout", "7min"));
    StockEstimator unset = StockEstimator.of(LocalSpark.classifier(2, 2), ParamMap.empty());
    StockTracker none = new StockTracker(unset.runtime(true).trackerConf());
    assertEquals("127.0.0.1", none.host(surroundings()).trackerHost());
    SettingValues kept = none.over(ours);
    assertEquals("40000-40010", kept.text(CommonSettings.TRACKER_PORTS));
    assertEquals(420_000, kept.number(CommonSettings.MEMBERS_TIMEOUT));

    XGBoostClassifier classifier = LocalSpark.classifier(2, 2);
    classifier.setRabitTrackerHostIp("127.0.0.2");
    classifier.setRabitTrackerPort(31234);
    classifier.setRabitTrackerTimeout(90);
    StockEstimator stock = StockEstimator.of(classifier, ParamMap.empty());
    StockTracker theirs = new StockTracker(stock.runtime(true).trackerConf());
    assertEquals("127.0.0.2", theirs.host(surroundings()).trackerHost());
    SettingValues stocks = theirs.over(ours);
    assertEquals("31234-31234", stocks.text(CommonSettings.TRACKER_PORTS));
    assertEquals(90_000, stocks.number(CommonSettings.MEMBERS_TIMEOUT));
  }

  @Test
  void what_a_stock_setting_of_a_tracker_says_is_refused_by_its_name() throws IOException {
    XGBoostClassifier hasty = LocalSpark.classifier(2, 2);
    hasty.setRabitTrackerTimeout(20);
    session.conf().set("spark.rejoin.workers.min", "1");
    try {
      String text = refused(hasty);
      assertTrue(text.contains("less than rabitTrackerTimeout (20000 ms)"), text);
    } finally {
      session.conf().unset("spark.rejoin.workers.min");
    }
    try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      int port = taken.getLocalPort();
      XGBoostClassifier fixed = LocalSpark.classifier(2, 2);
      fixed.setRabitTrackerPort(port);
      String text = refused(fixed);
      assertTrue(text.contains("(rabitTrackerPort is " + port), text);
    }
  }

  private static String refused(XGBoostClassifier classifier) {
    RejoinException failure =
        assertThrows(
            RejoinException.class,
            () -> new RejoinEstimator<>(classifier).fit(LocalSpark.rows(session, 100, 1)));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code(), failure.text());
    return failure.text();
  }
}

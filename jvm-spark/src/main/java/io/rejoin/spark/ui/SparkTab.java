package io.rejoin.spark.ui;

import java.util.Collections;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.package$;
import org.apache.spark.status.AppStatusStore;
import org.apache.spark.ui.SparkUI;
import org.apache.spark.ui.UIUtils;
import org.apache.spark.ui.WebUITab;
import scala.Tuple2;
import scala.collection.Iterator;

/** Attaches the tab to a web UI of Spark's, of an application that runs or of one that is over. */
final class SparkTab {
  private SparkTab() {}

  /**
   * Attaches it.
   *
   * @throws ReflectiveOperationException when this jar has no tab for this Spark
   */
  static void attach(SparkUI ui, Supplier<TabJobs> jobs) throws ReflectiveOperationException {
    AppStatusStore store = ui.store();
    Function<String, String> page =
        job -> jobs.get().html(job, UIUtils::formatDate, executor -> logs(store, executor));
    ui.attachTab(
        Class.forName(implementation())
            .asSubclass(WebUITab.class)
            .getConstructor(SparkUI.class, Function.class)
            .newInstance(ui, page));
  }

  /** Which of the two there is: Spark 4 has its servlets by another name. */
  private static String implementation() {
    String servlets = package$.MODULE$.SPARK_VERSION().startsWith("3.") ? "Javax" : "Jakarta";
    return SparkTab.class.getPackageName() + "." + servlets + "Tab";
  }

  /**
   * Of an executor that is there, or that was; what a Python worker says stands in its executor's.
   *
   * @param process the executor's id, or the name of a Python worker of it
   */
  private static Map<String, String> logs(AppStatusStore store, String process) {
    String executor = WorkerName.executorOf(process);
    try {
      Map<String, String> logs = new TreeMap<>();
      Iterator<Tuple2<String, String>> all =
          store.executorSummary(executor).executorLogs().iterator();
      while (all.hasNext()) {
        Tuple2<String, String> log = all.next();
        logs.put(log._1(), log._2());
      }
      return logs;
    } catch (NoSuchElementException e) {
      // Spark keeps the newest dead ones alone (spark.ui.retainedDeadExecutors).
      return Collections.emptyMap();
    }
  }
}

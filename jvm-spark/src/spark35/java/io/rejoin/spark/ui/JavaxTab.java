package io.rejoin.spark.ui;

import java.util.function.Function;
import javax.servlet.http.HttpServletRequest;
import org.apache.spark.ui.SparkUI;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.ui.UIUtils;
import org.apache.spark.ui.WebUIPage;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.xml.Node;
import scala.xml.Unparsed;

/** The tab in the web UI of Spark 3, whose servlets are {@code javax}'s. */
public final class JavaxTab extends SparkUITab {
  /** Of pages that a function makes, of the job in the address or of all (null). */
  public JavaxTab(SparkUI ui, Function<String, String> pages) {
    super(ui, "rejoin");
    attachPage(new Page(this, pages));
  }

  private static final class Page extends WebUIPage {
    private final SparkUITab tab;
    private final Function<String, String> pages;

    Page(SparkUITab tab, Function<String, String> pages) {
      super("");
      this.tab = tab;
      this.pages = pages;
    }

    // With Scala 2.12 the page comes as a more general sequence, and is an immutable one all the
    // same.
    @SuppressWarnings("cast")
    @Override
    public Seq<Node> render(HttpServletRequest request) {
      Unparsed page = new Unparsed(pages.apply(request.getParameter("job")));
      return (Seq<Node>)
          UIUtils.headerSparkPage(
              request, "Trainings with Rejoin", () -> page, tab, Option.empty(), false, false);
    }
  }
}

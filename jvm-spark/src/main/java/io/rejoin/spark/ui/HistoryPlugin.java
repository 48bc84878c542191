package io.rejoin.spark.ui;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.status.AppHistoryServerPlugin;
import org.apache.spark.status.ElementTrackingStore;
import org.apache.spark.ui.SparkUI;
import org.apache.spark.util.kvstore.KVStore;
import org.apache.spark.util.kvstore.KVStoreIterator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.List;
import scala.collection.immutable.Nil$;

/**
 * The tab in Spark's history server, which finds this class by {@code META-INF/services}: it keeps
 * our events of an event log in the server's store, and makes the pages of them.
 */
public final class HistoryPlugin implements AppHistoryServerPlugin {
  private static final Logger LOG = LoggerFactory.getLogger(HistoryPlugin.class);

  /** Made by the history server. */
  public HistoryPlugin() {}

  @Override
  public List<SparkListener> createListeners(SparkConf conf, ElementTrackingStore store) {
    @SuppressWarnings("unchecked")
    List<SparkListener> none = (List<SparkListener>) (Object) Nil$.MODULE$;
    return none.$colon$colon(new Keeper(store));
  }

  @Override
  public void setupUI(SparkUI ui) {
    KVStore store = ui.store().store();
    try {
      if (store.count(PostedEvent.class) > 0) {
        SparkTab.attach(ui, () -> jobs(store));
      }
    } catch (Exception | LinkageError e) {
      LOG.warn("trainings have no tab here: {}", e.toString(), e);
    }
  }

  /** The jobs of which this store has events. */
  static TabJobs jobs(KVStore store) {
    TabJobs jobs = new TabJobs();
    try (KVStoreIterator<PostedEvent> events = store.view(PostedEvent.class).closeableIterator()) {
      while (events.hasNext()) {
        PostedEvent next = events.next();
        try {
          jobs.accept(next.job(), next.event());
        } catch (RuntimeException e) {
          LOG.debug("an event that another version of Rejoin may have written: {}", next.name(), e);
        }
      }
      return jobs;
    } catch (Exception e) {
      throw new IllegalStateException("the history server's store can't be read", e);
    }
  }

  /** Puts our events into the store, those of the newest jobs. */
  private static final class Keeper extends SparkListener {
    private final ElementTrackingStore store;
    private final Map<String, Deque<Long>> numbers = new HashMap<>();
    private final Deque<String> jobs = new ArrayDeque<>();

    Keeper(ElementTrackingStore store) {
      this.store = store;
    }

    @Override
    public void onOtherEvent(SparkListenerEvent event) {
      if (event instanceof PostedEvent) {
        PostedEvent ours = (PostedEvent) event;
        if (ours.name().equals(JobView.BEGAN)) {
          begin(ours.job());
        }
        Deque<Long> known = numbers.get(ours.job());
        if (known != null) {
          known.add(ours.number());
          store.write(ours);
        }
      }
    }

    private void begin(String job) {
      jobs.add(job);
      numbers.put(job, new ArrayDeque<>());
      if (jobs.size() > TabJobs.MOST) {
        numbers.remove(jobs.remove()).forEach(one -> store.delete(PostedEvent.class, one));
      }
    }
  }
}

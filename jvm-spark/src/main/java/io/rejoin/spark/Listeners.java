package io.rejoin.spark;

import io.rejoin.EventDelivery;
import io.rejoin.JobId;
import io.rejoin.RejoinException;
import io.rejoin.TrainingEvent;
import io.rejoin.settings.SettingValues;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** What a fit's user has for its events: a function of the fit's own, and classes by a setting. */
final class Listeners {
  private final Consumer<TrainingEvent> own;
  private final List<RejoinListener> named = new ArrayList<>();

  private Listeners(Consumer<TrainingEvent> own) {
    this.own = own;
  }

  /**
   * Makes the listeners that {@code spark.rejoin.listeners} names.
   *
   * @param own the fit's own, or null
   * @throws RejoinException BAD_ARGUMENT for a class of which no listener can be made
   */
  static Listeners of(SettingValues settings, Consumer<TrainingEvent> own) {
    Listeners listeners = new Listeners(own);
    for (String each : settings.text(SparkSettings.LISTENERS).split(",")) {
      String name = each.trim();
      if (!name.isEmpty()) {
        listeners.named.add(make(name, settings));
      }
    }
    return listeners;
  }

  /**
   * Begins to deliver a job's events, to each listener on a thread of its own: one that hangs holds
   * up neither the driver's log nor another one.
   */
  List<EventDelivery> open(JobId job, Consumer<TrainingEvent> reporter) {
    List<EventDelivery> all = new ArrayList<>();
    all.add(delivery("reporter", job, reporter));
    if (own != null) {
      all.add(delivery("listener", job, own));
    }
    for (RejoinListener each : named) {
      String name = "listener " + each.getClass().getName();
      all.add(delivery(name, job, event -> each.onEvent(job, event)));
    }
    return all;
  }

  private static EventDelivery delivery(String name, JobId job, Consumer<TrainingEvent> listener) {
    return new EventDelivery("rejoin-" + name + " of job " + job.brief(), listener);
  }

  private static RejoinListener make(String name, SettingValues settings) {
    ClassLoader context = Thread.currentThread().getContextClassLoader();
    try {
      // The context's: jars that are given by --jars are in no other one.
      return Class.forName(name, true, context != null ? context : Listeners.class.getClassLoader())
          .asSubclass(RejoinListener.class)
          .getConstructor()
          .newInstance();
    } catch (InvocationTargetException e) {
      throw refused(name, settings, "its constructor has thrown " + e.getCause(), e);
    } catch (ReflectiveOperationException | LinkageError | ClassCastException e) {
      throw refused(name, settings, "there was " + e, e);
    }
  }

  private static RejoinException refused(
      String name, SettingValues settings, String seen, Throwable cause) {
    return new RejoinException(
        RejoinException.Code.BAD_ARGUMENT,
        settings.name(SparkSettings.LISTENERS)
            + " names "
            + name
            + ", of which no listener can be made: "
            + seen
            + "; expected a public class in the application's jar or in one of --jars or"
            + " --packages, that implements "
            + RejoinListener.class.getName()
            + " and has a public constructor without parameters",
        cause);
  }
}

package io.rejoin;

import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.io.Serializable;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * What a task of a gang does in its process, whatever framework runs it: it finds or starts the
 * process's agent, trains, and after a failure that would repeat waits for the job's end. It
 * carries the job's secret, inside the framework's own traffic.
 */
public final class GangTask implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final long END_SECONDS = 10;
  private static final long POLL_MILLIS = 20;

  /** Where a task runs, as its framework knows it; cancelled when the framework wants its end. */
  public interface Place extends CancelSignal {
    /** The framework's name of the process. */
    String executor();

    /** The host's name, which has an address that the other processes reach. */
    String hostname();

    /**
     * A directory that is there, and that the framework removes. Logs are files without a name, so
     * they need no folder of their own.
     */
    String spillDirectory();

    /** Whether nothing of this job was tried before by this task. */
    boolean firstTry();
  }

  /** Starts an agent of a kind. */
  public interface Opener<A extends ProcessAgent> {
    /** As {@link Agent#open(JobId, Secret, AgentSettings)}. */
    A open(JobId job, Secret secret, AgentSettings settings);
  }

  private final JobId job;
  private final Secret secret;
  private final String tracker;
  private final SettingValues settings;

  /** The driver's: the processes of a cluster may have been given other jars. */
  private final String version = NativeLibrary.version();

  /**
   * For the tasks of a job whose tracker they reach at host:port. Each process finds the host's
   * address by itself: it may have another one there than where the tracker runs.
   */
  public GangTask(JobId job, Secret secret, String tracker, SettingValues settings) {
    this.job = job;
    this.secret = secret;
    this.tracker = tracker;
    this.settings = settings;
  }

  /** The settings of the job, read and checked at the driver. */
  public SettingValues settings() {
    return settings;
  }

  /** Trains with the process's agent; returns or throws as the training does. */
  public <A extends ProcessAgent> void run(
      Place place, Class<A> kind, Opener<A> opener, Consumer<A> training) {
    AgentSettings here = agentSettings(place);
    NativeLibrary.logLevel(settings.text(CommonSettings.LOG_LEVEL));
    A agent = agent(place, kind, () -> opener.open(job, secret, here));
    try {
      training.accept(agent);
    } catch (RejoinException e) {
      if (e.code().willRepeat()) {
        awaitTheEnd(place, System.nanoTime() + TimeUnit.SECONDS.toNanos(END_SECONDS));
      }
      throw e;
    }
  }

  /**
   * What a rank's process needs that runs beside the task and joins by the C library: keys and
   * values by turns, in UTF-8, a zero byte between two. The settings of an agent by the native
   * keys, and {@code version} (this jar's), {@code secret} (64 hexadecimal digits), {@code rank},
   * {@code stage}, {@code task} (the task's own, by which it asks for its rank in a job with
   * spares), {@code join.millis}, {@code call.millis}, {@code finish.millis}, {@code log.level}.
   * With the secret in it, it is for nothing but the framework's own channel between the two.
   *
   * @param more what the program needs besides
   */
  public byte[] launchRecord(Place place, RankTask rank, Map<String, String> more) {
    List<String> words = new ArrayList<>(Arrays.asList(agentSettings(place).words(job)));
    words.addAll(Arrays.asList("version", version));
    words.addAll(Arrays.asList("secret", secret.digits()));
    words.addAll(Arrays.asList("rank", String.valueOf(rank.rank())));
    words.addAll(Arrays.asList("stage", String.valueOf(rank.stage())));
    words.addAll(Arrays.asList("task", String.valueOf(rank.task())));
    words.addAll(Arrays.asList("join.millis", String.valueOf(rank.joinMillis())));
    String callMillis = String.valueOf(settings.number(CommonSettings.CALL_TIMEOUT));
    words.addAll(Arrays.asList("call.millis", callMillis));
    words.addAll(Arrays.asList("finish.millis", String.valueOf(rank.finishMillis())));
    words.addAll(Arrays.asList("log.level", settings.text(CommonSettings.LOG_LEVEL)));
    more.forEach((key, value) -> words.addAll(Arrays.asList(key, value)));
    return String.join("\0", words).getBytes(StandardCharsets.UTF_8);
  }

  private AgentSettings agentSettings(Place place) {
    checkVersion(place);
    return new AgentSettings(trackerAddress())
        .with(settings)
        .place(place.executor(), address(place.hostname()), place.hostname())
        .spillDirectory(place.spillDirectory());
  }

  private void checkVersion(Place place) {
    String here = NativeLibrary.version();
    if (!here.equals(version)) {
      throw new RejoinException(
          RejoinException.Code.INCOMPATIBLE,
          "the driver has Rejoin's jars of version "
              + version
              + ", this process (executor "
              + place.executor()
              + " on "
              + place.hostname()
              + ") of version "
              + here
              + "; expected one version everywhere. Look at the jars on the class path there");
    }
  }

  /**
   * A range of ports that doesn't suffice at the very start won't do so later. After a death it
   * may: what died, or is frozen, may hold its port for a moment. So a later try waits for a port,
   * for as long as the driver may need to hear of a first try that failed, and to end the job: it
   * would use up the framework's tries for nothing otherwise.
   */
  private <A extends ProcessAgent> A agent(Place place, Class<A> kind, Supplier<A> opener) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(END_SECONDS);
    while (true) {
      try {
        return Agents.of(job, place.executor(), kind, opener);
      } catch (RejoinException e) {
        if (place.firstTry()) {
          throw settings.portsAreTaken(CommonSettings.AGENT_PORTS, e);
        }
        if (e.code().willRepeat()) {
          awaitTheEnd(place, deadline);
        }
        if (e.code() != RejoinException.Code.IO || isOver(place, deadline)) {
          throw e;
        }
      }
      pause();
    }
  }

  /**
   * The tracker knows of a failure that will repeat, and the driver is about to end the job. If the
   * task failed before that, the framework would try it again for nothing.
   */
  private static void awaitTheEnd(Place place, long deadline) {
    while (!isOver(place, deadline)) {
      pause();
    }
  }

  private static boolean isOver(Place place, long deadline) {
    return place.cancelled().isPresent()
        || Thread.currentThread().isInterrupted()
        || System.nanoTime() >= deadline;
  }

  private static void pause() {
    try {
      Thread.sleep(POLL_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private String trackerAddress() {
    int colon = tracker.lastIndexOf(':');
    String host = tracker.substring(0, colon);
    try {
      String address = InetAddress.getByName(host).getHostAddress();
      return (address.contains(":") ? "[" + address + "]" : address) + tracker.substring(colon);
    } catch (UnknownHostException e) {
      throw new RejoinException(
          RejoinException.Code.TRACKER_UNREACHABLE,
          "the host name " + host + ", at which the tracker was to be reached, has no address here",
          e);
    }
  }

  /**
   * The address of a host by the name that the framework uses for it.
   *
   * @throws RejoinException IO when it has none
   */
  public static String address(String host) {
    try {
      return InetAddress.getByName(host).getHostAddress();
    } catch (UnknownHostException e) {
      throw new RejoinException(
          RejoinException.Code.IO,
          "the host name " + host + ", by which the framework knows this machine, has no address",
          e);
    }
  }
}

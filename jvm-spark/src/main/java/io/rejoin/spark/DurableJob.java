package io.rejoin.spark;

import io.rejoin.NativeLibrary;
import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A training that outlives its driver: a folder of its own below {@code spark.rejoin.durable}, with
 * the pages that it trains on and its newest checkpoints, named by a digest of all that the model
 * depends on. The same training of another application finds it and goes on. At success it is
 * removed.
 */
final class DurableJob implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(DurableJob.class);

  /** As long as agents wait for a checkpoint that is written there. */
  static final long LIMIT_MILLIS = 30_000;

  private static final int NAME_BYTES = 16;

  /** Failures that would come again from what is in the folder. */
  private static final Set<RejoinException.Code> OF_NO_USE =
      EnumSet.of(
          RejoinException.Code.TRAINING_FAILED,
          RejoinException.Code.MISMATCH,
          RejoinException.Code.INPUT_LOST);

  /** The trainings of this process that are at work, by application and digest. */
  private static final Set<String> AT_WORK = ConcurrentHashMap.newKeySet();

  /**
   * How many trainings have begun that nothing tells apart but their order (the folds of a
   * cross-validation under one name), by application and digest.
   */
  private static final Map<String, Integer> BEGUN = new ConcurrentHashMap<>();

  /** Those of which two were at work at once: their order says nothing. */
  private static final Set<String> WITHOUT_ORDER = ConcurrentHashMap.newKeySet();

  private final SparkContext context;
  private final DurableFolder folder;
  private final String key;
  private final WriterLock lock;

  /** What is stored there was refused. */
  private boolean isRefused;

  /** What the lists of its pages say of features. */
  private FeatureDescription features = FeatureDescription.NONE;

  private DurableJob(SparkContext context, DurableFolder folder, String key, WriterLock lock) {
    this.context = context;
    this.folder = folder;
    this.key = key;
    this.lock = lock;
  }

  /**
   * The durable side of a training, where the session wants one and the training can have one.
   * Those that only their name tells apart from others are known by their order in the application:
   * the second is the second one again. Where two of them are at work at once there is none, and
   * from then on none of them is durable.
   *
   * @param terms what the model depends on beside its input and the number of workers
   * @param inputs the data sets that it is trained on and evaluated on
   * @param isKnown whether the terms say all; without it, and for input that can't be told apart
   *     from other input, the user has to give a name
   * @throws RejoinException BAD_ARGUMENT where a name is needed and none is set, or another
   *     application is at work in the folder; IO when the folder can't be used
   */
  static Optional<DurableJob> of(
      SparkContext context,
      SettingValues settings,
      int workers,
      List<String> terms,
      List<? extends Dataset<?>> inputs,
      boolean isKnown) {
    String parent = settings.text(SparkSettings.DURABLE);
    if (parent.isEmpty()) {
      return Optional.empty();
    }
    MessageDigest sha = sha();
    String given = settings.text(SparkSettings.DURABLE_NAME);
    String all = given + "\n" + NativeLibrary.version() + "\n" + workers + "\n" + terms + "\n";
    sha.update(all.getBytes(StandardCharsets.UTF_8));
    PlanDigest plans = new PlanDigest(sha);
    inputs.forEach(plans::add);
    String unknown = isKnown ? plans.unknown() : "a function of the program's";
    if (unknown != null && given.isEmpty()) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "spark.rejoin.durable is set, but the training can't be known again by what it is"
              + " computed from ("
              + unknown
              + "): set spark.rejoin.durable.name to a name that stands for these rows and this"
              + " program, or write the input to files first");
    }
    String digest = digits(sha.digest());
    String key = context.applicationId() + " " + digest;
    boolean isAlone = AT_WORK.add(key);
    if (!isAlone && unknown != null) {
      WITHOUT_ORDER.add(key);
    }
    if (!isAlone || WITHOUT_ORDER.contains(key)) {
      if (isAlone) {
        AT_WORK.remove(key);
      }
      LOG.warn(
          "this training is not durable: {}",
          unknown == null
              ? "this application trains the same at this moment"
              : "this application trains, or has trained, several at once of the same name,"
                  + " parameters and plan ("
                  + unknown
                  + "); let them follow each other, or give each a spark.rejoin.durable.name of its"
                  + " own, in a session of its own");
      return Optional.empty();
    }
    int number = unknown == null ? 1 : BEGUN.merge(key, 1, Integer::sum);
    boolean hasBegun = false;
    try {
      int every = (int) settings.number(SparkSettings.DURABLE_EVERY);
      String path = new Path(parent, number == 1 ? digest : digest + "-" + number).toString();
      DurableFolder folder = new DurableFolder(path, context.hadoopConfiguration(), every);
      String owner = "application " + context.appName() + " (" + context.applicationId() + ")";
      Thread trainer = Thread.currentThread();
      WriterLock lock = WriterLock.take(folder, owner, trainer::interrupt);
      hasBegun = true;
      return Optional.of(new DurableJob(context, folder, key, lock));
    } finally {
      if (!hasBegun) {
        hasNotBegun(key);
        AT_WORK.remove(key);
      }
    }
  }

  /**
   * Trains. The folder is gone after a success, and where there is nothing to go on to: after a
   * failure that would come again, and when the input is lost, so that a training that begins again
   * stores new pages. After any other it stays for whoever goes on.
   *
   * @throws RejoinException the training's; FENCED when another application has taken the folder
   *     over
   */
  static <T> T during(Optional<DurableJob> durable, Supplier<T> training) {
    if (durable.isEmpty()) {
      return training.get();
    }
    try (DurableJob job = durable.get()) {
      try {
        T result = training.get();
        // A model is one, whoever has the folder.
        job.remove();
        if (job.lock.isKnownLost()) {
          // It has interrupted the training, which was over.
          Thread.interrupted();
        }
        return result;
      } catch (Exception failed) {
        RejoinException fenced = job.loss();
        if (fenced != null) {
          fenced.addSuppressed(failed);
          throw fenced;
        }
        if (job.isRefused
            || (failed instanceof RejoinException
                && OF_NO_USE.contains(((RejoinException) failed).code()))) {
          job.remove();
          if (!job.isRefused
              && ((RejoinException) failed).code() == RejoinException.Code.INPUT_LOST) {
            // It may begin again, as the same one.
            hasNotBegun(job.key);
          }
        }
        throw failed;
      }
    }
  }

  /**
   * Checks stored input. Who finds it in the folder would refuse it again, even if its source was
   * repaired since: it is gone after the failure. Not so after other failures of that code, as for
   * ports that are taken.
   *
   * @throws RejoinException what the check throws
   */
  static void check(Optional<DurableJob> durable, Runnable check) {
    try {
      check.run();
    } catch (RejoinException refused) {
      durable.ifPresent(job -> job.isRefused = true);
      throw refused;
    }
  }

  /** Where a training on this input has its checkpoints; null for nowhere. */
  static DurableFolder checkpoints(Optional<DurableJob> durable, List<PreparedInput> inputs) {
    return durable.map(job -> job.folder.of(inputs)).orElse(null);
  }

  /** The same, whose lists of pages describe features so. */
  DurableJob describing(FeatureDescription described) {
    features = described;
    return this;
  }

  private static MessageDigest sha() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }

  private static String digits(byte[] bytes) {
    StringBuilder name = new StringBuilder();
    for (int i = 0; i < NAME_BYTES; i++) {
      name.append(String.format(Locale.ROOT, "%02x", bytes[i]));
    }
    return name.toString();
  }

  /**
   * The input from the folder if it is there; otherwise it is stored there.
   *
   * @param what training or evaluation
   * @param pages makes the RDD of its pages; not asked for what is there
   */
  PreparedInput input(String what, Supplier<RDD<byte[]>> pages) {
    DurablePages files = new DurablePages(folder, what, features);
    Optional<StoredPages> found = files.find(context);
    if (found.isPresent()) {
      LOG.info("the {} input is read from durable folder {}, not from its source", what, folder);
    }
    StoredPages stored = found.orElseGet(() -> files.store(pages.get()));
    return new PreparedInput(stored, Integer.MAX_VALUE, () -> {});
  }

  private static void hasNotBegun(String key) {
    BEGUN.computeIfPresent(key, (any, count) -> count == 1 ? null : count - 1);
  }

  @Override
  public void close() {
    // In this order: while the folder is being removed nobody here begins the same training.
    within(
        "unlocked",
        () -> {
          try {
            lock.close();
          } finally {
            AT_WORK.remove(key);
          }
        });
  }

  private RejoinException loss() {
    AtomicReference<RejoinException> loss = new AtomicReference<>();
    within("looked at", () -> loss.set(lock.loss()));
    if (loss.get() != null) {
      // By the lock, so that the training ends: it isn't to be seen outside.
      Thread.interrupted();
    }
    return loss.get();
  }

  /** What is removed file by file, which may be many pages, takes as long as that goes on. */
  private void remove() {
    within("removed", lock::remove, lock::removed);
  }

  private void within(String done, Runnable work) {
    within(done, work, () -> 0);
  }

  /**
   * Does something with the folder, and doesn't wait for a file system that hangs, as a mounted one
   * may for ever: neither a model nor an end is held up by it.
   *
   * @param progress a number that grows while the file system answers
   */
  private void within(String done, Runnable work, LongSupplier progress) {
    Thread worker = new Thread(work, "rejoin-durable-end");
    worker.setDaemon(true);
    worker.start();
    if (!hasEnded(worker, LIMIT_MILLIS, progress)) {
      LOG.warn(
          "durable folder {} couldn't be {}: {}. Look after it by hand",
          folder,
          done,
          Thread.currentThread().isInterrupted()
              ? "the thread that waited for that was interrupted"
              : "its file system didn't answer for " + LIMIT_MILLIS / 1000 + " s");
    }
  }

  /**
   * Waits for the end of a thread, as long as it gets on within the limit each time. An interrupt
   * is kept for later; from then on it is waited no more than to the end of the limit.
   */
  static boolean hasEnded(Thread worker, long limitMillis, LongSupplier progress) {
    // The lock interrupts whoever trains when it is lost, which may be found just here.
    boolean interrupted = false;
    long seen = progress.getAsLong();
    long begun = System.nanoTime();
    for (long left = limitMillis; worker.isAlive() && left > 0; ) {
      try {
        worker.join(left);
      } catch (InterruptedException meanwhile) {
        interrupted = true;
      }
      left = limitMillis - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
      long now = progress.getAsLong();
      if (left <= 0 && now > seen && !interrupted) {
        LOG.info("a durable folder is being removed: {} files so far", now);
        seen = now;
        begun = System.nanoTime();
        left = limitMillis;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
    return !worker.isAlive();
  }
}

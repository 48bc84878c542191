package io.rejoin;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * One rank of a job in one incarnation: its collectives and checkpoints, for any training loop.
 * When a rank dies, that rank alone is started again; it goes on from the last checkpoint, gets the
 * results that it missed, and all ranks end with the same bytes as without a death.
 *
 * <pre>{@code
 * try (Communicator ranks = Communicator.launched("my program 1").orElse(null)) {
 *   if (ranks == null) return;                       // the job was over when this process came
 *   Communicator.Loaded start = ranks.load();        // version 0: begin; else go on from the model
 *   for (int iteration = start.version(); iteration < 25; iteration++) {
 *     double[] sums = compute(myRows, model);
 *     ranks.allreduce(sums, Reduction.SUM);          // in place
 *     change(model, sums);
 *     ranks.checkpoint(bytes(model));
 *   }
 *   ranks.finish(bytes(model));
 * }
 * }</pre>
 *
 * <p>All ranks have to make the same calls in the same order. A collective gives all ranks the same
 * result or throws {@link RejoinException}: BAD_ARGUMENT for what can't work; MISMATCH when ranks
 * make different calls, naming both and their sites; TIMED_OUT after the limit of a call; FENCED
 * when this incarnation was declared lost; TRAINING_FAILED when a callback has thrown (the cause);
 * CANCELLED when it was closed meanwhile; or the job's own error. A call that fails leaves arrays
 * and buffers as they were. After a failure other than BAD_ARGUMENT every call throws BAD_STATE:
 * end the task with the failure, and it is started again.
 *
 * <p>Arrays are copied into memory that is kept for the next call and back. Buffers have to be
 * direct, and are used as they are: from position to limit, which stay, elements in the machine's
 * byte order ({@link ByteOrder#nativeOrder}).
 *
 * <p>One thread at a time makes the calls; {@link #close} may come from any thread, also while a
 * call is under way, and closing twice does nothing.
 */
public final class Communicator extends ArrayCollectives implements AutoCloseable {
  private final int incarnation;

  private Communicator(long handle, Map<String, String> about) {
    super(handle, Integer.parseInt(about.get("rank")), Integer.parseInt(about.get("world")));
    incarnation = Integer.parseInt(about.get("incarnation"));
  }

  static Optional<Communicator> of(long handle) {
    if (handle == 0) {
      return Optional.empty();
    }
    Map<String, String> about = Pairs.map(Native.communicatorAbout(handle));
    return Optional.of(new Communicator(handle, about));
  }

  /** Waits for a join of the native side, at most until the signal comes. */
  static Optional<Communicator> join(long join, CancelSignal cancel) {
    Watch watch = Watch.overJoin(reason -> Native.joinCancel(join, reason), cancel);
    try {
      return of(Native.joinWait(join));
    } finally {
      watch.close();
    }
  }

  /** {@link #launched(String, Limits)} with the usual limits. */
  public static Optional<Communicator> launched(String terms) {
    return launched(terms, Limits.USUAL);
  }

  /**
   * Joins as the rank that {@code rejoin run} has started this process as.
   *
   * @param terms what the program assumes (its name and version, its parameters); equal at all
   *     ranks
   * @return empty when the job has reached its end already: there is nothing to do
   * @throws RejoinException BAD_STATE when no launcher has started this process; else as {@link
   *     Agent#join}
   */
  public static Optional<Communicator> launched(String terms, Limits limits) {
    NativeLibrary.load();
    return of(Native.communicatorLaunched(terms, limits.millis()));
  }

  /** The digest by which Rejoin compares bytes, 32 hexadecimal digits. */
  public static String digest(byte[] data) {
    NativeLibrary.load();
    return Native.digest(data);
  }

  /** How often the rank was started before. */
  public int incarnation() {
    return incarnation;
  }

  /**
   * Where this rank is among the ranks of its host, and its host among the hosts. It may change
   * with any call, when a rank has come back on another host.
   */
  public Placement placement() {
    int[] numbers = Native.communicatorPlacement(open());
    return new Placement(numbers[0], numbers[1], numbers[2], numbers[3]);
  }

  /** The version that this rank is in: how many checkpoints the job has taken. */
  public int version() {
    return Native.communicatorVersion(open());
  }

  /**
   * Shows a text at the job's driver, as an event {@code PRINTED}, from any thread; when, nobody
   * waits for. Up to 16 KiB of it, and up to 256 KiB in a second; what is left out is said with the
   * next one. What a restarted rank computes again, it prints again.
   */
  public void print(String text) {
    Native.communicatorPrint(open(), text);
  }

  /**
   * What this incarnation starts from. Every program calls it, before its first checkpoint and the
   * first collective that isn't a boot one.
   *
   * @throws RejoinException BAD_STATE after a checkpoint of this incarnation
   */
  public Loaded load() {
    byte[] model = Native.communicatorLoad(open());
    return new Loaded(model == null ? 0 : version(), model);
  }

  /**
   * Ends the version and begins the next one with this model, the same at all ranks. It is copied
   * into this process's native memory, for a rank that comes back.
   *
   * @throws RejoinException also MISMATCH when this incarnation has made fewer collectives of the
   *     version than were made before, or another rank of this process has another model
   */
  public void checkpoint(byte[] model) {
    ByteBuffer memory = inputs.bytes(model.length);
    Scratch.put(model, memory);
    Native.communicatorCheckpoint(open(), memory, site());
  }

  /** The same for a direct buffer. */
  public void checkpoint(ByteBuffer model) {
    Native.communicatorCheckpoint(open(), direct("the model", model), site());
  }

  /**
   * The same with a model that only this rank has, beside the one that all have. It is held by two
   * other processes ({@link AgentSettings#ownCopies}, {@code rejoin run --own-copies}), on other
   * hosts where there are any, before this returns: so it survives this process. All ranks have to
   * call this, or none.
   */
  public void checkpoint(byte[] model, byte[] own) {
    ByteBuffer memory = inputs.bytes(model.length);
    Scratch.put(model, memory);
    Native.communicatorCheckpointWithOwn(open(), memory, own, site());
  }

  /**
   * The own model of the version that this incarnation starts from; empty where none was taken, and
   * for a rank that wasn't in the world that took it. In an elastic job it is the one of the rank
   * that this one was then.
   */
  public Optional<byte[]> loadOwn() {
    return Optional.ofNullable(Native.communicatorLoadOwn(open()));
  }

  /**
   * The world that made the version which this incarnation starts from; empty where it is the one
   * that this rank is in, as it always is in a job that isn't elastic.
   */
  public Optional<Former> former() {
    return Optional.ofNullable(Native.communicatorFormer(open())).map(Former::new);
  }

  /**
   * The own model that a rank of the {@link #former} world had at the version that this incarnation
   * starts from: of one that this rank is given, or was itself. Empty: it had none, or it is lost
   * and may be ({@code rejoin run --own-may-be-lost}).
   *
   * @throws RejoinException BAD_ARGUMENT for a rank whose model this one isn't given, which says
   *     whose it is; the communicator stays as it is
   */
  public Optional<byte[]> loadOwnOf(int rank) {
    return Optional.ofNullable(Native.communicatorLoadOwnOf(open(), rank));
  }

  /**
   * A checkpoint without its bytes: {@code supplier} makes them when they are needed, by a rank
   * that comes back or for a durable checkpoint. It stands for an immutable snapshot of the model:
   * whenever it is asked (for about two versions, mostly on another thread) it gives the same
   * bytes, the same at all ranks; an array that the program goes on changing is none. An
   * incarnation's first supplier is asked in this call and in the next checkpoint.
   *
   * @throws RejoinException MISMATCH in the next checkpoint when the first supplier gives something
   *     else by then
   */
  public void checkpointLazy(Supplier<byte[]> supplier) {
    Native.communicatorCheckpointLazy(open(), new Snapshot(supplier), site());
  }

  /**
   * The end: reports this model, the same at all ranks, and waits until all have. Rank 0's bytes
   * become the job's result. Only {@link #close} is left after it.
   *
   * @throws RejoinException MISMATCH when the models differ, TIMED_OUT, FENCED, or the job's error
   */
  public void finish(byte[] model) {
    Native.communicatorFinish(open(), model);
  }

  /** {@link #joinAgain(CancelSignal)}, never cancelled. */
  public Optional<Communicator> joinAgain() {
    return joinAgain(Optional::empty);
  }

  /**
   * Takes part again after a call threw ROLLED_BACK or RESIZED: in the same process, which keeps
   * what it holds for the others, as the rank's next incarnation. This communicator is closed then;
   * the new one loads what it starts from, as after any join. (A task that ends instead is started
   * again, and what its process held is gone.)
   *
   * @param cancel how the framework says that the task should end; asked while this waits
   * @return empty when the job has reached its end meanwhile: there is nothing to do
   * @throws RejoinException BAD_STATE when no call has thrown one of the two, and this communicator
   *     stays as it is; CANCELLED also when this communicator is closed meanwhile; else as {@link
   *     Agent#join}
   */
  public Optional<Communicator> joinAgain(CancelSignal cancel) {
    long join = Native.communicatorAgain(open());
    try {
      return join(
          join,
          () -> closed.get() ? Optional.of("the communicator was closed") : cancel.cancelled());
    } finally {
      closed.set(true);
    }
  }

  /**
   * The task has failed for this reason: gives the rank's slot back. Where the code {@link
   * RejoinException.Code#willRepeat}, the job ends with it; otherwise the rank may be started
   * again. The communicator is closed then.
   */
  public void abandon(RejoinException.Code code, String reason) {
    if (closed.compareAndSet(false, true)) {
      Native.communicatorClose(handle, code.name(), reason);
    }
  }

  /** Frees it; before {@link #finish} this gives the rank's slot back for its next incarnation. */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      Native.communicatorClose(
          handle, null, "the communicator was closed while a call was under way");
    }
  }

  @Override
  public String toString() {
    String state = closed.get() ? ", closed" : "";
    return "Communicator(rank "
        + rank
        + " of "
        + world
        + ", incarnation "
        + incarnation
        + state
        + ")";
  }

  /** A function over elements, without alignment and in the machine's byte order. */
  @FunctionalInterface
  public interface Fold {
    /**
     * Puts accumulator ∘ other into the accumulator, element by element. Both are as long, from
     * position 0 to the limit, and only usable during the call; the second one is read-only.
     */
    void fold(ByteBuffer accumulator, ByteBuffer other);
  }

  /** A function over serialized objects. */
  @FunctionalInterface
  public interface ObjectFold {
    /** Gives accumulator ∘ other, at most as long as the limit of the call. */
    byte[] fold(byte[] accumulator, byte[] other);
  }

  /** What an incarnation starts from. */
  public static final class Loaded {
    private final int version;
    private final byte[] model;

    private Loaded(int version, byte[] model) {
      this.version = version;
      this.model = model;
    }

    /** How many checkpoints the job had taken; 0 is the beginning. */
    public int version() {
      return version;
    }

    /** The model that was handed to that version's checkpoint; empty at the beginning. */
    public Optional<byte[]> model() {
      return Optional.ofNullable(model);
    }
  }

  /** A part of so many elements. */
  public static final class Part {
    private final int first;
    private final int length;

    Part(int first, int length) {
      this.first = first;
      this.length = length;
    }

    /** Where it begins, from 0. */
    public int first() {
      return first;
    }

    /** How many elements it has. */
    public int length() {
      return length;
    }
  }

  /** How long things may take, in milliseconds; 0 is the default. */
  public static final class Limits {
    /** 5 minutes to join, 10 for a call and with it the wait for a lost rank, 10 for the end. */
    public static final Limits USUAL = new Limits(0, 0, 0);

    private final long[] millis;

    /** For the join, for each call, and for the end. */
    public Limits(long joinMillis, long callMillis, long finishMillis) {
      millis = new long[] {joinMillis, callMillis, finishMillis};
    }

    long[] millis() {
      return millis.clone();
    }
  }
}

package io.rejoin;

import java.lang.reflect.Array;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;

/**
 * One rank of a job in one incarnation: its collectives and checkpoints, for any training loop.
 * When a rank dies, that rank alone is started again; it goes on from the last checkpoint, gets the
 * results that it missed, and everybody ends with the same bytes as without a death.
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
public final class Communicator implements AutoCloseable {
  private static final StackWalker STACK = StackWalker.getInstance();
  private static final String OWN = Communicator.class.getName();

  private final long handle;
  private final int rank;
  private final int world;
  private final int incarnation;
  private final AtomicBoolean closed = new AtomicBoolean();
  private final Scratch inputs = new Scratch();
  private final Scratch outputs = new Scratch();

  private Communicator(long handle) {
    this.handle = handle;
    Map<String, String> about = Pairs.map(Native.communicatorAbout(handle));
    rank = Integer.parseInt(about.get("rank"));
    world = Integer.parseInt(about.get("world"));
    incarnation = Integer.parseInt(about.get("incarnation"));
  }

  static Optional<Communicator> of(long handle) {
    return handle == 0 ? Optional.empty() : Optional.of(new Communicator(handle));
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
   *     CollectiveAgent#join}
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

  /** This rank, from 0. */
  public int rank() {
    return rank;
  }

  /** The number of ranks. */
  public int world() {
    return world;
  }

  /** How often the rank was started before. */
  public int incarnation() {
    return incarnation;
  }

  /** The version that this rank is in: how many checkpoints the job has taken. */
  public int version() {
    return Native.communicatorVersion(open());
  }

  /** What this incarnation starts from. To be called before its first checkpoint. */
  public Loaded load() {
    byte[] model = Native.communicatorLoad(open());
    return new Loaded(model == null ? 0 : version(), model);
  }

  /** Every element becomes the reduction of all ranks' elements at its place. */
  public void allreduce(double[] array, Reduction reduction) {
    reduceArray(array, reduction, CallOptions.NONE);
  }

  /** The same with options. */
  public void allreduce(double[] array, Reduction reduction, CallOptions options) {
    reduceArray(array, reduction, options);
  }

  /** Every element becomes the reduction of all ranks' elements at its place. */
  public void allreduce(float[] array, Reduction reduction) {
    reduceArray(array, reduction, CallOptions.NONE);
  }

  /** The same with options. */
  public void allreduce(float[] array, Reduction reduction, CallOptions options) {
    reduceArray(array, reduction, options);
  }

  /** Every element becomes the reduction of all ranks' elements at its place. */
  public void allreduce(long[] array, Reduction reduction) {
    reduceArray(array, reduction, CallOptions.NONE);
  }

  /** The same with options. */
  public void allreduce(long[] array, Reduction reduction, CallOptions options) {
    reduceArray(array, reduction, options);
  }

  /** Every element becomes the reduction of all ranks' elements at its place. */
  public void allreduce(int[] array, Reduction reduction) {
    reduceArray(array, reduction, CallOptions.NONE);
  }

  /** The same with options. */
  public void allreduce(int[] array, Reduction reduction, CallOptions options) {
    reduceArray(array, reduction, options);
  }

  /** The same for a direct buffer of these elements, without a copy. */
  public void allreduce(
      ByteBuffer buffer, Element element, Reduction reduction, CallOptions options) {
    int kind = element.ordinal();
    allreduce(writable("the buffer", buffer), kind, reduction.ordinal(), null, null, options);
  }

  /**
   * An allreduce by the caller's own function, over a direct buffer of elements of so many bytes (1
   * to 1 GiB). It is called from left to right in the order of the ranks, for each element at one
   * rank only, and has to give the same bytes whenever it is given the same: then it need be
   * neither commutative nor associative.
   *
   * @param name says which function it is, the same at all ranks
   */
  public void allreduce(
      ByteBuffer buffer, int elementBytes, String name, Fold fold, CallOptions options) {
    allreduce(writable("the buffer", buffer), elementBytes, 0, name, fold, options);
  }

  /** This rank's part of the reduction of all ranks' arrays, as {@link #part} divides them. */
  public double[] reduceScatter(double[] array, Reduction reduction, CallOptions options) {
    double[] part = new double[part(rank, array.length, options).length()];
    ByteBuffer input = inputs.bytes(8L * array.length);
    ByteBuffer output = outputs.bytes(8L * part.length);
    CallOptions filled = filling(array, input, options);
    reduceScatter(input, output, Element.F64, reduction, filled);
    Scratch.get(output, part);
    return part;
  }

  /** The same for direct buffers, which must not overlap; the output is as long as the part. */
  public void reduceScatter(
      ByteBuffer input,
      ByteBuffer output,
      Element element,
      Reduction reduction,
      CallOptions options) {
    ByteBuffer from = direct("the input", input);
    ByteBuffer to = writable("the output", output);
    Callbacks callbacks = new Callbacks(options.prepare, null);
    String site = site();
    guarded(
        callbacks,
        () ->
            Native.communicatorReduceScatter(
                open(),
                from,
                to,
                element.ordinal(),
                reduction.ordinal(),
                site,
                options.ring,
                options.boot,
                options.prepare != null,
                callbacks));
  }

  /** Which of {@code count} elements are a rank's in a reduce-scatter. */
  public Part part(int ofRank, int count, CallOptions options) {
    long both = Native.communicatorPart(ofRank, world, count, options.ring);
    return new Part((int) (both >>> 32), (int) both);
  }

  /** The array becomes the root's at all ranks. */
  public void broadcast(double[] array, int root) {
    spreadArray(array, root);
  }

  /** The array becomes the root's at all ranks. */
  public void broadcast(float[] array, int root) {
    spreadArray(array, root);
  }

  /** The array becomes the root's at all ranks. */
  public void broadcast(long[] array, int root) {
    spreadArray(array, root);
  }

  /** The array becomes the root's at all ranks. */
  public void broadcast(int[] array, int root) {
    spreadArray(array, root);
  }

  /** The array becomes the root's at all ranks. */
  public void broadcast(byte[] array, int root) {
    spreadArray(array, root);
  }

  /** The same for a direct buffer, without a copy. */
  public void broadcast(ByteBuffer buffer, Element element, int root, CallOptions options) {
    ByteBuffer memory = writable("the buffer", buffer);
    Callbacks callbacks = new Callbacks(options.prepare, null);
    String site = site();
    guarded(
        callbacks,
        () ->
            Native.communicatorBroadcast(
                open(),
                memory,
                element.ordinal(),
                root,
                site,
                options.boot,
                options.prepare != null,
                callbacks));
  }

  /** What each rank has, in rank order; each has as many elements. */
  public double[] allgather(double[] array) {
    double[] all = new double[Math.multiplyExact(array.length, world)];
    gatherArray(array, all);
    return all;
  }

  /** What each rank has, in rank order; each has as many elements. */
  public long[] allgather(long[] array) {
    long[] all = new long[Math.multiplyExact(array.length, world)];
    gatherArray(array, all);
    return all;
  }

  /** The same for direct buffers, which must not overlap; the output has room for all. */
  public void allgather(ByteBuffer input, ByteBuffer output, Element element, CallOptions options) {
    ByteBuffer from = direct("the input", input);
    ByteBuffer to = writable("the output", output);
    Callbacks callbacks = new Callbacks(options.prepare, null);
    String site = site();
    guarded(
        callbacks,
        () ->
            Native.communicatorAllgather(
                open(),
                from,
                to,
                element.ordinal(),
                site,
                options.boot,
                options.prepare != null,
                callbacks));
  }

  /** What each rank has, in rank order, where lengths may differ. */
  public byte[][] allgatherV(byte[] array) {
    ByteBuffer input = inputs.bytes(array.length);
    Scratch.put(array, input);
    int kind = Element.U8.ordinal();
    byte[] all = Native.communicatorAllgatherV(open(), input, kind, site(), null);
    ByteBuffer reader = ByteBuffer.wrap(all).order(ByteOrder.LITTLE_ENDIAN);
    byte[][] parts = new byte[world][];
    for (int each = 0; each < world; each++) {
      parts[each] = new byte[Math.toIntExact(reader.getLong())];
    }
    for (byte[] part : parts) {
      reader.get(part);
    }
    return parts;
  }

  /** Nobody goes on before everybody is there. */
  public void barrier() {
    Native.communicatorBarrier(open(), site(), null);
  }

  /**
   * Ends the version and begins the next one with this model, the same at all ranks. It is copied
   * into this process's native memory, for whoever comes back.
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
   * other processes, on other hosts where there are any, before this returns: so it survives this
   * process. All ranks have to call this, or none.
   */
  public void checkpoint(byte[] model, byte[] own) {
    ByteBuffer memory = inputs.bytes(model.length);
    Scratch.put(model, memory);
    Native.communicatorCheckpointWithOwn(open(), memory, own, site());
  }

  /** The own model of the version that this incarnation starts from; empty where none was taken. */
  public Optional<byte[]> loadOwn() {
    return Optional.ofNullable(Native.communicatorLoadOwn(open()));
  }

  /**
   * A checkpoint without its bytes: {@code supplier} makes them when somebody needs them, which is
   * a rank that comes back, or a durable checkpoint. It stands for an immutable snapshot of the
   * model: whenever it is asked (on another thread, for about two versions) it gives the same
   * bytes, the same at all ranks.
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

  /**
   * The task has failed for this reason: gives the rank's seat back. Where the code {@link
   * RejoinException.Code#willRepeat}, the job ends with it; otherwise the rank may be started
   * again. The communicator is closed then.
   */
  public void abandon(RejoinException.Code code, String reason) {
    if (closed.compareAndSet(false, true)) {
      Native.communicatorClose(handle, code.name(), reason);
    }
  }

  /** Frees it; before {@link #finish} this gives the rank's seat back for its next incarnation. */
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

  private void allreduce(
      ByteBuffer memory, int element, int reduction, String name, Fold fold, CallOptions options) {
    Callbacks callbacks = new Callbacks(options.prepare, fold);
    String site = site();
    guarded(
        callbacks,
        () ->
            Native.communicatorAllreduce(
                open(),
                memory,
                element,
                reduction,
                name,
                site,
                options.ring,
                options.boot,
                options.prepare != null,
                callbacks));
  }

  private void reduceArray(Object array, Reduction reduction, CallOptions options) {
    Element element = Scratch.element(array);
    ByteBuffer memory = inputs.bytes((long) element.bytes() * Array.getLength(array));
    CallOptions filled = filling(array, memory, options);
    allreduce(memory, element.ordinal(), reduction.ordinal(), null, null, filled);
    Scratch.get(memory, array);
  }

  private void spreadArray(Object array, int root) {
    Element element = Scratch.element(array);
    ByteBuffer memory = inputs.bytes((long) element.bytes() * Array.getLength(array));
    Scratch.put(array, memory);
    broadcast(memory, element, root, CallOptions.NONE);
    Scratch.get(memory, array);
  }

  private void gatherArray(Object array, Object all) {
    Element element = Scratch.element(array);
    ByteBuffer input = inputs.bytes((long) element.bytes() * Array.getLength(array));
    ByteBuffer output = outputs.bytes((long) element.bytes() * Array.getLength(all));
    Scratch.put(array, input);
    allgather(input, output, element, CallOptions.NONE);
    Scratch.get(output, all);
  }

  /** The array's elements are in the memory, now or once they are needed. */
  private static CallOptions filling(Object array, ByteBuffer memory, CallOptions options) {
    if (options.prepare == null) {
      Scratch.put(array, memory);
      return options;
    }
    return options.prepare(
        () -> {
          options.prepare.run();
          Scratch.put(array, memory);
        });
  }

  private static void guarded(Callbacks callbacks, Runnable call) {
    try {
      call.run();
    } catch (RejoinException e) {
      throw callbacks.failure(e);
    }
  }

  private static ByteBuffer writable(String what, ByteBuffer buffer) {
    if (buffer.isReadOnly()) {
      throw new RejoinException(RejoinException.Code.BAD_ARGUMENT, what + " is read-only");
    }
    return direct(what, buffer);
  }

  private static ByteBuffer direct(String what, ByteBuffer buffer) {
    if (!buffer.isDirect()) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          what + " isn't direct; make it with ByteBuffer.allocateDirect, or use an array");
    }
    return buffer.slice();
  }

  /** The first place on the stack that isn't here. */
  private static String site() {
    return STACK.walk(
        frames ->
            frames
                .filter(frame -> !frame.getClassName().equals(OWN))
                .findFirst()
                .map(frame -> frame.getFileName() + ":" + frame.getLineNumber())
                .orElse("unknown"));
  }

  private long open() {
    if (closed.get()) {
      throw new RejoinException(
          RejoinException.Code.BAD_STATE, "rank " + rank + "'s communicator is closed");
    }
    return handle;
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

    private Part(int first, int length) {
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

    /** These limits. */
    public Limits(long joinMillis, long callMillis, long finishMillis) {
      millis = new long[] {joinMillis, callMillis, finishMillis};
    }

    long[] millis() {
      return millis.clone();
    }
  }
}

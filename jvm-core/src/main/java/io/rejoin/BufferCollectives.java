package io.rejoin;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The collectives of a {@link Communicator} over direct buffers, and what all of its calls have in
 * common.
 */
abstract class BufferCollectives {
  private static final StackWalker STACK = StackWalker.getInstance();
  private static final Set<String> OWN =
      Set.of(
          BufferCollectives.class.getName(),
          ArrayCollectives.class.getName(),
          Communicator.class.getName());

  final long handle;
  final int rank;
  final int world;
  final AtomicBoolean closed = new AtomicBoolean();

  BufferCollectives(long handle, int rank, int world) {
    this.handle = handle;
    this.rank = rank;
    this.world = world;
  }

  /** This rank, from 0. */
  public int rank() {
    return rank;
  }

  /** The number of ranks. */
  public int world() {
    return world;
  }

  /**
   * Every element of a direct buffer becomes the reduction of all ranks' elements at its place,
   * without a copy in Java.
   */
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
      ByteBuffer buffer,
      int elementBytes,
      String name,
      Communicator.Fold fold,
      CallOptions options) {
    allreduce(writable("the buffer", buffer), elementBytes, 0, name, fold, options);
  }

  /**
   * The fold of all ranks' serialized objects by the caller's own function, from left to right in
   * the order of the ranks. It has to give the same bytes whenever it is given the same.
   *
   * @param object this rank's, at most as long as the limit
   * @param limit most bytes of an object, also of a folded one, the same at all ranks; what is sent
   *     has this length
   * @param name says which function it is, the same at all ranks
   * @param options without a function that prepares the input
   */
  public byte[] allreduceObject(
      byte[] object, int limit, String name, Communicator.ObjectFold fold, CallOptions options) {
    if (options.prepare != null) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT, "an object can't be prepared on demand; hand it over");
    }
    Callbacks callbacks = new Callbacks(fold);
    String site = site();
    byte[][] folded = new byte[1][];
    guarded(
        callbacks,
        () ->
            folded[0] =
                Native.communicatorAllreduceObject(
                    open(), object, limit, name, site, options.ring, options.boot, callbacks));
    return folded[0];
  }

  /**
   * This rank's part of the reduction of all ranks' direct buffers, as {@link #part} divides them.
   * The buffers must not overlap; the output is as long as the part.
   */
  public void reduceScatter(
      ByteBuffer input,
      ByteBuffer output,
      Element element,
      Reduction reduction,
      CallOptions options) {
    reduceScatter(input, output, element.ordinal(), reduction.ordinal(), null, null, options);
  }

  /**
   * The same by the caller's own function, as in {@link #allreduce(ByteBuffer, int, String,
   * Communicator.Fold, CallOptions)}.
   */
  public void reduceScatter(
      ByteBuffer input,
      ByteBuffer output,
      int elementBytes,
      String name,
      Communicator.Fold fold,
      CallOptions options) {
    reduceScatter(input, output, elementBytes, 0, name, fold, options);
  }

  /** Which of {@code count} elements are a rank's in a reduce-scatter. */
  public Communicator.Part part(int ofRank, int count, CallOptions options) {
    long both = Native.communicatorPart(ofRank, world, count, options.ring);
    return new Communicator.Part((int) (both >>> 32), (int) both);
  }

  /** The direct buffer becomes the root's at all ranks, without a copy in Java. */
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

  /**
   * What each rank has, in rank order; each has as many elements. The direct buffers must not
   * overlap; the output has room for all.
   */
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

  /**
   * What each rank has, in rank order, where lengths may differ: buffers of their own, in the
   * machine's byte order.
   */
  public ByteBuffer[] allgatherV(ByteBuffer input, Element element, CallOptions options) {
    ByteBuffer from = direct("the input", input);
    if (options.prepare != null) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "an input whose length isn't known can't be prepared on demand; fill the buffer");
    }
    byte[] all =
        Native.communicatorAllgatherV(open(), from, element.ordinal(), site(), options.boot);
    ByteBuffer reader = ByteBuffer.wrap(all).order(ByteOrder.LITTLE_ENDIAN);
    int[] lengths = new int[world];
    for (int each = 0; each < world; each++) {
      lengths[each] = Math.toIntExact(reader.getLong());
    }
    ByteBuffer[] parts = new ByteBuffer[world];
    for (int each = 0; each < world; each++) {
      reader.limit(reader.position() + lengths[each]);
      parts[each] = reader.slice().order(ByteOrder.nativeOrder());
      reader.position(reader.limit()).limit(reader.capacity());
    }
    return parts;
  }

  /** Returns when all ranks have called it. */
  public void barrier() {
    barrier(CallOptions.NONE);
  }

  /** The same with options: a boot collective or not. */
  public void barrier(CallOptions options) {
    Native.communicatorBarrier(open(), site(), options.boot);
  }

  private void reduceScatter(
      ByteBuffer input,
      ByteBuffer output,
      int element,
      int reduction,
      String name,
      Communicator.Fold fold,
      CallOptions options) {
    ByteBuffer from = direct("the input", input);
    ByteBuffer to = writable("the output", output);
    Callbacks callbacks = new Callbacks(options.prepare, fold);
    String site = site();
    guarded(
        callbacks,
        () ->
            Native.communicatorReduceScatter(
                open(),
                from,
                to,
                element,
                reduction,
                name,
                site,
                options.ring,
                options.boot,
                options.prepare != null,
                callbacks));
  }

  private void allreduce(
      ByteBuffer memory,
      int element,
      int reduction,
      String name,
      Communicator.Fold fold,
      CallOptions options) {
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

  private static void guarded(Callbacks callbacks, Runnable call) {
    try {
      call.run();
    } catch (RejoinException e) {
      throw callbacks.failure(e);
    }
  }

  static ByteBuffer writable(String what, ByteBuffer buffer) {
    if (buffer.isReadOnly()) {
      throw new RejoinException(RejoinException.Code.BAD_ARGUMENT, what + " is read-only");
    }
    return direct(what, buffer);
  }

  static ByteBuffer direct(String what, ByteBuffer buffer) {
    if (!buffer.isDirect()) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          what + " isn't direct; make it with ByteBuffer.allocateDirect, or use an array");
    }
    return buffer.slice();
  }

  /** The first place on the stack that isn't in these classes. */
  static String site() {
    return STACK.walk(
        frames ->
            frames
                .filter(frame -> !OWN.contains(frame.getClassName()))
                .findFirst()
                .map(frame -> frame.getFileName() + ":" + frame.getLineNumber())
                .orElse("unknown"));
  }

  long open() {
    if (closed.get()) {
      throw new RejoinException(
          RejoinException.Code.BAD_STATE, "rank " + rank + "'s communicator is closed");
    }
    return handle;
  }
}

package io.rejoin;

import java.lang.reflect.Array;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * The collectives of a {@link Communicator} over arrays, which are copied into memory that is kept
 * for the next call, and back. An array of integers is one of signed elements, unless an {@link
 * Element} of as many bytes is given.
 */
abstract class ArrayCollectives extends BufferCollectives {
  final Scratch inputs = new Scratch();
  private final Scratch outputs = new Scratch();

  ArrayCollectives(long handle, int rank, int world) {
    super(handle, rank, world);
  }

  /** Every element becomes the reduction of all ranks' elements at its place. */
  public void allreduce(double[] array, Reduction reduction) {
    reduce(array, Scratch.element(array), reduction, CallOptions.NONE);
  }

  /** The same with options: order of the fold, boot cache, an input that is filled on demand. */
  public void allreduce(double[] array, Reduction reduction, CallOptions options) {
    reduce(array, Scratch.element(array), reduction, options);
  }

  /** Every element becomes the reduction of all ranks' elements at its place. */
  public void allreduce(float[] array, Reduction reduction) {
    reduce(array, Scratch.element(array), reduction, CallOptions.NONE);
  }

  /** The same with options: order of the fold, boot cache, an input that is filled on demand. */
  public void allreduce(float[] array, Reduction reduction, CallOptions options) {
    reduce(array, Scratch.element(array), reduction, options);
  }

  /** Every element becomes the reduction of all ranks' elements at its place. */
  public void allreduce(long[] array, Reduction reduction) {
    reduce(array, Scratch.element(array), reduction, CallOptions.NONE);
  }

  /** The same with options: order of the fold, boot cache, an input that is filled on demand. */
  public void allreduce(long[] array, Reduction reduction, CallOptions options) {
    reduce(array, Scratch.element(array), reduction, options);
  }

  /** The same for an array that holds other elements of its size (U64). */
  public void allreduce(long[] array, Element element, Reduction reduction, CallOptions options) {
    reduce(array, element, reduction, options);
  }

  /** Every element becomes the reduction of all ranks' elements at its place. */
  public void allreduce(int[] array, Reduction reduction) {
    reduce(array, Scratch.element(array), reduction, CallOptions.NONE);
  }

  /** The same with options: order of the fold, boot cache, an input that is filled on demand. */
  public void allreduce(int[] array, Reduction reduction, CallOptions options) {
    reduce(array, Scratch.element(array), reduction, options);
  }

  /** The same for an array that holds other elements of its size (U32). */
  public void allreduce(int[] array, Element element, Reduction reduction, CallOptions options) {
    reduce(array, element, reduction, options);
  }

  /** Every element becomes the reduction of all ranks' elements at its place. */
  public void allreduce(short[] array, Reduction reduction) {
    reduce(array, Scratch.element(array), reduction, CallOptions.NONE);
  }

  /** The same with options: order of the fold, boot cache, an input that is filled on demand. */
  public void allreduce(short[] array, Reduction reduction, CallOptions options) {
    reduce(array, Scratch.element(array), reduction, options);
  }

  /** The same for an array that holds other elements of its size (U16, F16 or BF16). */
  public void allreduce(short[] array, Element element, Reduction reduction, CallOptions options) {
    reduce(array, element, reduction, options);
  }

  /** Every element becomes the reduction of all ranks' elements at its place. */
  public void allreduce(byte[] array, Reduction reduction) {
    reduce(array, Scratch.element(array), reduction, CallOptions.NONE);
  }

  /** The same with options: order of the fold, boot cache, an input that is filled on demand. */
  public void allreduce(byte[] array, Reduction reduction, CallOptions options) {
    reduce(array, Scratch.element(array), reduction, options);
  }

  /** The same for an array that holds other elements of its size (U8). */
  public void allreduce(byte[] array, Element element, Reduction reduction, CallOptions options) {
    reduce(array, element, reduction, options);
  }

  /** This rank's part of the reduction of all ranks' arrays, as {@link #part} divides them. */
  public double[] reduceScatter(double[] array, Reduction reduction, CallOptions options) {
    return scatter(array, Scratch.element(array), reduction, options);
  }

  /** This rank's part of the reduction of all ranks' arrays, as {@link #part} divides them. */
  public float[] reduceScatter(float[] array, Reduction reduction, CallOptions options) {
    return scatter(array, Scratch.element(array), reduction, options);
  }

  /** This rank's part of the reduction of all ranks' arrays, as {@link #part} divides them. */
  public long[] reduceScatter(long[] array, Reduction reduction, CallOptions options) {
    return scatter(array, Scratch.element(array), reduction, options);
  }

  /** The same for an array that holds other elements of its size (U64). */
  public long[] reduceScatter(
      long[] array, Element element, Reduction reduction, CallOptions options) {
    return scatter(array, element, reduction, options);
  }

  /** This rank's part of the reduction of all ranks' arrays, as {@link #part} divides them. */
  public int[] reduceScatter(int[] array, Reduction reduction, CallOptions options) {
    return scatter(array, Scratch.element(array), reduction, options);
  }

  /** The same for an array that holds other elements of its size (U32). */
  public int[] reduceScatter(
      int[] array, Element element, Reduction reduction, CallOptions options) {
    return scatter(array, element, reduction, options);
  }

  /** This rank's part of the reduction of all ranks' arrays, as {@link #part} divides them. */
  public short[] reduceScatter(short[] array, Reduction reduction, CallOptions options) {
    return scatter(array, Scratch.element(array), reduction, options);
  }

  /** The same for an array that holds other elements of its size (U16, F16 or BF16). */
  public short[] reduceScatter(
      short[] array, Element element, Reduction reduction, CallOptions options) {
    return scatter(array, element, reduction, options);
  }

  /** This rank's part of the reduction of all ranks' arrays, as {@link #part} divides them. */
  public byte[] reduceScatter(byte[] array, Reduction reduction, CallOptions options) {
    return scatter(array, Scratch.element(array), reduction, options);
  }

  /** The same for an array that holds other elements of its size (U8). */
  public byte[] reduceScatter(
      byte[] array, Element element, Reduction reduction, CallOptions options) {
    return scatter(array, element, reduction, options);
  }

  /** The array becomes the root's at all ranks. */
  public void broadcast(double[] array, int root) {
    spread(array, root, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public void broadcast(double[] array, int root, CallOptions options) {
    spread(array, root, options);
  }

  /** The array becomes the root's at all ranks. */
  public void broadcast(float[] array, int root) {
    spread(array, root, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public void broadcast(float[] array, int root, CallOptions options) {
    spread(array, root, options);
  }

  /** The array becomes the root's at all ranks. */
  public void broadcast(long[] array, int root) {
    spread(array, root, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public void broadcast(long[] array, int root, CallOptions options) {
    spread(array, root, options);
  }

  /** The array becomes the root's at all ranks. */
  public void broadcast(int[] array, int root) {
    spread(array, root, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public void broadcast(int[] array, int root, CallOptions options) {
    spread(array, root, options);
  }

  /** The array becomes the root's at all ranks. */
  public void broadcast(short[] array, int root) {
    spread(array, root, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public void broadcast(short[] array, int root, CallOptions options) {
    spread(array, root, options);
  }

  /** The array becomes the root's at all ranks. */
  public void broadcast(byte[] array, int root) {
    spread(array, root, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public void broadcast(byte[] array, int root, CallOptions options) {
    spread(array, root, options);
  }

  /** What each rank has, in rank order; each has as many elements. */
  public double[] allgather(double[] array) {
    return allgather(array, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public double[] allgather(double[] array, CallOptions options) {
    return gather(array, options);
  }

  /** What each rank has, in rank order; each has as many elements. */
  public float[] allgather(float[] array) {
    return allgather(array, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public float[] allgather(float[] array, CallOptions options) {
    return gather(array, options);
  }

  /** What each rank has, in rank order; each has as many elements. */
  public long[] allgather(long[] array) {
    return allgather(array, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public long[] allgather(long[] array, CallOptions options) {
    return gather(array, options);
  }

  /** What each rank has, in rank order; each has as many elements. */
  public int[] allgather(int[] array) {
    return allgather(array, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public int[] allgather(int[] array, CallOptions options) {
    return gather(array, options);
  }

  /** What each rank has, in rank order; each has as many elements. */
  public short[] allgather(short[] array) {
    return allgather(array, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public short[] allgather(short[] array, CallOptions options) {
    return gather(array, options);
  }

  /** What each rank has, in rank order; each has as many elements. */
  public byte[] allgather(byte[] array) {
    return allgather(array, CallOptions.NONE);
  }

  /** The same with options: boot cache, an input that is filled on demand. */
  public byte[] allgather(byte[] array, CallOptions options) {
    return gather(array, options);
  }

  /** What each rank has, in rank order, where lengths may differ. */
  public double[][] allgatherV(double[] array) {
    return allgatherV(array, CallOptions.NONE);
  }

  /** The same with options: boot cache. The input has to be filled. */
  public double[][] allgatherV(double[] array, CallOptions options) {
    return gatherAll(array, options);
  }

  /** What each rank has, in rank order, where lengths may differ. */
  public float[][] allgatherV(float[] array) {
    return allgatherV(array, CallOptions.NONE);
  }

  /** The same with options: boot cache. The input has to be filled. */
  public float[][] allgatherV(float[] array, CallOptions options) {
    return gatherAll(array, options);
  }

  /** What each rank has, in rank order, where lengths may differ. */
  public long[][] allgatherV(long[] array) {
    return allgatherV(array, CallOptions.NONE);
  }

  /** The same with options: boot cache. The input has to be filled. */
  public long[][] allgatherV(long[] array, CallOptions options) {
    return gatherAll(array, options);
  }

  /** What each rank has, in rank order, where lengths may differ. */
  public int[][] allgatherV(int[] array) {
    return allgatherV(array, CallOptions.NONE);
  }

  /** The same with options: boot cache. The input has to be filled. */
  public int[][] allgatherV(int[] array, CallOptions options) {
    return gatherAll(array, options);
  }

  /** What each rank has, in rank order, where lengths may differ. */
  public short[][] allgatherV(short[] array) {
    return allgatherV(array, CallOptions.NONE);
  }

  /** The same with options: boot cache. The input has to be filled. */
  public short[][] allgatherV(short[] array, CallOptions options) {
    return gatherAll(array, options);
  }

  /** What each rank has, in rank order, where lengths may differ. */
  public byte[][] allgatherV(byte[] array) {
    return allgatherV(array, CallOptions.NONE);
  }

  /** The same with options: boot cache. The input has to be filled. */
  public byte[][] allgatherV(byte[] array, CallOptions options) {
    return gatherAll(array, options);
  }

  private void reduce(Object array, Element element, Reduction reduction, CallOptions options) {
    ByteBuffer memory = input(array, element);
    allreduce(memory, element, reduction, filling(array, memory, options));
    Scratch.get(memory, array);
  }

  private <A> A scatter(A array, Element element, Reduction reduction, CallOptions options) {
    int length = part(rank, Array.getLength(array), options).length();
    ByteBuffer input = input(array, element);
    ByteBuffer output = outputs.bytes((long) element.bytes() * length);
    reduceScatter(input, output, element, reduction, filling(array, input, options));
    return Scratch.get(output, Scratch.like(array, length));
  }

  private void spread(Object array, int root, CallOptions options) {
    Element element = Scratch.element(array);
    ByteBuffer memory = input(array, element);
    Scratch.put(array, memory);
    broadcast(memory, element, root, filling(array, memory, options));
    Scratch.get(memory, array);
  }

  private <A> A gather(A array, CallOptions options) {
    int length = Math.multiplyExact(Array.getLength(array), world);
    Element element = Scratch.element(array);
    ByteBuffer input = input(array, element);
    ByteBuffer output = outputs.bytes((long) element.bytes() * length);
    allgather(input, output, element, filling(array, input, options));
    return Scratch.get(output, Scratch.like(array, length));
  }

  @SuppressWarnings("unchecked")
  private <A> A[] gatherAll(A array, CallOptions options) {
    Element element = Scratch.element(array);
    ByteBuffer input = input(array, element);
    Scratch.put(array, input);
    return Arrays.stream(allgatherV(input, element, options))
        .map(part -> Scratch.get(part, Scratch.like(array, part.remaining() / element.bytes())))
        .toArray(parts -> (A[]) Array.newInstance(array.getClass(), parts));
  }

  /** Memory for an array of these elements. */
  private ByteBuffer input(Object array, Element element) {
    Element own = Scratch.element(array);
    if (own.bytes() != element.bytes()) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "an array of elements of "
              + own.bytes()
              + " bytes was given for "
              + element
              + " of "
              + element.bytes());
    }
    return inputs.bytes((long) element.bytes() * Array.getLength(array));
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
}

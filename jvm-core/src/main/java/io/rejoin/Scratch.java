package io.rejoin;

import java.lang.reflect.Array;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Direct memory that arrays are copied into and out of; kept from call to call, and grown as
 * needed.
 */
final class Scratch {
  private ByteBuffer memory = ByteBuffer.allocateDirect(0);

  /** So many bytes; what is in them doesn't matter. */
  ByteBuffer bytes(long length) {
    if (length > Integer.MAX_VALUE) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          length + " bytes are more than a buffer can hold; make several calls of it");
    }
    if (memory.capacity() < length) {
      memory = ByteBuffer.allocateDirect((int) length);
    }
    ByteBuffer part = memory.duplicate();
    part.limit((int) length);
    return part.slice().order(ByteOrder.nativeOrder());
  }

  /** What an array is made of. */
  static Element element(Object array) {
    if (array instanceof double[]) {
      return Element.F64;
    } else if (array instanceof float[]) {
      return Element.F32;
    } else if (array instanceof long[]) {
      return Element.I64;
    } else if (array instanceof int[]) {
      return Element.I32;
    } else if (array instanceof short[]) {
      return Element.I16;
    }
    return Element.I8;
  }

  static void put(Object array, ByteBuffer to) {
    if (array instanceof double[]) {
      to.asDoubleBuffer().put((double[]) array);
    } else if (array instanceof float[]) {
      to.asFloatBuffer().put((float[]) array);
    } else if (array instanceof long[]) {
      to.asLongBuffer().put((long[]) array);
    } else if (array instanceof int[]) {
      to.asIntBuffer().put((int[]) array);
    } else if (array instanceof short[]) {
      to.asShortBuffer().put((short[]) array);
    } else {
      to.duplicate().put((byte[]) array);
    }
  }

  /** A new array of the same kind. */
  @SuppressWarnings("unchecked")
  static <A> A like(A array, int length) {
    return (A) Array.newInstance(array.getClass().getComponentType(), length);
  }

  /** Fills the array, and returns it. */
  static <A> A get(ByteBuffer from, A array) {
    if (array instanceof double[]) {
      from.asDoubleBuffer().get((double[]) array);
    } else if (array instanceof float[]) {
      from.asFloatBuffer().get((float[]) array);
    } else if (array instanceof long[]) {
      from.asLongBuffer().get((long[]) array);
    } else if (array instanceof int[]) {
      from.asIntBuffer().get((int[]) array);
    } else if (array instanceof short[]) {
      from.asShortBuffer().get((short[]) array);
    } else {
      from.duplicate().get((byte[]) array);
    }
    return array;
  }
}

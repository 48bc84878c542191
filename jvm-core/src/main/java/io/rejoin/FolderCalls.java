package io.rejoin;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;

/**
 * What the native library calls of a {@link CheckpointFolder}. Nothing is thrown into it: what went
 * wrong is asked for afterwards, by the same thread.
 */
final class FolderCalls {
  private final CheckpointFolder folder;
  private final ThreadLocal<String> failure = new ThreadLocal<>();

  FolderCalls(CheckpointFolder folder) {
    this.folder = Objects.requireNonNull(folder, "the folder of durable checkpoints is null");
  }

  private interface Call<T> {
    T make() throws IOException;
  }

  private <T> T call(T failed, Call<T> call) {
    try {
      return call.make();
    } catch (Throwable e) {
      failure.set(withoutTrace(e.toString()));
      return failed;
    }
  }

  /** Hadoop's remote exceptions have the server's stack in their message. */
  private static String withoutTrace(String text) {
    int trace = text.indexOf("\n\tat ");
    return (trace < 0 ? text : text.substring(0, trace)).replace('\n', ' ');
  }

  /** Why the last call of this thread has failed. */
  String failure() {
    String text = failure.get();
    failure.remove();
    return text;
  }

  /** Null when it failed. */
  String[] names() {
    return call(null, () -> Objects.requireNonNull(folder.names(), "the names are null"));
  }

  /** -1 when it failed. */
  long length(String name) {
    return call(-1L, () -> folder.length(name));
  }

  boolean read(String name, long from, ByteBuffer into) {
    return call(
        false,
        () -> {
          folder.read(name, from, into);
          if (into.hasRemaining()) {
            throw new EOFException(into.remaining() + " bytes of " + name + " were not given");
          }
          return true;
        });
  }

  boolean write(String name, ByteBuffer[] parts) {
    return call(
        false,
        () -> {
          folder.write(
              name,
              Arrays.stream(parts).map(ByteBuffer::asReadOnlyBuffer).toArray(ByteBuffer[]::new));
          return true;
        });
  }

  boolean remove(String name) {
    return call(
        false,
        () -> {
          folder.remove(name);
          return true;
        });
  }

  @Override
  public String toString() {
    return folder.toString();
  }
}

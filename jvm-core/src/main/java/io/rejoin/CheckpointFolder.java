package io.rejoin;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * Where durable checkpoints lie: a flat folder of files that all processes of a job see. Rejoin
 * calls it from threads of its own, several at a time, and never during a collective. {@link
 * Object#toString} names the folder in messages.
 *
 * <p>What a call throws is reported as an event ({@link TrainingEvent.Kind#DURABLE_FAILED});
 * training goes on, and the checkpoints before it stay.
 */
public interface CheckpointFolder {
  /** The names of all files, in any order; others' files may be among them. */
  String[] names() throws IOException;

  /** The length of a file in bytes. */
  long length(String name) throws IOException;

  /** Fills the buffer with a file's bytes, from this one on. */
  void read(String name, long from, ByteBuffer into) throws IOException;

  /**
   * Writes these parts, one behind the other, as one file: whole or not at all, and so that it
   * outlasts a crash of the machine once this returns. Of two processes that write the same name at
   * once one wins; both mean the same bytes. The buffers are read-only, and gone after the call.
   */
  void write(String name, ByteBuffer[] parts) throws IOException;

  /** Removes a file, which may be gone already. */
  void remove(String name) throws IOException;
}

package io.rejoin.it.flink;

import io.rejoin.it.Processes;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A fault rule that the job's own code fires, once in a job however often the moment comes again: a
 * file tells who comes later that it has.
 *
 * @param rank which rank it meets
 * @param number which of such moments
 * @param moment when
 * @param action what happens to the rank's process, or in its call
 * @param mark the file
 */
public record JobFault(int rank, int number, Moment moment, Action action, String mark)
    implements Serializable {
  /** When. */
  public enum Moment {
    /** Before the trainer's allreduce, when there have been so many versions. */
    BEFORE,
    /** When the allreduce after so many versions has given its result. */
    AFTER,
    /** When the model of this version is written, before any peer can know that it is complete. */
    WRITTEN,
    /** When the model of this version comes downstream; at rank 0 alone. */
    DOWNSTREAM,
    /**
     * In the snapshot of the rank's source for the checkpoint of this number: Flink asks a chain's
     * operators from the last one to the first, so the trainer has made its own, and nothing was
     * acknowledged.
     */
    SNAPSHOT,
    /**
     * When the rank's source is about to give the row of this number; its own, in all its splits.
     */
    ROW
  }

  /** What. */
  public enum Action {
    /** SIGKILL for the process. */
    KILL,
    /** SIGSTOP for the process. */
    STOP,
    /** An exception is thrown. */
    THROW,
    /** The thread waits until the test lets it go on. */
    HOLD,
    /** Nothing but its mark. */
    TELL
  }

  /** {@code rank:number:moment:action}, with its mark in a folder. */
  static JobFault parse(String text, Path folder) {
    String[] part = text.split(":");
    return new JobFault(
        Integer.parseInt(part[0]),
        Integer.parseInt(part[1]),
        Moment.valueOf(part[2]),
        Action.valueOf(part[3]),
        folder.resolve("fired-" + text.replace(':', '-')).toString());
  }

  /** Whether it has fired. */
  boolean hasFired() {
    return Files.exists(Path.of(mark));
  }

  /** Fires if this is its moment. */
  void fire(int atRank, long atNumber, Moment at) {
    if (atRank != rank || atNumber != number || at != moment || !isFirst()) {
      return;
    }
    switch (action) {
      case TELL:
        break;
      case THROW:
        throw new IllegalStateException("a test wants rank " + rank + " to fail");
      case HOLD:
        while (!Files.exists(release())) {
          LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
          if (Thread.interrupted()) {
            throw new IllegalStateException("interrupted while a test held rank " + rank);
          }
        }
        break;
      default:
        signal();
    }
  }

  private void signal() {
    long self = ProcessHandle.current().pid();
    if (!Processes.signal(self, action.name())) {
      throw new IllegalStateException("cannot send SIG" + action + " to myself, " + self);
    }
    while (action == Action.KILL) {
      LockSupport.park(); // The signal is under way; nothing more may be done meanwhile.
    }
  }

  /** The file that ends {@link Action#HOLD}. */
  Path release() {
    return Path.of(mark + "-released");
  }

  private boolean isFirst() {
    try {
      Files.createFile(Path.of(mark));
      return true;
    } catch (FileAlreadyExistsException fired) {
      return false;
    } catch (IOException cannot) {
      throw new UncheckedIOException(cannot);
    }
  }
}

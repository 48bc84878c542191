package io.rejoin.it.flink;

import io.rejoin.it.Processes;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A fault rule that {@link SplitTrainer} fires by itself, once in a job however often the moment
 * comes again: a file tells who comes later that it has.
 *
 * @param rank which rank it meets
 * @param version the number of versions before the one that it fires in
 * @param moment around the trainer's allreduce
 * @param action what happens to the rank's process, or in its call
 * @param mark the file
 */
public record TrainerFault(int rank, int version, Moment moment, Action action, String mark)
    implements Serializable {
  /** When. */
  public enum Moment {
    /** Before the trainer's allreduce. */
    BEFORE,
    /** When the trainer's allreduce has given its result. */
    AFTER
  }

  /** What. */
  public enum Action {
    /** SIGKILL for the process. */
    KILL,
    /** SIGSTOP for the process. */
    STOP,
    /** The trainer throws. */
    THROW
  }

  /** {@code rank:version:moment:action}, with its mark in a folder. */
  static TrainerFault parse(String text, Path folder) {
    String[] part = text.split(":");
    return new TrainerFault(
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
  void fire(int atRank, int atVersion, Moment at) throws IOException, InterruptedException {
    if (atRank != rank || atVersion != version || at != moment || !isFirst()) {
      return;
    }
    if (action == Action.THROW) {
      throw new IllegalStateException("a test makes the trainer of rank " + rank + " throw");
    }
    long self = ProcessHandle.current().pid();
    if (!Processes.signal(self, action.name())) {
      throw new IllegalStateException("cannot send SIG" + action + " to myself, " + self);
    }
    if (action == Action.KILL) {
      Thread.sleep(Long.MAX_VALUE); // The signal is under way; nothing more may be done meanwhile.
    }
  }

  private boolean isFirst() throws IOException {
    try {
      Files.createFile(Path.of(mark));
      return true;
    } catch (FileAlreadyExistsException fired) {
      return false;
    }
  }
}

package io.rejoin.it;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/**
 * Gates at which the code of a training waits, in processes of this machine, until the test opens
 * them: by files in a folder.
 */
final class FileGate implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Duration LIMIT = Duration.ofSeconds(100);

  private final String folder;

  /** Of an empty folder: all gates are closed. */
  FileGate(Path folder) {
    this.folder = folder.toString();
  }

  /** Lets all through, those that come later, too. */
  void open(int gate) {
    try {
      Files.writeString(file(gate), "");
    } catch (IOException failed) {
      throw new IllegalStateException("gate " + gate + " can't be opened", failed);
    }
  }

  /** Returns when the gate is open. */
  void pass(int gate) {
    long deadline = System.nanoTime() + LIMIT.toNanos();
    while (!Files.exists(file(gate))) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException("gate " + gate + " wasn't opened within " + LIMIT);
      }
      try {
        Thread.sleep(10); // Between two looks; the deadline decides, not this.
      } catch (InterruptedException ended) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted at gate " + gate, ended);
      }
    }
  }

  private Path file(int gate) {
    return Path.of(folder, "gate" + gate);
  }
}

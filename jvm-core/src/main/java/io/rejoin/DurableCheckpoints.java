package io.rejoin;

import java.util.Objects;

/**
 * Durable checkpoints of a job's common model in a folder that its program brings along: rank 0's
 * agent writes them in the background, and keeps the two newest. Should all processes of the job
 * die at once, the newest whole one is gone on from; under a name a later job goes on from it, too
 * ({@link Tracker.Settings#resume}).
 */
public final class DurableCheckpoints {
  private final FolderCalls folder;
  private final int every;
  private final String name;

  /**
   * Under the job's own number, which no other job has.
   *
   * @param every a checkpoint whose version is a multiple of this is written; at least 1
   */
  public DurableCheckpoints(CheckpointFolder folder, int every) {
    this(new FolderCalls(folder), every, null);
  }

  private DurableCheckpoints(FolderCalls folder, int every, String name) {
    this.folder = folder;
    this.every = every;
    this.name = name;
  }

  /** The same under a name, by which a later job finds them. */
  public DurableCheckpoints named(String name) {
    return new DurableCheckpoints(folder, every, Objects.requireNonNull(name, "the name is null"));
  }

  /** What the native library calls. */
  Object folder() {
    return folder;
  }

  AgentSettings over(AgentSettings settings) {
    return settings.copy().durable(every, name);
  }

  /** The name; null for the job's own number. */
  String name() {
    return name;
  }
}

package io.rejoin;

import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The native runtime of this process for one job; it hosts the ranks of this process and outlives
 * their tasks. What its ranks can do is its subclass's. Safe to use from several threads; closing
 * twice does nothing.
 */
public abstract class ProcessAgent implements AutoCloseable {
  /** Starts the native side; returns its handle. */
  protected interface Opener {
    /** With settings as pairs of key and value, and the job's secret. */
    long open(String[] settings, byte[] secret);
  }

  private final JobId job;
  private final long handle;
  private final AtomicBoolean closed = new AtomicBoolean();

  /**
   * Starts an agent. It looks for its tracker in the background.
   *
   * @throws RejoinException BAD_ARGUMENT for settings that can't work, IO when no port can be had,
   *     INCOMPATIBLE when the native library can't be loaded
   */
  protected ProcessAgent(JobId job, Secret secret, AgentSettings settings, Opener opener) {
    NativeLibrary.load();
    this.job = job;
    this.handle = opener.open(settings.words(job), secret.bytes());
  }

  /** The job whose ranks it hosts; a process may take part in several jobs, with an agent each. */
  public final JobId job() {
    return job;
  }

  /** Whether it has ended by itself (the job is over, or its lease ran out) or was closed. */
  public final boolean over() {
    return closed.get() || over(handle);
  }

  /** Whether it was closed by its owner. */
  protected final boolean isClosed() {
    return closed.get();
  }

  /** Stops it, and frees what it holds. */
  @Override
  public final void close() {
    if (closed.compareAndSet(false, true)) {
      close(handle);
    }
  }

  /** Whether the native side has ended by itself. */
  protected abstract boolean over(long handle);

  /** Lets the native side go; called once. */
  protected abstract void close(long handle);

  /**
   * The native side's handle.
   *
   * @throws RejoinException BAD_STATE after it was closed
   */
  protected final long open() {
    if (closed.get()) {
      throw new RejoinException(
          RejoinException.Code.BAD_STATE, "the agent of job " + job.brief() + " is closed");
    }
    return handle;
  }
}

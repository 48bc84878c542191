package io.rejoin.spark;

import io.rejoin.DurableCheckpoints;
import io.rejoin.RejoinException;
import io.rejoin.RowFingerprint;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.util.SerializableConfiguration;

/**
 * The folder of one durable training ({@code spark.rejoin.durable}), as driver and tasks open it.
 */
final class DurableFolder implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String path;
  private final SerializableConfiguration configuration;
  private final int every;
  private final String rows;

  /** {@code every}: so many checkpoints one is written. */
  DurableFolder(String path, Configuration configuration, int every) {
    this(path, new SerializableConfiguration(configuration), every, "");
  }

  private DurableFolder(
      String path, SerializableConfiguration configuration, int every, String rows) {
    this.path = path;
    this.configuration = configuration;
    this.every = every;
    this.rows = rows;
  }

  /**
   * The same for checkpoints of a training on these rows, under a name that none on other rows has:
   * an executor that was given up may still write a last one.
   */
  DurableFolder of(List<PreparedInput> inputs) {
    List<List<PartitionPages>> pages =
        inputs.stream().map(each -> each.stored().partitions()).collect(Collectors.toList());
    return new DurableFolder(path, configuration, every, digest(pages));
  }

  /**
   * Of inputs by what their lists say of each partition, but for the numbers of the tries: equal
   * digests are equal pages. Of one input it is the digest by which others than the JVM know it.
   */
  static String digest(List<List<PartitionPages>> inputs) {
    RowFingerprint.Maker all = new RowFingerprint.Maker();
    for (List<PartitionPages> input : inputs) {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      DataOutputStream out = new DataOutputStream(bytes);
      try {
        for (PartitionPages partition : input) {
          partition.write(out);
        }
      } catch (IOException e) {
        throw new UncheckedIOException("an array can be written to", e);
      }
      all.add(0, ByteBuffer.wrap(bytes.toByteArray()));
    }
    return all.made().digits();
  }

  /** The folder, which is made if it isn't there: by who has its lock. */
  HadoopFolder make() {
    return attempt("made", () -> new HadoopFolder(new Path(path), configuration.value()));
  }

  /** The folder as it is: a task that comes late doesn't bring a removed one back. */
  HadoopFolder open() {
    return attempt("used", () -> HadoopFolder.at(new Path(path), configuration.value()));
  }

  /** Where agents write checkpoints, and the tracker looks for them; null for no folder. */
  static DurableCheckpoints checkpoints(DurableFolder folder) {
    return folder == null
        ? null
        : new DurableCheckpoints(folder.open(), folder.every).named(folder.rows);
  }

  /**
   * Does something with the folder.
   *
   * @throws RejoinException IO that names the folder, when it fails
   */
  <T> T attempt(String what, Callable<T> work) {
    try {
      return work.call();
    } catch (IOException cause) {
      throw new RejoinException(
          RejoinException.Code.IO,
          "the durable folder "
              + path
              + " can't be "
              + what
              + ": "
              + cause
              + ". See that all executors reach it, with room and permission to write"
              + " (spark.rejoin.durable)",
          cause);
    } catch (Exception other) {
      throw Sneaky.rethrown(other);
    }
  }

  @Override
  public String toString() {
    return path;
  }
}

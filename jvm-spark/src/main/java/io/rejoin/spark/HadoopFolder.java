package io.rejoin.spark;

import io.rejoin.CheckpointFolder;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;

/**
 * Durable checkpoints in a folder of a Hadoop file system (HDFS, S3A, a mounted disk). A file is
 * written under another name, brought to disk where the file system can ({@code hsync}), and
 * renamed. For {@link io.rejoin.CollectiveAgent#open(io.rejoin.JobId, io.rejoin.Secret,
 * io.rejoin.Agent.Settings, CheckpointFolder, int)}.
 */
public final class HadoopFolder implements CheckpointFolder {
  private static final int CHUNK_BYTES = 1 << 20;

  private final FileSystem files;
  private final Path folder;

  /**
   * The folder of this name, which is made if it isn't there.
   *
   * @param folder with the scheme of its file system; without one, it is on the default one of the
   *     configuration
   * @throws IOException when the file system can't be reached or the folder can't be made
   */
  public HadoopFolder(Path folder, Configuration configuration) throws IOException {
    files = folder.getFileSystem(configuration);
    this.folder = files.makeQualified(folder);
    if (!files.mkdirs(this.folder)) {
      throw new IOException("the folder " + this.folder + " can't be made");
    }
  }

  @Override
  public String[] names() throws IOException {
    return Arrays.stream(files.listStatus(folder))
        .filter(FileStatus::isFile)
        .map(status -> status.getPath().getName())
        .toArray(String[]::new);
  }

  @Override
  public long length(String name) throws IOException {
    return files.getFileStatus(new Path(folder, name)).getLen();
  }

  @Override
  public void read(String name, long from, ByteBuffer into) throws IOException {
    byte[] chunk = new byte[Math.min(CHUNK_BYTES, into.remaining())];
    try (FSDataInputStream file = files.open(new Path(folder, name))) {
      file.seek(from);
      while (into.hasRemaining()) {
        int count = Math.min(chunk.length, into.remaining());
        file.readFully(chunk, 0, count);
        into.put(chunk, 0, count);
      }
    }
  }

  @Override
  public void write(String name, ByteBuffer[] parts) throws IOException {
    Path unfinished = new Path(folder, name + ".unfinished-" + UUID.randomUUID());
    try {
      try (FSDataOutputStream file = files.create(unfinished, true)) {
        for (ByteBuffer part : parts) {
          copy(part, file);
        }
        if (file.hasCapability(StreamCapabilities.HSYNC)) {
          file.hsync();
        }
      }
      rename(unfinished, new Path(folder, name));
    } catch (IOException | RuntimeException e) {
      forget(unfinished, e);
      throw e;
    }
  }

  private static void copy(ByteBuffer from, FSDataOutputStream to) throws IOException {
    byte[] chunk = new byte[Math.min(CHUNK_BYTES, from.remaining())];
    while (from.hasRemaining()) {
      int count = Math.min(chunk.length, from.remaining());
      from.get(chunk, 0, count);
      to.write(chunk, 0, count);
    }
  }

  /**
   * Most file systems don't rename onto what is there. Another process may have written the same
   * bytes; then those are as good.
   */
  private void rename(Path unfinished, Path finished) throws IOException {
    if (files.exists(finished)) {
      if (lengthOf(finished) == lengthOf(unfinished)) {
        files.delete(unfinished, false);
        return;
      }
      files.delete(finished, false);
    }
    if (!files.rename(unfinished, finished)) {
      throw new IOException(unfinished + " can't be renamed to " + finished.getName());
    }
  }

  private long lengthOf(Path file) throws IOException {
    try {
      return files.getFileStatus(file).getLen();
    } catch (FileNotFoundException gone) {
      return -1;
    }
  }

  /** Nothing depends on its being removed: nobody reads a file with that ending. */
  private void forget(Path unfinished, Exception cause) {
    try {
      files.delete(unfinished, false);
    } catch (IOException | RuntimeException e) {
      cause.addSuppressed(e);
    }
  }

  @Override
  public void remove(String name) throws IOException {
    files.delete(new Path(folder, name), false);
  }

  @Override
  public String toString() {
    return folder.toString();
  }
}

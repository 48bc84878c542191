package io.rejoin.spark;

import io.rejoin.CheckpointFolder;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Durable checkpoints in a folder of a Hadoop file system (HDFS, S3A, a mounted disk). A file is
 * written under another name, brought to disk where the file system can ({@code hsync}), and
 * renamed onto what is there: in one step where the file system can (HDFS), so that its name is
 * never missing. For {@link io.rejoin.DurableCheckpoints}.
 */
public final class HadoopFolder implements CheckpointFolder {
  private static final int CHUNK_BYTES = 1 << 20;

  private static final int RENAMES = 3;
  private static final Logger LOG = LoggerFactory.getLogger(HadoopFolder.class);

  private final FileSystem files;
  private final Path folder;

  /** Renames onto what is there; null where the file system has no such call. */
  private final FileContext overwriting;

  /**
   * The folder of this name, which is made if it isn't there.
   *
   * @param folder with the scheme of its file system; without one, it is on the default one of the
   *     configuration
   * @throws IOException when the file system can't be reached or the folder can't be made
   */
  public HadoopFolder(Path folder, Configuration configuration) throws IOException {
    this(folder, configuration, true);
  }

  private HadoopFolder(Path folder, Configuration configuration, boolean make) throws IOException {
    files = folder.getFileSystem(configuration);
    this.folder = files.makeQualified(folder);
    boolean isThere = !make || files.exists(this.folder);
    if (make && !files.mkdirs(this.folder)) {
      throw new IOException("the folder " + this.folder + " can't be made");
    }
    if (!isThere) {
      hide(this.folder, "rwx------");
    }
    overwriting = overwriting(this.folder, configuration);
  }

  /** The folder of this name, which isn't made: what isn't there can't be read or written to. */
  static HadoopFolder at(Path folder, Configuration configuration) throws IOException {
    return new HadoopFolder(folder, configuration, false);
  }

  private static FileContext overwriting(Path folder, Configuration configuration) {
    try {
      return FileContext.getFileContext(folder.toUri(), configuration);
    } catch (UnsupportedFileSystemException | RuntimeException e) {
      // None is there for this scheme, or it can't be made: a file is removed before the rename.
      LOG.debug("{} has no rename onto what is there: {}", folder, e.toString());
      return null;
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

  /** All of a file's bytes. */
  byte[] read(String name) throws IOException {
    byte[] bytes = new byte[Math.toIntExact(length(name))];
    read(name, 0, ByteBuffer.wrap(bytes));
    return bytes;
  }

  /** Removes the folder, unless something is in it. */
  void removeIfEmpty() throws IOException {
    if (files.listStatus(folder).length == 0) {
      files.delete(folder, true);
    }
  }

  @Override
  public void write(String name, ByteBuffer[] parts) throws IOException {
    Path finished = new Path(folder, name);
    // A restarted rank repeats its version: what is good stays, where a rename isn't one step.
    if (holds(finished, parts)) {
      return;
    }
    Path unfinished = new Path(folder, name + ".unfinished-" + UUID.randomUUID());
    try {
      // Not into a folder that somebody has removed, which would come back by that.
      try (FSDataOutputStream file = files.createFile(unfinished).overwrite(true).build()) {
        hide(unfinished, "rw-------");
        for (ByteBuffer part : parts) {
          copy(part.duplicate(), file);
        }
        if (file.hasCapability(StreamCapabilities.HSYNC)) {
          file.hsync();
        }
      }
      rename(unfinished, finished);
    } catch (IOException | RuntimeException e) {
      forget(unfinished, e);
      throw e;
    }
  }

  /**
   * On a local disk only this user may look into it. Elsewhere the file system's own rules hold;
   * Hadoop's way of setting them would start a process for each local file.
   */
  private void hide(Path made, String permissions) throws IOException {
    if ("file".equals(folder.toUri().getScheme())) {
      Files.setPosixFilePermissions(
          Paths.get(made.toUri()), PosixFilePermissions.fromString(permissions));
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

  /** Whether exactly these bytes are there under the name. */
  private boolean holds(Path finished, ByteBuffer[] parts) throws IOException {
    long length = Arrays.stream(parts).mapToLong(ByteBuffer::remaining).sum();
    try {
      if (files.getFileStatus(finished).getLen() != length) {
        return false;
      }
    } catch (FileNotFoundException e) {
      return false;
    }
    try (FSDataInputStream file = files.open(finished)) {
      byte[] chunk = new byte[(int) Math.min(CHUNK_BYTES, length)];
      for (ByteBuffer part : parts) {
        ByteBuffer wanted = part.duplicate();
        while (wanted.hasRemaining()) {
          int count = Math.min(chunk.length, wanted.remaining());
          file.readFully(chunk, 0, count);
          ByteBuffer next = wanted.slice().limit(count);
          if (!next.equals(ByteBuffer.wrap(chunk, 0, count))) {
            return false;
          }
          wanted.position(wanted.position() + count);
        }
      }
      return true;
    } catch (IOException e) {
      LOG.warn("{} can't be read, and is written anew: {}", finished, e.toString());
      return false;
    }
  }

  /**
   * What is there under the name goes: it is older, or damaged. Another process may write the same
   * file at the same time; the one that comes last stays.
   */
  private void rename(Path unfinished, Path finished) throws IOException {
    IOException failed = null;
    if (overwriting != null) {
      try {
        overwriting.rename(unfinished, finished, Options.Rename.OVERWRITE);
        return;
      } catch (IOException e) {
        // Where Hadoop makes it of two steps, another process may have come in between.
        failed = e;
      }
    }
    for (int i = 0; i < RENAMES && files.exists(unfinished); i++) {
      files.delete(finished, false);
      if (files.rename(unfinished, finished)) {
        return;
      }
    }
    throw new IOException(unfinished + " can't be renamed to " + finished.getName(), failed);
  }

  /** Nothing depends on its being removed: a file with that ending is never read. */
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

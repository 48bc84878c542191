package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Agent;
import io.rejoin.AgentSettings;
import io.rejoin.Communicator;
import io.rejoin.DurableCheckpoints;
import io.rejoin.JobId;
import io.rejoin.Secret;
import io.rejoin.Tracker;
import io.rejoin.TrainingEvent;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.AbstractFileSystem;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFs;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Durable checkpoints on an HDFS, and on Hadoop's view of this machine's disk. */
class HadoopFolderTest {
  private static final Communicator.Limits LIMITS = new Communicator.Limits(60_000, 60_000, 60_000);

  @TempDir static File scratch;
  private static MiniDFSCluster hdfs;

  private final JobId job = JobId.random();
  private final Secret secret = Secret.random();

  @BeforeAll
  static void start() throws IOException {
    Configuration configuration = new Configuration();
    configuration.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, scratch.getPath());
    hdfs = new MiniDFSCluster.Builder(configuration).numDataNodes(1).build();
    hdfs.waitActive();
  }

  @AfterAll
  static void stop() {
    hdfs.shutdown();
  }

  private static HadoopFolder onHdfs(String name) throws IOException {
    return new HadoopFolder(
        new Path(hdfs.getURI() + "/checkpoints/" + name), hdfs.getConfiguration(0));
  }

  private static HadoopFolder onDisk(File folder) throws IOException {
    return new HadoopFolder(new Path(folder.toURI()), new Configuration());
  }

  private Agent agent(Tracker tracker, String name, HadoopFolder folder) {
    AgentSettings settings = new AgentSettings(tracker.address());
    settings.place(name, "127.0.0.1", "localhost");
    return Agent.open(job, secret, settings, new DurableCheckpoints(folder, 2));
  }

  private Communicator join(Agent agent, int rank, int attempt) {
    Communicator ranks = agent.join(rank, 0, attempt, "a test", LIMITS).orElseThrow();
    ranks.load();
    return ranks;
  }

  private static TrainingEvent await(Tracker tracker, TrainingEvent.Kind kind, int count) {
    TrainingEvent event;
    do {
      event = tracker.poll(60_000).orElseThrow();
      assertTrue(
          kind == event.kind() || event.kind() != TrainingEvent.Kind.DURABLE_FAILED,
          event.toString());
      count -= event.kind() == kind ? 1 : 0;
    } while (count > 0);
    return event;
  }

  private static byte[] model(int version) {
    byte[] model = new byte[3 << 20];
    new Random(version).nextBytes(model);
    return model;
  }

  @Test
  void when_all_processes_are_gone_new_ones_go_on_from_the_checkpoint_on_hdfs() throws Exception {
    try (Tracker tracker = Tracker.open(job, secret, new Tracker.Settings(2, "127.0.0.1"))) {
      try (Agent one = agent(tracker, "one", onHdfs("all gone"));
          Agent other = agent(tracker, "other", onHdfs("all gone"))) {
        together(
            one,
            other,
            0,
            (ranks, rank) -> {
              for (int version = 1; version <= 7; version++) {
                ranks.checkpoint(model(version), new byte[] {(byte) (10 * version + rank)});
              }
            });
        // Versions 2, 4 and 6; the model of rank 0 and each one's own.
        await(tracker, TrainingEvent.Kind.DURABLE_WRITTEN, 9);
      }
      awaitNames(onHdfs("all gone"), 6);
      try (Agent one = agent(tracker, "third", onHdfs("all gone"));
          Agent other = agent(tracker, "fourth", onHdfs("all gone"))) {
        together(
            one,
            other,
            1,
            (ranks, rank) -> {
              Communicator.Loaded start = ranks.load();
              assertEquals(6, start.version());
              assertArrayEquals(model(6), start.model().orElseThrow());
              ranks.finish(model(6));
            });
      }
    }
  }

  /** Of the newest two versions; who has written the last file removes what is older after that. */
  private static void awaitNames(HadoopFolder folder, int count) throws IOException {
    long begun = System.nanoTime();
    while (folder.names().length != count) {
      assertTrue(
          System.nanoTime() - begun < TimeUnit.SECONDS.toNanos(60),
          () -> "expected " + count + " files, there are more or fewer in " + folder);
    }
  }

  private interface Work {
    void of(Communicator ranks, int rank);
  }

  private void together(Agent one, Agent other, int attempt, Work work) throws Exception {
    Throwable[] failed = new Throwable[2];
    Agent[] agents = {one, other};
    Thread[] threads = new Thread[2];
    CyclicBarrier bothAreDone = new CyclicBarrier(2);
    for (int i = 0; i < 2; i++) {
      int rank = i;
      threads[i] =
          new Thread(
              () -> {
                try (Communicator ranks = join(agents[rank], rank, attempt)) {
                  work.of(ranks, rank);
                  // Who leaves is missed by the other one until that is as far.
                  bothAreDone.await(60, TimeUnit.SECONDS);
                } catch (Throwable e) {
                  failed[rank] = e;
                }
              });
      threads[i].start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    AssertionError failure = new AssertionError("a rank failed");
    Arrays.stream(failed).filter(Objects::nonNull).forEach(failure::addSuppressed);
    if (failure.getSuppressed().length > 0) {
      throw failure;
    }
  }

  @Test
  void what_an_hdfs_refuses_is_told_and_the_training_goes_on() throws Exception {
    HadoopFolder folder = onHdfs("refusing");
    try (Tracker tracker = Tracker.open(job, secret, new Tracker.Settings(1, "127.0.0.1"));
        Agent agent = agent(tracker, "one", folder);
        Communicator ranks = join(agent, 0, 0)) {
      hdfs.getFileSystem().setSafeMode(SafeModeAction.SAFEMODE_ENTER);
      try {
        ranks.checkpoint(model(1));
        ranks.checkpoint(model(2));
        String text = await(tracker, TrainingEvent.Kind.DURABLE_FAILED, 1).toString();
        assertTrue(text.contains("safe mode") && text.contains("/checkpoints/refusing"), text);
      } finally {
        hdfs.getFileSystem().setSafeMode(SafeModeAction.SAFEMODE_LEAVE);
      }
      ranks.checkpoint(model(3));
      ranks.checkpoint(model(4));
      await(tracker, TrainingEvent.Kind.DURABLE_WRITTEN, 1);
      assertEquals(1, folder.names().length, Arrays.toString(folder.names()));
    }
  }

  @Test
  void a_file_is_there_whole_under_its_name_and_written_again_stays_the_same(@TempDir File disk)
      throws IOException {
    for (HadoopFolder folder : new HadoopFolder[] {onHdfs("files"), onDisk(disk)}) {
      byte[] bytes = model(1);
      ByteBuffer[] parts = {ByteBuffer.wrap(bytes, 0, 80), ByteBuffer.wrap(bytes, 80, 3000000)};
      for (int i = 0; i < 2; i++) {
        folder.write(
            "one", Arrays.stream(parts).map(ByteBuffer::duplicate).toArray(ByteBuffer[]::new));
      }
      folder.write("two", new ByteBuffer[] {ByteBuffer.wrap(new byte[] {1})});
      folder.write("two", new ByteBuffer[] {ByteBuffer.wrap(new byte[] {2, 3})});
      assertEquals(3000080, folder.length("one"));
      assertEquals(2, folder.length("two"));
      ByteBuffer some = ByteBuffer.allocateDirect(2000000);
      folder.read("one", 1000000, some);
      byte[] seen = new byte[2000000];
      some.flip().get(seen);
      assertArrayEquals(Arrays.copyOfRange(bytes, 1000000, 3000000), seen);
      String[] names = folder.names();
      Arrays.sort(names);
      assertArrayEquals(new String[] {"one", "two"}, names);
      folder.remove("one");
      folder.remove("one");
      assertArrayEquals(new String[] {"two"}, folder.names());
      assertThrows(IOException.class, () -> folder.read("one", 0, ByteBuffer.allocate(1)));
      assertThrows(IOException.class, () -> folder.read("two", 0, ByteBuffer.allocate(3)));
    }
  }

  @Test
  void a_file_of_the_same_length_that_is_damaged_is_written_anew(@TempDir File disk)
      throws IOException {
    for (HadoopFolder folder : new HadoopFolder[] {onHdfs("damaged"), onDisk(disk), bare(disk)}) {
      for (byte written = 1; written <= 3; written++) {
        folder.write("one", new ByteBuffer[] {ByteBuffer.wrap(new byte[] {9, written})});
        ByteBuffer seen = ByteBuffer.allocate(1);
        folder.read("one", 1, seen);
        assertEquals(written, seen.get(0), folder.toString());
        assertArrayEquals(new String[] {"one"}, folder.names());
      }
    }
  }

  @Test
  void a_file_that_is_there_with_the_same_bytes_is_left_as_it_is() throws IOException {
    HadoopFolder folder = onHdfs("same");
    Path file = new Path(hdfs.getURI() + "/checkpoints/same/one");
    byte[] bytes = model(1);
    folder.write("one", new ByteBuffer[] {ByteBuffer.wrap(bytes)});
    long inode = inode(file);
    ByteBuffer[] parts = {
      ByteBuffer.wrap(bytes, 0, 80), ByteBuffer.wrap(bytes, 80, 3 * 1048576 - 80)
    };
    folder.write("one", parts);
    assertEquals(inode, inode(file));
    bytes[bytes.length - 1] ^= 1;
    folder.write("one", new ByteBuffer[] {ByteBuffer.wrap(bytes)});
    assertTrue(inode != inode(file));
  }

  private static long inode(Path file) throws IOException {
    return hdfs.getFileSystem().getClient().getFileInfo(file.toUri().getPath()).getFileId();
  }

  @Test
  void where_a_rename_onto_what_is_there_fails_the_file_is_removed_first(@TempDir File disk)
      throws IOException {
    Configuration configuration = new Configuration();
    configuration.set("fs.AbstractFileSystem.file.impl", NoOverwriting.class.getName());
    HadoopFolder folder = new HadoopFolder(new Path(disk.toURI()), configuration);
    for (byte written = 1; written <= 2; written++) {
      folder.write("one", new ByteBuffer[] {ByteBuffer.wrap(new byte[] {written})});
      ByteBuffer seen = ByteBuffer.allocate(1);
      folder.read("one", 0, seen);
      assertEquals(written, seen.get(0));
      assertArrayEquals(new String[] {"one"}, folder.names());
    }
  }

  /** Hadoop's view of a disk, whose rename onto what is there fails. */
  public static final class NoOverwriting extends FilterFs {
    public NoOverwriting(URI uri, Configuration configuration)
        throws IOException, URISyntaxException {
      super(AbstractFileSystem.createFileSystem(uri, new Configuration()));
    }

    @Override
    public void renameInternal(Path from, Path to, boolean overwrite) throws IOException {
      throw new IOException("another process came in between");
    }
  }

  /** A file system for which Hadoop has no way to rename onto what is there. */
  public static final class BareDisk extends RawLocalFileSystem {
    @Override
    public URI getUri() {
      return URI.create("bare:///");
    }

    @Override
    public String getScheme() {
      return "bare";
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
      return !exists(to) && super.rename(from, to);
    }
  }

  private static HadoopFolder bare(File disk) throws IOException {
    Configuration configuration = new Configuration();
    configuration.set("fs.bare.impl", BareDisk.class.getName());
    return new HadoopFolder(new Path("bare://" + new File(disk, "bare").getPath()), configuration);
  }

  @Test
  void on_hdfs_a_name_is_never_missing_while_its_file_is_written_again() throws Exception {
    HadoopFolder folder = onHdfs("again");
    folder.write("one", new ByteBuffer[] {ByteBuffer.allocate(1)});
    AtomicBoolean done = new AtomicBoolean();
    Thread writer =
        new Thread(
            () -> {
              try {
                for (int length = 1; length <= 20; length++) {
                  folder.write("one", new ByteBuffer[] {ByteBuffer.allocate(length)});
                }
              } catch (IOException e) {
                throw new UncheckedIOException(e);
              } finally {
                done.set(true);
              }
            });
    writer.start();
    while (!done.get()) {
      assertTrue(folder.length("one") > 0);
    }
    writer.join();
    assertEquals(20, folder.length("one"));
  }

  @Test
  void a_folder_that_cannot_be_made_or_reached_is_an_error_that_names_it() {
    Configuration configuration = new Configuration();
    IOException failed =
        assertThrows(
            IOException.class,
            () -> new HadoopFolder(new Path("nosuchscheme://there/folder"), configuration));
    assertTrue(failed.getMessage().contains("nosuchscheme"), failed.getMessage());
    assertTrue(FileSystem.getDefaultUri(configuration) != null);
  }

  private static String permissions(File file) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(file.toPath()));
  }

  @Test
  void on_a_local_disk_a_checkpoint_and_the_folder_made_for_it_are_for_their_user_alone(
      @TempDir File disk) throws IOException {
    File made = new File(disk, "made");
    ByteBuffer[] parts = {ByteBuffer.wrap(new byte[] {1, 2, 3})};
    onDisk(made).write("one.checkpoint", parts);
    assertEquals("rwx------", permissions(made));
    assertEquals("rw-------", permissions(new File(made, "one.checkpoint")));
    Files.setPosixFilePermissions(disk.toPath(), PosixFilePermissions.fromString("rwxr-x---"));
    onDisk(disk).write("two.checkpoint", parts);
    assertEquals("rwxr-x---", permissions(disk), "a folder that is there stays as it is");
    assertEquals("rw-------", permissions(new File(disk, "two.checkpoint")));
  }
}

package io.rejoin.spark;

import io.rejoin.RejoinException;
import io.rejoin.RowFingerprint;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;

/**
 * Pages as files of a durable folder, one file each, and a list of them that is written when all
 * are there: an application that finds the list trains on these pages, whatever has become of the
 * source. Laid out as docs/pages.md says.
 */
final class DurablePages implements Serializable {
  /** How the name of an input's list of pages ends. */
  static final String LIST = ".pages";

  private static final long serialVersionUID = 1L;
  private static final int LIST_VERSION = 3;
  private static final int DIGEST_BYTES = 32;

  private final DurableFolder folder;
  private final String what;
  private final FeatureDescription features;

  /**
   * In a folder.
   *
   * @param what training or evaluation
   * @param features what the list says of them
   */
  DurablePages(DurableFolder folder, String what, FeatureDescription features) {
    this.folder = folder;
    this.what = what;
    this.features = features;
  }

  /** Of an earlier try, if it came to the end of storing them. */
  Optional<StoredPages> find(SparkContext context) {
    HadoopFolder files = folder.open();
    return folder.attempt(
        "read",
        () -> {
          byte[] list;
          try {
            list = files.read(listName());
          } catch (FileNotFoundException none) {
            return Optional.empty();
          }
          return Optional.of(stored(context, read(list)));
        });
  }

  /** Writes them, in a job of Spark's. */
  StoredPages store(RDD<byte[]> pages) {
    List<Written> written =
        InputPreparation.collect(
            new DerivedRdd<>(
                Written.class,
                Collections.singletonList(pages),
                (split, context) ->
                    Collections.singletonList(
                            write(
                                split.index(),
                                ScalaCollections.iterator(pages.iterator(split.of(0), context))))
                        .iterator()));
    HadoopFolder files = folder.open();
    folder.attempt(
        "written to",
        () -> {
          files.write(listName(), new ByteBuffer[] {ByteBuffer.wrap(list(features, written))});
          return null;
        });
    return stored(pages.context(), written);
  }

  private StoredPages stored(SparkContext context, List<Written> written) {
    // Nothing of the source is asked for any more.
    RDD<byte[]> none =
        JavaSparkContext.fromSparkContext(context)
            .<byte[]>parallelize(Collections.emptyList(), written.size())
            .rdd();
    ArrayList<Written> all = new ArrayList<>(written);
    RDD<byte[]> pages =
        new DerivedRdd<>(
            byte[].class,
            Collections.singletonList(none),
            (split, context1) -> new Reading(all.get(split.index()), context1));
    return new StoredPages(
        pages, written.stream().map(each -> each.pages).collect(Collectors.toList()));
  }

  private Written write(int partition, Iterator<byte[]> pages) {
    HadoopFolder files = folder.open();
    long number = new SecureRandom().nextLong() >>> 1;
    Written written = new Written(new PartitionPages(partition), number);
    return folder.attempt(
        "written to",
        () -> {
          while (pages.hasNext()) {
            byte[] page = pages.next();
            String name = written.name(what, written.pages.count());
            files.write(name, new ByteBuffer[] {ByteBuffer.wrap(page)});
            written.pages.add(page);
          }
          return written;
        });
  }

  private String listName() {
    return what + LIST;
  }

  /** The list of an input's pages; its last bytes are the SHA-256 of all others. */
  static byte[] list(FeatureDescription features, List<Written> all) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeInt(LIST_VERSION);
    features.write(out);
    out.writeInt(all.size());
    for (Written each : all) {
      out.writeLong(each.number);
      each.pages.write(out);
    }
    out.write(sha256(bytes.toByteArray()));
    return bytes.toByteArray();
  }

  /**
   * What {@link #list} has written.
   *
   * @throws RejoinException INCOMPATIBLE for one of another version; INPUT_LOST for a damaged one
   */
  List<Written> read(byte[] list) throws IOException {
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(list));
    // One that is shorter than that is damaged.
    int version = list.length < Integer.BYTES ? LIST_VERSION : in.readInt();
    if (version != LIST_VERSION) {
      throw new RejoinException(
          RejoinException.Code.INCOMPATIBLE,
          "expected a list of version "
              + LIST_VERSION
              + "; saw "
              + listName()
              + " of version "
              + version
              + " in the durable folder "
              + folder
              + ". Go on with the version of Rejoin that has written it, or remove the folder to"
              + " begin from the source");
    }
    int end = list.length - DIGEST_BYTES;
    if (end < Integer.BYTES
        || !Arrays.equals(
            sha256(Arrays.copyOf(list, end)), Arrays.copyOfRange(list, end, list.length))) {
      throw new RejoinException(
          RejoinException.Code.INPUT_LOST,
          "the list "
              + listName()
              + " of the durable folder "
              + folder
              + " is damaged: expected that it ends with the SHA-256 of its bytes; saw "
              + list.length
              + " bytes that don't. Store the input again");
    }
    FeatureDescription.read(in);
    int partitions = in.readInt();
    List<Written> all = new ArrayList<>();
    for (int partition = 0; partition < partitions; partition++) {
      long number = in.readLong();
      all.add(new Written(PartitionPages.read(partition, in), number));
    }
    return all;
  }

  private static byte[] sha256(byte[] bytes) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(bytes);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }

  /**
   * What a task has written of a partition. Its files carry a random number, so that no other try,
   * of this or of an earlier application, whose rows may come in another order, writes into them.
   */
  static final class Written implements Serializable {
    private static final long serialVersionUID = 1L;

    private final PartitionPages pages;
    private final long number;

    Written(PartitionPages pages, long number) {
      this.pages = pages;
      this.number = number;
    }

    String name(String what, int page) {
      return what + "-" + pages.partition() + "-" + number + "-" + page + ".page";
    }
  }

  /** A partition's pages, each verified before it is given. */
  private final class Reading implements Iterator<byte[]> {
    private final Written written;
    private final TaskContext context;
    private final HadoopFolder files = folder.open();
    private int next;

    Reading(Written written, TaskContext context) {
      this.written = written;
      this.context = context;
    }

    @Override
    public boolean hasNext() {
      return next < written.pages.count();
    }

    @Override
    public byte[] next() {
      if (!hasNext()) {
        throw new NoSuchElementException("the partition has no further page");
      }
      String name = written.name(what, next);
      RowFingerprint expected = written.pages.page(next);
      byte[] page =
          folder.attempt(
              "read",
              () -> {
                try {
                  return files.read(name);
                } catch (FileNotFoundException gone) {
                  throw lost(name, expected, "there is no such file");
                }
              });
      RowFingerprint seen;
      try {
        seen = PartitionPages.fingerprint(page);
      } catch (IllegalArgumentException damaged) {
        throw lost(name, expected, damaged.getMessage());
      }
      if (!seen.equals(expected)) {
        throw lost(name, expected, "read " + seen);
      }
      context.taskMetrics().inputMetrics().incBytesRead(page.length);
      next++;
      return page;
    }

    private RejoinException lost(String name, RowFingerprint expected, String seen) {
      return new RejoinException(
          RejoinException.Code.INPUT_LOST,
          "page "
              + name
              + " of the durable folder "
              + folder
              + " is lost: expected "
              + expected
              + "; "
              + seen
              + ". If driver and executors reach the same folder under this name, remove it to"
              + " begin from the source");
    }
  }
}

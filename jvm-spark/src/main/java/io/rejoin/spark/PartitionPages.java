package io.rejoin.spark;

import io.rejoin.RowFingerprint;
import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Iterator;

/** What the driver knows of a partition's pages: the fingerprint of each, in their order. */
final class PartitionPages implements Serializable {
  private static final long serialVersionUID = 1L;

  private final int partition;
  private final ArrayList<RowFingerprint> pages = new ArrayList<>();
  private boolean fromSparse;

  /** Of a partition, without pages yet. */
  PartitionPages(int partition) {
    this.partition = partition;
  }

  /** Of a partition whose pages are read for this alone. */
  static PartitionPages of(int partition, Iterator<byte[]> pages) {
    PartitionPages all = new PartitionPages(partition);
    pages.forEachRemaining(all::add);
    return all;
  }

  /** Adds the next page. */
  void add(byte[] page) {
    Page head = Page.of(page);
    pages.add(fingerprint(page));
    fromSparse |= head.has(Page.FROM_SPARSE);
  }

  /** Of one page: how many rows, how many bytes, and their digest. */
  static RowFingerprint fingerprint(byte[] page) {
    return new RowFingerprint.Maker().add(Page.of(page).rows(), ByteBuffer.wrap(page)).made();
  }

  /** The pages of this partition, as {@link #write} has written them. */
  static PartitionPages read(int partition, DataInput in) throws IOException {
    PartitionPages all = new PartitionPages(partition);
    all.fromSparse = in.readBoolean();
    int count = in.readInt();
    for (int page = 0; page < count; page++) {
      all.pages.add(RowFingerprint.read(in));
    }
    return all;
  }

  /** Writes all but the partition's number. */
  void write(DataOutput out) throws IOException {
    out.writeBoolean(fromSparse);
    out.writeInt(pages.size());
    for (RowFingerprint page : pages) {
      page.write(out);
    }
  }

  int partition() {
    return partition;
  }

  /** How many pages. */
  int count() {
    return pages.size();
  }

  /** What a page has to be when it is read again. */
  RowFingerprint page(int number) {
    return pages.get(number);
  }

  /** Whether any row came as a sparse vector. */
  boolean fromSparse() {
    return fromSparse;
  }

  long rows() {
    return pages.stream().mapToLong(RowFingerprint::rows).sum();
  }

  long bytes() {
    return pages.stream().mapToLong(RowFingerprint::bytes).sum();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof PartitionPages
        && ((PartitionPages) other).partition == partition
        && ((PartitionPages) other).pages.equals(pages);
  }

  @Override
  public int hashCode() {
    return pages.hashCode();
  }

  @Override
  public String toString() {
    return "partition " + partition + " of pages " + pages;
  }
}

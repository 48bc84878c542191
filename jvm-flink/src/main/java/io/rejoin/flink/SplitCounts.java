package io.rejoin.flink;

import io.rejoin.RejoinException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.types.Row;

/** How many rows a reader has given of each of its splits. */
final class SplitCounts<S extends SourceSplit> {
  private final String source;
  private final Map<String, Count> counts = new HashMap<>();
  // The only split that the reader has got since it asked last; null if there is none or several.
  private Count only;
  private int sinceAsked;
  private boolean needsOnly;

  SplitCounts(String source) {
    this.source = source;
  }

  /** The reader gets a split. */
  void begin(NumberedSplit<S> split) {
    Count count = new Count(split.splitId(), split.rows, split.isAskedFor);
    counts.put(split.splitId(), count);
    if (split.isAskedFor) {
      sinceAsked++;
      only = sinceAsked == 1 ? count : null;
    }
  }

  /** The reader asks for another split. */
  void askedForNext() {
    sinceAsked = 0;
    only = null;
  }

  boolean has(String split) {
    return counts.containsKey(split);
  }

  /**
   * That of a split.
   *
   * @throws RejoinException BAD_ARGUMENT when the reader never got it
   */
  Count of(String split) {
    Count count = counts.get(split);
    if (count == null) {
      throw refused(
          "gives rows of \"" + split + "\", which is none of its splits " + counts.keySet());
    }
    return count;
  }

  /**
   * That of a row of which the reader doesn't say the split.
   *
   * @throws RejoinException BAD_ARGUMENT when it may be one of several, or none
   */
  Count ofOnly() {
    needsOnly = true;
    if (only == null) {
      throw refused(
          "gives a row without saying of which split (it is collected by the main output instead"
              + " of that of a split), and doesn't read one split at a time: it has had "
              + counts.keySet());
    }
    return only;
  }

  /**
   * The splits as they are to be read on.
   *
   * @throws RejoinException BAD_ARGUMENT when the reader turns out to read several at a time, and
   *     doesn't say which split a row is of
   */
  List<NumberedSplit<S>> of(List<S> splits) {
    List<NumberedSplit<S>> numbered = new ArrayList<>();
    for (S split : splits) {
      Count count = of(split.splitId());
      if (needsOnly && count != only) {
        throw refused(
            "gives rows without saying of which split, and is still at "
                + split.splitId()
                + " after it has asked for another one");
      }
      numbered.add(new NumberedSplit<>(split, count.next, count.isAskedFor));
    }
    return numbered;
  }

  private RuntimeException refused(String what) {
    return Repeating.refused(
        new RejoinException(
            RejoinException.Code.BAD_ARGUMENT,
            "the reader of source \""
                + source
                + "\" "
                + what
                + ", so its rows can't be numbered by split. Use a source whose reader is built on"
                + " Flink's SourceReaderBase, or train on a DataStream (docs/flink.md, Sources)"));
  }

  /** The count of one split. */
  static final class Count {
    private final String split;
    private final boolean isAskedFor;
    private long next;

    Count(String split, long next, boolean isAskedFor) {
      this.split = split;
      this.next = next;
      this.isAskedFor = isAskedFor;
    }

    /** The split's next row, with its number. */
    Row number(Object row) {
      Objects.requireNonNull(row, "a row of a source is null");
      return NumberedRow.of(split, next++, row);
    }
  }
}

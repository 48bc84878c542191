package io.rejoin.flink;

import io.rejoin.RejoinException;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ExternallyInducedSourceReader;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.api.java.typeutils.TypeExtractor;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.types.Row;

/**
 * A source whose rows are numbered in each split, and whose splits have one owner each.
 *
 * @param <T> a row of the source
 * @param <S> a split of it
 * @param <E> its enumerator's state
 */
final class NumberedSource<T, S extends SourceSplit, E>
    implements Source<Row, NumberedSplit<S>, OwnersState<S, E>> {
  private static final long serialVersionUID = 1L;
  // By its name: it is in a jar that a job need not have.
  private static final String HYBRID = "org.apache.flink.connector.base.source.hybrid.HybridSource";

  private final Source<T, S, E> source;
  private final String name;

  /**
   * Of a source, with the name that its user gives it.
   *
   * @throws RejoinException BAD_ARGUMENT for one of several sources, one after the other: it gives
   *     splits to readers that have got all of an earlier source, so that none is ever known to
   *     have got its last
   */
  NumberedSource(Source<T, S, E> source, String name) {
    this.source = source;
    this.name = name;
    for (Class<?> type = source.getClass(); type != null; type = type.getSuperclass()) {
      if (type.getName().equals(HYBRID)) {
        throw new RejoinException(
            RejoinException.Code.BAD_ARGUMENT,
            "source \""
                + name
                + "\" is a HybridSource, whose readers go from one source to the next together;"
                + " Rejoin.source reads one source. Train on a DataStream of it, whose rule of"
                + " owners is yours (docs/flink.md, Sources)");
      }
    }
  }

  /** What a source's rows are. */
  @SuppressWarnings("unchecked") // as Flink's own fromSource
  static <T> TypeInformation<T> typeOf(Source<T, ?, ?> source) {
    return source instanceof ResultTypeQueryable
        ? ((ResultTypeQueryable<T>) source).getProducedType()
        : TypeExtractor.createTypeInfo(Source.class, source.getClass(), 0, null, null);
  }

  @Override
  public Boundedness getBoundedness() {
    return source.getBoundedness();
  }

  @Override
  public SplitEnumerator<NumberedSplit<S>, OwnersState<S, E>> createEnumerator(
      SplitEnumeratorContext<NumberedSplit<S>> context) throws Exception {
    Owners<S> owners = new Owners<>(context.currentParallelism());
    OwnerEnumerator<S, E> enumerator = new OwnerEnumerator<>(name, context, owners);
    return enumerator.of(source.createEnumerator(enumerator.sourceContext()));
  }

  @Override
  public SplitEnumerator<NumberedSplit<S>, OwnersState<S, E>> restoreEnumerator(
      SplitEnumeratorContext<NumberedSplit<S>> context, OwnersState<S, E> state) throws Exception {
    Owners<S> owners = state.owners(context.currentParallelism());
    OwnerEnumerator<S, E> enumerator = new OwnerEnumerator<>(name, context, owners);
    return enumerator.of(source.restoreEnumerator(enumerator.sourceContext(), state.source));
  }

  @Override
  public SourceReader<Row, NumberedSplit<S>> createReader(SourceReaderContext context)
      throws Exception {
    NumberingReader<T, S> reader = new NumberingReader<>(name, context);
    SourceReader<T, S> inner = source.createReader(reader.sourceContext());
    if (inner instanceof ExternallyInducedSourceReader) {
      throw Repeating.refused(
          new RejoinException(
              RejoinException.Code.BAD_ARGUMENT,
              "source \""
                  + name
                  + "\" begins Flink's checkpoints by itself, which Rejoin.source can't pass on;"
                  + " train on a DataStream of it"));
    }
    return reader.of(inner);
  }

  @Override
  public SimpleVersionedSerializer<NumberedSplit<S>> getSplitSerializer() {
    return new NumberedSplit.Serializer<>(source.getSplitSerializer());
  }

  @Override
  public SimpleVersionedSerializer<OwnersState<S, E>> getEnumeratorCheckpointSerializer() {
    return new OwnersState.Serializer<>(
        source.getEnumeratorCheckpointSerializer(), source.getSplitSerializer());
  }
}

package io.rejoin.flink;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/** What Flink's snapshots have of a source's enumerator: its own state, and {@link Owners}. */
final class OwnersState<S extends SourceSplit, E> {
  final E source;
  final List<String> known;
  final List<NumberedSplit<S>> drawn;
  final List<List<NumberedSplit<S>>> waiting;
  final boolean complete;

  private OwnersState(
      E source,
      List<String> known,
      List<NumberedSplit<S>> drawn,
      List<List<NumberedSplit<S>>> waiting,
      boolean complete) {
    this.source = source;
    this.known = known;
    this.drawn = drawn;
    this.waiting = waiting;
    this.complete = complete;
  }

  static <S extends SourceSplit, E> OwnersState<S, E> of(E source, Owners<S> owners) {
    return new OwnersState<>(
        source, owners.known(), owners.drawn(), owners.waiting(), owners.isComplete());
  }

  Owners<S> owners(int readers) {
    return new Owners<>(readers, known, drawn, waiting, complete);
  }

  /** Writes the source's own bytes, with the version of their format, beside the rest. */
  static final class Serializer<S extends SourceSplit, E>
      implements SimpleVersionedSerializer<OwnersState<S, E>> {
    private static final int VERSION = 1;

    private final SimpleVersionedSerializer<E> source;
    private final NumberedSplit.Serializer<S> splits;

    Serializer(SimpleVersionedSerializer<E> source, SimpleVersionedSerializer<S> splits) {
      this.source = source;
      this.splits = new NumberedSplit.Serializer<>(splits);
    }

    @Override
    public int getVersion() {
      return VERSION;
    }

    @Override
    public byte[] serialize(OwnersState<S, E> state) throws IOException {
      DataOutputSerializer out = new DataOutputSerializer(1024);
      write(out, source.getVersion(), source.serialize(state.source));
      out.writeBoolean(state.complete);
      out.writeInt(state.known.size());
      for (String id : state.known) {
        out.writeUTF(id);
      }
      write(out, state.drawn);
      out.writeInt(state.waiting.size());
      for (List<NumberedSplit<S>> all : state.waiting) {
        write(out, all);
      }
      return out.getCopyOfBuffer();
    }

    @Override
    public OwnersState<S, E> deserialize(int version, byte[] serialized) throws IOException {
      Formats.check("a source", version, VERSION);
      DataInputDeserializer in = new DataInputDeserializer(serialized);
      E inner = source.deserialize(in.readInt(), readBytes(in));
      boolean complete = in.readBoolean();
      List<String> known = new ArrayList<>();
      for (int left = in.readInt(); left > 0; left--) {
        known.add(in.readUTF());
      }
      List<NumberedSplit<S>> drawn = readSplits(in);
      List<List<NumberedSplit<S>>> waiting = new ArrayList<>();
      for (int readers = in.readInt(); readers > 0; readers--) {
        waiting.add(readSplits(in));
      }
      return new OwnersState<>(inner, known, drawn, waiting, complete);
    }

    private void write(DataOutputSerializer out, List<NumberedSplit<S>> all) throws IOException {
      out.writeInt(all.size());
      for (NumberedSplit<S> split : all) {
        write(out, splits.getVersion(), splits.serialize(split));
      }
    }

    private List<NumberedSplit<S>> readSplits(DataInputDeserializer in) throws IOException {
      List<NumberedSplit<S>> all = new ArrayList<>();
      for (int left = in.readInt(); left > 0; left--) {
        all.add(splits.deserialize(in.readInt(), readBytes(in)));
      }
      return all;
    }

    private static void write(DataOutputSerializer out, int version, byte[] bytes)
        throws IOException {
      out.writeInt(version);
      out.writeInt(bytes.length);
      out.write(bytes);
    }

    private static byte[] readBytes(DataInputDeserializer in) throws IOException {
      byte[] bytes = new byte[in.readInt()];
      in.readFully(bytes);
      return bytes;
    }
  }
}

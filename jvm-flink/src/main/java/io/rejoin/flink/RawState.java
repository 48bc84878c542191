package io.rejoin.flink;

import java.io.BufferedInputStream;
import java.io.IOException;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.OperatorStateStore;
import org.apache.flink.api.common.typeutils.base.ByteSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataInputViewStreamWrapper;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.runtime.state.OperatorStateCheckpointOutputStream;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StatePartitionStreamProvider;
import org.apache.flink.runtime.state.StateSnapshotContext;

/**
 * What an operator has in Flink's checkpoints as raw state, in entries, which Flink divides among
 * the subtasks. Flink reads a list state byte by byte ({@code CompressibleFSDataInputStream}), each
 * of them a system call where the files are local; raw state is read in pieces.
 *
 * <p>Ranks begin again together or not at all, so a checkpoint that was taken when some had ended,
 * and has nothing of theirs, would be of no use. Flink completes none of those where an operator
 * has a union list state in it (FLIP-147, {@code DefaultCheckpointPlan}), and so each has one from
 * its end on, though nothing is in it. Not before: to Flink a rank whose input goes on has ended in
 * the savepoint that stops the job, and one whose input had ended before has not.
 */
final class RawState {
  private static final int PIECE_BYTES = 1 << 16;

  private RawState() {}

  /** Reads an entry, no further than it was written. */
  interface Reader {
    void read(DataInputView in) throws IOException;
  }

  /** Writes an entry. */
  interface Writer<E> {
    void write(E entry, DataOutputView out) throws IOException;
  }

  /** Reads the entries that this subtask has got. */
  static void read(StateInitializationContext context, Reader reader) throws IOException {
    for (StatePartitionStreamProvider entry : context.getRawOperatorStateInputs()) {
      BufferedInputStream pieces = new BufferedInputStream(entry.getStream(), PIECE_BYTES);
      reader.read(new DataInputViewStreamWrapper(pieces));
    }
  }

  /** Has Flink complete no further checkpoint of which some ranks have ended, and others not. */
  static void refusePartEnded(OperatorStateStore store) throws Exception {
    store.getUnionListState(new ListStateDescriptor<>("rejoin-whole", ByteSerializer.INSTANCE));
  }

  /** Writes entries into a checkpoint. */
  static <E> void write(StateSnapshotContext context, Iterable<E> entries, Writer<E> writer)
      throws Exception {
    OperatorStateCheckpointOutputStream out = context.getRawOperatorStateOutput();
    DataOutputView view = new DataOutputViewStreamWrapper(out);
    for (E entry : entries) {
      out.startNewPartition();
      writer.write(entry, view);
    }
  }
}

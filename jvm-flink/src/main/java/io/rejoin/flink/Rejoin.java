package io.rejoin.flink;

import io.rejoin.settings.SettingValues;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Training as a transformation of a stream: each subtask is a rank, all train in lock step, and the
 * model comes out. When a TaskManager dies, Flink restarts the subtasks that were on it; the others
 * wait for them and never restart, and each row is in the model once.
 */
public final class Rejoin {
  private Rejoin() {}

  /** {@link #train(DataStream, TrainerFunction, Configuration)} with the environment's settings. */
  public static <T, M> SingleOutputStreamOperator<TrainedModel> train(
      DataStream<T> rows, TrainerFunction<T, M> trainer) {
    return train(rows, trainer, new Configuration());
  }

  /**
   * Trains on a stream. There are as many ranks as the stream has parallel subtasks; its edges from
   * the sources on have to be forward ones. In BATCH there may be exchanges: then a rank keeps all
   * of its rows in memory until the last one has come, and trains on them in the order of their
   * content.
   *
   * @param rows of which each subtask gets the same whenever they are read again, in the same order
   *     where all edges are forward ones
   * @param settings {@code rejoin.*} (docs/flink.md), before those of the environment
   * @return models of rank 0: every so many versions, or every so often, and the last one when all
   *     inputs have ended
   * @throws io.rejoin.RejoinException BAD_ARGUMENT for settings, edges or schedulers that can't
   *     work, with what to do
   */
  public static <T, M> SingleOutputStreamOperator<TrainedModel> train(
      DataStream<T> rows, TrainerFunction<T, M> trainer, Configuration settings) {
    return train(rows, rows.getType(), new Intake.BySubtask<>(), trainer, settings);
  }

  /**
   * {@link #trainInOrder(DataStream, KeySelector, TrainerFunction, Configuration)} with the
   * environment's settings.
   */
  public static <T, M> SingleOutputStreamOperator<TrainedModel> trainInOrder(
      DataStream<T> rows, KeySelector<T, Long> order, TrainerFunction<T, M> trainer) {
    return trainInOrder(rows, order, trainer, new Configuration());
  }

  /**
   * Trains on each rank's rows in the order of a key, and rows of equal keys in that of their
   * content. In BATCH alone: a rank keeps all of its rows in memory until the last one has come.
   * The order in which they come is of no meaning, so a source may give them in another one
   * whenever they are read again. Ranks that have all of theirs wait for the others with {@code
   * rejoin.call.timeout}.
   *
   * @param rows which a source or an exchange gives to the same subtasks whenever they are read
   * @param order the key of a row, never null
   * @param settings {@code rejoin.*} (docs/flink.md), before those of the environment
   * @return as of {@link #train(DataStream, TrainerFunction, Configuration)}
   * @throws io.rejoin.RejoinException BAD_ARGUMENT also for a job in another mode than BATCH
   */
  public static <T, M> SingleOutputStreamOperator<TrainedModel> trainInOrder(
      DataStream<T> rows,
      KeySelector<T, Long> order,
      TrainerFunction<T, M> trainer,
      Configuration settings) {
    KeySelector<T, Long> sent = rows.getExecutionEnvironment().clean(order);
    return train(rows, rows.getType(), new Intake.ByKey<>(sent), trainer, settings);
  }

  /**
   * {@link #train(SplitStream, TrainerFunction, Configuration)} with the environment's settings.
   */
  public static <T, M> SingleOutputStreamOperator<TrainedModel> train(
      SplitStream<T> rows, TrainerFunction<T, M> trainer) {
    return train(rows, trainer, new Configuration());
  }

  /**
   * Trains on the rows of a source that are numbered by split. What was trained can be restored at
   * any parallelism.
   *
   * @param settings {@code rejoin.*} (docs/flink.md), before those of the environment
   * @return as of {@link #train(DataStream, TrainerFunction, Configuration)}
   * @throws io.rejoin.RejoinException BAD_ARGUMENT for settings, edges or schedulers that can't
   *     work, with what to do
   */
  public static <T, M> SingleOutputStreamOperator<TrainedModel> train(
      SplitStream<T> rows, TrainerFunction<T, M> trainer, Configuration settings) {
    return train(rows.records(), rows.type(), new Intake.BySplit<>(), trainer, settings);
  }

  /**
   * A source whose rows have the split that each comes from, and its number there. Each split has
   * one reader for as long as the job's parallelism stays, whatever the source's own rule, and
   * after a restore at another parallelism the rows go on where they were.
   *
   * @param source of which a split has an id that stays, and gives the same rows in the same order
   *     whenever it is read; its reader says which split each row is of, as those do that are built
   *     on Flink's {@code SourceReaderBase}, or reads one split at a time
   * @param watermarks of the source's rows
   * @param name of the source's operator
   * @throws io.rejoin.RejoinException BAD_ARGUMENT for a {@code HybridSource}
   */
  public static <T> SplitStream<T> source(
      StreamExecutionEnvironment environment,
      Source<T, ?, ?> source,
      WatermarkStrategy<T> watermarks,
      String name) {
    NumberedSource<T, ?, ?> numbered = new NumberedSource<>(source, name);
    TypeInformation<T> type = NumberedSource.typeOf(source);
    return new SplitStream<>(
        environment.fromSource(
            numbered, new NumberedWatermarks<>(watermarks), name, NumberedRow.type(type)),
        type);
  }

  private static <R, T, M> SingleOutputStreamOperator<TrainedModel> train(
      DataStream<R> records,
      TypeInformation<T> type,
      Intake<R, T> intake,
      TrainerFunction<T, M> trainer,
      Configuration settings) {
    StreamExecutionEnvironment environment = records.getExecutionEnvironment();
    JobShape above =
        JobShape.of(List.of(records.getTransformation()), environment.getConfiguration());
    Map<String, String> all = new HashMap<>(environment.getConfiguration().toMap());
    all.putAll(settings.toMap());
    SettingValues values = FlinkSettings.of(all, above.isBounded());
    TypeSerializer<T> serializer =
        type.createSerializer(environment.getConfig().getSerializerConfig());
    TrainOperatorFactory<R, T, M> factory =
        new TrainOperatorFactory<>(
            environment.clean(trainer), intake, serializer, values, above.isBounded());
    // Not the stream itself: one by keys would make Flink keep state and sort by key.
    SingleOutputStreamOperator<TrainedModel> models =
        new DataStream<>(environment, records.getTransformation())
            .transform(
                "train " + trainer.getClass().getSimpleName(),
                TypeInformation.of(TrainedModel.class),
                factory)
            .setParallelism(records.getParallelism());
    JobSlots.place(models, values);
    factory.whenTheGraphIsMade(
        () -> {
          JobShape whole =
              JobShape.of(environment.getTransformations(), environment.getConfiguration());
          whole.check(models.getTransformation(), values);
          whole.checkAlignment(models.getTransformation(), values);
          if (intake.isByKey()) {
            whole.refuseStreaming("Rejoin.trainInOrder");
          }
          JobShape input =
              JobShape.of(List.of(models.getTransformation()), environment.getConfiguration());
          if (!whole.isBatch()) {
            input.checkOrder(values);
          }
          // With all subtasks restarted at once rows may come in another order.
          factory.inOrder(input.keepsOrder() || !whole.isBatch());
        });
    return models;
  }
}

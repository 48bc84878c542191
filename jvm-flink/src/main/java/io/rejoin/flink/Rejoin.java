package io.rejoin.flink;

import io.rejoin.settings.SettingValues;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
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
   * the sources on have to be forward ones.
   *
   * @param rows of which each subtask gets the same in the same order whenever they are read again
   * @param settings {@code rejoin.*} (docs/flink.md), before those of the environment
   * @return models of rank 0: every so many versions, or every so often, and the last one when all
   *     inputs have ended
   * @throws io.rejoin.RejoinException BAD_ARGUMENT for settings, edges or schedulers that can't
   *     work, with what to do
   */
  public static <T, M> SingleOutputStreamOperator<TrainedModel> train(
      DataStream<T> rows, TrainerFunction<T, M> trainer, Configuration settings) {
    StreamExecutionEnvironment environment = rows.getExecutionEnvironment();
    JobShape above = JobShape.of(List.of(rows.getTransformation()), environment.getConfiguration());
    Map<String, String> all = new HashMap<>(environment.getConfiguration().toMap());
    all.putAll(settings.toMap());
    SettingValues values = FlinkSettings.of(all, above.isBounded());
    TypeSerializer<T> serializer =
        rows.getType().createSerializer(environment.getConfig().getSerializerConfig());
    TrainOperatorFactory<T, T, M> factory =
        new TrainOperatorFactory<>(
            environment.clean(trainer), new Intake.BySubtask<>(), serializer, values);
    SingleOutputStreamOperator<TrainedModel> models =
        rows.transform(
                "train " + trainer.getClass().getSimpleName(),
                TypeInformation.of(TrainedModel.class),
                factory)
            .setParallelism(rows.getParallelism());
    factory.whenTheGraphIsMade(
        () ->
            JobShape.of(environment.getTransformations(), environment.getConfiguration())
                .check(models.getTransformation(), values));
    return models;
  }
}

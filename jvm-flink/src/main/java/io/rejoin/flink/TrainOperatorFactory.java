package io.rejoin.flink;

import io.rejoin.settings.SettingValues;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;

/** Gives a stream a trainer. */
final class TrainOperatorFactory<T, M> extends RankOperatorFactory<T, TrainedModel> {
  private static final long serialVersionUID = 1L;

  private final TrainerFunction<T, M> function;
  private final TypeSerializer<T> serializer;

  TrainOperatorFactory(
      TrainerFunction<T, M> function, TypeSerializer<T> serializer, SettingValues settings) {
    super(settings, false);
    this.function = function;
    this.serializer = serializer;
  }

  @Override
  RankOperator<T, TrainedModel> operator(StreamOperatorParameters<TrainedModel> parameters) {
    return new TrainOperator<>(parameters, function, serializer.duplicate(), settings());
  }

  @Override
  @SuppressWarnings("rawtypes") // Flink's signature
  public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
    return TrainOperator.class;
  }
}

package io.rejoin.flink;

import io.rejoin.settings.SettingValues;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;

/** Gives a stream a trainer. */
final class TrainOperatorFactory<R, T, M> extends RankOperatorFactory<R, TrainedModel> {
  private static final long serialVersionUID = 1L;

  private final TrainerFunction<T, M> function;
  private final Intake<R, T> intake;
  private final TypeSerializer<T> serializer;
  private final boolean isBounded;
  private boolean inOrder = true;

  TrainOperatorFactory(
      TrainerFunction<T, M> function,
      Intake<R, T> intake,
      TypeSerializer<T> serializer,
      SettingValues settings,
      boolean isBounded) {
    super(settings, false);
    this.isBounded = isBounded;
    this.function = function;
    this.intake = intake;
    this.serializer = serializer;
  }

  /** Whether rows come in the same order whenever they are read; known when the graph is made. */
  void inOrder(boolean is) {
    inOrder = is;
  }

  @Override
  RankOperator<R, TrainedModel> operator(StreamOperatorParameters<TrainedModel> parameters) {
    return new TrainOperator<>(
        parameters, function, intake, serializer.duplicate(), settings(), isBounded, inOrder);
  }

  @Override
  @SuppressWarnings("rawtypes") // Flink's signature
  public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
    return TrainOperator.class;
  }
}

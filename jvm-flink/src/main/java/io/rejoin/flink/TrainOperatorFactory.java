package io.rejoin.flink;

import io.rejoin.settings.SettingValues;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.CoordinatedOperatorFactory;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;

/** Gives a stream a trainer with a coordinator in the JobManager. */
final class TrainOperatorFactory<T, M> extends AbstractStreamOperatorFactory<TrainedModel>
    implements OneInputStreamOperatorFactory<T, TrainedModel>,
        CoordinatedOperatorFactory<TrainedModel> {
  private static final long serialVersionUID = 1L;

  private final TrainerFunction<T, M> function;
  private final TypeSerializer<T> serializer;
  private final SettingValues settings;
  private transient Runnable check;

  TrainOperatorFactory(
      TrainerFunction<T, M> function, TypeSerializer<T> serializer, SettingValues settings) {
    this.function = function;
    this.serializer = serializer;
    this.settings = settings;
    setChainingStrategy(ChainingStrategy.ALWAYS);
  }

  /** Only then are the edges below known; this throws where the job is submitted. */
  void whenTheGraphIsMade(Runnable what) {
    check = what;
  }

  @Override
  public boolean isOutputTypeConfigurable() {
    return check != null;
  }

  /** Flink calls this for each operator of the graph that it makes; no type needs to be set. */
  @Override
  public void setOutputType(TypeInformation<TrainedModel> type, ExecutionConfig configuration) {
    check.run();
  }

  @Override
  @SuppressWarnings("unchecked") // the operator is of the type that this factory names
  public <O extends StreamOperator<TrainedModel>> O createStreamOperator(
      StreamOperatorParameters<TrainedModel> parameters) {
    OperatorID id = parameters.getStreamConfig().getOperatorID();
    // Flink wants a coordinated operator to have one; this coordinator answers and sends nothing.
    parameters.getOperatorEventDispatcher().registerEventHandler(id, event -> {});
    return (O) new TrainOperator<>(parameters, function, serializer.duplicate(), settings);
  }

  @Override
  public OperatorCoordinator.Provider getCoordinatorProvider(String name, OperatorID id) {
    return new GangCoordinator.Provider(name, id, settings);
  }

  @Override
  @SuppressWarnings("rawtypes") // Flink's signature
  public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader loader) {
    return TrainOperator.class;
  }
}

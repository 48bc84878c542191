package io.rejoin.flink;

import io.rejoin.settings.SettingValues;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.CoordinatedOperatorFactory;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;

/** Gives a stream ranks with a coordinator in the JobManager. */
abstract class RankOperatorFactory<T, M> extends AbstractStreamOperatorFactory<M>
    implements OneInputStreamOperatorFactory<T, M>, CoordinatedOperatorFactory<M> {
  private static final long serialVersionUID = 1L;

  private final SettingValues settings;
  private final boolean keepsResult;
  private transient Runnable check;

  /** {@code keepsResult}: as {@link GangCoordinator} has it. */
  RankOperatorFactory(SettingValues settings, boolean keepsResult) {
    this.settings = settings;
    this.keepsResult = keepsResult;
    setChainingStrategy(ChainingStrategy.ALWAYS);
  }

  /** One rank's operator. */
  abstract RankOperator<T, M> operator(StreamOperatorParameters<M> parameters);

  final SettingValues settings() {
    return settings;
  }

  /** Only then are the edges below known; this throws where the job is submitted. */
  final void whenTheGraphIsMade(Runnable what) {
    check = what;
  }

  @Override
  public final boolean isOutputTypeConfigurable() {
    return check != null;
  }

  /** Flink calls this for each operator of the graph that it makes; no type needs to be set. */
  @Override
  public final void setOutputType(TypeInformation<M> type, ExecutionConfig configuration) {
    check.run();
  }

  @Override
  @SuppressWarnings("unchecked") // the operator is of the type that this factory names
  public final <O extends StreamOperator<M>> O createStreamOperator(
      StreamOperatorParameters<M> parameters) {
    OperatorID id = parameters.getStreamConfig().getOperatorID();
    // Flink wants a coordinated operator to have one; this coordinator answers and sends nothing.
    parameters.getOperatorEventDispatcher().registerEventHandler(id, event -> {});
    return (O) operator(parameters);
  }

  @Override
  public final OperatorCoordinator.Provider getCoordinatorProvider(String name, OperatorID id) {
    return new GangProvider(name, id, settings, keepsResult);
  }
}
